// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From configs to a tree.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Result, bail};
use ignition_config::v3_6::{NodeGroup, NodeUser, Passwd, Unit};
use nodebase_generator::layer::is_unit_name;

use super::install::install;
use super::place::{Place, place};
use super::rewrite::rewrite;
use super::secret::secret;
use super::tree::{Entry, Node, Tree, existing, resolve};
use super::{Report, Row};
use crate::config::{Source, resource};
use crate::unit::words;

const UNITS: &str = "/usr/lib/systemd/system";
const ETC_UNITS: &str = "/etc/systemd/system";
const PRESET: &str = "/usr/lib/systemd/system-preset/10-nodebase-bake.preset";
const TMPFILES: &str = "/usr/lib/tmpfiles.d/nodebase-bake.conf";
const SYSUSERS: &str = "/usr/lib/sysusers.d/nodebase-bake.conf";
const KARGS: &str = "/usr/lib/bootc/kargs.d/10-nodebase-bake.toml";
const KARGS_KEY: &str = "kargs = ";
const FACTORY: &str = "/usr/share/factory";

/// What is allowed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// The last one wins.
    pub replace: bool,
    /// Secrets may go into the image.
    pub allow_secrets: bool,
    /// Remote sources are fetched.
    pub fetch: bool,
}

/// The result.
#[derive(Clone, Debug, Default)]
pub struct Baked {
    /// What to write.
    pub tree: Tree,
    /// What to say.
    pub report: Report,
}

/// Works out the tree for a root.
///
/// # Errors
/// One error with everything that an image cannot hold, all conflicts and all secrets.
pub fn plan(root: &Path, sources: &[Source], options: Options) -> Result<Baked> {
    let local = root.join("usr/local");
    let mut planner = Planner {
        root,
        options,
        local_is_state: local.is_symlink(),
        moves: BTreeMap::new(),
        out: Baked::default(),
        errors: Vec::new(),
        tmpfiles: BTreeSet::new(),
        sysusers: BTreeSet::new(),
        preset: BTreeMap::new(),
        kargs: Vec::new(),
        enable: Vec::new(),
    };
    planner.find_moves(sources);
    for source in sources {
        planner.take(source);
    }
    planner.enable_all();
    planner.finish();
    if planner.errors.is_empty() {
        return Ok(planner.out);
    }
    planner.errors.dedup();
    bail!("nothing was written, for {} reasons:\n  {}", planner.errors.len(), planner.errors.join("\n  "))
}

struct Planner<'a> {
    root: &'a Path,
    options: Options,
    local_is_state: bool,
    moves: BTreeMap<String, String>,
    out: Baked,
    errors: Vec<String>,
    tmpfiles: BTreeSet<String>,
    sysusers: BTreeSet<String>,
    preset: BTreeMap<String, bool>,
    kargs: Vec<String>,
    /// Units to enable with the input that asks for it.
    enable: Vec<(String, String)>,
}

impl Planner<'_> {
    fn find_moves(&mut self, sources: &[Source]) {
        let mut paths = Vec::new();
        for source in sources {
            if let Some(storage) = &source.ignition.storage {
                paths.extend(storage.files.iter().flatten().map(|f| f.path.clone()));
                paths.extend(storage.directories.iter().flatten().map(|f| f.path.clone()));
                paths.extend(storage.links.iter().flatten().map(|f| f.path.clone()));
            }
            for unit in source.ignition.systemd.iter().flat_map(|s| s.units.iter().flatten()) {
                paths.push(format!("{ETC_UNITS}/{}", unit.name));
                for dropin in unit.dropins.iter().flatten() {
                    paths.push(format!("{ETC_UNITS}/{}.d/{}", unit.name, dropin.name));
                }
            }
        }
        for path in paths {
            if let Place::At(to) = place(&path, self.local_is_state)
                && to != path
            {
                self.moves.insert(path, to);
            }
        }
    }

    fn take(&mut self, source: &Source) {
        let from = &source.name;
        let config = &source.ignition;
        self.errors
            .extend(source.machine.unsupported.iter().map(|what| format!("{from}: {what}: not a file of the image")));
        self.kargs.extend(source.machine.kernel_arguments.iter().cloned());
        if let Some(kargs) = &config.kernel_arguments {
            self.kargs.extend(kargs.should_exist.iter().flatten().map(ToString::to_string));
            for karg in kargs.should_not_exist.iter().flatten() {
                self.errors.push(format!("{from}: kernelArguments.shouldNotExist: {karg}: kargs.d can only add"));
            }
        }
        let merge = config.ignition.config.as_ref();
        if merge.is_some_and(|m| {
            m.replace.as_ref().is_some_and(|r| r.source.is_some()) || m.merge.iter().flatten().next().is_some()
        }) {
            self.errors.push(format!(
                "{from}: ignition.config: merge and replace are not followed: give those configs as inputs"
            ));
        }
        if let Some(storage) = &config.storage {
            for (key, count) in [
                ("disks", storage.disks.iter().flatten().count()),
                ("raid", storage.raid.iter().flatten().count()),
                ("filesystems", storage.filesystems.iter().flatten().count()),
                ("luks", storage.luks.iter().flatten().count()),
            ] {
                if count > 0 {
                    self.errors
                        .push(format!("{from}: storage.{key}: a machine's disks are no part of an image ({count})"));
                }
            }
            for d in storage.directories.iter().flatten() {
                let mode = mode(d.mode, 0o755);
                self.node(&d.path, Node::Directory(mode), from, d.user.as_ref(), d.group.as_ref());
            }
            for f in storage.files.iter().flatten() {
                self.file(f, from);
            }
            for l in storage.links.iter().flatten() {
                if l.hard == Some(true) {
                    self.errors.push(format!("{from}: storage.links: {}: hard links are not supported", l.path));
                    continue;
                }
                let target = l.target.clone().unwrap_or_default();
                let target = self.moves.get(&target).cloned().unwrap_or(target);
                self.node(&l.path, Node::Link(target), from, l.user.as_ref(), l.group.as_ref());
            }
        }
        if let Some(passwd) = &config.passwd {
            self.passwd(passwd, from);
        }
        for unit in config.systemd.iter().flat_map(|s| s.units.iter().flatten()) {
            self.unit(unit, from);
        }
    }

    fn file(&mut self, file: &ignition_config::v3_6::File, from: &str) {
        if file.append.iter().flatten().next().is_some() {
            self.errors
                .push(format!("{from}: storage.files: {}: append is not supported: give the whole content", file.path));
            return;
        }
        let bytes = match file.contents.as_ref().map(|c| resource(c, self.options.fetch)) {
            None => Vec::new(),
            Some(Ok(bytes)) => bytes,
            Some(Err(e)) => {
                self.errors.push(format!("{from}: storage.files: {}: {e:#}", file.path));
                return;
            }
        };
        self.node(&file.path, Node::File(bytes, mode(file.mode, 0o644)), from, file.user.as_ref(), file.group.as_ref());
    }

    fn node(&mut self, path: &str, mut node: Node, from: &str, user: Option<&NodeUser>, group: Option<&NodeGroup>) {
        let owner = |id: Option<i64>, name: Option<&String>| match (id, name) {
            (Some(id), _) => id.to_string(),
            (None, Some(name)) if !name.is_empty() => name.clone(),
            _ => "root".to_owned(),
        };
        let user = owner(user.and_then(|u| u.id), user.and_then(|u| u.name.as_ref()));
        let group = owner(group.and_then(|g| g.id), group.and_then(|g| g.name.as_ref()));
        let rootly = |s: &str| s == "root" || s == "0";
        let mut rewritten = Vec::new();
        if let Node::File(bytes, _) = &mut node {
            if let Some(what) = secret(bytes)
                && !self.options.allow_secrets
            {
                self.errors.push(format!("{from}: {path}: is {what}; images are no place for it (--allow-secrets)"));
                return;
            }
            if let Ok(text) = std::str::from_utf8(bytes) {
                let (text, done) = self.rewritten(text, from, path);
                rewritten = done;
                *bytes = text.into_bytes();
            }
        }
        let target = match place(path, self.local_is_state) {
            Place::Nowhere(why) => {
                self.errors.push(format!("{from}: {path}: {why}"));
                return;
            }
            Place::At(target) => {
                if !rootly(&user) || !rootly(&group) {
                    self.errors
                        .push(format!("{from}: {path}: owner {user}:{group}: files of the image belong to root"));
                    return;
                }
                if path.starts_with(ETC_UNITS)
                    && matches!(&node, Node::File(b, _) if b.iter().all(u8::is_ascii_whitespace))
                    && path.contains(".d/")
                {
                    return;
                }
                if let (Node::Link(link), true) = (&node, target != path) {
                    node = Node::Link(moved_link(path, link, self.local_is_state));
                }
                self.add(&target, node, from, false);
                target
            }
            Place::Factory(real) => {
                let stored = format!("{FACTORY}{real}");
                match node {
                    Node::Directory(mode) => {
                        self.tmpfiles.insert(format!("d {} {mode:04o} {user} {group} -", quoted(&real)));
                    }
                    Node::Link(target) => {
                        self.tmpfiles.insert(format!("L {} - - - - {}", quoted(&real), quoted(&target)));
                    }
                    Node::File(bytes, mode) => {
                        self.tmpfiles.insert(format!(
                            "C {} {mode:04o} {user} {group} - {}",
                            quoted(&real),
                            quoted(&stored)
                        ));
                        self.add(&stored, Node::File(bytes, mode), from, false);
                    }
                }
                stored
            }
        };
        self.out.report.rows.push(Row {
            source: path.to_owned(),
            target,
            from: from.to_owned(),
            enabled: None,
            rewritten,
        });
    }

    fn rewritten(&mut self, text: &str, from: &str, path: &str) -> (String, Vec<String>) {
        let r = rewrite(text, &self.moves);
        for (line, word) in r.unsure {
            self.out.report.warnings.push(format!(
                "{from}: {path}: line {line}: {word} is in a directory whose files move, and no input has that very path"
            ));
        }
        (r.text, r.done.into_iter().map(|(line, a, b)| format!("{line}: {a} -> {b}")).collect())
    }

    fn unit(&mut self, unit: &Unit, from: &str) {
        let name = &unit.name;
        if !is_unit_name(name) {
            self.errors.push(format!("{from}: systemd.units: {name:?} is no unit's name"));
            return;
        }
        let path = format!("{UNITS}/{name}");
        let mut row = Row {
            source: format!("{ETC_UNITS}/{name}"),
            target: path.clone(),
            from: from.to_owned(),
            enabled: None,
            rewritten: Vec::new(),
        };
        if unit.mask == Some(true) {
            // Masking is about a unit that somebody else owns.
            self.add(&path, Node::Link("/dev/null".into()), from, true);
            row.enabled = Some("masked".into());
        } else if let Some(text) = unit.contents.as_deref().filter(|t| !t.trim().is_empty()) {
            let (text, done) = self.rewritten(text, from, name);
            row.rewritten = done;
            self.add(&path, Node::File(text.into_bytes(), 0o644), from, false);
        }
        match unit.enabled {
            Some(true) if unit.mask != Some(true) => {
                self.enable.push((name.clone(), from.to_owned()));
                row.enabled = Some("static links".into());
            }
            Some(false) => {
                self.preset.insert(name.clone(), false);
                row.enabled = Some("preset: disabled".into());
            }
            _ => {}
        }
        self.out.report.rows.push(row);
        for dropin in unit.dropins.iter().flatten() {
            let Some(text) = dropin.contents.as_deref().filter(|t| !t.trim().is_empty()) else { continue };
            let source = format!("{ETC_UNITS}/{name}.d/{}", dropin.name);
            let target = format!("{UNITS}/{name}.d/{}", dropin.name);
            let (text, rewritten) = self.rewritten(text, from, &format!("{name}.d/{}", dropin.name));
            self.add(&target, Node::File(text.into_bytes(), 0o644), from, false);
            self.out.report.rows.push(Row { source, target, from: from.to_owned(), enabled: None, rewritten });
        }
    }

    /// Adds a node, or says with what it collides.
    fn add(&mut self, path: &str, node: Node, from: &str, replaces: bool) {
        if let Some(old) = self.out.tree.get(path)
            && old.node != node
            && !self.options.replace
        {
            self.errors.push(format!(
                "{path}: {} and {from} both have it, with different content (--replace takes the last)",
                old.from
            ));
            return;
        }
        self.out.tree.insert(path.to_owned(), Entry { node, from: from.to_owned(), replaces });
    }

    /// The text of a unit: of this tree, else of the image.
    fn text(&mut self, path: &str) -> Option<String> {
        let node = match self.out.tree.get(path) {
            Some(entry) => Some(entry.node.clone()),
            None => existing(self.root, path).unwrap_or_else(|e| {
                self.errors.push(format!("{e:#}"));
                None
            }),
        };
        match node {
            Some(Node::File(bytes, _)) => String::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    fn enable_all(&mut self) {
        let mut seen = BTreeSet::new();
        let mut todo = std::mem::take(&mut self.enable);
        todo.reverse();
        while let Some((unit, from)) = todo.pop() {
            if !seen.insert(unit.clone()) {
                continue;
            }
            let fragment = nodebase_generator::layer::template_of(&unit);
            let text = self.text(&format!("{UNITS}/{unit}")).or_else(|| self.text(&format!("{UNITS}/{}", fragment?)));
            let Some(text) = text else {
                self.preset.insert(unit.clone(), true);
                self.out.report.warnings.push(format!(
                    "{from}: {unit} is to be enabled, but neither an input nor the image has it: only a preset line was written"
                ));
                continue;
            };
            let mut texts = vec![text];
            let prefix = format!("{UNITS}/{unit}.d/");
            let own: Vec<String> = self.out.tree.keys().filter(|p| p.starts_with(&prefix)).cloned().collect();
            texts.extend(own.iter().filter_map(|p| self.text(p)));
            match install(&unit, &texts.iter().map(String::as_str).collect::<Vec<_>>()) {
                Err(e) => self.errors.push(format!("{from}: {e}")),
                Ok(i) if i.links.is_empty() && i.also.is_empty() => self.out.report.warnings.push(format!(
                    "{from}: {unit} is to be enabled, but its [Install] section names no target: it only runs when another unit asks for it"
                )),
                Ok(i) => {
                    if i.links.iter().any(|l| l.path.contains(".upholds/")) {
                        self.out.report.warnings.push(format!(
                            "{from}: {unit}: UpheldBy= needs systemd 254: older ones do not look at .upholds directories"
                        ));
                    }
                    for link in i.links {
                        self.add(&format!("{UNITS}/{}", link.path), Node::Link(link.target), &from, false);
                    }
                    todo.extend(i.also.into_iter().map(|u| (u, from.clone())));
                }
            }
        }
    }

    fn passwd(&mut self, passwd: &Passwd, from: &str) {
        for group in passwd.groups.iter().flatten() {
            if group.password_hash.is_some() || group.should_exist == Some(false) {
                self.errors.push(format!(
                    "{from}: passwd.groups: {}: sysusers.d knows no passwordHash and no shouldExist: false",
                    group.name
                ));
                continue;
            }
            let id = group.gid.map_or("-".to_owned(), |g| g.to_string());
            self.sysusers.insert(format!("g {} {id}", group.name));
        }
        for user in passwd.users.iter().flatten() {
            let name = &user.name;
            if user.password_hash.is_some() || user.should_exist == Some(false) {
                self.errors.push(format!(
                    "{from}: passwd.users: {name}: sysusers.d knows no passwordHash and no shouldExist: false"
                ));
                continue;
            }
            let home = user
                .home_dir
                .clone()
                .unwrap_or_else(|| if name == "root" { "/root".into() } else { format!("/var/home/{name}") });
            if name != "root" {
                let id = match (user.uid, &user.primary_group) {
                    (Some(uid), Some(group)) => format!("{uid}:{group}"),
                    (Some(uid), None) => uid.to_string(),
                    (None, Some(group)) => format!("-:{group}"),
                    (None, None) => "-".to_owned(),
                };
                let gecos = user.gecos.as_deref().map_or("-".to_owned(), quoted);
                let shell = user.shell.as_deref().unwrap_or("/bin/bash");
                self.sysusers.insert(format!("u {name} {id} {gecos} {home} {shell}"));
                if user.no_create_home != Some(true) {
                    self.tmpfiles.insert(format!("d {} 0700 {name} {name} -", quoted(&home)));
                }
            }
            for group in user.groups.iter().flatten() {
                self.sysusers.insert(format!("m {name} {group}"));
            }
            let keys: Vec<&str> = user.ssh_authorized_keys.iter().flatten().map(String::as_str).collect();
            if !keys.is_empty() {
                let real = match place(&home, self.local_is_state) {
                    Place::Factory(real) => real,
                    _ => home.clone(),
                };
                let file = format!("{real}/.ssh/authorized_keys.d/ignition");
                for directory in [format!("{real}/.ssh"), format!("{real}/.ssh/authorized_keys.d")] {
                    self.tmpfiles.insert(format!("d {} 0700 {name} {name} -", quoted(&directory)));
                }
                self.tmpfiles.insert(format!("C {} 0600 {name} {name} - {FACTORY}{file}", quoted(&file)));
                let text = keys.join("\n") + "\n";
                self.add(&format!("{FACTORY}{file}"), Node::File(text.into_bytes(), 0o600), from, false);
            }
        }
    }

    /// Takes over what an earlier bake wrote into the lists that all bakes share.
    fn add_to_earlier(&mut self) {
        let earlier = |planner: &mut Self, path: &str| -> Vec<String> {
            let text = planner.text(path).unwrap_or_default();
            text.lines().filter(|l| !l.starts_with('#') && !l.is_empty()).map(str::to_owned).collect()
        };
        // A user may be in several groups; everything else is there once.
        let name = |line: &str| match &words::split(line)[..] {
            [kind, user, group, ..] if kind == "m" => format!("m {user} {group}"),
            [kind, name, ..] if kind == "u" || kind == "g" => format!("{kind} {name}"),
            [_, path, ..] => path.clone(),
            _ => line.to_owned(),
        };
        for (path, sysusers) in [(TMPFILES, false), (SYSUSERS, true)] {
            for old in earlier(self, path) {
                let own = if sysusers { &mut self.sysusers } else { &mut self.tmpfiles };
                match own.iter().find(|new| name(new) == name(&old)).cloned() {
                    None => {
                        own.insert(old);
                    }
                    Some(new) if new != old && !self.options.replace => self.errors.push(format!(
                        "{path}: an earlier bake wrote {old:?}, this one would write {new:?} (--replace takes the last)"
                    )),
                    Some(_) => {}
                }
            }
        }
        for old in earlier(self, PRESET) {
            let Some((how, unit)) = old.split_once(' ') else { continue };
            let on = how == "enable";
            if *self.preset.entry(unit.to_owned()).or_insert(on) != on && !self.options.replace {
                self.errors.push(format!("{PRESET}: an earlier bake says \"{old}\" (--replace takes the last)"));
            }
        }
        let old = earlier(self, KARGS).iter().find_map(|l| l.strip_prefix(KARGS_KEY).map(str::to_owned));
        if let Some(old) = old {
            match serde_json::from_str::<Vec<String>>(&old) {
                Ok(mut all) => {
                    // An argument may be there twice (console=): what is more than before is added.
                    let mut known = all.clone();
                    for karg in std::mem::take(&mut self.kargs) {
                        match known.iter().position(|k| *k == karg) {
                            Some(at) => drop(known.swap_remove(at)),
                            None => all.push(karg),
                        }
                    }
                    self.kargs = all;
                }
                Err(e) => {
                    self.errors.push(format!("{KARGS}: {KARGS_KEY}: not the list that an earlier bake wrote: {e}"));
                }
            }
        }
    }

    fn finish(&mut self) {
        let own = "nodebase bake";
        let head = "# Written by nodebase bake.\n";
        let lines = |set: &BTreeSet<String>| set.iter().fold(head.to_owned(), |out, l| out + l + "\n");
        self.add_to_earlier();
        if !self.tmpfiles.is_empty() {
            self.add(TMPFILES, Node::File(lines(&self.tmpfiles).into_bytes(), 0o644), own, true);
        }
        if !self.sysusers.is_empty() {
            self.add(SYSUSERS, Node::File(lines(&self.sysusers).into_bytes(), 0o644), own, true);
        }
        if !self.preset.is_empty() {
            let mut text = head.to_owned();
            for (unit, on) in &self.preset {
                let _ = writeln!(text, "{} {unit}", if *on { "enable" } else { "disable" });
            }
            self.add(PRESET, Node::File(text.into_bytes(), 0o644), own, true);
        }
        if !self.kargs.is_empty() {
            // A JSON string is a basic string of TOML.
            let list: Vec<String> =
                self.kargs.iter().map(|k| serde_json::Value::from(k.as_str()).to_string()).collect();
            let text = format!("{head}{KARGS_KEY}[{}]\n", list.join(", "));
            self.add(KARGS, Node::File(text.into_bytes(), 0o644), own, true);
        }
        let mut owned = Vec::new();
        for (path, entry) in &self.out.tree {
            match existing(self.root, path) {
                Err(e) => owned.push(format!("{path}: {e:#}")),
                Ok(Some(Node::Directory(_))) if matches!(entry.node, Node::Directory(_)) => {}
                Ok(Some(there)) if there != entry.node => {
                    let place = resolve(self.root, path).map_or(path.clone(), |p| p.display().to_string());
                    if matches!(there, Node::Directory(_)) {
                        owned.push(format!("{path}: {} has it, and {place} is a directory", entry.from));
                    } else if !entry.replaces && !self.options.replace {
                        owned.push(format!("{path}: {} and the image ({place}) both have it, with different content (--replace takes the input's)", entry.from));
                    }
                }
                Ok(_) => {}
            }
        }
        self.errors.extend(owned);
        let names: Vec<&String> =
            self.out.tree.iter().filter(|(_, e)| !matches!(e.node, Node::Directory(_))).map(|(p, _)| p).collect();
        for pair in names.windows(2) {
            if pair[1].starts_with(&format!("{}/", pair[0])) {
                self.errors.push(format!("{}: is below {}, which is no directory", pair[1], pair[0]));
            }
        }
    }
}

fn mode(mode: Option<i64>, default: u32) -> u32 {
    mode.and_then(|m| u32::try_from(m).ok()).map_or(default, |m| m & 0o7777)
}

/// A relative link that moves leads from its new place to where its target is now.
fn moved_link(path: &str, link: &str, local_is_state: bool) -> String {
    let absolute = if link.starts_with('/') {
        link.to_owned()
    } else {
        let mut parts: Vec<&str> = path.split('/').collect();
        parts.pop();
        for part in link.split('/') {
            match part {
                ".." => {
                    parts.pop();
                }
                "" | "." => {}
                part => parts.push(part),
            }
        }
        parts.join("/")
    };
    match place(&absolute, local_is_state) {
        Place::At(to) => to,
        _ => absolute,
    }
}

/// A path as tmpfiles.d takes it: quoted where it must be, specifiers escaped.
fn quoted(text: &str) -> String {
    let text = text.replace('%', "%%");
    if text.chars().any(|c| c.is_whitespace() || matches!(c, '"' | '\'' | '\\')) {
        format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
    } else {
        text
    }
}
