// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `node.env`: an environment file that several units write, each its own keys, at the same time.

use anyhow::{Context as _, Result, bail};
use rustix::fs::{FlockOperation, flock};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Kubelet's environment file, below the root.
pub const RUN: &str = "run/nodebase/node.env";
/// What must survive a reboot, below the root.
pub const STATE: &str = "var/lib/nodebase/node.env";
/// Where OpenShift's own units kept it, below the root. Only read: a node that joined under a name keeps it.
pub const LEGACY: &str = "etc/kubernetes/node.env";

/// First line of the files written here.
const HEADER: &str = "# Written by node-identity; changes are kept until its next run.\n";

/// Parses `KEY=value` lines as systemd's EnvironmentFile= reads them, as far as such files go: comments, blank
/// lines, single or double quotes around the whole value. Other lines are ignored.
pub fn parse(text: &str) -> BTreeMap<String, String> {
    text.lines()
        .map(str::trim)
        .filter(|line| !line.starts_with(['#', ';']))
        .filter_map(|line| line.split_once('='))
        .map(|(key, value)| (key.trim().to_owned(), unquote(value.trim()).to_owned()))
        .collect()
}

fn unquote(value: &str) -> &str {
    ['"', '\'']
        .iter()
        .find_map(|quote| value.strip_prefix(*quote).and_then(|rest| rest.strip_suffix(*quote)))
        .unwrap_or(value)
}

/// Reads one file; an absent one is empty.
///
/// # Errors
/// The file exists and cannot be read.
pub fn read(path: &Path) -> Result<BTreeMap<String, String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(parse(&text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(BTreeMap::new()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// Sets keys in `path`, leaves the others, and replaces the file in one step. Writers exclude each other by a lock
/// on a file beside it, as the file itself is replaced.
///
/// # Errors
/// A value that would need quoting, or the file cannot be written; both name file and key.
pub fn merge(path: &Path, entries: &[(&str, &str)]) -> Result<()> {
    for (key, value) in entries {
        if let Some(c) = value.chars().find(|c| !(c.is_ascii_alphanumeric() || "._-~+:/=@,()".contains(*c))) {
            bail!("{}: {key}: the value {value:?} holds {c:?}, which is not written", path.display());
        }
    }
    let directory = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    let lock_path = path.with_extension("env.lock");
    let lock = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(&lock_path)
        .with_context(|| format!("cannot open {}", lock_path.display()))?;
    flock(&lock, FlockOperation::LockExclusive).with_context(|| format!("cannot lock {}", lock_path.display()))?;

    let mut all = read(path)?;
    all.extend(entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
    let mut text = HEADER.to_owned();
    for (key, value) in &all {
        // Keys of other writers keep their value, but what cannot be written bare is not ours to quote.
        if value.chars().any(|c| c.is_whitespace() || "\"'\\$`".contains(c)) {
            bail!("{}: {key}: the value in the file needs quoting; remove that line", path.display());
        }
        text.extend([key.as_str(), "=", value.as_str(), "\n"]);
    }
    let temporary = path.with_extension("env.new");
    write_synced(&temporary, &text)
        .and_then(|()| fs::rename(&temporary, path))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Writes a small file in one step: temporary file beside it, fsync, rename.
///
/// # Errors
/// The directory or the file cannot be written.
pub fn replace(path: &Path, text: &str) -> Result<()> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    let temporary = path.with_extension("new");
    write_synced(&temporary, text)
        .and_then(|()| fs::rename(&temporary, path))
        .with_context(|| format!("cannot write {}", path.display()))
}

fn write_synced(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file: File = OpenOptions::new().create(true).write(true).truncate(true).mode(0o644).open(path)?;
    file.write_all(text.as_bytes())?;
    // /var is on a disk: without this a power cut can leave an empty file behind the rename.
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn parses_what_systemd_reads() {
        let got = parse("# c\n; c\n\nA=1\n B = 2 \nC=\"x y\"\nD='z'\nE=\nnot a line\nF=a=b\nA=3\n");
        let want = [("A", "3"), ("B", "2"), ("C", "x y"), ("D", "z"), ("E", ""), ("F", "a=b")];
        assert_eq!(got.len(), want.len());
        for (key, value) in want {
            assert_eq!(got.get(key).map(String::as_str), Some(value), "{key}");
        }
    }

    #[test]
    fn writers_do_not_lose_each_others_keys() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run/nodebase/node.env");
        thread::scope(|scope| {
            for n in 0..8 {
                let path = &path;
                scope.spawn(move || {
                    for round in 0..20 {
                        merge(path, &[(&format!("KEY{n}"), &format!("v{round}"))]).unwrap();
                    }
                });
            }
        });
        let all = read(&path).unwrap();
        assert_eq!(all.len(), 8);
        assert!(all.values().all(|value| value == "v19"), "{all:?}");
        assert!(!path.with_extension("env.new").exists());
    }

    #[test]
    fn refuses_what_would_need_quoting() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("node.env");
        for bad in ["a b", "a\nKUBELET_PROVIDERID=x", "$(id)", "a\"", "é", "%n"] {
            let error = merge(&path, &[("KUBELET_NODE_NAME", bad)]).unwrap_err();
            assert!(error.to_string().contains("KUBELET_NODE_NAME"), "{error}");
        }
        assert!(!path.exists());
    }
}
