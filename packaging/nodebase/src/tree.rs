// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The unit files of a root as systemd will see them after the generator has run.

use anyhow::{Context, Result};
use nodebase_generator::cmdline::Cmdline;
use nodebase_generator::plan::{Input, Plan};
use nodebase_generator::report::Report;
use nodebase_generator::root::Root;

use crate::unit::effective::{Effective, Source};

/// Where units are looked for, highest first; `None` stands for the generator's output (`systemd.unit(5)`).
const DIRECTORIES: &[Option<&str>] = &[
    Some("/etc/systemd/system"),
    Some("/run/systemd/system"),
    None,
    Some("/usr/local/lib/systemd/system"),
    Some("/usr/lib/systemd/system"),
];

/// A root with the generator's plan for it.
pub struct Tree {
    root: Root,
    /// What the generator does here.
    pub plan: Plan,
}

impl Tree {
    /// Makes the plan for a root, a command line and, in the place of `/etc/nodebase/node.json`, some facts.
    pub fn new(root: Root, cmdline: Cmdline, node_etc: Option<Vec<u8>>) -> Self {
        let plan = Plan::make(&root, &Input { cmdline, node_etc, credentials: None }, Report::default());
        Self { root, plan }
    }

    /// A unit as systemd puts it together.
    ///
    /// # Errors
    /// When a file that is there cannot be read.
    pub fn effective(&self, unit: &str) -> Result<Effective> {
        let mut fragments = Vec::new();
        for directory in DIRECTORIES.iter().flatten() {
            fragments.extend(self.source(&format!("{directory}/{unit}"))?);
        }
        if fragments.is_empty() {
            // An instance has its template's fragment.
            if let Some(template) = nodebase_generator::layer::template_of(unit) {
                for directory in DIRECTORIES.iter().flatten() {
                    fragments.extend(self.source(&format!("{directory}/{template}"))?);
                }
            }
        }
        let mut dropins = Vec::new();
        for name in dropin_directories(unit) {
            for directory in DIRECTORIES {
                match directory {
                    Some(directory) => dropins.extend(self.listed(&format!("{directory}/{name}"))?),
                    None => dropins.extend(self.generated(&name)?),
                }
            }
        }
        Ok(Effective::new(fragments, dropins))
    }

    /// The units that `unit` pulls in through `.wants` and `.requires` directories, masked ones left out.
    ///
    /// # Errors
    /// When a directory that is there cannot be read.
    pub fn pulled(&self, unit: &str) -> Result<Vec<String>> {
        let mut seen: Vec<(String, bool)> = Vec::new();
        for suffix in ["wants", "requires"] {
            let name = format!("{unit}.{suffix}");
            for directory in DIRECTORIES {
                let entries: Vec<(String, bool)> = match directory {
                    None => {
                        let links = self.plan.links.iter().filter(|l| l.directory == name);
                        links.map(|l| (l.file.clone(), true)).collect()
                    }
                    Some(directory) => {
                        let path = format!("{directory}/{name}");
                        let entries = self.root.list(&path).with_context(|| format!("reading {path}"))?;
                        let on = |file: &str| {
                            self.root.link_target(&format!("{path}/{file}")).as_deref() != Some("/dev/null")
                        };
                        entries.unwrap_or_default().into_iter().map(|e| (e.name.clone(), on(&e.name))).collect()
                    }
                };
                for (unit, on) in entries {
                    if !seen.iter().any(|(u, _)| *u == unit) {
                        seen.push((unit, on));
                    }
                }
            }
        }
        Ok(seen.into_iter().filter(|(_, on)| *on).map(|(u, _)| u).collect())
    }

    /// A file's text below the root; `None` when there is none.
    ///
    /// # Errors
    /// When it is there and cannot be read.
    pub fn text(&self, path: &str) -> Result<Option<String>> {
        let bytes = self.root.read(path).with_context(|| format!("reading {path}"))?;
        Ok(bytes.map(|b| String::from_utf8_lossy(&b).into_owned()))
    }

    fn source(&self, path: &str) -> Result<Option<Source>> {
        let target = self.root.link_target(path);
        if target.as_deref() == Some("/dev/null") {
            return Ok(Some(Source { path: path.to_owned(), target: None, text: None }));
        }
        let text = self.text(path)?;
        Ok(text.map(|text| Source {
            path: path.to_owned(),
            target: target.filter(|t| t.starts_with('/')),
            text: Some(text),
        }))
    }

    fn listed(&self, directory: &str) -> Result<Vec<Source>> {
        let entries = self.root.list(directory).with_context(|| format!("reading {directory}"))?;
        let names = entries.unwrap_or_default().into_iter().map(|e| e.name);
        let mut sources = Vec::new();
        for name in
            names.filter(|n| n.strip_suffix(".conf").is_some_and(|stem| !stem.is_empty() && !n.starts_with('.')))
        {
            sources.extend(self.source(&format!("{directory}/{name}"))?);
        }
        Ok(sources)
    }

    fn generated(&self, directory: &str) -> Result<Vec<Source>> {
        let at = |file: &str| format!("/run/systemd/generator/{directory}/{file}");
        let mut sources = Vec::new();
        for link in self.plan.links.iter().filter(|l| l.directory == directory) {
            let text = match self.root.link_target(&link.target).as_deref() {
                Some("/dev/null") => None,
                _ => Some(self.text(&link.target)?.with_context(|| format!("{} is not there", link.target))?),
            };
            sources.push(Source { path: at(&link.file), target: Some(link.target.clone()), text });
        }
        for file in self.plan.files.iter().filter(|f| f.directory == directory) {
            sources.push(Source { path: at(&file.file), target: None, text: Some(file.text.clone()) });
        }
        Ok(sources)
    }
}

/// The directories whose drop-ins apply to a unit, most specific first: its own, its template's, those of its name's
/// prefixes at dashes, its type's.
fn dropin_directories(unit: &str) -> Vec<String> {
    let mut out = vec![format!("{unit}.d")];
    out.extend(nodebase_generator::layer::template_of(unit).map(|t| format!("{t}.d")));
    if let Some((stem, kind)) = unit.rsplit_once('.') {
        let mut prefix = stem;
        while let Some((shorter, _)) = prefix.rsplit_once('-') {
            out.push(format!("{shorter}-.{kind}.d"));
            prefix = shorter;
        }
        out.push(format!("{kind}.d"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drop_in_directories() {
        assert_eq!(
            dropin_directories("a-b-c@x.service"),
            ["a-b-c@x.service.d", "a-b-c@.service.d", "a-b-.service.d", "a-.service.d", "service.d"]
        );
    }
}
