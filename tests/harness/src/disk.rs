// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The disk image: overlays for single tests, and what a boot loader would read from it.
//!
//! The file system is read with debugfs, from outside: no loop device, no mount, no root rights. The layout of boot
//! entries is the Boot Loader Specification's, <https://uapi-group.org/specifications/specs/boot_loader_specification/>.

use crate::kernel;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

/// A boot loader entry with kernel and initramfs as files on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BootEntry {
    /// Unpacked kernel (or the bzImage where it cannot be unpacked).
    pub kernel: PathBuf,
    /// Unpacked initramfs.
    pub initramfs: PathBuf,
    /// The kernel arguments.
    pub options: String,
}

/// The disk that tests start from.
#[derive(Debug)]
pub struct Disk {
    raw: PathBuf,
    /// Where unpacked kernels are kept, by the name of their directory in /boot/ostree, which is a hash of the content.
    kernels: PathBuf,
    unpacking: Mutex<()>,
}

impl Disk {
    /// `directory` is what `make-disk` printed.
    ///
    /// # Errors
    /// When there is no disk.
    pub fn open(directory: &Path) -> Result<Self> {
        let raw = directory.join("disk.raw");
        if !raw.exists() {
            bail!("{} does not exist: make the disk first (tests/image/make-disk)", raw.display());
        }
        let raw = raw.canonicalize().with_context(|| format!("resolve {}", raw.display()))?;
        let kernels = raw.with_file_name("kernels");
        fs::create_dir_all(&kernels).with_context(|| format!("create {}", kernels.display()))?;
        Ok(Self { raw, kernels, unpacking: Mutex::new(()) })
    }

    /// A copy-on-write overlay over the disk, or over `base` (itself an overlay), at `path`.
    ///
    /// # Errors
    /// When qemu-img fails.
    pub fn overlay(&self, base: Option<&Path>, path: &Path) -> Result<()> {
        let (backing, format) = match base {
            Some(base) => (base, "qcow2"),
            None => (self.raw.as_path(), "raw"),
        };
        let backing = backing.canonicalize().with_context(|| format!("resolve {}", backing.display()))?;
        run(Command::new("qemu-img").args(["create", "-q", "-f", "qcow2", "-F", format, "-b"]).arg(backing).arg(path))
            .map(drop)
    }

    /// The entry that boots next: of the disk itself, or of an overlay that a guest has changed.
    ///
    /// # Errors
    /// When the disk has no boot entry, or the files that it names cannot be read.
    pub fn boot_entry(&self, overlay: Option<&Path>) -> Result<BootEntry> {
        let Some(overlay) = overlay else { return self.entry_of(&self.raw) };
        let raw = overlay.with_extension("raw");
        run(Command::new("qemu-img").args(["convert", "-O", "raw"]).arg(overlay).arg(&raw))?;
        // What a guest left in the journal is not yet in the file system that debugfs reads. A status other than 0 says
        // that something was repaired, which is the purpose; on a copy.
        Command::new("e2fsck").args(["-fp"]).arg(&raw).output().context("run e2fsck")?;
        let entry = self.entry_of(&raw);
        fs::remove_file(&raw).with_context(|| format!("remove {}", raw.display()))?;
        entry
    }

    fn entry_of(&self, raw: &Path) -> Result<BootEntry> {
        const ENTRIES: &str = "/boot/loader/entries";
        let listing = debugfs(raw, &format!("ls -p {ENTRIES}"))?;
        let mut entries = Vec::new();
        for name in String::from_utf8_lossy(&listing).lines().filter_map(|line| line.split('/').nth(5)) {
            if Path::new(name).extension().is_some_and(|extension| extension == "conf") {
                let text = debugfs(raw, &format!("cat {ENTRIES}/{name}"))?;
                entries.push(Entry::parse(&String::from_utf8_lossy(&text)));
            }
        }
        let entry = entries.into_iter().max_by_key(|entry| entry.version).context("the disk has no boot entry")?;
        let directory = Path::new(&entry.linux).parent().and_then(Path::file_name);
        let directory = directory.context("boot entry: linux: names no directory")?;
        let kept = self.kernels.join(directory);
        let (kernel, initramfs) = (kept.join("kernel"), kept.join("initramfs"));
        let _guard = self.unpacking.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if !kept.exists() {
            let new = kept.with_extension(format!("new{}", std::process::id()));
            fs::create_dir_all(&new).with_context(|| format!("create {}", new.display()))?;
            let image = debugfs(raw, &format!("cat /boot{}", entry.linux))?;
            let image = kernel::elf_of_bzimage(&image).unwrap_or(image);
            fs::write(new.join("kernel"), image).with_context(|| format!("write to {}", new.display()))?;
            let image = kernel::unpacked_initramfs(debugfs(raw, &format!("cat /boot{}", entry.initrd))?)?;
            fs::write(new.join("initramfs"), image).with_context(|| format!("write to {}", new.display()))?;
            // Another process may have been faster: its files are the same.
            if fs::rename(&new, &kept).is_err() {
                fs::remove_dir_all(&new).with_context(|| format!("remove {}", new.display()))?;
            }
        }
        Ok(BootEntry { kernel, initramfs, options: entry.options })
    }
}

#[derive(Debug, Default)]
struct Entry {
    version: u64,
    options: String,
    linux: String,
    initrd: String,
}

impl Entry {
    fn parse(text: &str) -> Self {
        let mut entry = Self::default();
        for (key, value) in text.lines().filter_map(|line| line.split_once(char::is_whitespace)) {
            let value = value.trim();
            match key {
                "version" => entry.version = value.parse().unwrap_or(0),
                "options" => entry.options = value.to_owned(),
                "linux" => entry.linux = value.to_owned(),
                "initrd" => entry.initrd = value.to_owned(),
                _ => {}
            }
        }
        entry
    }
}

/// Runs one request; debugfs exits 0 whatever happens, an empty answer is the failure.
fn debugfs(raw: &Path, request: &str) -> Result<Vec<u8>> {
    let output = run(Command::new("debugfs").args(["-R", request]).arg(raw))?;
    if output.is_empty() {
        bail!("debugfs {request:?} on {} gave nothing", raw.display());
    }
    Ok(output)
}

fn run(command: &mut Command) -> Result<Vec<u8>> {
    let output = command.output().with_context(|| format!("run {}", command.get_program().display()))?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        bail!("{} failed ({}): {}", command.get_program().display(), output.status, error.trim());
    }
    Ok(output.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A real file system with two entries: the higher version is the default, as the specification sorts them.
    #[test]
    fn reads_the_default_entry_from_a_file_system() {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("tree");
        let boot = tree.join("boot");
        fs::create_dir_all(boot.join("loader.1/entries")).unwrap();
        std::os::unix::fs::symlink("loader.1", boot.join("loader")).unwrap();
        for (index, hash) in [(1, "aaa"), (2, "bbb")] {
            let text = format!(
                "title T\nversion {index}\noptions root=LABEL=root n={index}\nlinux /ostree/os-{hash}/vmlinuz-1\n\
                 initrd /ostree/os-{hash}/initramfs-1.img\n"
            );
            fs::write(boot.join(format!("loader.1/entries/ostree-{index}.conf")), text).unwrap();
            fs::create_dir_all(boot.join(format!("ostree/os-{hash}"))).unwrap();
            fs::write(boot.join(format!("ostree/os-{hash}/vmlinuz-1")), format!("kernel {hash}")).unwrap();
            fs::write(boot.join(format!("ostree/os-{hash}/initramfs-1.img")), format!("initramfs {hash}")).unwrap();
        }
        let raw = dir.path().join("disk.raw");
        fs::File::create(&raw).unwrap().set_len(8 << 20).unwrap();
        run(Command::new("mkfs.ext4").args(["-q", "-d"]).arg(&tree).arg(&raw)).unwrap();
        let disk = Disk::open(dir.path()).unwrap();
        let entry = disk.boot_entry(None).unwrap();
        assert_eq!(entry.options, "root=LABEL=root n=2");
        assert_eq!(fs::read_to_string(&entry.kernel).unwrap(), "kernel bbb");
        assert_eq!(fs::read_to_string(&entry.initramfs).unwrap(), "initramfs bbb");
        assert_eq!(disk.boot_entry(None).unwrap(), entry, "the second time from the kept files");
    }

    #[test]
    fn a_missing_disk_is_named() {
        let error = Disk::open(Path::new("/nonexistent")).unwrap_err().to_string();
        assert!(error.contains("/nonexistent/disk.raw"), "{error}");
    }
}
