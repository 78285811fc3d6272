// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes a plan into a generator directory: links first, the marker last.
//!
//! Everything goes through directory handles that were opened without following links, so that a link planted in
//! the output leads nowhere else.

use std::borrow::Cow;
use std::os::fd::OwnedFd;
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
    if let Err(e) = retry(|| rustix::fs::unlinkat(&output.dir, paths::MARKER, AtFlags::empty()))
        && e != Errno::NOENT
    {
        output.fail(paths::MARKER, e);
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
    /// The directory that was written to last, with a handle where it was there before. Paths come sorted.
    current: Option<(String, Option<OwnedFd>)>,
    first: Option<Failure>,
}

impl Output {
    fn fail(&mut self, path: &str, e: Errno) {
        self.first.get_or_insert_with(|| failure(path, e));
    }

    fn link(&mut self, directory: &str, file: &str, target: &str) {
        let result = self.enter(directory).and_then(|place| {
            let name = place.name(directory, file);
            match retry(|| rustix::fs::symlinkat(target, place.dir, name.as_ref())) {
                // The same link again is fine, somebody else's file is not.
                Err(Errno::EXIST) => match rustix::fs::readlinkat(place.dir, name.as_ref(), Vec::new()) {
                    Ok(old) if old.as_bytes() == target.as_bytes() => Ok(()),
                    _ => Err(Errno::EXIST),
                },
                r => r,
            }
        });
        if let Err(e) = result {
            self.fail(&format!("{directory}/{file}"), e);
        }
    }

    fn file(&mut self, directory: &str, file: &str, mode: u32, text: &str) {
        let result = self.enter(directory).and_then(|place| {
            let temporary = place.name(directory, &format!(".{file}.tmp")).into_owned();
            replace(place.dir, &temporary, &place.name(directory, file), mode, text.as_bytes())
        });
        if let Err(e) = result {
            self.fail(directory_slash(directory, file).as_ref(), e);
        }
    }

    /// The place of a directory below the output, made when it is not there; "" is the output itself.
    ///
    /// A directory that this run has made is its own, and a path through it is safe. One that was there is opened
    /// without following links, so that a link planted in its place leads nowhere.
    fn enter(&mut self, directory: &str) -> Result<Place<'_>, Errno> {
        if !directory.is_empty() && self.current.as_ref().is_none_or(|(name, _)| name != directory) {
            self.current = None;
            let opened = match retry(|| rustix::fs::mkdirat(&self.dir, directory, Mode::from_raw_mode(0o755))) {
                Ok(()) => None,
                Err(Errno::EXIST) => {
                    let flags = DIRECTORY | OFlags::NOFOLLOW;
                    Some(retry(|| rustix::fs::openat(&self.dir, directory, flags, Mode::empty()))?)
                }
                Err(e) => return Err(e),
            };
            self.current = Some((directory.to_owned(), opened));
        }
        Ok(match &self.current {
            Some((name, Some(fd))) if name == directory => Place { dir: fd, inside: true },
            _ => Place { dir: &self.dir, inside: directory.is_empty() },
        })
    }
}

/// Where a file goes: a handle, and whether it is the file's own directory or the output above it.
#[derive(Clone, Copy)]
struct Place<'a> {
    dir: &'a OwnedFd,
    inside: bool,
}

impl Place<'_> {
    fn name<'n>(self, directory: &str, file: &'n str) -> Cow<'n, str> {
        if self.inside { Cow::Borrowed(file) } else { directory_slash(directory, file) }
    }
}

fn directory_slash<'n>(directory: &str, file: &'n str) -> Cow<'n, str> {
    if directory.is_empty() { Cow::Borrowed(file) } else { Cow::Owned(format!("{directory}/{file}")) }
}

fn failure(path: &str, e: Errno) -> Failure {
    Failure { path: path.to_owned(), why: std::io::Error::from(e).to_string() }
}

/// Writes a file by way of a temporary one, so that it is there whole or not at all.
fn replace(dir: &OwnedFd, temporary: &str, name: &str, mode: u32, bytes: &[u8]) -> Result<(), Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let create = || retry(|| rustix::fs::openat(dir, temporary, flags, Mode::from_raw_mode(mode)));
    let fd = match create() {
        // Left by a run that was killed.
        Err(Errno::EXIST) => {
            retry(|| rustix::fs::unlinkat(dir, temporary, AtFlags::empty()))?;
            create()?
        }
        r => r?,
    };
    let result = write_all(&fd, bytes).and_then(|()| retry(|| rustix::fs::renameat(dir, temporary, dir, name)));
    if result.is_err() {
        // The error is the one to report; what could not be removed is a dot file that systemd does not read.
        let _ = rustix::fs::unlinkat(dir, temporary, AtFlags::empty());
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
