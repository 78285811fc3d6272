// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The round trip: what the generator makes of the static set on a machine, against that machine's rendering.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result};
use nodebase_generator::cmdline::Cmdline;
use nodebase_generator::root::Root;

use super::input::{Machine, variable};
use super::split::{DEFAULTS, FILES_UNIT, VARIANTS, adds_up, is_inert};
use crate::bake::install::install;
use crate::bake::tree::{Node, existing};
use crate::tree::Tree;
use crate::unit::effective::{Effective, Source};
use crate::unit::parse::is_dependency;
use crate::unit::words;

const UNITS: &str = "/usr/lib/systemd/system";

/// Everything about a tree that is the same for all machines.
#[derive(Debug)]
pub struct Static {
    links: BTreeSet<String>,
    files: BTreeSet<String>,
    presets: BTreeSet<String>,
}

impl Static {
    /// From the tree that was written.
    pub fn new(tree: &crate::bake::tree::Tree) -> Self {
        let mut out = Self { links: BTreeSet::new(), files: BTreeSet::new(), presets: BTreeSet::new() };
        for (path, entry) in tree {
            match &entry.node {
                Node::Link(_) => {
                    out.links.extend(path.strip_prefix(&format!("{UNITS}/")).map(str::to_owned));
                }
                Node::File(bytes, _) if path.ends_with(".preset") => {
                    let text = String::from_utf8_lossy(bytes);
                    out.presets.extend(text.lines().filter_map(|l| l.strip_prefix("enable ")).map(str::to_owned));
                }
                Node::File(..) => {
                    let ours = [
                        UNITS,
                        "/usr/lib/nodebase/",
                        "/usr/share/nodebase/",
                        "/usr/lib/tmpfiles.d/nodebase-factor.conf",
                    ];
                    if let Some(real) = path.strip_prefix("/usr/share/factory") {
                        out.files.insert(real.to_owned());
                    } else if !ours.iter().any(|o| path.starts_with(o)) {
                        out.files.insert(path.clone());
                    }
                }
                Node::Directory(_) => {}
            }
        }
        out
    }
}

/// The differences, as lines of a diff; none: the machine comes out as it was rendered.
///
/// # Errors
/// When the tree cannot be read.
pub fn verify(root: &Path, fixed: &Static, machine: &Machine) -> Result<Vec<String>> {
    let handle = Root::at(root).with_context(|| format!("opening {}", root.display()))?;
    let tree =
        Tree::new(handle, Cmdline::from_text(machine.cmdline.as_bytes()), Some(machine.node.to_string().into_bytes()));
    let mut out: Vec<String> = tree.plan.report.problems().map(|p| format!("! {}", p.text)).collect();
    let (mut want_links, mut want_presets) = (BTreeSet::new(), BTreeSet::new());
    for (name, unit) in &machine.units {
        let source = |path: String, text: &String| Source { path, target: None, text: Some(text.clone()) };
        let fragment = unit.text.iter().map(|t| source(name.clone(), t)).collect();
        let dropins = unit.dropins.iter().map(|(n, t)| source(format!("{name}.d/{n}"), t)).collect();
        let want = canonical(&Effective::new(fragment, dropins));
        let got = canonical(&tree.effective(name)?);
        if want != got {
            let diff = similar::TextDiff::from_lines(&want, &got);
            out.push(format!("{name}:\n{}", diff.unified_diff().context_radius(0).header("rendered", "factored")));
        }
        if unit.enabled {
            let Some(text) = &unit.text else {
                want_presets.insert(name.clone());
                continue;
            };
            let texts: Vec<&str> = std::iter::once(text).chain(unit.dropins.values()).map(String::as_str).collect();
            want_links.extend(install(name, &texts).map_err(anyhow::Error::msg)?.links.into_iter().map(|l| l.path));
        }
    }
    let mut links = fixed.links.clone();
    let pulls = |d: &str| d.rsplit_once('.').is_some_and(|(_, s)| matches!(s, "wants" | "requires"));
    for link in &tree.plan.links {
        if pulls(&link.directory) {
            links.insert(format!("{}/{}", link.directory, link.file));
        } else if let Some(unit) = link.directory.strip_suffix(".d")
            && unit != FILES_UNIT
            && !machine.units.contains_key(unit)
            && tree.effective(unit)?.fragment.is_none()
        {
            out.push(format!("+ {}/{} for a unit that this machine does not set up", link.directory, link.file));
        }
    }
    links.retain(|l| !l.ends_with(FILES_UNIT));
    compare("pulled in", &want_links, &links, &mut out);
    compare("preset", &want_presets, &fixed.presets, &mut out);
    files(root, fixed, machine, &tree, &mut out)?;
    Ok(out)
}

fn compare(what: &str, want: &BTreeSet<String>, got: &BTreeSet<String>, out: &mut Vec<String>) {
    out.extend(want.difference(got).map(|x| format!("- {what}: {x}")));
    out.extend(got.difference(want).map(|x| format!("+ {what}: {x}")));
}

fn files(root: &Path, fixed: &Static, machine: &Machine, tree: &Tree, out: &mut Vec<String>) -> Result<()> {
    // What the unit would link: every list that its command lines name.
    let mut placed: BTreeMap<String, String> = BTreeMap::new();
    for line in tree.effective(FILES_UNIT)?.values("Service", "ExecStart") {
        let Some(list) = line.value.strip_prefix("/usr/bin/systemd-tmpfiles --create ") else { continue };
        let Some(Node::File(bytes, _)) = existing(root, list)? else {
            out.push(format!("- {list}"));
            continue;
        };
        for entry in String::from_utf8_lossy(&bytes).lines() {
            let mut fields = entry.split_whitespace();
            if let (Some("L"), Some(place), Some(target)) = (fields.next(), fields.next(), fields.nth(4)) {
                placed.insert(place.to_owned(), target.to_owned());
            }
        }
    }
    let mut seen = BTreeSet::new();
    for (path, want) in &machine.files {
        let place = super::split::variant_place(path, want);
        let at = if let Some(target) = placed.get(&place) {
            seen.insert(place);
            target.clone()
        } else if want.state {
            format!("/usr/share/factory{path}")
        } else {
            path.clone()
        };
        match existing(root, &at)? {
            Some(Node::File(bytes, mode)) if bytes == want.bytes && mode == want.mode => {}
            Some(Node::File(..)) => out.push(format!("~ file {path}: other content or mode")),
            _ => out.push(format!("- file {path}")),
        }
    }
    out.extend(placed.keys().filter(|p| !seen.contains(*p)).map(|p| format!("+ file {p} ({VARIANTS})")));
    let extra = fixed.files.iter().filter(|f| !machine.files.contains_key(*f) && !is_inert(f));
    out.extend(extra.map(|f| format!("+ file {f}")));
    Ok(())
}

/// A command line with this program's variables replaced. What has options only, each once, is sorted: their order
/// means nothing then.
fn command(line: &str, variables: &BTreeMap<String, String>) -> String {
    let mut line = line.to_owned();
    for (name, value) in variables.iter().filter(|(n, _)| n.starts_with(&variable(""))) {
        line = line.replace(&format!("${{{name}}}"), value);
        let bare = format!("${name}");
        if line.split(' ').any(|w| w == bare) {
            let words = line.split(' ').map(|w| if w == bare { value } else { w }).filter(|w| !w.is_empty());
            line = words.collect::<Vec<_>>().join(" ");
        }
    }
    let words: Vec<&str> = line.split(' ').collect();
    let Some(first) = words.iter().position(|w| w.starts_with("--")) else { return line };
    let name = |w: &str| w.split('=').next().unwrap_or_default().to_owned();
    let names: BTreeSet<String> = words[first..].iter().map(|w| name(w)).collect();
    let only = words[first..].iter().all(|w| w.starts_with("--") || w.starts_with('$'));
    if !only || names.len() != words.len() - first || line.contains(['"', '\'']) {
        return line;
    }
    let (head, tail) = words.split_at(first);
    let mut tail = tail.to_vec();
    tail.sort_unstable();
    [head, &tail].concat().join(" ")
}

/// A unit in a form in which only what systemd makes a difference of differs.
fn canonical(unit: &Effective) -> String {
    let variables = words::environment(unit.values("Service", "Environment").map(|l| l.value.as_str()));
    let mut keys: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for line in unit.lines.iter().filter(|l| l.section != "Install") {
        let own = keys.entry((line.section.clone(), line.key.clone())).or_default();
        if is_dependency(&line.key) {
            own.extend(line.value.split_whitespace().map(str::to_owned));
        } else if line.key == "Environment" && line.value.contains("NODEBASE_") {
            // The facts that the generator gives.
        } else if line.key.starts_with("Exec") {
            own.push(command(&line.value, &variables));
        } else {
            own.push(line.value.clone());
        }
    }
    let mut out = String::new();
    for ((section, key), mut values) in keys {
        if adds_up(&key) {
            values.sort();
            values.dedup();
        }
        values.retain(|v| !DEFAULTS.contains(&(key.as_str(), v.as_str())));
        for value in values {
            let _ = writeln!(out, "[{section}] {key}={value}");
        }
    }
    out
}
