// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The way of a distribution: a source package with all crates in it, built where there is no network.

use std::process::Command;

use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use nodebase_packages::{command, project, run, trial};
use tempfile::TempDir;

use crate::tree::{EPOCH, one};

pub fn trials() -> Vec<Trial> {
    vec![trial("offline/source-package-builds-without-a-network", builds)]
}

fn builds() -> Result<()> {
    let dir = TempDir::new()?;
    run(command("packaging/dist").arg("srpm").env("NODEBASE_DIST", dir.path()).env("SOURCE_DATE_EPOCH", EPOCH))?;
    let source = one(dir.path(), "nodebase-", ".src.rpm")?;
    let listed = run(Command::new("rpm").arg("-qpl").arg(&source))?;
    ensure!(listed.lines().any(|l| l.ends_with("-vendor.tar.xz")), "the source package has no crates: {listed}");
    // A network name space of its own has no way out; an empty CARGO_HOME has no crates.
    let home = TempDir::new()?;
    let mut rebuild = Command::new("unshare");
    rebuild.args(["--net", "rpmbuild", "--quiet", "--rebuild", "--nodeps", "--load"]);
    rebuild.arg(project().join("packaging/rpm-macros"));
    rebuild.arg("--define").arg(format!("_topdir {}", dir.path().join("rpm").display()));
    rebuild.arg(&source).env("CARGO_HOME", home.path());
    run(&mut rebuild)?;
    let out = dir.path().join("rpm/RPMS");
    let found = run(Command::new("find").arg(out).args(["-name", "nodebase-*.rpm"]))?;
    ensure!(found.lines().count() >= 2, "built: {found}");
    Ok(())
}
