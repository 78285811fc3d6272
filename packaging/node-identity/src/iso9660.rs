// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads one file of an ISO 9660 volume, without mounting it: as much of ECMA-119 as config drives need.
//!
//! Names: Rock Ridge (SUSP `NM` entries) where present, else Joliet, else the plain ISO names. Multi-extent files,
//! continuation areas and interleaving do not occur in config drives and are refused or ignored.

use std::io::{self, Read, Seek, SeekFrom};

const SECTOR: u64 = 2048;
/// A directory or file larger than this is no config drive's.
const EXTENT_MAX: u32 = 4 * 1024 * 1024;

#[derive(Debug, Clone, Copy)]
struct Extent {
    sector: u32,
    length: u32,
    directory: bool,
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("ISO 9660: {what}"))
}

fn u32_le(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map(u32::from_le_bytes)
}

/// The contents of the file at `path` (components without slashes), or `None` when the volume has no such file.
///
/// # Errors
/// The volume cannot be read or is no ISO 9660 volume.
pub fn read_file(volume: &mut (impl Read + Seek), path: &[&str]) -> io::Result<Option<Vec<u8>>> {
    let mut roots = Vec::new();
    // Descriptors begin at sector 16 and end with type 255; a volume has few.
    for sector in 16..48 {
        let block = read_at(volume, sector * SECTOR, 2048)?;
        if block.get(1..6) != Some(b"CD001") {
            return Err(invalid("no volume descriptor"));
        }
        let joliet = block[0] == 2 && matches!(block.get(88..91), Some(b"%/@" | b"%/C" | b"%/E"));
        match block[0] {
            1 => roots.push((record(&block[156..190]).ok_or_else(|| invalid("no root directory"))?.0, false)),
            2 if joliet => roots.push((record(&block[156..190]).ok_or_else(|| invalid("no root directory"))?.0, true)),
            255 => break,
            _ => {}
        }
    }
    for (root, joliet) in roots {
        if let Some(found) = walk(volume, root, path, joliet)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

fn walk(volume: &mut (impl Read + Seek), root: Extent, path: &[&str], joliet: bool) -> io::Result<Option<Vec<u8>>> {
    let mut here = root;
    for name in path {
        if !here.directory {
            return Ok(None);
        }
        let entries = extent(volume, here)?;
        let Some(next) = find(&entries, name, joliet) else { return Ok(None) };
        here = next;
    }
    if here.directory { Ok(None) } else { extent(volume, here).map(Some) }
}

fn read_at(volume: &mut (impl Read + Seek), offset: u64, length: u32) -> io::Result<Vec<u8>> {
    volume.seek(SeekFrom::Start(offset))?;
    let mut bytes = vec![0; length as usize];
    volume.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn extent(volume: &mut (impl Read + Seek), extent: Extent) -> io::Result<Vec<u8>> {
    if extent.length > EXTENT_MAX {
        return Err(invalid("an extent is larger than 4 MiB"));
    }
    read_at(volume, u64::from(extent.sector) * SECTOR, extent.length)
}

/// One directory record (9.1): where it points, its name, its system use area.
fn record(bytes: &[u8]) -> Option<(Extent, &[u8], &[u8])> {
    let length = usize::from(*bytes.first()?);
    let bytes = bytes.get(..length)?;
    let name_length = usize::from(*bytes.get(32)?);
    let name = bytes.get(33..33 + name_length)?;
    let extent = Extent { sector: u32_le(bytes, 2)?, length: u32_le(bytes, 10)?, directory: bytes.get(25)? & 2 != 0 };
    // The name is padded to an even length.
    let system_use = bytes.get(33 + name_length + (1 - name_length % 2)..).unwrap_or_default();
    Some((extent, name, system_use))
}

fn find(directory: &[u8], wanted: &str, joliet: bool) -> Option<Extent> {
    let mut at = 0;
    while at < directory.len() {
        if directory[at] == 0 {
            // Records do not cross sectors: the rest of this one is padding.
            at = (at / 2048 + 1) * 2048;
            continue;
        }
        let (extent, name, system_use) = record(&directory[at..])?;
        at += usize::from(directory[at]);
        let name = if joliet {
            let units: Vec<u16> = name.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
            String::from_utf16_lossy(&units)
        } else {
            rock_ridge(system_use).unwrap_or_else(|| String::from_utf8_lossy(name).into_owned())
        };
        // `FILE.EXT;1`; plain names are upper case, and a config drive's names never differ by case only.
        let name = name.split(';').next().unwrap_or_default().trim_end_matches('.');
        if name.eq_ignore_ascii_case(wanted) {
            return Some(extent);
        }
    }
    None
}

/// The name in the `NM` entries of a system use area.
fn rock_ridge(mut area: &[u8]) -> Option<String> {
    let mut name = Vec::new();
    while let Some(length @ 4..) = area.get(2).map(|length| usize::from(*length)) {
        let entry = area.get(..length)?;
        if entry.starts_with(b"NM") {
            name.extend_from_slice(entry.get(5..)?);
        }
        area = &area[length..];
    }
    if name.is_empty() { None } else { String::from_utf8(name).ok() }
}
