// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A tree to be written into a root, in full or not at all.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps};

/// What a path is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// A file with its permissions.
    File(Vec<u8>, u32),
    /// A symbolic link.
    Link(String),
    /// A directory with its permissions.
    Directory(u32),
}

/// A node with the input that asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it is to be.
    pub node: Node,
    /// The input's name.
    pub from: String,
    /// It may replace what the root has.
    pub replaces: bool,
}

/// Absolute paths, as the booted system sees them.
pub type Tree = BTreeMap<String, Entry>;

/// Where a path is on this machine: links among the parents are followed inside the root.
///
/// # Errors
/// A loop of links, a parent that is no directory.
pub fn resolve(root: &Path, path: &str) -> Result<PathBuf> {
    let mut todo: Vec<String> = path.split('/').filter(|p| !p.is_empty()).rev().map(str::to_owned).collect();
    let mut at = PathBuf::new();
    let mut links = 0;
    while let Some(part) = todo.pop() {
        if part == ".." {
            at.pop();
            continue;
        }
        let next = at.join(&part);
        let here = root.join(&next);
        if !todo.is_empty() && here.is_symlink() {
            links += 1;
            if links > 40 {
                bail!("{path}: too many levels of symbolic links below {}", root.display());
            }
            let target = fs::read_link(&here).with_context(|| format!("reading the link {}", here.display()))?;
            if target.is_absolute() {
                at = PathBuf::new();
            }
            todo.extend(
                target.to_string_lossy().split('/').filter(|p| !p.is_empty() && *p != ".").rev().map(str::to_owned),
            );
            continue;
        }
        at = next;
    }
    Ok(root.join(at))
}

/// What a root has at a path.
///
/// # Errors
/// When it is there and cannot be read.
pub fn existing(root: &Path, path: &str) -> Result<Option<Node>> {
    let here = resolve(root, path)?;
    let meta = match fs::symlink_metadata(&here) {
        Ok(meta) => meta,
        Err(e) if matches!(e.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(e) => return Err(e).with_context(|| format!("looking at {}", here.display())),
    };
    let mode = meta.mode() & 0o7777;
    Ok(Some(if meta.is_symlink() {
        Node::Link(fs::read_link(&here)?.to_string_lossy().into_owned())
    } else if meta.is_dir() {
        Node::Directory(mode)
    } else {
        Node::File(fs::read(&here).with_context(|| format!("reading {}", here.display()))?, mode)
    }))
}

/// Writes the tree: everything is prepared in a directory beside its place, then renamed; a failure half-way puts
/// everything back. `epoch` is the modification time in seconds.
///
/// # Errors
/// When anything cannot be written; the root is then as it was.
pub fn write(root: &Path, tree: &Tree, epoch: i64) -> Result<()> {
    fs::create_dir_all(root).with_context(|| format!("creating {}", root.display()))?;
    let staging = tempfile::Builder::new()
        .prefix(".nodebase-")
        .tempdir_in(root)
        .with_context(|| format!("creating a staging directory in {}", root.display()))?;
    let mut jobs = Vec::new();
    for (i, (path, entry)) in tree.iter().enumerate() {
        let place = resolve(root, path)?;
        if existing(root, path)?.as_ref() == Some(&entry.node) {
            continue;
        }
        let staged = staging.path().join(format!("new-{i}"));
        match &entry.node {
            Node::File(bytes, mode) => {
                fs::write(&staged, bytes).with_context(|| format!("staging {path}"))?;
                fs::set_permissions(&staged, fs::Permissions::from_mode(*mode))?;
            }
            Node::Link(target) => symlink(target, &staged).with_context(|| format!("staging {path}"))?,
            Node::Directory(mode) => {
                fs::create_dir(&staged).with_context(|| format!("staging {path}"))?;
                fs::set_permissions(&staged, fs::Permissions::from_mode(*mode))?;
            }
        }
        stamp(&staged, epoch)?;
        jobs.push((path, entry, staged, place, staging.path().join(format!("old-{i}"))));
    }
    let mut undo: Vec<Undo> = Vec::new();
    let mut result = Ok(());
    for (path, entry, staged, place, backup) in &jobs {
        result = put(root, entry, staged, place, backup, &mut undo).with_context(|| format!("writing {path}"));
        if result.is_err() {
            break;
        }
    }
    if result.is_err() {
        for step in undo.into_iter().rev() {
            step.undo();
        }
        return result;
    }
    // Directories get their time last: what was put into them changed it.
    for directory in undo.iter().filter_map(|u| if let Undo::Made(d) = u { Some(d) } else { None }) {
        if fs::symlink_metadata(directory).is_ok_and(|m| m.is_dir()) {
            stamp(directory, epoch)?;
        }
    }
    Ok(())
}

enum Undo {
    Made(PathBuf),
    Saved(PathBuf, PathBuf),
    Mode(PathBuf, u32),
}

impl Undo {
    /// Best effort: the first error is what gets reported.
    fn undo(self) {
        let _ = match self {
            Self::Made(path) => match fs::symlink_metadata(&path) {
                Ok(meta) if meta.is_dir() => fs::remove_dir(&path),
                _ => fs::remove_file(&path),
            },
            Self::Saved(backup, place) => fs::rename(backup, place),
            Self::Mode(path, mode) => fs::set_permissions(path, fs::Permissions::from_mode(mode)),
        };
    }
}

fn put(root: &Path, entry: &Entry, staged: &Path, place: &Path, backup: &Path, undo: &mut Vec<Undo>) -> Result<()> {
    if let Some(parent) = place.parent() {
        make_directories(root, parent, undo)?;
    }
    if let Ok(meta) = fs::symlink_metadata(place) {
        match &entry.node {
            Node::Directory(mode) if meta.is_dir() => {
                undo.push(Undo::Mode(place.to_owned(), meta.mode() & 0o7777));
                fs::set_permissions(place, fs::Permissions::from_mode(*mode))?;
                return Ok(());
            }
            _ if meta.is_dir() => bail!("a directory is in the way"),
            _ => {
                fs::rename(place, backup)?;
                undo.push(Undo::Saved(backup.to_owned(), place.to_owned()));
            }
        }
    }
    fs::rename(staged, place)?;
    undo.push(Undo::Made(place.to_owned()));
    Ok(())
}

fn make_directories(root: &Path, directory: &Path, undo: &mut Vec<Undo>) -> Result<()> {
    if directory.is_dir() || directory == root {
        return Ok(());
    }
    if let Some(parent) = directory.parent() {
        make_directories(root, parent, undo)?;
    }
    fs::create_dir(directory).with_context(|| format!("creating {}", directory.display()))?;
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755))?;
    undo.push(Undo::Made(directory.to_owned()));
    Ok(())
}

fn stamp(path: &Path, epoch: i64) -> Result<()> {
    let time = Timespec { tv_sec: epoch, tv_nsec: 0 };
    let times = Timestamps { last_access: time, last_modification: time };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)
        .with_context(|| format!("setting the time of {}", path.display()))
}

/// The modification time to use: `SOURCE_DATE_EPOCH`, else 0 as ostree does.
///
/// # Errors
/// When the variable is no number.
pub fn epoch() -> Result<i64> {
    match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(text) => text.parse().with_context(|| format!("SOURCE_DATE_EPOCH={text}: no number of seconds")),
        Err(_) => Ok(0),
    }
}
