// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every system call that writes fails once, in every way that file systems fail, and the process is killed at every one
//! of them. Whatever is left: a marker stands only beside the complete set, so that kubelet never acts on half of it
//! (what systemd makes of a missing marker: tests/nspawn, `broken-at-boot`).
#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The calls that the generator writes with.
const CALLS: &[&str] = &["openat", "mkdirat", "symlinkat", "write", "renameat", "unlinkat"];
const FAULTS: &[&str] = &["error=ENOSPC", "error=EIO", "error=EROFS", "error=EACCES", "error=EINTR", "signal=KILL"];
const MARKER: &str = "nodebase.complete";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/cases/16-environment/root")
}

fn tree(dir: &Path) -> BTreeMap<PathBuf, String> {
    fn walk(base: &Path, dir: &Path, out: &mut BTreeMap<PathBuf, String>) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(base).unwrap().to_owned();
            if path.is_symlink() {
                out.insert(name, fs::read_link(&path).unwrap().display().to_string());
            } else if path.is_dir() {
                walk(base, &path, out);
            } else {
                out.insert(name, fs::read_to_string(&path).unwrap());
            }
        }
    }
    let mut out = BTreeMap::new();
    walk(dir, dir, &mut out);
    out
}

/// One run with a fault at the `number`th call; `None` when there is no such call.
fn run(call: &str, fault: &str, number: usize) -> Option<(BTreeMap<PathBuf, String>, Option<i32>)> {
    let out = tempfile::tempdir().unwrap();
    let log = tempfile::NamedTempFile::new().unwrap();
    let status = Command::new("strace")
        .args(["-qq", "-o"])
        .arg(log.path())
        .args(["-e", &format!("trace={call}"), "-e", &format!("inject={call}:{fault}:when={number}")])
        .arg(env!("CARGO_BIN_EXE_nodebase-generator"))
        .arg(out.path())
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("NODEBASE_ROOT", root())
        .output()
        .unwrap()
        .status;
    let log = fs::read_to_string(log.path()).unwrap();
    let calls = log.lines().filter(|l| l.starts_with(call)).count();
    (calls >= number).then(|| (tree(out.path()), status.code()))
}

#[test]
fn a_marker_stands_only_beside_the_complete_set() {
    let complete = {
        let out = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_nodebase-generator"));
        assert!(command.arg(out.path()).env_clear().env("NODEBASE_ROOT", root()).output().unwrap().status.success());
        tree(out.path())
    };
    assert!(complete.contains_key(Path::new(MARKER)) && complete.len() > 5);
    let mut wrong = Vec::new();
    let (mut runs, mut without) = (0, 0);
    for call in CALLS {
        for fault in FAULTS {
            for number in 1.. {
                let Some((left, code)) = run(call, fault, number) else { break };
                runs += 1;
                let what = format!("{call} {fault} at call {number}");
                if left.contains_key(Path::new(MARKER)) {
                    // A dot file that a killed run has left is nothing to systemd.
                    let mut seen = left.clone();
                    seen.retain(|p, _| !p.file_name().is_some_and(|n| n.to_string_lossy().starts_with('.')));
                    if seen != complete {
                        wrong.push(format!("{what}: a marker beside an incomplete set"));
                    }
                } else {
                    without += 1;
                    let killed = fault.starts_with("signal");
                    // Killed: by the signal. Else 1 where output failed, and 0 where input could not be read.
                    if !killed && !matches!(code, Some(0 | 1)) {
                        wrong.push(format!("{what}: exit status {code:?}"));
                    }
                }
                if !fault.starts_with("signal")
                    && left.keys().any(|p| p.to_string_lossy().ends_with(".tmp"))
                    && *call != "unlinkat"
                {
                    wrong.push(format!("{what}: a temporary file is left"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {runs}:\n{}", wrong.len(), wrong.join("\n"));
    // A check that cannot fail is none: faults must have kept markers away, and been many.
    assert!(runs > 100 && without > 50, "{runs} runs, {without} without a marker");
    println!("{runs} faults injected, {without} left no marker, none a marker beside an incomplete set");
}

/// A signal in between is no reason to fail: the call is made again.
#[test]
fn one_interrupted_call_changes_nothing() {
    for call in ["mkdirat", "symlinkat", "renameat"] {
        let (left, code) = run(call, "error=EINTR", 1).unwrap();
        assert_eq!(code, Some(0), "{call}");
        assert!(left.contains_key(Path::new(MARKER)), "{call}");
    }
}
