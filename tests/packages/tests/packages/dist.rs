// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The source tarball, and what stands in one place only.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result, bail, ensure};
use libtest_mimic::Trial;
use nodebase_packages::{command, project, run, same, trial};
use tempfile::TempDir;

use crate::tree::{dist, one, version};

pub fn trials() -> Vec<Trial> {
    vec![
        trial("dist/twice-gives-the-same-bytes", same_bytes),
        trial("dist/holds-what-git-tracks", tracked),
        trial("dist/version-stands-once", version_once),
        trial("dist/licences-are-allowed", licences),
        trial("dist/old-rust-is-stated-once", rust_version),
    ]
}

fn same_bytes() -> Result<()> {
    let (one_dir, two_dir) = (TempDir::new()?, TempDir::new()?);
    run(&mut dist("dist", one_dir.path()))?;
    let mut other = dist("dist", two_dir.path());
    // Nothing of the person who runs it may show.
    let shell = "umask 077; exec \"$0\" \"$@\"";
    let mut shelled = command("sh");
    shelled.args(["-c", shell]).arg(other.get_program()).args(other.get_args());
    for (key, value) in other.get_envs().filter_map(|(k, v)| Some((k, v?))) {
        shelled.env(key, value);
    }
    run(shelled.env("TZ", "Asia/Kathmandu").env("LC_ALL", "C.UTF-8").env("XZ_DEFAULTS", "-T0"))?;
    other.env_clear();
    let name = format!("nodebase-{}.tar.xz", version()?);
    let read = |dir: &TempDir| fs::read(dir.path().join(&name)).with_context(|| format!("reading {name}"));
    ensure!(read(&one_dir)? == read(&two_dir)?, "the two tarballs differ");
    Ok(())
}

fn tracked() -> Result<()> {
    let dir = TempDir::new()?;
    run(&mut dist("dist", dir.path()))?;
    let tarball = one(dir.path(), "nodebase-", ".tar.xz")?;
    let list = run(command("tar").arg("-tf").arg(&tarball))?;
    let top = format!("nodebase-{}/", version()?);
    let mut found: BTreeSet<String> = BTreeSet::new();
    for line in list.lines().filter(|l| !l.ends_with('/')) {
        let inside = line.strip_prefix(&top).with_context(|| format!("{line} is outside of {top}"))?;
        found.insert(inside.to_owned());
    }
    ensure!(found.remove("nodebase.spec"), "there is no nodebase.spec");
    let git = run(command("git").args(["-c", "core.quotePath=false", "ls-files"]))?;
    same("source tarball", &git.lines().map(str::to_owned).collect(), &found)
}

fn version_once() -> Result<()> {
    let version = version()?;
    let program = run(command("target/release/nodebase").arg("--version"))?;
    ensure!(program == format!("nodebase {version}\n"), "nodebase --version says {program:?}");
    for file in ["packaging/nodebase.spec.in", "packaging/debian/changelog", "packaging/debian/control", "Makefile"] {
        let text = fs::read_to_string(project().join(file)).with_context(|| format!("reading {file}"))?;
        ensure!(!text.contains(&version), "{file} states the version {version}: it stands in Cargo.toml");
    }
    for manifest in run(command("git").args(["ls-files", "*Cargo.toml"]))?.lines().filter(|m| *m != "Cargo.toml") {
        let text = fs::read_to_string(project().join(manifest)).with_context(|| format!("reading {manifest}"))?;
        ensure!(text.contains("version.workspace = true"), "{manifest} has a version of its own");
    }
    Ok(())
}

/// The crates that end up in programs have licences that deny.toml allows. cargo-deny says more, and takes longer.
fn licences() -> Result<()> {
    let deny = fs::read_to_string(project().join("deny.toml")).context("reading deny.toml")?;
    let list =
        deny.split_once("allow = [").and_then(|(_, rest)| rest.split_once(']')).context("deny.toml: no allow")?;
    let allowed: BTreeSet<&str> = list.0.split('"').skip(1).step_by(2).collect();
    let format = "{p}\t{l}";
    let tree = ["tree", "--locked", "--workspace", "-e", "normal,build", "--target", "all", "--prefix", "none"];
    let mut bad = BTreeSet::new();
    for line in run(command("cargo").args(tree).args(["--format", format]))?.lines() {
        let line = line.trim_end_matches(" (*)");
        let Some((package, licence)) = line.split_once('\t') else { continue };
        let plain = licence.replace(['(', ')'], "").replace('/', " OR ");
        // Each side of an AND needs a licence that is allowed; in these expressions OR binds as written there.
        let good = plain.split(" AND ").all(|part| part.split(" OR ").any(|l| allowed.contains(l)));
        if !good {
            bad.insert(format!("{package}: {licence}"));
        }
    }
    if !bad.is_empty() {
        bail!("not among the licences of deny.toml: {bad:#?}");
    }
    Ok(())
}

fn rust_version() -> Result<()> {
    let text = fs::read_to_string(project().join("Cargo.toml")).context("reading Cargo.toml")?;
    let stated = text.lines().find_map(|l| l.strip_prefix("rust-version = \"")).context("no rust-version")?;
    let stated = stated.trim_end_matches('"');
    for (file, before) in [
        ("packaging/nodebase.spec.in", "BuildRequires:  cargo >= "),
        ("packaging/debian/control", "cargo (>= "),
        (".github/workflows/ci.yml", "toolchain: [\""),
    ] {
        let text = fs::read_to_string(project().join(file)).with_context(|| format!("reading {file}"))?;
        let found = text.split_once(before).map(|(_, rest)| rest.split(['\n', ')', '"']).next().unwrap_or_default());
        ensure!(found == Some(stated), "{file}: {before}{found:?}, but Cargo.toml says {stated}");
    }
    Ok(())
}
