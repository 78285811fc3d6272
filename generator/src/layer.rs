// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Layers: directories whose name says when they apply, shaped like a systemd unit directory.

use crate::facet::{Facets, is_word};
use crate::paths;
use crate::platform::Table;
use crate::report::{Report, shown};
use crate::root::{Kind, Root};

/// A layer's name, taken apart: `clusterPlatform=Azure,role=master`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name<'a> {
    /// Facet and value, as they stand in the name.
    pub conditions: Vec<(&'a str, &'a str)>,
}

impl<'a> Name<'a> {
    /// Takes a name apart: conditions sorted, words only, each facet once.
    ///
    /// # Errors
    /// What is wrong with the name.
    pub fn parse(name: &'a str) -> Result<Self, String> {
        let mut conditions: Vec<(&str, &str)> = Vec::new();
        for condition in name.split(',') {
            let Some((facet, value)) = condition.split_once('=') else {
                return Err(format!("{:?} is no <facet>=<value>", shown(condition)));
            };
            for word in [facet, value] {
                if !is_word(word) {
                    return Err(format!("{:?} is not a word of [A-Za-z0-9._-]", shown(word)));
                }
            }
            match conditions.last() {
                Some((last, _)) if *last == facet => return Err(format!("facet {facet:?} stands twice")),
                Some((last, _)) if *last > facet => {
                    return Err(format!("the conditions are not sorted: {facet:?} belongs before {last:?}"));
                }
                _ => conditions.push((facet, value)),
            }
        }
        Ok(Self { conditions })
    }

    /// Conditions that can never hold because they do not use the table's own spelling of an id.
    ///
    /// # Errors
    /// Which id is meant.
    pub fn check(&self, table: &Table) -> Result<(), String> {
        for (facet, value) in &self.conditions {
            if *facet == "platform"
                && let Some(row) = table.platform(value).filter(|r| r.name != *value)
            {
                return Err(format!("{value:?} is an alias, layers use the id {:?}", row.name));
            }
        }
        Ok(())
    }

    /// The first condition that does not hold, with the value that the machine has instead.
    pub fn mismatch<'f>(&self, facets: &'f Facets) -> Option<(&'a str, &'a str, Option<&'f str>)> {
        self.mismatches(facets).next()
    }

    /// Every condition that does not hold.
    pub fn mismatches<'s, 'f: 's>(
        &'s self,
        facets: &'f Facets,
    ) -> impl Iterator<Item = (&'a str, &'a str, Option<&'f str>)> + 's {
        self.conditions.iter().filter_map(move |(facet, value)| {
            let have = facets.get(facet);
            (have != Some(*value)).then_some((*facet, *value, have))
        })
    }
}

/// What a layer's entry does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// `<unit>.d/<name>.conf`
    DropIn,
    /// `<unit>.wants/<unit>` or `<unit>.requires/<unit>`
    Pull,
}

/// One entry of a layer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// `kubelet.service.d`
    pub directory: String,
    /// `12-exec.conf`
    pub file: String,
    /// What it does.
    pub effect: Effect,
    /// What the entry is; a symbolic link's target has to be looked at.
    pub kind: Kind,
}

/// All names below the layers' directory, sorted. What is no directory is left out: a README may stand there.
pub fn names(root: &Root, report: &mut Report) -> Vec<String> {
    let entries = match root.list(paths::LAYERS) {
        Ok(Some(entries)) => entries,
        Ok(None) => {
            report.problem(format!("{}: is missing: is the image complete?", paths::LAYERS));
            return Vec::new();
        }
        Err(e) => {
            report.problem(format!("{}: cannot be read: {e}", paths::LAYERS));
            return Vec::new();
        }
    };
    let mut names = Vec::with_capacity(entries.len());
    for entry in entries {
        match entry.kind {
            Kind::Directory | Kind::Link => names.push(entry.name),
            // A README may stand there; what has a layer's name must be one.
            _ if entry.name.contains('=') => {
                report.problem(format!("{}/{}: has a layer's name and is no directory", paths::LAYERS, entry.name));
            }
            _ => {}
        }
    }
    names
}

/// Reads a layer's content, sorted. What does not belong into a layer is left out with a warning.
pub fn read(root: &Root, name: &str, report: &mut Report) -> Vec<Entry> {
    let base = format!("{}/{name}", paths::LAYERS);
    let mut out = Vec::new();
    for dir in list(root, &base, report) {
        let path = format!("{base}/{}", dir.name);
        let effect = match effect_of(&dir.name) {
            Some(effect) if !dir.odd => effect,
            _ => {
                report.warning(format!(
                    "{path}: ignored: a layer holds <unit>.d, <unit>.wants and <unit>.requires directories only"
                ));
                continue;
            }
        };
        for entry in list(root, &path, report) {
            let good = match effect {
                Effect::DropIn => has_extension(&entry.name, "conf"),
                Effect::Pull => is_unit_name(&entry.name),
            };
            if good && !entry.odd && !matches!(entry.kind, Kind::File | Kind::Link) {
                report.problem(format!("{path}/{}: is neither a file nor a link", entry.name));
                continue;
            }
            if !good || entry.odd {
                report.warning(format!("{path}/{}: ignored: neither a *.conf nor a unit's name", entry.name));
                continue;
            }
            out.push(Entry { directory: dir.name.clone(), file: entry.name, effect, kind: entry.kind });
        }
    }
    out
}

fn list(root: &Root, path: &str, report: &mut Report) -> Vec<crate::root::Entry> {
    match root.list(path) {
        Ok(Some(entries)) => entries,
        // It was in its directory's listing a moment ago: a link that leads nowhere.
        Ok(None) => {
            report.problem(format!("{path}: leads nowhere"));
            Vec::new()
        }
        Err(e) if matches!(e.kind(), std::io::ErrorKind::NotADirectory) => {
            report.problem(format!("{path}: is no directory"));
            Vec::new()
        }
        Err(e) => {
            report.problem(format!("{path}: cannot be read: {e}"));
            Vec::new()
        }
    }
}

fn effect_of(directory: &str) -> Option<Effect> {
    let (stem, suffix) = directory.rsplit_once('.')?;
    if !is_name_text(stem) {
        return None;
    }
    match suffix {
        "d" => Some(Effect::DropIn),
        "wants" | "requires" if is_unit_name(stem) => Some(Effect::Pull),
        _ => None,
    }
}

fn has_extension(name: &str, extension: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(stem, e)| !stem.is_empty() && e == extension) && is_name_text(name)
}

/// Characters of unit names (`systemd.unit(5)`), which are also all that we accept in a drop-in's name.
fn is_name_text(name: &str) -> bool {
    !name.is_empty()
        && name.len() < 256
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b':' | b'-' | b'_' | b'.' | b'\\' | b'@'))
}

/// Is it a whole unit name, with a suffix that systemd knows?
pub fn is_unit_name(name: &str) -> bool {
    const SUFFIXES: &[&str] =
        &["service", "socket", "target", "path", "timer", "mount", "automount", "swap", "slice", "scope", "device"];
    is_name_text(name) && name.rsplit_once('.').is_some_and(|(stem, s)| !stem.is_empty() && SUFFIXES.contains(&s))
}

/// `foo@bar.service` → `foo@.service`
pub fn template_of(unit: &str) -> Option<String> {
    let (stem, suffix) = unit.rsplit_once('.')?;
    let (prefix, instance) = stem.split_once('@')?;
    (!instance.is_empty()).then(|| format!("{prefix}@.{suffix}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_or_say_why() {
        let n = Name::parse("clusterPlatform=Azure,role=master").unwrap();
        assert_eq!(n.conditions, [("clusterPlatform", "Azure"), ("role", "master")]);
        for (bad, want) in [
            ("", "no <facet>=<value>"),
            ("platform", "no <facet>=<value>"),
            ("platform=", "not a word"),
            ("=aws", "not a word"),
            ("platform=a b", "not a word"),
            ("platform=aws=x", "not a word"),
            ("role=master,platform=aws", "not sorted"),
            ("role=master,role=worker", "stands twice"),
            ("role=master,", "no <facet>=<value>"),
        ] {
            assert!(Name::parse(bad).unwrap_err().contains(want), "{bad}");
        }
    }

    #[test]
    fn unit_names() {
        for good in ["kubelet.service", "a@b.service", "dev-x\\x2dy.swap", "a.b.target", "kubelet-dependencies.target"]
        {
            assert!(is_unit_name(good), "{good}");
        }
        for bad in ["kubelet", ".service", "a/b.service", "a.conf", "", "a b.service", "..", "é.service"] {
            assert!(!is_unit_name(bad), "{bad}");
        }
        assert_eq!(template_of("a@b.service").unwrap(), "a@.service");
        assert_eq!(template_of("a@.service"), None);
        assert_eq!(template_of("a.service"), None);
    }

    #[test]
    fn directories() {
        for (dir, want) in [
            ("kubelet.service.d", Some(Effect::DropIn)),
            ("service.d", Some(Effect::DropIn)),
            ("aws-.service.d", Some(Effect::DropIn)),
            ("multi-user.target.wants", Some(Effect::Pull)),
            ("x.service.requires", Some(Effect::Pull)),
            ("wants", None),
            ("x.wants", None),
            ("x.service", None),
            ("..d", Some(Effect::DropIn)),
            ("a/b.d", None),
        ] {
            assert_eq!(effect_of(dir), want, "{dir}");
        }
    }
}
