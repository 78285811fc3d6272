// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One boot: what is laid over the root file system, which script runs, what comes back.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

/// The repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The tree that `make install DESTDIR=` made; `make check-nspawn` names it.
pub fn tree() -> Result<PathBuf> {
    let tree = std::env::var_os("NODEBASE_TREE").context("NODEBASE_TREE is not set: run `make check-nspawn`")?;
    Ok(tree.into())
}

/// The root file system of a systemd version, made when it is not there yet.
pub fn root(version: &str) -> Result<PathBuf> {
    let output = Command::new(repository().join("tests/roots/make-root")).arg(version).output()?;
    ensure!(output.status.success(), "make-root {version}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?.trim().into())
}

/// A boot to be.
pub struct Boot {
    overlay: tempfile::TempDir,
    results: tempfile::TempDir,
    arguments: Vec<String>,
}

impl Boot {
    /// The installed tree with the stand-ins, booted with `arguments` for PID 1.
    pub fn new(arguments: &[&str]) -> Result<Self> {
        Self::over(&[tree()?, repository().join("tests/nspawn/standins")], arguments)
    }

    /// The given trees instead of the installed one and the stand-ins.
    pub fn over(trees: &[PathBuf], arguments: &[&str]) -> Result<Self> {
        let overlay = tempfile::tempdir()?;
        let results = tempfile::tempdir()?;
        for source in trees {
            let status = Command::new("cp").arg("-a").arg(source.join(".")).arg(overlay.path()).status()?;
            ensure!(status.success(), "cp {} failed", source.display());
        }
        // mkdtemp's 0700 would become the container's root directory.
        fs::set_permissions(overlay.path(), fs::Permissions::from_mode(0o755))?;
        fs::copy(repository().join("tests/nspawn/guest/collect.sh"), results.path().join("collect.sh"))?;
        Ok(Self { overlay, results, arguments: arguments.iter().map(|a| (*a).to_owned()).collect() })
    }

    /// A path in the overlay.
    pub fn path(&self, path: &str) -> PathBuf {
        self.overlay.path().join(path.trim_start_matches('/'))
    }

    /// Writes a file into the overlay.
    pub fn write(&self, path: &str, text: &str) -> Result<()> {
        let path = self.path(path);
        fs::create_dir_all(path.parent().context("no parent")?)?;
        fs::write(path, text)?;
        Ok(())
    }

    /// Makes a symbolic link in the overlay.
    pub fn link(&self, target: &str, path: &str) -> Result<()> {
        let path = self.path(path);
        fs::create_dir_all(path.parent().context("no parent")?)?;
        Ok(std::os::unix::fs::symlink(target, path)?)
    }

    /// Hands a file to the script.
    pub fn give(&self, name: &str, text: &str) -> Result<()> {
        Ok(fs::write(self.results.path().join(name), text)?)
    }

    /// Boots and runs `tests/nspawn/guest/<script>`.
    pub fn run(self, version: &str, script: &str) -> Result<Outcome> {
        let output = Command::new(repository().join("tests/nspawn/boot"))
            .arg(root(version)?)
            .arg(self.overlay.path())
            .arg(repository().join("tests/nspawn/guest").join(script))
            .arg(self.results.path())
            .args(&self.arguments)
            .output()?;
        if !output.status.success() {
            bail!("systemd {version}: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(Outcome { results: self.results })
    }
}

/// What a boot left.
pub struct Outcome {
    results: tempfile::TempDir,
}

impl Outcome {
    /// A file of the results, as text.
    pub fn text(&self, path: &str) -> Result<String> {
        let full = self.results.path().join(path);
        let bytes = fs::read(&full).with_context(|| {
            let out = fs::read_to_string(self.results.path().join("out")).unwrap_or_default();
            format!("no result {path}; the script said: {out}")
        })?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Is there such a file?
    pub fn has(&self, path: &str) -> bool {
        self.results.path().join(path).symlink_metadata().is_ok()
    }

    /// A property of kubelet.service in a dump.
    pub fn kubelet(&self, dump: &str, property: &str) -> Result<String> {
        let show = self.text(&format!("{dump}/kubelet.show"))?;
        let prefix = format!("{property}=");
        // A property that holds lists is printed once for each in some versions.
        let values: Vec<_> = show.lines().filter_map(|l| l.strip_prefix(&prefix)).collect();
        Ok(values.join(" "))
    }

    /// The environment of the recorded kubelet.
    pub fn environment(&self, dump: &str) -> Result<BTreeMap<String, String>> {
        let text = self.text(&format!("{dump}/kubelet/env.0"))?;
        Ok(text.lines().filter_map(|l| l.split_once('=')).map(|(k, v)| (k.to_owned(), v.to_owned())).collect())
    }

    /// The command line of the recorded kubelet.
    pub fn argv(&self, dump: &str) -> Result<Vec<String>> {
        Ok(self.text(&format!("{dump}/kubelet/argv.0"))?.lines().map(str::to_owned).collect())
    }
}
