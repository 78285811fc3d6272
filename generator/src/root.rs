// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bounded reading below a root directory.
//!
//! With a root other than `/` (tests, image builds) paths are resolved inside it, absolute symbolic links too
//! (`openat2(2)`, `RESOLVE_IN_ROOT`): an image's links never lead to the build machine.

use std::cell::Cell;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, ResolveFlags};
use rustix::io::Errno;

/// More than this is no command line, table or facts file.
pub const LIMIT: u64 = 4 << 20;

/// Where everything is read from.
#[derive(Debug)]
pub struct Root {
    /// `None` is `/`.
    dir: Option<(OwnedFd, PathBuf)>,
    /// How many more handles may be left to the kernel to close.
    leave_open: Cell<u32>,
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// The name; one that is not UTF-8 is given with replacement characters and `odd` set.
    pub name: String,
    /// What it is; `Unknown` where the file system does not say.
    pub kind: Kind,
    /// The name is not UTF-8.
    pub odd: bool,
}

/// What a directory entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A directory.
    Directory,
    /// A regular file.
    File,
    /// A symbolic link.
    Link,
    /// Anything else.
    Other,
}

impl Root {
    /// The root of the running system.
    pub fn system() -> Self {
        Self { dir: None, leave_open: Cell::new(0) }
    }

    /// The tree below `path`.
    pub fn at(path: &Path) -> io::Result<Self> {
        if path == Path::new("/") {
            return Ok(Self::system());
        }
        let fd = rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { dir: Some((fd, path.to_owned())), leave_open: Cell::new(0) })
    }

    /// For a process that is about to end: the kernel closes everything then, and closing one by one would be a
    /// quarter of the generator's system calls. At most `handles` are left open.
    #[must_use]
    pub fn leaving_open(self, handles: u32) -> Self {
        self.leave_open.set(handles);
        self
    }

    fn done(&self, fd: OwnedFd) {
        if let Some(left) = self.leave_open.get().checked_sub(1) {
            self.leave_open.set(left);
            let _ = fd.into_raw_fd();
        }
    }

    /// The root's own path.
    pub fn path(&self) -> &Path {
        self.dir.as_ref().map_or(Path::new("/"), |(_, p)| p)
    }

    /// Is it the running system's?
    pub fn is_system(&self) -> bool {
        self.dir.is_none()
    }

    fn open(&self, path: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let flags = flags | OFlags::CLOEXEC;
        let Some((dir, _)) = &self.dir else {
            return rustix::fs::openat(CWD, path, flags, Mode::empty());
        };
        let relative = path.trim_start_matches('/');
        let relative = if relative.is_empty() { "." } else { relative };
        rustix::fs::openat2(dir, relative, flags, Mode::empty(), ResolveFlags::IN_ROOT)
    }

    /// Reads a regular file of at most [`LIMIT`] bytes; `None` when there is none of that name.
    ///
    /// Never blocks: a FIFO, a directory or a device is an error.
    ///
    /// # Errors
    /// What the system said; `InvalidInput` for what is not a regular file, `FileTooLarge` beyond the limit.
    pub fn read(&self, path: &str) -> io::Result<Option<Vec<u8>>> {
        let fd = match self.open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY) {
            Ok(fd) => fd,
            // A link that leads nowhere is there, and cannot be read.
            Err(Errno::NOENT) if self.open(path, OFlags::PATH | OFlags::NOFOLLOW).is_ok() => {
                return Err(io::Error::new(io::ErrorKind::NotFound, "is a link that leads nowhere"));
            }
            Err(Errno::NOENT) => return Ok(None),
            Err(e) => return Err(e.into()),
        };
        let stat = rustix::fs::fstat(&fd)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {}
            FileType::Directory => return Err(invalid("is a directory, not a file")),
            _ => return Err(invalid("is not a regular file")),
        }
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        if size > LIMIT {
            return Err(too_large());
        }
        let bytes = read_all(fd.as_fd(), size);
        self.done(fd);
        bytes.map(Some)
    }

    /// Is there something of that name (through links)?
    ///
    /// # Errors
    /// What the system said, other than that there is nothing.
    pub fn exists(&self, path: &str) -> io::Result<bool> {
        let result = match &self.dir {
            None => rustix::fs::accessat(CWD, path, rustix::fs::Access::EXISTS, AtFlags::empty()),
            Some(_) => self.open(path, OFlags::PATH).map(drop),
        };
        match result {
            Ok(()) => Ok(true),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }

    /// Is there a regular file of that name (through links)?
    pub fn is_file(&self, path: &str) -> bool {
        self.stat(path).is_some_and(|s| FileType::from_raw_mode(s.st_mode) == FileType::RegularFile)
    }

    /// Do the two names lead to one and the same file?
    pub fn is_same(&self, a: &str, b: &str) -> bool {
        match (self.stat(a), self.stat(b)) {
            (Some(a), Some(b)) => a.st_dev == b.st_dev && a.st_ino == b.st_ino,
            _ => false,
        }
    }

    fn stat(&self, path: &str) -> Option<rustix::fs::Stat> {
        rustix::fs::fstat(self.open(path, OFlags::PATH).ok()?).ok()
    }

    /// Is there anything of that name, be it a link that leads nowhere?
    pub fn is_there(&self, path: &str) -> bool {
        self.open(path, OFlags::PATH | OFlags::NOFOLLOW).is_ok()
    }

    /// Where the symbolic link `path` points, as it is written; `None` when it is no link or not there.
    pub fn link_target(&self, path: &str) -> Option<String> {
        let fd = self.open(path, OFlags::PATH | OFlags::NOFOLLOW).ok()?;
        let target = rustix::fs::readlinkat(fd, "", Vec::new()).ok()?;
        target.into_string().ok()
    }

    /// A directory's entries, sorted by name; `None` when there is no such directory.
    ///
    /// # Errors
    /// What the system said.
    pub fn list(&self, path: &str) -> io::Result<Option<Vec<Entry>>> {
        let fd = match self.open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(None),
            Err(e) => return Err(e.into()),
        };
        let mut entries = Vec::new();
        // Room for all of a layer's and of most images' layers' names at once.
        let mut buffer = [MaybeUninit::uninit(); 8192];
        let mut dir = RawDir::new(&fd, &mut buffer);
        while let Some(entry) = dir.next() {
            let entry = entry?;
            let raw = entry.file_name().to_bytes();
            if raw == b"." || raw == b".." {
                continue;
            }
            let (name, odd) = match std::str::from_utf8(raw) {
                Ok(s) => (s.to_owned(), false),
                Err(_) => (String::from_utf8_lossy(raw).into_owned(), true),
            };
            let kind = match entry.file_type() {
                FileType::Directory => Kind::Directory,
                FileType::RegularFile => Kind::File,
                FileType::Symlink => Kind::Link,
                FileType::Unknown => self.kind_of(&format!("{path}/{name}")),
                _ => Kind::Other,
            };
            entries.push(Entry { name, kind, odd });
        }
        self.done(fd);
        entries.sort();
        Ok(Some(entries))
    }

    /// For file systems whose directories do not say what their entries are.
    fn kind_of(&self, path: &str) -> Kind {
        let Ok(fd) = self.open(path, OFlags::PATH | OFlags::NOFOLLOW) else { return Kind::Other };
        let Ok(stat) = rustix::fs::fstat(&fd) else { return Kind::Other };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => Kind::Directory,
            FileType::RegularFile => Kind::File,
            FileType::Symlink => Kind::Link,
            _ => Kind::Other,
        }
    }
}

fn invalid(text: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

fn too_large() -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, format!("is larger than {LIMIT} bytes"))
}

fn read_all(fd: BorrowedFd<'_>, size: u64) -> io::Result<Vec<u8>> {
    // Files in /proc say 0. One byte more than the size: a short read then is the end of the file.
    let mut buffer = vec![0; usize::try_from(size).unwrap_or(0).max(4095) + 1];
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..) {
        let n = match rustix::io::read(fd, rest) {
            Err(Errno::INTR) => continue,
            r => r?,
        };
        filled += n;
        if n == 0 || (size > 0 && filled as u64 >= size && filled < buffer.len()) {
            break;
        }
        if filled as u64 > LIMIT {
            return Err(too_large());
        }
        if filled == buffer.len() {
            buffer.resize(filled * 2, 0);
        }
    }
    buffer.truncate(filled);
    Ok(buffer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_stay_inside_the_root() {
        let t = tempfile::tempdir().unwrap();
        fs::create_dir_all(t.path().join("usr/lib")).unwrap();
        fs::write(t.path().join("usr/lib/x"), "inside").unwrap();
        symlink("/usr/lib/x", t.path().join("absolute")).unwrap();
        symlink("../../../usr/lib/x", t.path().join("up")).unwrap();
        symlink("/nowhere", t.path().join("dangling")).unwrap();
        let r = Root::at(t.path()).unwrap();
        assert_eq!(r.read("/absolute").unwrap().unwrap(), b"inside");
        assert_eq!(r.read("/up").unwrap().unwrap(), b"inside");
        assert!(r.read("/dangling").unwrap_err().to_string().contains("leads nowhere"));
        assert_eq!(r.read("/nothing").unwrap(), None);
        assert!(r.is_there("/dangling") && !r.is_there("/nothing"));
        assert!(r.is_file("/absolute") && !r.is_file("/usr") && !r.is_file("/dangling"));
        assert!(r.is_same("/absolute", "/up") && !r.is_same("/absolute", "/usr") && !r.is_same("/nothing", "/nothing"));
        assert!(!r.exists("/dangling").unwrap());
        assert!(r.exists("/absolute").unwrap());
        assert_eq!(r.link_target("/dangling").unwrap(), "/nowhere");
        assert_eq!(r.link_target("/usr/lib/x"), None);
    }

    #[test]
    fn odd_files_are_errors_and_never_block() {
        let t = tempfile::tempdir().unwrap();
        let r = Root::at(t.path()).unwrap();
        rustix::fs::mkfifoat(CWD, t.path().join("fifo"), Mode::RUSR).unwrap();
        assert!(r.read("/fifo").unwrap_err().to_string().contains("regular"));
        assert!(r.read("/").unwrap_err().to_string().contains("directory"));
        fs::write(t.path().join("big"), vec![b'x'; usize::try_from(LIMIT).unwrap() + 1]).unwrap();
        assert!(r.read("/big").unwrap_err().to_string().contains("larger"));
        assert!(r.read("/big/below-a-file").is_err(), "a file in the place of a directory is no absence");
    }

    #[test]
    fn reads_every_length_and_proc() {
        let t = tempfile::tempdir().unwrap();
        let r = Root::at(t.path()).unwrap();
        for n in [0, 1, 4094, 4095, 4096, 4097, 100_000] {
            fs::write(t.path().join("f"), vec![b'y'; n]).unwrap();
            assert_eq!(r.read("/f").unwrap().unwrap().len(), n);
        }
        assert!(!Root::system().read("/proc/self/status").unwrap().unwrap().is_empty());
    }

    #[test]
    fn lists_sorted() {
        let t = tempfile::tempdir().unwrap();
        fs::write(t.path().join("b"), "").unwrap();
        fs::create_dir(t.path().join("a")).unwrap();
        symlink("b", t.path().join("c")).unwrap();
        let r = Root::at(t.path()).unwrap();
        let got: Vec<_> = r.list("/").unwrap().unwrap().into_iter().map(|e| (e.name, e.kind)).collect();
        assert_eq!(
            got,
            [("a".into(), Kind::Directory), ("b".into(), Kind::File), ("c".into(), Kind::Link)] as [(String, Kind); 3]
        );
        assert_eq!(r.list("/nothing").unwrap(), None);
    }
}
