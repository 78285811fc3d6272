// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Miniature roots in `tests/cases/NN-name/root` and what the generator makes of each: `expected` beside it.
//! After a change that is meant, `NODEBASE_BLESS=1 cargo test -p nodebase-generator --test golden` writes it anew.

#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn cases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/cases")
}

/// The generator with nothing of this process's environment.
fn generator(root: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nodebase-generator"));
    command.env_clear().env("NODEBASE_ROOT", root);
    command
}

/// A tree as text: type, permissions of files, path, target or content.
fn describe(dir: &Path) -> String {
    fn walk(base: &Path, dir: &Path, out: &mut Vec<String>) {
        use std::os::unix::fs::PermissionsExt;
        let mut names: Vec<_> = fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
        names.sort();
        for path in names {
            let name = path.strip_prefix(base).unwrap().display().to_string();
            let meta = path.symlink_metadata().unwrap();
            if meta.is_symlink() {
                out.push(format!("link {name} -> {}", fs::read_link(&path).unwrap().display()));
            } else if meta.is_dir() {
                walk(base, &path, out);
            } else {
                out.push(format!("file {name} {:o}", meta.permissions().mode() & 0o7777));
                out.extend(fs::read_to_string(&path).unwrap().lines().map(|l| format!("    {l}")));
            }
        }
    }
    let mut out = Vec::new();
    walk(dir, dir, &mut out);
    out.join("\n")
}

fn run(case: &Path, args: &[&Path]) -> (String, i32) {
    let mut command = generator(&case.join("root"));
    if let Ok(environment) = fs::read_to_string(case.join("environment")) {
        command.envs(environment.lines().filter_map(|l| l.split_once('=')));
    }
    let output = command.args(args).output().unwrap();
    (String::from_utf8(output.stderr).unwrap(), output.status.code().unwrap())
}

#[test]
fn trees_are_as_expected() {
    let mut wrong = Vec::new();
    let mut names: Vec<_> = fs::read_dir(cases()).unwrap().map(|e| e.unwrap().path()).collect();
    names.sort();
    assert!(names.len() >= 30);
    for case in names {
        let out = tempfile::tempdir().unwrap();
        let dirs = ["normal", "early", "late"].map(|d| out.path().join(d));
        for dir in &dirs {
            fs::create_dir(dir).unwrap();
        }
        let (stderr, code) = run(&case, &dirs.each_ref().map(PathBuf::as_path));
        assert_eq!(code, 0, "{}: {stderr}", case.display());
        for dir in &dirs[1..] {
            assert_eq!(describe(dir), "", "{}: only the normal directory is written to", case.display());
        }
        let first = describe(&dirs[0]);
        // Once more into the same directory, and into one that is all three.
        let (_, code) = run(&case, &[&dirs[0]]);
        assert_eq!((code, describe(&dirs[0])), (0, first.clone()), "{}: second run", case.display());
        let have = format!("{first}\n--- says\n{stderr}");
        let expected = case.join("expected");
        if std::env::var_os("NODEBASE_BLESS").is_some() {
            fs::write(&expected, &have).unwrap();
        }
        if fs::read_to_string(&expected).unwrap_or_default() != have {
            let file = out.path().join("have");
            fs::write(&file, &have).unwrap();
            let diff = Command::new("diff").arg("-u").arg(&expected).arg(&file).output().unwrap();
            wrong.push(format!("{}\n{}", case.display(), String::from_utf8_lossy(&diff.stdout)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn usage() {
    let t = tempfile::tempdir().unwrap();
    for args in [vec![], vec![t.path(), t.path()], vec![t.path(); 4]] {
        let output = generator(t.path()).args(&args).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&output.stderr).contains("one or three directories"));
    }
    let gone = t.path().join("gone");
    let output = generator(&cases().join("01-platform-and-role/root")).arg(&gone).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot be written"));
    let output = generator(&gone).arg(t.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
}

/// A path in the output and what stands there already.
type Plant<'a> = (&'a str, &'a dyn Fn(&Path));

#[test]
fn somebody_elses_files_are_errors_and_links_are_not_followed() {
    let victim = tempfile::tempdir().unwrap();
    let root = cases().join("01-platform-and-role/root");
    let plants: [Plant<'_>; 4] = [
        ("foo.service.d", &|p| std::os::unix::fs::symlink(victim.path(), p).unwrap()),
        ("foo.service.d", &|p| fs::write(p, "x").unwrap()),
        ("foo.service.d/10-aws.conf", &|p| {
            fs::create_dir(p.parent().unwrap()).unwrap();
            fs::write(p, "x").unwrap();
        }),
        ("foo.service.d/11-role.conf", &|p| {
            fs::create_dir(p.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink("/elsewhere", p).unwrap();
        }),
    ];
    for (path, plant) in plants {
        let out = tempfile::tempdir().unwrap();
        plant(&out.path().join(path));
        fs::write(out.path().join("nodebase.complete"), "stale").unwrap();
        let output = generator(&root).arg(out.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{path}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("foo.service.d"), "{path}");
        assert!(!out.path().join("nodebase.complete").exists(), "{path}: a marker");
        assert!(out.path().join("multi-user.target.wants/foo.service").is_symlink(), "{path}: the rest is lost");
        assert_eq!(fs::read_dir(victim.path()).unwrap().count(), 0, "{path}: wrote through a link");
    }
    // The files that are written go by way of a temporary one: a link in either place is replaced, not followed.
    let out = tempfile::tempdir().unwrap();
    let target = victim.path().join("target");
    fs::write(&target, "precious").unwrap();
    for name in [".nodebase.complete.tmp", "nodebase.complete"] {
        std::os::unix::fs::symlink(&target, out.path().join(name)).unwrap();
    }
    assert!(generator(&root).arg(out.path()).status().unwrap().success());
    assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
    assert!(out.path().join("nodebase.complete").symlink_metadata().unwrap().is_file());
}

#[test]
fn a_root_in_the_environment_does_not_count_at_boot() {
    // The directory is below /run/systemd, as PID 1's are: the root that the kernel command line smuggled in is not used.
    fs::create_dir_all("/run/systemd").unwrap();
    let t = tempfile::Builder::new().prefix("nodebase-test.").tempdir_in("/run/systemd").unwrap();
    let output = generator(&cases().join("01-platform-and-role/root"))
        .env("SYSTEMD_PROC_CMDLINE", "ignition.platform.id=aws nodebase.role=master")
        .arg(t.path())
        .output()
        .unwrap();
    let link = t.path().join("foo.service.d/10-aws.conf");
    assert!(!link.is_symlink(), "{output:?}");
    // A way round through a link is the same directory.
    let detour = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(t.path(), detour.path().join("d")).unwrap();
    generator(&cases().join("01-platform-and-role/root")).arg(detour.path().join("d")).output().unwrap();
    assert!(!link.is_symlink());
}
