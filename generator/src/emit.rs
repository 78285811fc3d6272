// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes a plan into a generator directory: links first, the marker last.
//!
//! Everything goes through directory handles that were opened without following links, so that a link planted in
//! the output leads nowhere else.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

use crate::paths;
use crate::plan::Plan;

/// Something that could not be written: the path below the generator directory and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The path.
    pub path: String,
    /// The reason.
    pub why: String,
}

/// Writes `plan` below `normal`. The marker is written only when nothing failed and the plan has no problem.
///
/// # Errors
/// The first thing that could not be written; the rest was tried all the same.
pub fn emit(plan: &Plan, normal: &Path) -> Result<(), Failure> {
    let open = retry(|| rustix::fs::openat(CWD, normal, DIRECTORY | OFlags::NOCTTY, Mode::empty()));
    let dir = open.map_err(|e| failure(&normal.to_string_lossy(), e))?;
    let mut output = Output { dir, current: None, first: None };
    // A marker of an earlier run says nothing about this one (systemd empties the directory; other callers may not).
    if let Err(e) = retry(|| rustix::fs::unlinkat(&output.dir, paths::MARKER, AtFlags::empty())) {
        if e != Errno::NOENT {
            output.fail(paths::MARKER, e);
        }
    }
    for link in &plan.links {
        output.link(&link.directory, &link.file, &link.target);
    }
    for file in &plan.files {
        output.file(&file.directory, &file.file, file.mode, &file.text);
    }
    if let Some(problems) = plan.problems() {
        output.file(paths::PRIVATE, paths::PROBLEMS, 0o644, &problems);
    } else if let (None, Some(marker)) = (&output.first, plan.marker()) {
        output.file("", paths::MARKER, 0o644, &marker);
    }
    output.first.map_or(Ok(()), Err)
}

const DIRECTORY: OFlags =
    OFlags::from_bits_retain(OFlags::PATH.bits() | OFlags::DIRECTORY.bits() | OFlags::CLOEXEC.bits());

struct Output {
    dir: OwnedFd,
    /// The directory that was written to last: paths come sorted, so one handle is enough.
    current: Option<(String, OwnedFd)>,
    first: Option<Failure>,
}

impl Output {
    fn fail(&mut self, path: &str, e: Errno) {
        self.first.get_or_insert_with(|| failure(path, e));
    }

    fn link(&mut self, directory: &str, file: &str, target: &str) {
        let result = self.enter(directory).and_then(|dir| match retry(|| rustix::fs::symlinkat(target, dir, file)) {
            // The same link again is fine, somebody else's file is not.
            Err(Errno::EXIST) => match rustix::fs::readlinkat(dir, file, Vec::new()) {
                Ok(old) if old.as_bytes() == target.as_bytes() => Ok(()),
                _ => Err(Errno::EXIST),
            },
            r => r,
        });
        if let Err(e) = result {
            self.fail(&format!("{directory}/{file}"), e);
        }
    }

    fn file(&mut self, directory: &str, file: &str, mode: u32, text: &str) {
        let result = self.enter(directory).and_then(|dir| replace(dir, file, mode, text.as_bytes()));
        if let Err(e) = result {
            self.fail(&format!("{directory}/{file}"), e);
        }
    }

    /// A handle on a directory below the output, made when it is not there; "" is the output itself.
    fn enter(&mut self, directory: &str) -> Result<&OwnedFd, Errno> {
        if directory.is_empty() {
            return Ok(&self.dir);
        }
        if self.current.as_ref().is_none_or(|(name, _)| name != directory) {
            self.current = None;
            match retry(|| rustix::fs::mkdirat(&self.dir, directory, Mode::from_raw_mode(0o755))) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(e) => return Err(e),
            }
            let flags = DIRECTORY | OFlags::NOFOLLOW;
            let fd = retry(|| rustix::fs::openat(&self.dir, directory, flags, Mode::empty()))?;
            self.current = Some((directory.to_owned(), fd));
        }
        self.current.as_ref().map(|(_, fd)| fd).ok_or(Errno::BADF)
    }
}

fn failure(path: &str, e: Errno) -> Failure {
    Failure { path: path.to_owned(), why: std::io::Error::from(e).to_string() }
}

/// Writes a file by way of a temporary one, so that it is there whole or not at all.
fn replace(dir: impl AsFd, name: &str, mode: u32, bytes: &[u8]) -> Result<(), Errno> {
    let dir = dir.as_fd();
    let temporary = format!(".{name}.tmp");
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let create = || retry(|| rustix::fs::openat(dir, temporary.as_str(), flags, Mode::from_raw_mode(mode)));
    let fd = match create() {
        // Left by a run that was killed.
        Err(Errno::EXIST) => {
            retry(|| rustix::fs::unlinkat(dir, temporary.as_str(), AtFlags::empty()))?;
            create()?
        }
        r => r?,
    };
    let result =
        write_all(&fd, bytes).and_then(|()| retry(|| rustix::fs::renameat(dir, temporary.as_str(), dir, name)));
    if result.is_err() {
        // The error is the one to report; what could not be removed is a dot file that systemd does not read.
        let _ = rustix::fs::unlinkat(dir, temporary.as_str(), AtFlags::empty());
    }
    result
}

fn write_all(fd: &OwnedFd, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        let n = retry(|| rustix::io::write(fd, bytes))?;
        bytes = bytes.get(n..).filter(|_| n > 0).ok_or(Errno::IO)?;
    }
    Ok(())
}

/// Tries again when a signal came in between, but not for ever.
fn retry<T>(mut f: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    for _ in 0..16 {
        match f() {
            Err(Errno::INTR) => {}
            r => return r,
        }
    }
    Err(Errno::INTR)
}
