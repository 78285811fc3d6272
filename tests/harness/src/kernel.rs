// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Unpacks kernel and initramfs on the host: an emulated processor would spend seconds on it at every boot.

use anyhow::{Context, Result, bail};
use std::io::Write;
use std::process::{Command, Stdio};

/// Offsets in a bzImage: the Linux x86 boot protocol, <https://docs.kernel.org/arch/x86/boot.html>.
const SETUP_SECTORS: usize = 0x1f1;
const PAYLOAD_OFFSET: usize = 0x248;
const SECTOR: usize = 512;

/// First bytes of a compressed stream, and the command that unpacks it.
const COMPRESSORS: [(&[u8], &[&str]); 4] = [
    (&[0x28, 0xb5, 0x2f, 0xfd], &["zstd", "-dcq"]),
    (&[0xfd, b'7', b'z', b'X'], &["xz", "-dcq", "--single-stream"]),
    (&[0x1f, 0x8b], &["gzip", "-dcq"]),
    (&[0x02, 0x21, 0x4c, 0x18], &["lz4", "-dcq"]),
];

/// The ELF kernel inside a bzImage, which QEMU starts without the decompressor (by its PVH entry).
///
/// # Errors
/// When the file is no bzImage, its compressor is unknown, or what comes out is no ELF file. The bzImage itself boots
/// then, only slower.
pub fn elf_of_bzimage(image: &[u8]) -> Result<Vec<u8>> {
    let word = |at: usize| -> Result<usize> {
        let bytes = image.get(at..at + 4).context("kernel image: too short")?;
        Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize)
    };
    let sectors = usize::from(*image.get(SETUP_SECTORS).context("kernel image: too short")?);
    let start = (if sectors == 0 { 4 } else { sectors } + 1) * SECTOR + word(PAYLOAD_OFFSET)?;
    let length = word(PAYLOAD_OFFSET + 4)?;
    let payload = image.get(start..start + length).context("kernel image: payload outside of the file")?;
    // The last four bytes are the unpacked size, which decompressors take for garbage.
    let elf = unpack(&payload[..length.saturating_sub(4)])?.context("kernel image: unknown compression")?;
    if !elf.starts_with(b"\x7fELF") {
        bail!("kernel image: the payload is no ELF file");
    }
    Ok(elf)
}

/// An initramfs with its main archive unpacked; an uncompressed archive in front (microcode) stays in front. What is
/// compressed in an unknown way is returned as it is.
pub fn unpacked_initramfs(initramfs: Vec<u8>) -> Result<Vec<u8>> {
    let main = start_of_main_archive(&initramfs);
    let Some(unpacked) = unpack(&initramfs[main..])? else { return Ok(initramfs) };
    Ok([&initramfs[..main], &unpacked].concat())
}

/// Where the archive after a leading uncompressed one begins; 0 without such a one.
fn start_of_main_archive(initramfs: &[u8]) -> usize {
    const TRAILER: &[u8] = b"TRAILER!!!";
    if !initramfs.starts_with(b"070701") {
        return 0;
    }
    let Some(trailer) = initramfs.windows(TRAILER.len()).position(|window| window == TRAILER) else { return 0 };
    let after = trailer + TRAILER.len();
    initramfs[after..].iter().position(|&byte| byte != 0).map_or(0, |zeros| after + zeros)
}

/// The unpacked stream, or nothing when its first bytes are of no compressor known here.
fn unpack(packed: &[u8]) -> Result<Option<Vec<u8>>> {
    let Some((_, command)) = COMPRESSORS.iter().find(|(magic, _)| packed.starts_with(magic)) else { return Ok(None) };
    let mut child = Command::new(command[0])
        .args(&command[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("run {}", command[0]))?;
    let mut stdin = child.stdin.take().context("no standard input")?;
    let output = std::thread::scope(|scope| {
        // A decompressor that stops early (bytes after the stream) closes its input: its output is what counts.
        scope.spawn(move || stdin.write_all(packed).ok());
        child.wait_with_output()
    })
    .with_context(|| format!("run {}", command[0]))?;
    if output.stdout.is_empty() {
        bail!("{} unpacked nothing ({})", command[0], output.status);
    }
    Ok(Some(output.stdout))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gzip(data: &[u8]) -> Vec<u8> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("x");
        std::fs::write(&file, data).unwrap();
        Command::new("gzip").arg("-c").arg(&file).output().unwrap().stdout
    }

    #[test]
    fn initramfs_with_and_without_an_archive_in_front() {
        let archive = b"070701 the archive".to_vec();
        assert_eq!(unpacked_initramfs(gzip(&archive)).unwrap(), archive);
        let mut early = b"070701.....TRAILER!!!\0\0\0\0".to_vec();
        let front = early.clone();
        early.extend(gzip(&archive));
        assert_eq!(unpacked_initramfs(early).unwrap(), [front, archive].concat());
        assert_eq!(unpacked_initramfs(b"something else".to_vec()).unwrap(), b"something else");
    }

    #[test]
    fn elf_inside_a_bzimage() {
        let payload = [gzip(b"\x7fELF kernel"), vec![0; 4]].concat();
        let mut image = vec![0; 2 * SECTOR];
        image[SETUP_SECTORS] = 1;
        image[PAYLOAD_OFFSET..PAYLOAD_OFFSET + 4].copy_from_slice(&8u32.to_le_bytes());
        let length = u32::try_from(payload.len()).unwrap();
        image[PAYLOAD_OFFSET + 4..PAYLOAD_OFFSET + 8].copy_from_slice(&length.to_le_bytes());
        image.extend([0; 8]);
        image.extend(payload);
        assert_eq!(elf_of_bzimage(&image).unwrap(), b"\x7fELF kernel");
        assert!(elf_of_bzimage(&image[..700]).is_err());
    }
}
