// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The root file system of a systemd version with a tree laid over it, mounted for programs that run in it without a boot.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::boot::{repository, root, tree};

/// A mounted root; unmounted when dropped.
pub struct Mounted {
    work: tempfile::TempDir,
}

impl Mounted {
    /// The installed tree and the stand-ins over the root of `version`.
    pub fn new(version: &str) -> Result<Self> {
        Self::over(version, &[tree()?, repository().join("tests/nspawn/standins")])
    }

    /// Nothing but the root of `version`, writable.
    pub fn bare(version: &str) -> Result<Self> {
        Self::over(version, &[])
    }

    fn over(version: &str, sources: &[PathBuf]) -> Result<Self> {
        let work = tempfile::tempdir()?;
        for dir in ["upper", "work", "root"] {
            fs::create_dir(work.path().join(dir))?;
        }
        for source in sources {
            run(Command::new("cp").arg("-a").arg(source.join(".")).arg(work.path().join("upper")))?;
        }
        let options = format!(
            "lowerdir={},upperdir={w}/upper,workdir={w}/work",
            root(version)?.display(),
            w = work.path().display()
        );
        run(Command::new("mount").args(["-t", "overlay", "overlay", "-o", &options]).arg(work.path().join("root")))?;
        Ok(Self { work })
    }

    /// Where it is mounted.
    pub fn root(&self) -> PathBuf {
        self.work.path().join("root")
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.root()).status();
    }
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
