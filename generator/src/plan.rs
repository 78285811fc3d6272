// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Everything the generator decides, before anything is written.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::cmdline::Cmdline;
use crate::environment::{self, HEADER};
use crate::facet::{self, Facets};
use crate::layer::{self, Effect, Name};
use crate::node::Facts;
use crate::paths;
use crate::platform::Table;
use crate::report::Report;
use crate::root::{Kind, Root};

/// What is known beside the root.
#[derive(Clone, Debug, Default)]
pub struct Input {
    /// The kernel command line.
    pub cmdline: Cmdline,
    /// Stands in for `/etc/nodebase/node.json` (`nodebase explain --node`).
    pub node_etc: Option<Vec<u8>>,
    /// The directory of the system credentials, normally [`paths::CREDENTIALS`].
    pub credentials: Option<String>,
}

/// A link to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Below the generator directory: `kubelet.service.d`
    pub directory: String,
    /// `12-exec.conf`
    pub file: String,
    /// An absolute path as the booted system sees it.
    pub target: String,
    /// The layer that it is of.
    pub layer: String,
}

/// A file to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Below the generator directory.
    pub directory: String,
    /// Its name there.
    pub file: String,
    /// Permissions.
    pub mode: u32,
    /// Content.
    pub text: String,
}

/// An entry of a matching layer that is not linked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// The layer.
    pub layer: String,
    /// `kubelet.service.d/12-exec.conf`
    pub path: String,
    /// Why.
    pub why: String,
}

/// What is to be done, and why.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The machine's facets.
    pub facets: Facets,
    /// The facts behind them.
    pub facts: Facts,
    /// The layers that match, in the order in which they count.
    pub layers: Vec<String>,
    /// Layers that exist and do not match.
    pub others: Vec<String>,
    /// The links, sorted by path.
    pub links: Vec<Link>,
    /// Entries that lost to another layer or to a unit in `/etc`.
    pub skipped: Vec<Skipped>,
    /// The files, sorted by path.
    pub files: Vec<File>,
    /// Everything worth saying.
    pub report: Report,
}

impl Plan {
    /// Works out what the generator does on this root with this input.
    pub fn make(root: &Root, input: &Input, mut report: Report) -> Self {
        let sealed = is_sealed(root, &mut report);
        let facts = read_facts(root, input, sealed, &mut report);
        let table = read_table(root, &mut report);
        let facets = facet::derive(&input.cmdline, &table, &facts, sealed, &mut report);
        let mut plan = Self { facets, facts, report, ..Self::default() };
        plan.apply_layers(root, &table);
        plan.add_files(root);
        plan
    }

    /// The marker's content; `None` when there is a problem.
    pub fn marker(&self) -> Option<String> {
        if !self.report.is_complete() {
            return None;
        }
        let mut text = String::from("# nodebase-generator:");
        for facet in &self.facets {
            let _ = write!(text, " {}={}", facet.name, facet.value);
        }
        let _ = write!(text, "; facts from ");
        if self.facts.sources().is_empty() {
            text.push_str("nowhere");
        }
        for (i, source) in self.facts.sources().iter().enumerate() {
            let _ = write!(text, "{}{source}", if i == 0 { "" } else { ", " });
        }
        let platform = self.facets.get("platform").unwrap_or(facet::UNKNOWN);
        let _ = write!(text, "; {} links\nNODEBASE_PLATFORM={platform}\n", self.links.len());
        Some(text)
    }

    /// What the reporter unit shows when there is no marker.
    pub fn problems(&self) -> Option<String> {
        if self.report.is_complete() {
            return None;
        }
        let mut text = format!("{HEADER}\n");
        for note in self.report.problems() {
            let _ = writeln!(text, "{}", note.text);
        }
        if self.report.dropped() > 0 {
            let _ = writeln!(text, "{} more notes: `nodebase explain` shows them", self.report.dropped());
        }
        Some(text)
    }

    fn apply_layers(&mut self, root: &Root, table: &Table) {
        let names = layer::names(root, &mut self.report);
        let mut matching: Vec<(usize, &str)> = Vec::new();
        for name in &names {
            let parsed = Name::parse(name).and_then(|n| n.check(table).map(|()| n));
            match parsed {
                Err(e) => self.report.problem(format!("{}/{name}: not a layer's name: {e}", paths::LAYERS)),
                Ok(parsed) if parsed.mismatch(&self.facets).is_none() => {
                    matching.push((parsed.conditions.len(), name));
                }
                Ok(_) => self.others.push(name.clone()),
            }
        }
        matching.sort_unstable();
        // Path → (number of conditions, link). A later layer replaces an earlier one's file of the same name.
        let mut links: BTreeMap<(String, String), (usize, Link)> = BTreeMap::new();
        for (conditions, name) in matching {
            self.layers.push(name.to_owned());
            for entry in layer::read(root, name, &mut self.report) {
                let Some(link) = self.link(root, name, entry) else { continue };
                let key = (link.directory.clone(), link.file.clone());
                if let Some((old_conditions, old)) = links.get(&key) {
                    let path = format!("{}/{}", old.directory, old.file);
                    if old.target != link.target {
                        if *old_conditions == conditions {
                            self.report.warning(format!(
                                "{path}: the layers {} and {name} both match and both have it; {name} is taken: give \
                                 one of them another condition (`nodebase lint` finds this at build time)",
                                old.layer
                            ));
                        }
                        let why = format!("layer {name} has the same file");
                        self.skipped.push(Skipped { layer: old.layer.clone(), path, why });
                    }
                }
                links.insert(key, (conditions, link));
            }
        }
        self.links = links.into_values().map(|(_, link)| link).collect();
    }

    /// The link for a layer's entry, after its target was looked at.
    fn link(&mut self, root: &Root, layer: &str, entry: layer::Entry) -> Option<Link> {
        let own = format!("{}/{layer}/{}/{}", paths::LAYERS, entry.directory, entry.file);
        if entry.file == paths::FACTS_DROPIN {
            self.report.problem(format!("{own}: the name is the generator's own, give it another"));
            return None;
        }
        let leads = if entry.kind == Kind::Link { root.link_target(&own) } else { None };
        let masks = leads.as_deref() == Some("/dev/null");
        let target = match entry.effect {
            Effect::Pull if masks => {
                self.report.problem(format!("{own}: a layer cannot take a unit away, it only adds"));
                return None;
            }
            Effect::Pull => self.unit_path(root, &entry.file, &own)?,
            Effect::DropIn => {
                if entry.kind == Kind::Link && !masks && !self.is_content(root, layer, &entry, &own, leads.as_deref()) {
                    return None;
                }
                own
            }
        };
        let link = Link { directory: entry.directory, file: entry.file, target, layer: layer.to_owned() };
        if entry.effect == Effect::DropIn && link.file.ends_with("-exec.conf") {
            let unit = link.directory.strip_suffix(".d").unwrap_or_default();
            if let Some(shadow) = shadow(root, unit) {
                let path = format!("{}/{}", link.directory, link.file);
                self.report.warning(format!("{shadow} replaces our {unit}: {path} of layer {layer} is not linked"));
                self.skipped.push(Skipped { layer: layer.to_owned(), path, why: format!("{shadow} is a whole unit") });
                return None;
            }
        }
        Some(link)
    }

    /// Does a layer's link lead to a file of the image? What systemd loads must be content of /usr.
    fn is_content(&mut self, root: &Root, layer: &str, entry: &layer::Entry, own: &str, leads: Option<&str>) -> bool {
        let directory = format!("{}/{layer}/{}", paths::LAYERS, entry.directory);
        let to = resolved(&directory, leads.unwrap_or_default());
        if !to.starts_with("/usr/") {
            self.report.problem(format!("{own}: leads to {to}, out of /usr"));
            return false;
        }
        if !self.there(root, own, own) {
            return false;
        }
        if !root.is_file(own) {
            self.report.problem(format!("{own}: leads to what is no file"));
            return false;
        }
        true
    }

    fn unit_path(&mut self, root: &Root, unit: &str, own: &str) -> Option<String> {
        let path = format!("{}/{unit}", paths::UNITS);
        if let Some(template) = layer::template_of(unit)
            && !root.exists(&path).unwrap_or(false)
        {
            let path = format!("{}/{template}", paths::UNITS);
            return self.there(root, &path, own).then_some(path);
        }
        self.there(root, &path, own).then_some(path)
    }

    fn there(&mut self, root: &Root, path: &str, of: &str) -> bool {
        match root.exists(path) {
            Ok(true) => true,
            Ok(false) if path == of => {
                self.report.problem(format!("{of}: leads nowhere"));
                false
            }
            Ok(false) => {
                self.report.problem(format!("{of}: there is no {path}"));
                false
            }
            Err(e) => {
                self.report.problem(format!("{path}: cannot be looked at: {e}"));
                false
            }
        }
    }

    fn add_files(&mut self, root: &Root) {
        let map = read_environment(root, &mut self.report);
        for (unit, variables) in map.units() {
            let text = environment::drop_in(unit, variables, &self.facts, &self.facets, &mut self.report);
            if let Some(text) = text {
                let (directory, file) = (format!("{unit}.d"), paths::FACTS_DROPIN.to_owned());
                self.files.push(File { directory, file, mode: 0o644, text });
            }
        }
        if self.facets.get("proxy") == Some("yes") {
            let text = environment::proxy_env(&self.facts, &mut self.report);
            let (directory, file) = (paths::PRIVATE.to_owned(), paths::PROXY_ENV.to_owned());
            self.files.push(File { directory, file, mode: 0o600, text });
        }
        self.files.sort_by(|a, b| (&a.directory, &a.file).cmp(&(&b.directory, &b.file)));
    }
}

/// Directories whose whole units come before ours (`systemd.unit(5)`).
const ABOVE_OURS: &[&str] = &[
    "/etc/systemd/system.control",
    "/run/systemd/system.control",
    "/run/systemd/transient",
    paths::UNITS_ETC,
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
];

/// A whole unit of the administrator that replaces ours; a link to ours, however it is written, does not.
pub fn shadow(root: &Root, unit: &str) -> Option<String> {
    let ours = format!("{}/{unit}", paths::UNITS);
    ABOVE_OURS.iter().map(|d| format!("{d}/{unit}")).find(|path| root.is_there(path) && !root.is_same(path, &ours))
}

/// Where a link in `directory` leads by its text, `.` and `..` taken out.
fn resolved(directory: &str, target: &str) -> String {
    let mut parts: Vec<&str> = if target.starts_with('/') { Vec::new() } else { directory.split('/').collect() };
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.retain(|p| !p.is_empty());
    format!("/{}", parts.join("/"))
}

fn is_sealed(root: &Root, report: &mut Report) -> bool {
    root.exists(paths::SEALED).unwrap_or_else(|e| {
        // Not to know it must not open the image: /etc is then left alone as in a sealed one.
        report.problem(format!("{}: cannot be looked at: {e}", paths::SEALED));
        true
    })
}

fn read_table(root: &Root, report: &mut Report) -> Table {
    let parsed = match root.read(paths::TABLE) {
        Ok(Some(bytes)) => Table::parse(&bytes).map_err(|e| format!("cannot be used: {e}")),
        Ok(None) => Err("is missing: is the image complete?".to_owned()),
        Err(e) => Err(format!("cannot be read: {e}")),
    };
    parsed.unwrap_or_else(|e| {
        report.problem(format!("{}: {e}", paths::TABLE));
        Table::default()
    })
}

fn read_facts(root: &Root, input: &Input, sealed: bool, report: &mut Report) -> Facts {
    let mut facts = Facts::default();
    add_file(&mut facts, root, paths::NODE_USR, report);
    if let Some(bytes) = input.node_etc.as_deref().filter(|_| !sealed) {
        facts.add_file(paths::NODE_ETC, bytes, report);
    } else if !sealed {
        add_file(&mut facts, root, paths::NODE_ETC, report);
    }
    let directory = input.credentials.as_deref().unwrap_or(paths::CREDENTIALS);
    let credential = format!("{directory}/{}", paths::CREDENTIAL);
    if sealed {
        for path in [paths::NODE_ETC, &credential] {
            if root.is_there(path) {
                report.warning(format!("{path}: ignored: the image is sealed ({})", paths::SEALED));
            }
        }
    } else {
        add_file(&mut facts, root, &credential, report);
    }
    let encrypted = format!("{}/{}", paths::ENCRYPTED_CREDENTIALS, paths::CREDENTIAL);
    if root.exists(&encrypted).unwrap_or(true) {
        report.problem(format!(
            "{encrypted}: an encrypted credential cannot be opened this early in the boot; pass the facts in plain text \
             or on the kernel command line"
        ));
    }
    facts.add_cmdline(&input.cmdline, report);
    facts
}

fn add_file(facts: &mut Facts, root: &Root, path: &str, report: &mut Report) {
    match root.read(path) {
        Ok(Some(bytes)) => facts.add_file(path, &bytes, report),
        Ok(None) => {}
        Err(e) => report.problem(format!("{path}: cannot be read: {e}")),
    }
}

fn read_environment(root: &Root, report: &mut Report) -> environment::Map {
    let mut map = environment::Map::default();
    let mut paths = vec![Cow::Borrowed(paths::ENVIRONMENT)];
    match root.list(paths::ENVIRONMENT_DIR) {
        Ok(entries) => paths.extend(
            entries
                .unwrap_or_default()
                .into_iter()
                .filter(|e| e.name.rsplit_once('.').is_some_and(|(_, extension)| extension == "json"))
                .map(|e| Cow::Owned(format!("{}/{}", paths::ENVIRONMENT_DIR, e.name))),
        ),
        Err(e) => report.problem(format!("{}: cannot be read: {e}", paths::ENVIRONMENT_DIR)),
    }
    for path in paths {
        let result = match root.read(&path) {
            Ok(Some(bytes)) => map.add(&bytes).map_err(|e| format!("cannot be used: {e}")),
            // An image may have no facts to hand on.
            Ok(None) => Ok(()),
            Err(e) => Err(format!("cannot be read: {e}")),
        };
        if let Err(e) = result {
            report.problem(format!("{path}: {e}"));
        }
    }
    map
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_resolved_by_their_text() {
        for (directory, target, want) in [
            ("/usr/lib/x", "/etc/y", "/etc/y"),
            ("/usr/lib/x", "../y", "/usr/lib/y"),
            ("/usr/lib/x", "./a//b", "/usr/lib/x/a/b"),
            ("/usr/lib/x", "../../../../etc/y", "/etc/y"),
            ("/usr/lib/x", "", "/usr/lib/x"),
        ] {
            assert_eq!(resolved(directory, target), want);
        }
    }
}
