// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Config drives: small volumes (ISO 9660 or FAT) that the platform attaches, found by label.
//!
//! They are read from the block device: the unit needs the right to read it and no right to mount anything, and a
//! crafted volume meets this parser instead of the kernel's file systems.

use crate::attempt::{Attempt, Failure};
use crate::iso9660;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// OpenStack's labels; the FAT form of the drive has the upper case one.
pub const OPENSTACK: &[&str] = &["config-2", "CONFIG-2"];
/// NoCloud's labels (IBM Cloud VPC, KubeVirt, Proxmox).
pub const NOCLOUD: &[&str] = &["cidata", "CIDATA"];

/// A metadata document is some KiB.
const FILE_MAX: u64 = 4 * 1024 * 1024;

/// Reads `path` from the first volume that has one of `labels` and the file.
///
/// # Errors
/// [`Failure::Again`]: there is no such volume (yet), or it does not have the file; the message lists what was tried.
pub fn read(root: &Path, labels: &[&str], path: &str) -> Attempt<String> {
    let mut tried = Vec::new();
    for label in labels {
        let device = root.join("dev/disk/by-label").join(label);
        match read_volume(&device, path) {
            Ok(Some(bytes)) => {
                return String::from_utf8(bytes)
                    .map_err(|_| Failure::Again(format!("{}: {path} is not UTF-8", device.display())));
            }
            Ok(None) => tried.push(format!("{}: no file {path}", device.display())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                tried.push(format!("no volume labelled {label}"));
            }
            Err(error) => tried.push(format!("{}: {error}", device.display())),
        }
    }
    Err(Failure::Again(tried.join("; ")))
}

fn read_volume(device: &Path, path: &str) -> io::Result<Option<Vec<u8>>> {
    let mut volume = File::open(device)?;
    let mut magic = [0; 5];
    volume.seek(SeekFrom::Start(16 * 2048 + 1))?;
    let iso = volume.read_exact(&mut magic).is_ok() && &magic == b"CD001";
    volume.rewind()?;
    if iso {
        return iso9660::read_file(&mut volume, &path.split('/').collect::<Vec<_>>());
    }
    read_fat(ReadOnly(volume), path)
}

fn read_fat(volume: ReadOnly, path: &str) -> io::Result<Option<Vec<u8>>> {
    // No access dates: nothing is ever written.
    let options = fatfs::FsOptions::new().update_accessed_date(false);
    let volume = fatfs::FileSystem::new(volume, options)?;
    let file = match volume.root_dir().open_file(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    file.take(FILE_MAX).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// The FAT crate wants a writable volume; writing to this one fails.
struct ReadOnly(File);

impl Read for ReadOnly {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Seek for ReadOnly {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.0.seek(to)
    }
}

impl io::Write for ReadOnly {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::PermissionDenied.into())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
