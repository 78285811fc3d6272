// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whatever the input: the run ends, says at most twenty lines, and writes nothing outside its directory.
#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{CWD, FileType, Mode, mknodat};

/// A root of our own with the table, and a command line that names aws.
fn root() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let case = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/cases/01-platform-and-role/root");
    let status = Command::new("cp").arg("-a").arg(case.join(".")).arg(root.path()).status().unwrap();
    assert!(status.success());
    root
}

/// What the generator says, and what it exits with; `timeout` is the bound that a hang would run into.
fn run(root: &Path, out: &Path) -> (Vec<String>, Option<i32>) {
    let mut command = Command::new("timeout");
    command.arg("60").arg(env!("CARGO_BIN_EXE_nodebase-generator")).arg(out);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let output =
        command.env_clear().env("PATH", path).env("NODEBASE_ROOT", root).stdin(Stdio::null()).output().unwrap();
    (String::from_utf8(output.stderr).unwrap().lines().map(str::to_owned).collect(), output.status.code())
}

#[test]
fn never_more_than_twenty_lines() {
    let root = root();
    for number in 0..200 {
        let layer = format!("usr/lib/nodebase/layers/no such {number}/kubelet.service.d");
        fs::create_dir_all(root.path().join(layer)).unwrap();
    }
    let out = tempfile::tempdir().unwrap();
    let (lines, code) = run(root.path(), out.path());
    assert_eq!(code, Some(0));
    assert!(lines.len() > 5 && lines.len() <= 20, "{} lines:\n{}", lines.len(), lines.join("\n"));
    assert!(lines.iter().any(|l| l.contains("more of these")), "{}", lines.join("\n"));
}

#[test]
fn a_command_line_that_is_no_file_does_not_hang() {
    for kind in ["fifo", "directory"] {
        let root = root();
        let path = root.path().join("proc/cmdline");
        fs::remove_file(&path).unwrap();
        if kind == "fifo" {
            mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap();
        } else {
            fs::create_dir(&path).unwrap();
        }
        let out = tempfile::tempdir().unwrap();
        let (lines, code) = run(root.path(), out.path());
        assert_eq!(code, Some(0), "{kind}: {lines:?}");
        assert!(!out.path().join("nodebase.complete").exists(), "{kind}: {lines:?}");
        assert!(lines.iter().any(|l| l.contains("/proc/cmdline")), "{kind}: {lines:?}");
    }
}

/// Every path below `dir` with all that a write would change.
fn snapshot(dir: &Path, into: &mut Vec<(PathBuf, u64, u64, i64, i64)>) {
    let mut paths: Vec<_> = fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        let meta = path.symlink_metadata().unwrap();
        into.push((path.clone(), meta.ino(), meta.size(), meta.ctime(), meta.ctime_nsec()));
        if meta.is_dir() {
            snapshot(&path, into);
        }
    }
}

#[test]
fn the_root_is_only_read() {
    let root = root();
    let (mut before, mut after) = (Vec::new(), Vec::new());
    snapshot(root.path(), &mut before);
    let out = tempfile::tempdir().unwrap();
    let (lines, code) = run(root.path(), out.path());
    snapshot(root.path(), &mut after);
    assert_eq!((code, before), (Some(0), after), "{lines:?}");
    assert!(out.path().join("nodebase.complete").exists(), "{lines:?}");
}
