// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The one table, `/usr/lib/nodebase/platforms.json`: platform ids with their aliases and defaults, cluster platforms
//! with their class. Every scalar column is a facet.

use crate::facet;
use crate::json::Json;

/// The table.
#[derive(Clone, Debug, Default)]
pub struct Table {
    platforms: Vec<Row>,
    cluster_platforms: Vec<Row>,
}

/// One row: a platform id, or an OpenShift platform type.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// The key: `aws`, `AWS`.
    pub name: String,
    /// Other spellings of a platform id (`ec2`).
    pub aliases: Vec<String>,
    /// The scalar columns in the table's order.
    pub columns: Vec<(String, String)>,
}

impl Row {
    /// A column's value.
    pub fn column(&self, name: &str) -> Option<&str> {
        self.columns.iter().find(|(k, _)| k == name).map(|(_, v)| v.as_str())
    }
}

/// The row of a cluster platform that the table doesn't know: generic, as OpenShift itself treats it.
pub const UNKNOWN_CLUSTER_PLATFORM: &str = "";

/// The column of a platform's row that holds its default cluster platform.
pub const CLUSTER_PLATFORM: &str = "clusterPlatform";

impl Table {
    /// Parses the table's text.
    ///
    /// # Errors
    /// What is wrong, with the key.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let json = Json::parse(bytes)?;
        let table = Self { platforms: rows(&json, "platforms")?, cluster_platforms: rows(&json, "clusterPlatforms")? };
        table.check()?;
        Ok(table)
    }

    /// All platforms.
    pub fn platforms(&self) -> &[Row] {
        &self.platforms
    }

    /// All cluster platforms, the unnamed row for unknown ones too.
    pub fn cluster_platforms(&self) -> &[Row] {
        &self.cluster_platforms
    }

    /// The row of a platform id or of one of its aliases.
    pub fn platform(&self, id: &str) -> Option<&Row> {
        self.platforms.iter().find(|r| r.name == id || r.aliases.iter().any(|a| a == id))
    }

    /// The row of a cluster platform.
    pub fn cluster_platform(&self, name: &str) -> Option<&Row> {
        self.cluster_platforms.iter().find(|r| r.name == name)
    }

    fn check(&self) -> Result<(), String> {
        for (i, row) in self.platforms.iter().enumerate() {
            let key = format!("platforms.{}", row.name);
            for id in std::iter::once(&row.name).chain(&row.aliases) {
                // gf-set-platform and coreos-installer rewrite ids of exactly these characters.
                if id.is_empty() || !id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()) {
                    return Err(format!("{key}: {id:?} is no platform id, those are [a-z0-9]+"));
                }
                if self.platforms.iter().skip(i + 1).any(|r| r.name == *id || r.aliases.contains(id)) {
                    return Err(format!("{key}: the id {id:?} stands twice"));
                }
            }
            let Some(default) = row.column(CLUSTER_PLATFORM) else {
                return Err(format!("{key}.{CLUSTER_PLATFORM} is missing"));
            };
            if self.cluster_platform(default).is_none() {
                return Err(format!("{key}.{CLUSTER_PLATFORM}: {default:?} is not in clusterPlatforms"));
            }
        }
        for name in ["None", UNKNOWN_CLUSTER_PLATFORM] {
            if self.cluster_platform(name).is_none() {
                return Err(format!("clusterPlatforms.{name:?} is missing"));
            }
        }
        for row in &self.cluster_platforms {
            for column in ["class", "cloudProvider"] {
                if row.column(column).is_none() {
                    return Err(format!("clusterPlatforms.{}.{column} is missing", row.name));
                }
            }
        }
        Ok(())
    }
}

fn rows(json: &Json<'_>, key: &str) -> Result<Vec<Row>, String> {
    let object = json.get(key).and_then(Json::as_object).ok_or_else(|| format!("{key} is missing or no object"))?;
    let mut rows = Vec::with_capacity(object.len());
    for (name, value) in object {
        let mut row = Row { name: name.clone().into_owned(), ..Row::default() };
        let members = value.as_object().ok_or_else(|| format!("{key}.{name}: expected an object"))?;
        for (column, value) in members {
            match value {
                Json::String(s) if column != "aliases" && facet::is_word(s) && facet::is_word(column) => {
                    row.columns.push((column.clone().into_owned(), s.clone().into_owned()));
                }
                Json::List(l) if column == "aliases" => {
                    for alias in l {
                        let alias = alias
                            .as_str()
                            .ok_or_else(|| format!("{key}.{name}.aliases: expected a list of strings"))?;
                        row.aliases.push(alias.to_owned());
                    }
                }
                // Lists and objects are for people and tools, no facets.
                Json::List(_) | Json::Object(_) | Json::Null if column != "aliases" => {}
                _ if column == "aliases" => return Err(format!("{key}.{name}.aliases: expected a list of strings")),
                other => {
                    let kind = other.kind();
                    return Err(format!("{key}.{name}.{column}: expected a word of [A-Za-z0-9._-], found {kind}"));
                }
            }
        }
        rows.push(row);
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"_about":["x"],"platforms":{"aws":{"aliases":["ec2"],"clusterPlatform":"AWS","timeSource":"aws","notes":["a b"]}},
        "clusterPlatforms":{"":{"class":"none","cloudProvider":"none"},"None":{"class":"none","cloudProvider":"none"},"AWS":{"class":"cloud","cloudProvider":"external"}}}"#;

    #[test]
    fn finds_by_id_and_alias() {
        let t = Table::parse(GOOD.as_bytes()).unwrap();
        assert_eq!(t.platform("ec2").unwrap().name, "aws");
        assert_eq!(t.platform("aws").unwrap().column("timeSource"), Some("aws"));
        assert!(t.platform("AWS").is_none());
        assert_eq!(t.cluster_platform("AWS").unwrap().column("class"), Some("cloud"));
    }

    #[test]
    fn errors_name_the_key() {
        for (from, to, want) in [
            ("\"ec2\"", "\"EC2\"", "platforms.aws: \"EC2\""),
            ("\"ec2\"", "5", "platforms.aws.aliases"),
            ("[\"ec2\"]", "\"ec2\"", "platforms.aws.aliases"),
            ("\"clusterPlatform\":\"AWS\",", "", "platforms.aws.clusterPlatform"),
            ("\"clusterPlatform\":\"AWS\"", "\"clusterPlatform\":\"Aws\"", "platforms.aws.clusterPlatform"),
            ("\"timeSource\":\"aws\"", "\"timeSource\":\"a b\"", "platforms.aws.timeSource"),
            ("\"timeSource\":\"aws\"", "\"timeSource\":1", "platforms.aws.timeSource"),
            ("\"platforms\"", "\"platform\"", "platforms"),
            ("\"None\"", "\"Nothing\"", "clusterPlatforms.\"None\""),
            ("\"class\":\"cloud\",", "", "clusterPlatforms.AWS.class"),
        ] {
            let text = GOOD.replacen(from, to, 1);
            let e = Table::parse(text.as_bytes()).unwrap_err();
            assert!(e.contains(want), "{e} lacks {want}");
        }
    }
}
