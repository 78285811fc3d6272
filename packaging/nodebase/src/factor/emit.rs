// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The static set as a tree.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::split::{FILES_UNIT, Factored, VARIANTS, slug};
use crate::bake::tree::{Entry, Node, Tree};

const UNITS: &str = "/usr/lib/systemd/system";
/// Where layers keep their lists of files.
pub(super) const LISTS: &str = "/usr/lib/nodebase/files";

/// Makes the tree; `table` is the content of platforms.json.
pub fn tree(f: &Factored, table: &[u8]) -> Tree {
    let mut out = Tree::new();
    let mut file = |path: String, bytes: Vec<u8>, mode: u32| {
        out.insert(path, Entry { node: Node::File(bytes, mode), from: "nodebase factor".into(), replaces: false });
    };
    file("/usr/lib/nodebase/platforms.json".into(), table.to_vec(), 0o644);
    for (unit, assignments) in &f.units {
        let mut text = format!(
            "# {unit} of nodebase factor: what all renderings of it share; what differs is in /usr/lib/nodebase/layers.\n"
        );
        let mut section = "";
        for (s, key, value) in assignments {
            if s != section {
                let _ = writeln!(text, "{}[{s}]", if section.is_empty() { "" } else { "\n" });
                section = s;
            }
            let _ = writeln!(text, "{key}={value}");
        }
        file(format!("{UNITS}/{unit}"), text.into_bytes(), 0o644);
    }
    for ((unit, name), text) in &f.dropins {
        file(format!("{UNITS}/{unit}.d/{name}"), text.clone().into_bytes(), 0o644);
    }
    let mut state = String::new();
    for (path, own) in &f.files {
        if own.state {
            let _ = writeln!(state, "C {path} {:04o} root root - /usr/share/factory{path}", own.mode);
            file(format!("/usr/share/factory{path}"), own.bytes.clone(), own.mode);
        } else {
            file(path.clone(), own.bytes.clone(), own.mode);
        }
    }
    if !state.is_empty() {
        file("/usr/lib/tmpfiles.d/nodebase-factor.conf".into(), state.into_bytes(), 0o644);
    }
    let mut links = BTreeMap::new();
    for (place, variants) in &f.variants {
        for (digest, own) in variants {
            file(format!("{VARIANTS}/{digest}{place}"), own.bytes.clone(), own.mode);
        }
        if let Some(path) = place.strip_prefix("/run/nodebase/files") {
            links.insert(path.to_owned(), place.clone());
        }
    }
    for (name, layer) in &f.layers {
        let base = format!("/usr/lib/nodebase/layers/{name}");
        for (path, text) in &layer.dropins {
            file(format!("{base}/{path}"), text.clone().into_bytes(), 0o644);
        }
        if !layer.files.is_empty() {
            let list = format!("{LISTS}/{name}.conf");
            let lines = layer.files.iter().fold(String::new(), |mut out, (place, digest)| {
                let _ = writeln!(out, "L {place} - - - - {VARIANTS}/{digest}{place}");
                out
            });
            file(list.clone(), lines.into_bytes(), 0o644);
            let text = format!(
                "# Layer {name} of nodebase factor.\n[Service]\nExecStart=/usr/bin/systemd-tmpfiles --create {list}\n"
            );
            file(format!("{base}/{FILES_UNIT}.d/12-files-{}.conf", slug(name)), text.into_bytes(), 0o644);
        }
        for path in &layer.links {
            let target = format!("{UNITS}/{}", path.rsplit('/').next().unwrap_or_default());
            links.insert(format!("{base}/{path}"), target);
        }
    }
    file("/usr/lib/nodebase/layers/README".into(), b"Written by nodebase factor.\n".to_vec(), 0o644);
    if !f.variants.is_empty() {
        file(format!("{UNITS}/{FILES_UNIT}"), files_unit(f).into_bytes(), 0o644);
        links.insert(format!("{UNITS}/sysinit.target.wants/{FILES_UNIT}"), format!("../{FILES_UNIT}"));
    }
    let map = serde_json::to_vec_pretty(&f.environment).unwrap_or_default();
    file("/usr/lib/nodebase/environment.json".into(), map, 0o644);
    if !f.presets.is_empty() {
        let text = f.presets.iter().fold(String::new(), |out, u| out + "enable " + u + "\n");
        file("/usr/lib/systemd/system-preset/10-nodebase-factor.preset".into(), text.into_bytes(), 0o644);
    }
    links.extend(f.links.iter().map(|(path, target)| (format!("{UNITS}/{path}"), target.clone())));
    for (path, target) in links {
        out.insert(path, Entry { node: Node::Link(target), from: "nodebase factor".into(), replaces: false });
    }
    out
}

fn files_unit(f: &Factored) -> String {
    let places: Vec<&str> = f.variants.keys().map(String::as_str).collect();
    format!(
        "[Unit]
Description=Put this machine's variants of configuration files in place
Documentation=man:nodebase(1)
# Before anything reads them.
DefaultDependencies=no
Conflicts=shutdown.target
After=local-fs.target
Before=sysinit.target shutdown.target
RequiresMountsFor=/etc /var

[Service]
Type=oneshot
RemainAfterExit=yes
# Only links of ours go: a file that somebody put there stays, and wins.
ExecStart=-/usr/bin/find {} -maxdepth 0 -lname {VARIANTS}/* -delete
",
        places.join(" ")
    )
}
