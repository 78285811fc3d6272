// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Our reading of the kernel command line against systemd's own, on thousands of generated lines.
//!
//! `systemd-debug-generator` puts what `systemd.wants=` names into the `.wants` directory of what `systemd.unit=` says, so
//! the name of a directory that it makes is the value as its parser read it. It uses the parser of all of systemd's
//! generators.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use libtest_mimic::{Arguments, Failed, Trial};
use nodebase_generator::cmdline::Cmdline;
use nodebase_nspawn::mounted::Mounted;

const KEY: &str = "systemd.unit";
const LINES: usize = 1500;

/// A small generator of pseudo-random numbers (xorshift64*): the same lines in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let wide = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33;
        usize::try_from(wide).unwrap_or(0) % n
    }
}

/// Pieces that a line is put together from: our key in all spellings, quotes, escapes, separators, odd bytes.
const PIECES: &[&[u8]] = &[
    b"systemd.unit=",
    b"systemd.unit=",
    b" systemd.unit=",
    b"systemd.unit",
    b"rd.systemd.unit=",
    b"SYSTEMD.UNIT=",
    b"\"systemd.unit=",
    b"'systemd.unit=",
    b"systemd.unit==",
    b"xsystemd.unit=",
    b"a",
    b"b1",
    b"x.target",
    b"z-y_w",
    b"'",
    b"\"",
    b"'",
    b"\"",
    b"\\",
    b"\\\"",
    b"\\'",
    b"\\n",
    b" ",
    b" ",
    b"  ",
    b"\t",
    b"\n",
    b"\r",
    b"=",
    b"--",
    b",",
    b"\xc3\xa4",
    b"\xff",
    b"\x01",
    b"\x0b",
    b"\x7f",
    b"$x",
    b"%i",
    b"#",
];

fn line(random: &mut Random) -> Vec<u8> {
    // Now and then a long one.
    let pieces = if random.below(50) == 0 { 4000 } else { 1 + random.below(24) };
    let mut line = Vec::new();
    for _ in 0..pieces {
        line.extend_from_slice(PIECES[random.below(PIECES.len())]);
    }
    line
}

/// The value of [`KEY`] as systemd reads it; `None`: not given.
fn systemd(mounted: &Mounted, line: &[u8]) -> Result<Option<Vec<u8>>> {
    let out = mounted.root().join("out");
    if out.exists() {
        fs::remove_dir_all(&out)?;
    }
    fs::create_dir(&out)?;
    // In front, so that nothing in the line can swallow it.
    let mut whole = b"systemd.wants=witness.service ".to_vec();
    whole.extend_from_slice(line);
    let output = Command::new("/usr/sbin/chroot")
        .arg(mounted.root())
        .args(["/usr/lib/systemd/system-generators/systemd-debug-generator", "/out"])
        .env_clear()
        .env("SYSTEMD_PROC_CMDLINE", OsStr::from_bytes(&whole))
        .env("SYSTEMD_IN_INITRD", "0")
        .env("SYSTEMD_LOG_TARGET", "null")
        .output()?;
    ensure!(output.status.success(), "{output:?}");
    let mut found = None;
    for entry in fs::read_dir(&out)? {
        let name = entry?.file_name().into_vec();
        if let Some(stem) = name.strip_suffix(b".wants") {
            ensure!(found.is_none(), "two directories");
            found = Some(stem.to_vec());
        }
    }
    let found = found.context("systemd-debug-generator made nothing")?;
    Ok((found != b"default.target").then_some(found))
}

fn compare(version: &str) -> Result<()> {
    let mounted = Mounted::bare(version)?;
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let (mut compared, mut given) = (0, 0);
    let mut values = BTreeSet::new();
    while compared < LINES {
        let line = line(&mut random);
        let ours = Cmdline::from_text(&line).values(KEY).last().map(<[u8]>::to_vec);
        // What cannot be a directory's name cannot be seen.
        if ours.as_ref().is_some_and(|v| v.len() > 200 || v.contains(&b'/') || v == b"default.target") {
            continue;
        }
        let theirs = systemd(&mounted, &line).with_context(|| format!("{:?}", String::from_utf8_lossy(&line)))?;
        if ours != theirs {
            bail!(
                "{:?}\nours   {:?}\ntheirs {:?}",
                String::from_utf8_lossy(&line),
                ours.map(|v| String::from_utf8_lossy(&v).into_owned()),
                theirs.map(|v| String::from_utf8_lossy(&v).into_owned())
            );
        }
        compared += 1;
        given += usize::from(ours.is_some());
        values.extend(ours);
    }
    // A comparison of nothing with nothing would prove nothing.
    ensure!(
        given * 4 > compared && values.len() * 8 > compared,
        "{given} given, {} values of {compared}",
        values.len()
    );
    println!("systemd {version}: {compared} lines, {given} with a value, {} different values", values.len());
    Ok(())
}

fn main() -> std::process::ExitCode {
    let arguments = Arguments::from_args();
    let trials = ["252", "257", "262"].map(|version| {
        Trial::test(format!("{version}/command-line"), move || {
            compare(version).map_err(|e| Failed::from(format!("{e:#}")))
        })
    });
    libtest_mimic::run(&arguments, trials.into()).exit_code()
}
