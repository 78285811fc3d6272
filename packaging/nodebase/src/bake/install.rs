// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `systemctl enable` would link, as static links.

use crate::unit::parse::{Assignment, parse};
use crate::unit::words;

/// A link below the unit directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link {
    /// `multi-user.target.wants/a.service` or, for an alias, `b.service`.
    pub path: String,
    /// Relative target.
    pub target: String,
}

/// An [Install] section, worked out for one unit name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Install {
    /// The links.
    pub links: Vec<Link>,
    /// Units to enable with it.
    pub also: Vec<String>,
}

/// Works out what enabling `unit` links, from the texts of its fragment and drop-ins.
///
/// # Errors
/// A template without an instance, a specifier that only a running system knows.
pub fn install(unit: &str, texts: &[&str]) -> Result<Install, String> {
    let lines: Vec<Assignment> =
        texts.iter().flat_map(|t| parse(t).assignments).filter(|a| a.section == "Install").collect();
    let values = |key: &str| -> Vec<String> {
        let mut out: Vec<String> = Vec::new();
        for line in lines.iter().filter(|l| l.key == key) {
            if line.value.is_empty() {
                out.clear();
            }
            out.extend(words::split(&line.value));
        }
        out
    };
    let template = nodebase_generator::layer::template_of(unit);
    let is_bare_template = unit.contains("@.");
    let mut name = unit.to_owned();
    if is_bare_template {
        match lines.iter().rev().find(|l| l.key == "DefaultInstance") {
            Some(line) => name = unit.replacen("@.", &format!("@{}.", line.value), 1),
            None if lines.is_empty() => {}
            None => return Err(format!("{unit} is a template without DefaultInstance=: name an instance")),
        }
    }
    let fragment = if is_bare_template { unit.to_owned() } else { template.unwrap_or_else(|| unit.to_owned()) };
    let mut out = Install { also: values("Also"), ..Install::default() };
    for (key, suffix) in [("WantedBy", "wants"), ("RequiredBy", "requires"), ("UpheldBy", "upholds")] {
        for target in values(key) {
            let target = expand(&target, &name)?;
            out.links.push(Link { path: format!("{target}.{suffix}/{name}"), target: format!("../{fragment}") });
        }
    }
    for alias in values("Alias") {
        let alias = expand(&alias, &name)?;
        if alias != name {
            out.links.push(Link { path: alias, target: fragment.clone() });
        }
    }
    out.links.sort();
    out.links.dedup();
    Ok(out)
}

fn expand(text: &str, unit: &str) -> Result<String, String> {
    let stem = unit.rsplit_once('.').map_or(unit, |(s, _)| s);
    let (prefix, instance) = stem.split_once('@').unwrap_or((stem, ""));
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, if c == '%' { chars.next() } else { None }) {
            ('%', Some('i' | 'j')) if !instance.is_empty() => out.push_str(instance),
            ('%', Some('p')) => out.push_str(prefix),
            ('%', Some('n')) => out.push_str(unit),
            ('%', Some('N')) => out.push_str(stem),
            ('%', Some('%')) => out.push('%'),
            ('%', other) => {
                return Err(format!("{unit}: %{} in [Install] is not known at build time", other.unwrap_or(' ')));
            }
            (c, _) => out.push(c),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(unit: &str, text: &str) -> Vec<String> {
        install(unit, &[text]).unwrap().links.into_iter().map(|l| format!("{} -> {}", l.path, l.target)).collect()
    }

    #[test]
    fn links() {
        let text = "[Install]\nWantedBy=multi-user.target a.target\nRequiredBy=b.service\nUpheldBy=c.service\nAlias=x.service\n";
        assert_eq!(
            paths("u.service", text),
            [
                "a.target.wants/u.service -> ../u.service",
                "b.service.requires/u.service -> ../u.service",
                "c.service.upholds/u.service -> ../u.service",
                "multi-user.target.wants/u.service -> ../u.service",
                "x.service -> u.service",
            ]
        );
    }

    #[test]
    fn templates() {
        let text = "[Install]\nWantedBy=%i.target\nDefaultInstance=d\n";
        assert_eq!(paths("t@.service", text), ["d.target.wants/t@d.service -> ../t@.service"]);
        assert_eq!(paths("t@x.service", text), ["x.target.wants/t@x.service -> ../t@.service"]);
        assert!(install("t@.service", &["[Install]\nWantedBy=a.target\n"]).is_err());
        assert!(install("t.service", &["[Install]\nWantedBy=%H.target\n"]).is_err());
    }

    #[test]
    fn drop_ins_count_and_empty_resets() {
        let i = install(
            "u.service",
            &["[Install]\nWantedBy=a.target\nAlso=v.service\n", "[Install]\nWantedBy=\nWantedBy=b.target\n"],
        );
        let i = i.unwrap();
        assert_eq!(i.links[0].path, "b.target.wants/u.service");
        assert_eq!(i.also, ["v.service"]);
    }
}
