// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Facts as environment variables of units: the only unit text that is generated, and never an `Exec…=` line.

use crate::facet::Facets;
use crate::json::Json;
use crate::layer::is_unit_name;
use crate::node::Facts;
use crate::report::{Report, shown};

/// A longer value is refused: the kernel takes no string beyond 128 KiB, and nothing sensible comes near.
pub const MAX_VALUE: usize = 32 << 10;

/// First line of every file that the generator writes.
pub const HEADER: &str = "# Written by nodebase-generator; see nodebase-generator(8) and `nodebase explain`.";

/// Which unit is given which facts: unit → variable → fact.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Map {
    units: Vec<(String, Vec<(String, String)>)>,
}

impl Map {
    /// Adds a file's content; a variable that was there already takes the new fact.
    ///
    /// # Errors
    /// What is wrong, with the key. Nothing of the file counts then.
    pub fn add(&mut self, bytes: &[u8]) -> Result<(), String> {
        let json = Json::parse(bytes)?;
        let units = json.as_object().ok_or_else(|| format!("expected an object, found {}", json.kind()))?;
        let mut new = self.clone();
        for (unit, variables) in units {
            if unit.starts_with('_') {
                continue; // a comment for people, as in platforms.json
            }
            if !is_unit_name(unit) || section_of(unit).is_none() {
                return Err(format!("{:?} is no unit that has an environment", shown(unit)));
            }
            let Some(variables) = variables.as_object() else {
                return Err(format!("key {unit:?}: expected an object, found {}", variables.kind()));
            };
            for (name, fact) in variables {
                if !is_variable(name) {
                    return Err(format!("key {unit:?}: {:?} is no name of a variable", shown(name)));
                }
                let Some(fact) = fact.as_str() else {
                    return Err(format!("key {unit:?}: {name}: expected a fact's name, found {}", fact.kind()));
                };
                // It can hold a password, and every user can read a unit's environment.
                if fact == "proxy" || fact.starts_with("proxy.") {
                    return Err(format!(
                        "key {unit:?}: {name}: proxy settings are in no unit: EnvironmentFile=/run/systemd/generator/nodebase/proxy.env"
                    ));
                }
                new.set(unit, name, fact);
            }
        }
        *self = new;
        Ok(())
    }

    fn set(&mut self, unit: &str, name: &str, fact: &str) {
        let at = self.units.iter().position(|(u, _)| u == unit).unwrap_or_else(|| {
            self.units.push((unit.to_owned(), Vec::new()));
            self.units.len() - 1
        });
        let Some((_, variables)) = self.units.get_mut(at) else { return };
        match variables.iter_mut().find(|(n, _)| n == name) {
            Some((_, f)) => fact.clone_into(f),
            None => variables.push((name.to_owned(), fact.to_owned())),
        }
    }

    /// The units with their variables.
    pub fn units(&self) -> &[(String, Vec<(String, String)>)] {
        &self.units
    }
}

/// The section of a unit that takes `Environment=`.
pub fn section_of(unit: &str) -> Option<&'static str> {
    match unit.rsplit_once('.')?.1 {
        "service" => Some("Service"),
        "socket" => Some("Socket"),
        "mount" => Some("Mount"),
        "swap" => Some("Swap"),
        _ => None,
    }
}

fn is_variable(name: &str) -> bool {
    name.len() < 256
        && name.bytes().enumerate().all(|(i, b)| b == b'_' || b.is_ascii_alphabetic() || (i > 0 && b.is_ascii_digit()))
        && !name.is_empty()
}

/// The text of a unit's drop-in, `None` where no fact gives a line.
pub fn drop_in(
    unit: &str,
    variables: &[(String, String)],
    facts: &Facts,
    facets: &Facets,
    report: &mut Report,
) -> Option<String> {
    let mut lines = String::new();
    for (name, fact) in variables {
        let value = match facts.lookup(fact) {
            Some(value) => text(value),
            // A facet's name gives the facet: the fact, or what stands in for it.
            None => facets.get(fact).map(str::to_owned).ok_or(None),
        };
        match value {
            Ok(value) => match refusal(&value) {
                None => {
                    lines.push_str("Environment=\"");
                    lines.push_str(name);
                    lines.push('=');
                    escape(&value, &mut lines, |c| {
                        matches!(c, '\\' | '"').then_some('\\').or((c == '%').then_some('%'))
                    });
                    lines.push_str("\"\n");
                }
                Some(why) => report.warning(format!("fact {fact:?}: {why}; {unit} gets no {name}")),
            },
            Err(None) => {}
            Err(Some(kind)) => {
                report
                    .warning(format!("fact {fact:?}: {kind} cannot be an environment variable; {unit} gets no {name}"));
            }
        }
    }
    let section = section_of(unit)?;
    (!lines.is_empty()).then(|| format!("{HEADER}\n[{section}]\n{lines}"))
}

/// The proxy settings for `EnvironmentFile=`; they may hold passwords, so they are in no unit.
pub fn proxy_env(facts: &Facts, report: &mut Report) -> String {
    let mut out = format!("{HEADER}\n");
    for (name, key) in [("HTTP_PROXY", "httpProxy"), ("HTTPS_PROXY", "httpsProxy"), ("NO_PROXY", "noProxy")] {
        let Some(value) = facts.lookup("proxy").and_then(|p| p.get(key)).and_then(Json::as_str) else { continue };
        if let Some(why) = refusal(value) {
            report.warning(format!("fact \"proxy.{key}\": {why}; there is no {name}"));
            continue;
        }
        out.push_str(name);
        out.push_str("=\"");
        escape(value, &mut out, |c| matches!(c, '\\' | '"' | '$' | '`').then_some('\\'));
        out.push_str("\"\n");
    }
    out
}

/// Puts the character that `with` gives before each one that needs it.
fn escape(value: &str, out: &mut String, with: impl Fn(char) -> Option<char>) {
    for c in value.chars() {
        out.extend(with(c));
        out.push(c);
    }
}

/// Why a value cannot be handed on.
fn refusal(value: &str) -> Option<&'static str> {
    if value.len() > MAX_VALUE {
        Some("is longer than 32 KiB")
    } else if value.contains(char::is_control) {
        Some("holds a control character")
    } else {
        None
    }
}

/// A value as text; lists are joined by a space.
fn text(value: &Json<'_>) -> Result<String, Option<&'static str>> {
    match value {
        Json::Null => Err(None),
        Json::Bool(b) => Ok(b.to_string()),
        Json::Int(i) => Ok(i.to_string()),
        Json::Float(f) => Ok(f.to_string()),
        Json::String(s) => Ok(s.clone().into_owned()),
        Json::List(l) if l.is_empty() => Err(None),
        Json::List(l) => {
            let words: Result<Vec<_>, _> = l
                .iter()
                .map(|v| if matches!(v, Json::List(_) | Json::Object(_)) { Err(Some(v.kind())) } else { text(v) })
                .collect();
            Ok(words?.join(" "))
        }
        Json::Object(_) => Err(Some(value.kind())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(json: &str) -> Facts {
        let (mut f, mut r) = (Facts::default(), Report::default());
        f.add_file("f", json.as_bytes(), &mut r);
        assert!(r.is_complete(), "{:?}", r.notes());
        f
    }

    fn one(fact: &str, json: &str) -> (Option<String>, Report) {
        let mut r = Report::default();
        let v = [("V".to_owned(), fact.to_owned())];
        let text = drop_in("a.service", &v, &facts(json), &Facets::default(), &mut r);
        (text.map(|t| t.lines().nth(2).unwrap_or_default().to_owned()), r)
    }

    #[test]
    fn values_are_quoted_and_stay_on_their_line() {
        for (fact, json, want) in [
            ("images.a", r#"{"images":{"a":"q\"x\\y%z $V"}}"#, r#"Environment="V=q\"x\\y%%z $V""#),
            (
                "apiServerInternalIPs",
                r#"{"apiServerInternalIPs":["192.0.2.1","::1"]}"#,
                r#"Environment="V=192.0.2.1 ::1""#,
            ),
            ("kubeletLogLevel", r#"{"kubeletLogLevel":4}"#, r#"Environment="V=4""#),
            ("images.a.b", r#"{"images":{"a.b":"x"}}"#, r#"Environment="V=x""#),
            ("mtuMigration.to", r#"{"mtuMigration":{"to":1400}}"#, r#"Environment="V=1400""#),
        ] {
            assert_eq!(one(fact, json).0.unwrap(), want);
        }
    }

    #[test]
    fn refused_values_are_warnings_and_absent_ones_nothing() {
        let long = format!(r#"{{"images":{{"a":"{}"}}}}"#, "x".repeat(MAX_VALUE + 1));
        for (fact, json, warnings) in [
            ("images.a", r#"{"images":{"a":"x\nExecStart=/bin/evil"}}"#, 1),
            ("images.a", long.as_str(), 1),
            ("images", r#"{"images":{"a":"x"}}"#, 1),
            ("mtuMigration", r#"{"mtuMigration":[[1]]}"#, 1),
            ("apiServerInternalIPs", r#"{"apiServerInternalIPs":[]}"#, 0),
            ("images.b", r#"{"images":{"a":"x"}}"#, 0),
            ("nonsense", "{}", 0),
        ] {
            let (text, r) = one(fact, json);
            assert_eq!((text, r.notes().len()), (None, warnings), "{json:.60}");
        }
    }

    #[test]
    fn map_errors_name_the_key() {
        for (text, want) in [
            ("[]", "expected an object"),
            (r#"{"x":{}}"#, "\"x\" is no unit"),
            (r#"{"../x.service":{}}"#, "is no unit"),
            (r#"{"x.target":{}}"#, "is no unit that has an environment"),
            (r#"{"x.service":[]}"#, "key \"x.service\": expected an object"),
            (r#"{"x.service":{"1A":"role"}}"#, "is no name of a variable"),
            (r#"{"x.service":{"A=B":"role"}}"#, "is no name of a variable"),
            (r#"{"x.service":{"A":1}}"#, "A: expected a fact's name"),
            (r#"{"x.service":{"A":"proxy.httpProxy"}}"#, "proxy settings are in no unit"),
        ] {
            let mut m = Map::default();
            assert!(m.add(text.as_bytes()).unwrap_err().contains(want), "{text}");
            assert_eq!(m, Map::default());
        }
        let mut m = Map::default();
        m.add(br#"{"_about":"x","a.service":{"A":"role"}}"#).unwrap();
        m.add(br#"{"a.service":{"A":"pool","B":"role"}}"#).unwrap();
        assert_eq!(m.units()[0].1, [("A".into(), "pool".into()), ("B".into(), "role".into())] as [(String, String); 2]);
    }

    #[test]
    fn proxy_env_is_quoted_for_environment_files() {
        let f = facts(r#"{"proxy":{"httpProxy":"http://u:p%40\"$`\\s@h","noProxy":"a\nb"}}"#);
        let mut r = Report::default();
        let text = proxy_env(&f, &mut r);
        assert_eq!(text.lines().nth(1).unwrap(), r#"HTTP_PROXY="http://u:p%40\"\$\`\\s@h""#);
        assert_eq!(text.lines().count(), 2);
        assert!(r.notes()[0].text.contains("proxy.noProxy"));
    }
}
