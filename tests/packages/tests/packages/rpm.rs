// SPDX-License-Identifier: Apache-2.0 OR MIT
//! RPMs.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use anyhow::{Result, bail, ensure};
use libtest_mimic::Trial;
use nodebase_packages::{command, files, output, project, run, same, text, trial};
use tempfile::TempDir;

use crate::tree::{Made, Part, dist, generates, one};

type Check = fn(&Made) -> Result<()>;

pub fn trials(made: &Arc<Made>) -> Vec<Trial> {
    let checks: [(&str, Check); 6] = [
        ("rpm/files-are-those-of-the-tree", listed),
        ("rpm/no-scriptlets", scriptlets),
        ("rpm/requirements", requirements),
        ("rpm/rpmlint-is-clean", lint),
        ("rpm/installs-works-and-goes-without-a-trace", installs),
        ("rpm/twice-gives-the-same-bytes", same_bytes),
    ];
    let trial = |(name, check): (&str, Check)| {
        let made = made.clone();
        trial(name, move || check(&made))
    };
    checks.into_iter().map(trial).collect()
}

fn package(made: &Made, part: Part) -> Result<PathBuf> {
    one(made.rpms()?, &format!("{}-", part.name()), ".rpm").or_else(|_| {
        // The main package's name begins those of the others.
        let version = crate::tree::version()?;
        one(made.rpms()?, &format!("{}-{version}-", part.name()), ".rpm")
    })
}

fn query(made: &Made, part: Part, what: &[&str]) -> Result<String> {
    run(Command::new("rpm").arg("-qp").args(what).arg(package(made, part)?))
}

fn listed(made: &Made) -> Result<()> {
    for part in Part::all() {
        let list =
            query(made, part, &["--qf", "[%{FILEMODES:perms} %{FILEUSERNAME}:%{FILEGROUPNAME} %{FILENAMES}\n]"])?;
        let mut found = BTreeSet::new();
        for line in list.lines() {
            let (mode, rest) = line.split_once(' ').unwrap_or_default();
            let (owner, path) = rest.split_once(' ').unwrap_or_default();
            ensure!(owner == "root:root", "{path} belongs to {owner}");
            ensure!(
                !mode.contains(['s', 't']) && (mode.starts_with('l') || &mode[8..9] != "w"),
                "{path} has mode {mode}"
            );
            // Manual pages are compressed, documentation and licences are the package's own.
            let path = path.strip_suffix(".gz").unwrap_or(path);
            if !mode.starts_with('d')
                && !path.starts_with("/usr/share/doc/")
                && !path.starts_with("/usr/share/licenses/")
                && !path.starts_with("/usr/lib/.build-id/")
            {
                found.insert(path.to_owned());
            }
        }
        same(part.name(), &made.expected(part)?, &found)?;
        let licences = list.lines().filter(|l| l.contains("/usr/share/licenses/")).count();
        ensure!(licences >= 2, "{} comes without its licences", part.name());
    }
    Ok(())
}

fn scriptlets(made: &Made) -> Result<()> {
    for part in Part::all() {
        for what in ["--scripts", "--triggers", "--filetriggers"] {
            let found = query(made, part, &[what])?;
            ensure!(found.trim().is_empty(), "{} has {what}: {found}", part.name());
        }
    }
    Ok(())
}

fn requirements(made: &Made) -> Result<()> {
    let node = query(made, Part::Node, &["--requires"])?;
    ensure!(node.lines().any(|l| l == "systemd >= 252"), "nodebase does not require systemd: {node}");
    let tools = query(made, Part::Tools, &["--requires"])?;
    ensure!(!tools.lines().any(|l| l.starts_with("nodebase")), "the tools need a node's package: {tools}");
    // The generator is static: what it needs is in it.
    let generator = one(made.tree()?.join("usr/lib/systemd/system-generators").as_path(), "nodebase-generator", "")?;
    let headers = run(Command::new("readelf").arg("-ld").arg(generator))?;
    ensure!(!headers.contains("INTERP") && !headers.contains("(NEEDED)"), "the generator is not static: {headers}");
    Ok(())
}

fn lint(made: &Made) -> Result<()> {
    let mut rpmlint = command("rpmlint");
    rpmlint.arg("--config").arg(project().join("packaging/rpmlint.toml"));
    for part in Part::all() {
        rpmlint.arg(package(made, part)?);
    }
    let result = output(&mut rpmlint)?;
    let said = text(&result);
    ensure!(result.status.success() && said.contains("0 errors, 0 warnings"), "{said}");
    Ok(())
}

fn installs(made: &Made) -> Result<()> {
    let root = TempDir::new()?;
    let rpm = |arguments: &[&str]| {
        let mut rpm = Command::new("rpm");
        rpm.arg("--root").arg(root.path()).args(arguments);
        rpm
    };
    let before = files(root.path())?;
    let mut install = rpm(&["-i", "--nodeps"]);
    for part in Part::all() {
        install.arg(package(made, part)?);
    }
    run(&mut install)?;
    generates(root.path())?;
    let explain = root.path().join("usr/bin/nodebase");
    let said = run(Command::new(explain).args(["explain", "--platform", "metal", "--root"]).arg(root.path()))?;
    ensure!(said.contains("--hostname-override="), "explain in the installed root says {said}");
    let verify = run(&mut rpm(&["-V", "--nodeps", "nodebase"]))?;
    ensure!(verify.is_empty(), "rpm -V: {verify}");
    for part in Part::all().iter().rev() {
        run(&mut rpm(&["-e", "--nodeps", part.name()]))?;
    }
    let databases = ["/var/lib/rpm/", "/usr/lib/sysimage/rpm/", "/root/.rpmdb/"];
    let mut left = files(root.path())?;
    left.retain(|f| !before.contains(f) && !databases.iter().any(|d| f.starts_with(d)));
    ensure!(left.is_empty(), "left behind: {left:#?}");
    // Directories that are ours go too.
    for dir in ["usr/lib/nodebase", "usr/libexec/nodebase", "usr/lib/systemd/system/kubelet.service.d"] {
        ensure!(!root.path().join(dir).exists(), "left behind: /{dir}");
    }
    Ok(())
}

fn same_bytes(made: &Made) -> Result<()> {
    let again = TempDir::new()?;
    run(&mut dist("rpm", again.path()))?;
    for part in Part::all() {
        let first = package(made, part)?;
        let Some(name) = first.file_name() else { bail!("{} has no name", first.display()) };
        ensure!(fs::read(&first)? == fs::read(again.path().join(name))?, "{} differs", name.to_string_lossy());
    }
    Ok(())
}
