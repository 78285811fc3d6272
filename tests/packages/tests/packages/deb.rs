// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Debian packages.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use anyhow::{Result, ensure};
use libtest_mimic::Trial;
use nodebase_packages::{command, files, output, run, same, text, trial};
use tempfile::TempDir;

use crate::tree::{Made, Part, generates, one};

type Check = fn(&Made) -> Result<()>;

pub fn trials(made: &Arc<Made>) -> Vec<Trial> {
    let checks: [(&str, Check); 4] = [
        ("deb/files-are-those-of-the-tree", listed),
        ("deb/no-maintainer-scripts", scripts),
        ("deb/lintian-is-clean", lint),
        ("deb/installs-works-and-goes-without-a-trace", installs),
    ];
    let trial = |(name, check): (&str, Check)| {
        let made = made.clone();
        trial(name, move || check(&made))
    };
    checks.into_iter().map(trial).collect()
}

fn package(made: &Made, part: Part) -> Result<PathBuf> {
    one(made.debs()?, &format!("{}_", part.name()), ".deb")
}

fn listed(made: &Made) -> Result<()> {
    for part in Part::all() {
        let dir = TempDir::new()?;
        run(Command::new("dpkg-deb").arg("-x").arg(package(made, part)?).arg(dir.path()))?;
        let mut found = std::collections::BTreeSet::new();
        for path in files(dir.path())? {
            let doc = ["/usr/share/doc/", "/usr/share/lintian/"].iter().any(|d| path.starts_with(d));
            if !doc {
                let path = path.strip_suffix(".gz").unwrap_or(&path);
                // Debian's name of zsh's directory.
                found.insert(path.replace("/zsh/vendor-completions/", "/zsh/site-functions/"));
            }
        }
        same(part.name(), &made.expected(part)?, &found)?;
    }
    Ok(())
}

fn scripts(made: &Made) -> Result<()> {
    for part in Part::all() {
        let dir = TempDir::new()?;
        run(Command::new("dpkg-deb").arg("-e").arg(package(made, part)?).arg(dir.path()))?;
        for script in ["preinst", "postinst", "prerm", "postrm", "config", "triggers"] {
            ensure!(!dir.path().join(script).exists(), "{} has a {script}", part.name());
        }
    }
    Ok(())
}

fn lint(made: &Made) -> Result<()> {
    let changes = one(made.debs()?, "nodebase_", ".changes")?;
    let mut lintian = command("lintian");
    lintian.args(["--allow-root", "--fail-on", "error,warning", "--tag-display-limit", "0"]);
    let result = output(lintian.arg(changes))?;
    let said = text(&result);
    ensure!(result.status.success() && !said.lines().any(|l| l.starts_with("E:") || l.starts_with("W:")), "{said}");
    Ok(())
}

fn installs(made: &Made) -> Result<()> {
    let root = TempDir::new()?;
    for dir in ["var/lib/dpkg/info", "var/lib/dpkg/updates"] {
        std::fs::create_dir_all(root.path().join(dir))?;
    }
    std::fs::write(root.path().join("var/lib/dpkg/status"), "")?;
    let before = files(root.path())?;
    let dpkg = |arguments: &[&str]| {
        let mut dpkg = Command::new("dpkg");
        // Dependencies are those of a whole system; an empty root has none.
        dpkg.arg(format!("--root={}", root.path().display())).args(["--force-depends", "--log=/dev/null"]);
        dpkg.args(arguments);
        dpkg
    };
    let mut install = dpkg(&["-i"]);
    for part in Part::all() {
        install.arg(package(made, part)?);
    }
    run(&mut install)?;
    generates(root.path())?;
    let verify = run(&mut dpkg(&["--verify"]))?;
    ensure!(verify.is_empty(), "dpkg --verify: {verify}");
    let mut purge = dpkg(&["--purge"]);
    run(purge.args(Part::all().iter().map(|p| p.name())))?;
    let left: Vec<_> =
        files(root.path())?.into_iter().filter(|f| !f.starts_with("/var/lib/dpkg/") && !before.contains(f)).collect();
    ensure!(left.is_empty(), "left behind: {left:#?}");
    ensure!(!root.path().join("usr/lib/nodebase").exists(), "left behind: /usr/lib/nodebase");
    Ok(())
}
