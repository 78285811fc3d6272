// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A unit as systemd puts it together: the fragment of the highest directory, then the drop-ins of all directories in
//! the order of their file names, of which one of the same name in a higher directory hides the others.

use std::collections::BTreeMap;

use serde::Serialize;

use super::parse::{self, is_dependency, is_list};

/// A file that may be part of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its path as the booted system sees it.
    pub path: String,
    /// Where a link leads, for people.
    pub target: Option<String>,
    /// The content; `None` is a link to /dev/null.
    pub text: Option<String>,
}

/// Where a line of a unit comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Origin {
    /// The file that a person edits: a link's target.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
}

/// One effective assignment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Line {
    /// The section.
    pub section: String,
    /// The key.
    pub key: String,
    /// The value.
    pub value: String,
    /// Where it stands.
    pub origin: Origin,
}

/// A unit with all that makes it up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Effective {
    /// The fragment's path; none: there are only drop-ins.
    pub fragment: Option<String>,
    /// The fragment is a link to /dev/null.
    pub masked: bool,
    /// The drop-ins that count, in order.
    pub dropins: Vec<String>,
    /// Files that another one of the same name hides, with the one that does.
    pub hidden: Vec<(String, String)>,
    /// What is in force.
    pub lines: Vec<Line>,
    /// Assignments that a later one replaced or reset.
    pub overridden: Vec<Line>,
}

impl Effective {
    /// Puts a unit together from the fragments and drop-ins found, both from the highest directory to the lowest.
    pub fn new(fragments: Vec<Source>, dropins: Vec<Source>) -> Self {
        let mut unit = Self::default();
        let mut files = Vec::new();
        for source in fragments {
            if let Some(first) = &unit.fragment {
                unit.hidden.push((source.path, first.clone()));
                continue;
            }
            unit.masked = source.text.is_none();
            unit.fragment = Some(source.path.clone());
            files.push(source);
        }
        let mut by_name: BTreeMap<String, Source> = BTreeMap::new();
        for source in dropins {
            let name = source.path.rsplit('/').next().unwrap_or_default().to_owned();
            match by_name.get(&name) {
                Some(first) => unit.hidden.push((source.path, first.path.clone())),
                None => {
                    by_name.insert(name, source);
                }
            }
        }
        for source in by_name.into_values() {
            if source.text.is_some() {
                unit.dropins.push(source.path.clone());
            }
            files.push(source);
        }
        for source in files {
            let file = source.target.unwrap_or(source.path);
            for a in parse::parse(source.text.as_deref().unwrap_or_default()).assignments {
                let origin = Origin { file: file.clone(), line: a.line };
                unit.assign(Line { section: a.section, key: a.key, value: a.value, origin });
            }
        }
        unit
    }

    fn assign(&mut self, line: Line) {
        let resets = if is_list(&line.key) { line.value.is_empty() && !is_dependency(&line.key) } else { true };
        if resets {
            let same = |l: &Line| l.section == line.section && l.key == line.key;
            let (gone, kept) = std::mem::take(&mut self.lines).into_iter().partition(same);
            self.overridden.extend::<Vec<_>>(gone);
            self.lines = kept;
        }
        if !line.value.is_empty() {
            self.lines.push(line);
        }
    }

    /// All values of a key, in order.
    pub fn values<'a>(&'a self, section: &'a str, key: &'a str) -> impl Iterator<Item = &'a Line> {
        self.lines.iter().filter(move |l| l.section == section && l.key == key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source { path: path.into(), target: None, text: Some(text.into()) }
    }

    #[test]
    fn drop_ins_sort_by_name_and_higher_directories_hide() {
        let e = Effective::new(
            vec![source("/usr/a.service", "[Service]\nType=simple\nExecStart=old\nEnvironment=A=1\n[Unit]\nAfter=x\n")],
            vec![
                source("/etc/a.service.d/20-b.conf", "[Service]\nEnvironment=B=etc\n"),
                Source { path: "/etc/a.service.d/15-off.conf".into(), target: None, text: None },
                source(
                    "/run/a.service.d/10-a.conf",
                    "[Service]\nExecStart=\nExecStart=new\nType=notify\n[Unit]\nAfter=\nAfter=y\n",
                ),
                source("/run/a.service.d/15-off.conf", "[Service]\nEnvironment=OFF=1\n"),
                source("/run/a.service.d/20-b.conf", "[Service]\nEnvironment=B=run\n"),
            ],
        );
        let values = |s, k| e.values(s, k).map(|l| l.value.as_str()).collect::<Vec<_>>();
        assert_eq!(values("Service", "ExecStart"), ["new"]);
        assert_eq!(values("Service", "Type"), ["notify"]);
        assert_eq!(values("Service", "Environment"), ["A=1", "B=etc"]);
        assert_eq!(values("Unit", "After"), ["x", "y"], "dependencies cannot be reset");
        assert_eq!(e.dropins, ["/run/a.service.d/10-a.conf", "/etc/a.service.d/20-b.conf"]);
        assert_eq!(e.hidden.len(), 2);
        assert_eq!(e.overridden.len(), 2);
        assert_eq!(e.values("Service", "ExecStart").next().unwrap().origin.line, 3);
    }

    #[test]
    fn a_whole_unit_in_etc_hides_ours_and_null_masks() {
        let e = Effective::new(
            vec![source("/etc/a.service", "[Service]\nExecStart=etc\n"), source("/usr/a.service", "x")],
            vec![],
        );
        assert_eq!(e.hidden, [("/usr/a.service".to_owned(), "/etc/a.service".to_owned())]);
        let e = Effective::new(vec![Source { path: "/etc/a.service".into(), target: None, text: None }], vec![]);
        assert!(e.masked);
    }
}
