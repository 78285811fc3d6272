// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The renderings of one directory per cluster kind.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use nodebase_generator::cmdline::Cmdline;
use nodebase_generator::node::Facts;
use nodebase_generator::platform::Table;
use nodebase_generator::{facet, report::Report};
use serde_json::Value;

use crate::bake::place::{Place, place};
use crate::bake::rewrite::rewrite;
use crate::config;

/// A unit of a rendering.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Unit {
    /// The whole unit; none when the base image has it.
    pub text: Option<String>,
    /// Drop-ins that are not empty.
    pub dropins: BTreeMap<String, String>,
    /// To be enabled.
    pub enabled: bool,
}

/// A file of a rendering.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct File {
    /// Content.
    pub bytes: Vec<u8>,
    /// Permissions.
    pub mode: u32,
    /// The path that the rendering gives it.
    pub source: String,
    /// It is state: tmpfiles puts it in place.
    pub state: bool,
}

/// One role of one kind.
#[derive(Clone, Debug)]
pub struct Machine {
    /// `aws/master`
    pub name: String,
    /// The kernel command line that makes it this machine.
    pub cmdline: String,
    /// Its facts, with the role.
    pub node: Value,
    /// Its facets.
    pub facets: BTreeMap<String, String>,
    /// Its units.
    pub units: BTreeMap<String, Unit>,
    /// Its files, by path in the image.
    pub files: BTreeMap<String, File>,
}

/// Reads all kinds below a directory, sorted.
///
/// # Errors
/// A directory without node.json, a file that cannot be read or understood.
pub fn read(directory: &Path, table: &Table) -> Result<Vec<Machine>> {
    let mut out = Vec::new();
    let mut kinds: Vec<_> = std::fs::read_dir(directory)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .with_context(|| format!("reading {}", directory.display()))?;
    kinds.sort_by_key(std::fs::DirEntry::file_name);
    for kind in kinds.into_iter().filter(|k| k.path().is_dir()) {
        let path = kind.path().join("node.json");
        let node: Value =
            serde_json::from_slice(&std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?)
                .with_context(|| format!("{}: not JSON", path.display()))?;
        let mut roles: Vec<_> = std::fs::read_dir(kind.path())
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .with_context(|| format!("reading {}", kind.path().display()))?;
        roles.sort_by_key(std::fs::DirEntry::file_name);
        for role in roles.into_iter().map(|r| r.path()) {
            if role.file_name().is_some_and(|n| n == "node.json" || n == "controllerconfig.yaml") {
                continue;
            }
            let stem = role.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let name = format!("{}/{stem}", kind.file_name().to_string_lossy());
            out.push(machine(&role, name, &stem, &node, table)?);
        }
    }
    if out.is_empty() {
        bail!("{}: holds no <kind>/node.json with <kind>/<role>.ign", directory.display());
    }
    Ok(out)
}

fn machine(path: &Path, name: String, role: &str, node: &Value, table: &Table) -> Result<Machine> {
    let mut node = node.clone();
    let Some(facts) = node.as_object_mut() else { bail!("{name}: node.json is no object") };
    let platform = facts.remove("platform").and_then(|p| p.as_str().map(str::to_owned)).unwrap_or_default();
    facts.insert("role".into(), role.into());
    let cmdline = format!("ignition.platform.id={platform}");
    let mut machine = Machine {
        facets: facets(&cmdline, &node, table).with_context(|| format!("{name}: node.json"))?,
        name,
        cmdline,
        node,
        units: BTreeMap::new(),
        files: BTreeMap::new(),
    };
    for source in config::read(path)? {
        add(&mut machine, &source)?;
    }
    Ok(machine)
}

/// The facets of a machine, by the generator's own library.
pub(super) fn facets(cmdline: &str, node: &Value, table: &Table) -> Result<BTreeMap<String, String>> {
    let mut report = Report::default();
    let mut facts = Facts::default();
    let cmdline = Cmdline::from_text(cmdline.as_bytes());
    facts.add_file("node.json", node.to_string().as_bytes(), &mut report);
    let facets = facet::derive(&cmdline, table, &facts, false, &mut report);
    if let Some(problem) = report.problems().next() {
        bail!("{}", problem.text);
    }
    Ok(facets.iter().map(|f| (f.name.to_string(), f.value.clone())).collect())
}

fn add(machine: &mut Machine, source: &config::Source) -> Result<()> {
    let name = &source.name;
    if source.ignition.passwd.as_ref().is_some_and(|p| p.users.iter().flatten().next().is_some()) {
        bail!("{name}: passwd: give users to `nodebase bake`, they do not differ by platform");
    }
    let storage = source.ignition.storage.as_ref();
    refuse(source)?;
    let files: Vec<_> = storage.iter().flat_map(|s| s.files.iter().flatten()).collect();
    let mut moves = BTreeMap::new();
    for file in &files {
        if let Place::At(to) = place(&file.path, false)
            && to != file.path
        {
            moves.insert(file.path.clone(), to);
        }
    }
    for file in files {
        let bytes = match &file.contents {
            Some(contents) => config::resource(contents, false).with_context(|| format!("{name}: {}", file.path))?,
            None => Vec::new(),
        };
        let bytes = match String::from_utf8(bytes) {
            Ok(text) => rewrite(&text, &moves).text.into_bytes(),
            Err(e) => e.into_bytes(),
        };
        let mode = file.mode.and_then(|m| u32::try_from(m).ok()).unwrap_or(0o644) & 0o7777;
        let (to, state) = match place(&file.path, false) {
            Place::At(to) => (to, false),
            Place::Factory(to) => (to, true),
            Place::Nowhere(why) => bail!("{name}: {}: {why}", file.path),
        };
        // A drop-in that is shipped as a file is a drop-in all the same.
        let dropin = to.strip_prefix("/usr/lib/systemd/system/").and_then(|p| p.split_once(".d/"));
        if let (Some((unit, file_name)), Ok(text)) = (dropin, std::str::from_utf8(&bytes)) {
            if !text.trim().is_empty() {
                machine.units.entry(unit.to_owned()).or_default().dropins.insert(file_name.to_owned(), text.to_owned());
            }
            continue;
        }
        machine.files.insert(to, File { bytes, mode, source: file.path.clone(), state });
    }
    for unit in source.ignition.systemd.iter().flat_map(|s| s.units.iter().flatten()) {
        let own = machine.units.entry(unit.name.clone()).or_default();
        if unit.mask == Some(true) {
            bail!("{name}: systemd.units: {}: masks are for `nodebase bake`", unit.name);
        }
        if let Some(text) = unit.contents.as_deref().filter(|t| !t.trim().is_empty()) {
            own.text = Some(rewrite(text, &moves).text);
        }
        if let Some(enabled) = unit.enabled {
            own.enabled = enabled;
        }
        for dropin in unit.dropins.iter().flatten() {
            if let Some(text) = dropin.contents.as_deref().filter(|t| !t.trim().is_empty()) {
                own.dropins.insert(dropin.name.clone(), rewrite(text, &moves).text);
            }
        }
    }
    Ok(())
}

/// What the static set has no place for is refused, all of it at once; nothing is left out silently.
fn refuse(source: &config::Source) -> Result<()> {
    let mut found: Vec<String> = source.machine.unsupported.clone();
    let mut count = |key: &str, n: usize| {
        if n > 0 {
            found.push(format!("{key} ({n})"));
        }
    };
    count("spec.kernelArguments", source.machine.kernel_arguments.len());
    if let Some(kargs) = &source.ignition.kernel_arguments {
        let all = kargs.should_exist.iter().flatten().count() + kargs.should_not_exist.iter().flatten().count();
        count("kernelArguments", all);
    }
    if let Some(storage) = &source.ignition.storage {
        count("storage.links", storage.links.iter().flatten().count());
        count("storage.directories", storage.directories.iter().flatten().count());
        count("storage.disks", storage.disks.iter().flatten().count());
        count("storage.raid", storage.raid.iter().flatten().count());
        count("storage.filesystems", storage.filesystems.iter().flatten().count());
        count("storage.luks", storage.luks.iter().flatten().count());
        count("storage.files: append", storage.files.iter().flatten().flat_map(|f| f.append.iter().flatten()).count());
    }
    if let Some(passwd) = &source.ignition.passwd {
        count("passwd.groups", passwd.groups.iter().flatten().count());
    }
    if found.is_empty() {
        return Ok(());
    }
    bail!(
        "{}: factor carries units and files only; take these out, and give what does not differ by platform to \
         `nodebase bake`: {}",
        source.name,
        found.join(", ")
    )
}

/// Literal values of facts that stand in command lines, longest first: value, fact.
pub(super) fn literals(node: &Value) -> Vec<(String, String)> {
    let mut out = Vec::new();
    for key in ["apiServerInternalIPs", "ingressIPs"] {
        let words: Vec<&str> =
            node.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        if !words.is_empty() {
            out.push((words.join(" "), key.to_owned()));
        }
    }
    for (name, value) in node.get("images").and_then(Value::as_object).into_iter().flatten() {
        out.extend(value.as_str().map(|v| (v.to_owned(), format!("images.{name}"))));
    }
    out.retain(|(value, _)| value.len() >= 7);
    out.sort_by_key(|(value, _)| std::cmp::Reverse(value.len()));
    out
}

/// `images.baremetalRuntimeCfgImage` → `NODEBASE_IMAGES_BAREMETAL_RUNTIME_CFG_IMAGE`
pub(super) fn variable(fact: &str) -> String {
    let mut out = String::from("NODEBASE_");
    let mut lower = false;
    for c in fact.chars() {
        if c.is_ascii_uppercase() && lower {
            out.push('_');
        }
        lower = c.is_ascii_lowercase();
        out.push(if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' });
    }
    out
}
