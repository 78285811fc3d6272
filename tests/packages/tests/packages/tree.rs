// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What several tests need: the installed tree, and packages that are made once.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow, bail};
use nodebase_packages::{command, files, project, run};
use tempfile::TempDir;

/// A time stamp for all packages of the tests.
pub const EPOCH: &str = "1700000000";

/// Which package a file belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Generator and units.
    Node,
    /// The initramfs part.
    Dracut,
    /// The command.
    Tools,
}

impl Part {
    /// The three of them, those only that this source has.
    pub fn all() -> Vec<Self> {
        let mut parts = vec![Self::Node, Self::Tools];
        if has_dracut() {
            parts.push(Self::Dracut);
        }
        parts
    }

    /// The package's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Node => "nodebase",
            Self::Dracut => "nodebase-dracut",
            Self::Tools => "nodebase-tools",
        }
    }

    /// The part that an installed file belongs to.
    pub fn of(path: &str) -> Self {
        let tools =
            ["/usr/bin/", "/usr/share/man/man1/", "/usr/share/bash-completion/", "/usr/share/fish/", "/usr/share/zsh/"];
        if path.starts_with("/usr/lib/dracut/") {
            Self::Dracut
        } else if tools.iter().any(|t| path.starts_with(t)) {
            Self::Tools
        } else {
            Self::Node
        }
    }
}

/// Does this source have the initramfs part?
pub fn has_dracut() -> bool {
    project().join("dracut/35nodebase").is_dir()
}

/// Things that are made once, by the first test that needs them.
#[derive(Default)]
pub struct Made {
    tree: OnceLock<Result<TempDir, String>>,
    rpms: OnceLock<Result<TempDir, String>>,
    debs: OnceLock<Result<TempDir, String>>,
}

impl Made {
    /// The tree that `make install` makes.
    pub fn tree(&self) -> Result<&Path> {
        once(&self.tree, |dir| {
            run(command("make").args(["-s", "install", &format!("DESTDIR={}", dir.display())])).map(drop)
        })
    }

    /// A directory with the RPMs.
    pub fn rpms(&self) -> Result<&Path> {
        once(&self.rpms, |dir| run(&mut dist("rpm", dir)).map(drop))
    }

    /// A directory with the Debian packages.
    pub fn debs(&self) -> Result<&Path> {
        once(&self.debs, |dir| run(&mut dist("deb", dir)).map(drop))
    }

    /// Files of the tree that belong to a part.
    pub fn expected(&self, part: Part) -> Result<BTreeSet<String>> {
        Ok(files(self.tree()?)?.into_iter().filter(|f| Part::of(f) == part).collect())
    }
}

fn once(cell: &OnceLock<Result<TempDir, String>>, make: impl FnOnce(&Path) -> Result<()>) -> Result<&Path> {
    let made = cell.get_or_init(|| {
        let dir = TempDir::new().map_err(|e| e.to_string())?;
        make(dir.path()).map_err(|e| format!("{e:#}"))?;
        Ok(dir)
    });
    made.as_ref().map(TempDir::path).map_err(|e| anyhow!("{e}"))
}

/// `packaging/dist WHAT` into a directory, with the programs that are there.
pub fn dist(what: &str, out: &Path) -> Command {
    let mut dist = command("packaging/dist");
    dist.arg(what).env("NODEBASE_DIST", out).env("NODEBASE_PREBUILT", project()).env("SOURCE_DATE_EPOCH", EPOCH);
    // What a person has set for other builds.
    dist.env_remove("DEB_BUILD_OPTIONS").env_remove("MAKEFLAGS").env_remove("MFLAGS");
    dist
}

/// The version in Cargo.toml.
pub fn version() -> Result<String> {
    let text = std::fs::read_to_string(project().join("Cargo.toml")).context("reading Cargo.toml")?;
    let line = text.lines().find_map(|l| l.strip_prefix("version = \"")).context("Cargo.toml has no version")?;
    Ok(line.trim_end_matches('"').to_owned())
}

/// The only file of a directory with this beginning and end.
pub fn one(dir: &Path, prefix: &str, suffix: &str) -> Result<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).with_context(|| format!("reading {}", dir.display()))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.strip_prefix(prefix).is_some_and(|rest| rest.ends_with(suffix)) {
            found.push(dir.join(name));
        }
    }
    match found.as_slice() {
        [path] => Ok(path.clone()),
        _ => bail!("expected one {prefix}…{suffix} in {}, found {found:?}", dir.display()),
    }
}

/// The generator of an installed root works there: it finds its tables and layers and writes the marker.
pub fn generates(root: &Path) -> Result<()> {
    let out = TempDir::new()?;
    let generator = root.join("usr/lib/systemd/system-generators/nodebase-generator");
    let mut generator = Command::new(generator);
    generator.arg(out.path()).env("NODEBASE_ROOT", root).env("SYSTEMD_PROC_CMDLINE", "ignition.platform.id=aws");
    run(&mut generator)?;
    let marker = std::fs::read_to_string(out.path().join("nodebase.complete")).context("reading the marker")?;
    if !marker.ends_with("\nNODEBASE_PLATFORM=aws\n") {
        bail!("the marker says {marker:?}");
    }
    Ok(())
}
