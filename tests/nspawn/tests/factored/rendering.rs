// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A rendering as an MCO installs it, and what it is compared by. Nothing here is shared with the code under test: the
//! moves are written down a second time, links come from `systemctl enable`.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use nodebase_nspawn::boot::Boot;
use serde_json::Value;

/// Where the rendering's directories are in an image.
const MOVED: &[(&str, &str)] = &[
    ("/usr/local/bin/", "/usr/bin/"),
    ("/usr/local/sbin/", "/usr/sbin/"),
    ("/opt/libexec/", "/usr/libexec/"),
    ("/etc/NetworkManager/conf.d/", "/usr/lib/NetworkManager/conf.d/"),
    ("/etc/NetworkManager/dispatcher.d/", "/usr/lib/NetworkManager/dispatcher.d/"),
    ("/etc/sysctl.d/", "/usr/lib/sysctl.d/"),
    ("/etc/modules-load.d/", "/usr/lib/modules-load.d/"),
    ("/etc/tmpfiles.d/", "/usr/lib/tmpfiles.d/"),
    ("/etc/udev/rules.d/", "/usr/lib/udev/rules.d/"),
    ("/etc/systemd/system.conf.d/", "/usr/lib/systemd/system.conf.d/"),
    ("/etc/systemd/journald.conf.d/", "/usr/lib/systemd/journald.conf.d/"),
    ("/etc/systemd/system/", "/usr/lib/systemd/system/"),
];

/// Where a file may be in the factored tree, the one that counts first.
pub fn places(path: &str) -> Vec<String> {
    let moved = MOVED.iter().find_map(|(from, to)| path.strip_prefix(from).map(|rest| format!("{to}{rest}")));
    [Some(path.to_owned()), moved].into_iter().flatten().collect()
}

/// Words with their quotes removed.
pub fn words(text: &str) -> Vec<String> {
    let mut out = vec![String::new()];
    let mut quoted = false;
    for c in text.chars() {
        match c {
            '"' => quoted = !quoted,
            ' ' if !quoted => out.push(String::new()),
            c => out.last_mut().into_iter().for_each(|w| w.push(c)),
        }
    }
    out.retain(|w| !w.is_empty());
    out
}

/// A property's value as the things that are compared.
pub fn property(key: &str, value: &str, variables: &[(String, String)]) -> Vec<String> {
    match key {
        k if k.starts_with("Exec") => {
            let Some((_, rest)) = value.split_once("argv[]=") else { return vec![value.to_owned()] };
            let (argv, rest) = rest.split_once(" ; ").unwrap_or((rest, ""));
            let ignore = rest.split(" ; ").next().unwrap_or_default();
            let mut argv = argv.to_owned();
            for (from, to) in MOVED.iter().filter(|(f, _)| !f.starts_with("/etc/")) {
                argv = argv.replace(from, to);
            }
            for (name, own) in variables {
                argv = argv.replace(&format!("${{{name}}}"), own).replace(&format!("${name}"), own);
            }
            let mut words: Vec<&str> = argv.split(' ').filter(|w| !w.is_empty()).collect();
            // kubelet's options come once each: their order means nothing.
            let first = words.iter().position(|w| w.starts_with("--")).unwrap_or(words.len());
            if words[first..].iter().all(|w| w.starts_with("--") || w.starts_with('$')) {
                words[first..].sort_unstable();
            }
            vec![format!("{} {ignore}", words.join(" "))]
        }
        "Environment" => words(value).into_iter().filter(|w| !w.starts_with("NODEBASE_")).collect(),
        "After" | "Before" | "Wants" | "Requires" | "BindsTo" | "PartOf" | "Conflicts" | "OnFailure" => {
            value.split(' ').filter(|w| !w.is_empty() && *w != "nodebase-files.service").map(str::to_owned).collect()
        }
        _ => vec![value.to_owned()],
    }
}

/// One role of one kind.
pub struct Rendering {
    /// `aws`
    pub platform: String,
    /// node.json of the machine.
    pub node: String,
    config: Value,
}

impl Rendering {
    /// Reads it.
    pub fn read(renderings: &Path, kind: &str, role: &str) -> Result<Self> {
        let read = |name: String| -> Result<Value> {
            let path = renderings.join(kind).join(name);
            let bytes = std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
            serde_json::from_slice(&bytes).with_context(|| format!("{}: not JSON", path.display()))
        };
        let mut node = read("node.json".into())?;
        let platform = node["platform"].as_str().context("no platform")?.to_owned();
        node["role"] = role.into();
        node.as_object_mut().context("no object")?.remove("platform");
        Ok(Self { platform, node: node.to_string(), config: read(format!("{role}.ign"))? })
    }

    fn entries(&self, pointer: &str) -> impl Iterator<Item = &Value> {
        self.config.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
    }

    /// All units.
    pub fn units(&self) -> impl Iterator<Item = &str> {
        self.entries("/systemd/units").filter_map(|u| u["name"].as_str())
    }

    /// Those of which only the base image has the text.
    pub fn foreign_units(&self) -> impl Iterator<Item = &str> {
        let bare = |u: &&Value| u["contents"].as_str().unwrap_or_default().trim().is_empty();
        self.entries("/systemd/units").filter(bare).filter_map(|u| u["name"].as_str())
    }

    /// All files but drop-ins, which count as parts of their units.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.entries("/storage/files").filter_map(|f| f["path"].as_str()).filter(|p| !is_dropin(p))
    }

    /// Installs it below /etc and enables what is to be enabled. Gives the units that pull those in.
    pub fn install(&self, boot: &Boot) -> Result<BTreeSet<String>> {
        for file in self.entries("/storage/files") {
            let path = file["path"].as_str().context("no path")?;
            let source = file.pointer("/contents/source").and_then(Value::as_str).unwrap_or_default();
            boot.write(path, &decoded(source)?)?;
        }
        let mut enable = Vec::new();
        for unit in self.entries("/systemd/units") {
            let name = unit["name"].as_str().context("no name")?;
            if let Some(text) = unit["contents"].as_str().filter(|t| !t.trim().is_empty()) {
                boot.write(&format!("/etc/systemd/system/{name}"), text)?;
                if unit["enabled"] == true {
                    enable.push(name);
                }
            }
            for dropin in unit["dropins"].as_array().into_iter().flatten() {
                let path = format!("/etc/systemd/system/{name}.d/{}", dropin["name"].as_str().context("no name")?);
                boot.write(&path, dropin["contents"].as_str().unwrap_or_default())?;
            }
        }
        let output =
            Command::new("systemctl").arg("--root").arg(boot.path("/")).arg("enable").args(&enable).output()?;
        ensure!(output.status.success(), "systemctl enable: {}", String::from_utf8_lossy(&output.stderr));
        let mut pullers = BTreeSet::new();
        for entry in std::fs::read_dir(boot.path("/etc/systemd/system"))? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            pullers.extend(name.strip_suffix(".wants").or(name.strip_suffix(".requires")).map(str::to_owned));
        }
        Ok(pullers)
    }
}

fn is_dropin(path: &str) -> bool {
    path.starts_with("/etc/systemd/system/") && path.contains(".d/")
}

/// What a data URL without base64 holds.
fn decoded(source: &str) -> Result<String> {
    let Some((head, body)) = source.split_once(',') else { return Ok(String::new()) };
    ensure!(!head.contains("base64"), "base64 in the test data: {source}");
    let mut bytes = Vec::new();
    let mut rest = body.bytes();
    while let Some(b) = rest.next() {
        if b == b'%' {
            let hex: Vec<u8> = rest.by_ref().take(2).collect();
            bytes.push(u8::from_str_radix(std::str::from_utf8(&hex)?, 16)?);
        } else {
            bytes.push(b);
        }
    }
    Ok(String::from_utf8(bytes)?)
}
