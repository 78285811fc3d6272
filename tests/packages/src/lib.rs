// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the tests of packages and documentation share: the project's directory, and running programs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, bail};
use libtest_mimic::{Failed, Trial};

/// The project's directory.
pub fn project() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

/// A command in the project's directory, with the C locale.
pub fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    command.current_dir(project()).env("LC_ALL", "C.UTF-8");
    command
}

/// Runs a command and gives what it printed.
///
/// # Errors
/// A command that cannot be started or that fails, with both its outputs.
pub fn run(command: &mut Command) -> Result<String> {
    let output = output(command)?;
    if !output.status.success() {
        bail!("{command:?}: {}\n{}", output.status, text(&output));
    }
    String::from_utf8(output.stdout).with_context(|| format!("{command:?} printed no UTF-8"))
}

/// Runs a command and gives its result, whatever it is.
///
/// # Errors
/// A command that cannot be started.
pub fn output(command: &mut Command) -> Result<Output> {
    command.output().with_context(|| format!("running {command:?} (make setup installs what the tests need)"))
}

/// Both outputs of a command.
pub fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// A test.
pub fn trial(name: impl Into<String>, check: impl FnOnce() -> Result<()> + Send + 'static) -> Trial {
    Trial::test(name, move || check().map_err(|e| Failed::from(format!("{e:#}"))))
}

/// Files and links below a directory, as the paths that they have when it is the root.
///
/// # Errors
/// A directory that cannot be read.
pub fn files(root: &Path) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    let mut open = vec![root.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(&dir).with_context(|| format!("reading {}", dir.display()))? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                open.push(entry.path());
            } else {
                let path = entry.path();
                found.insert(format!("/{}", path.strip_prefix(root)?.display()));
            }
        }
    }
    Ok(found)
}

/// Says which elements only one of two sets has.
///
/// # Errors
/// When there is such an element.
pub fn same(what: &str, expected: &BTreeSet<String>, found: &BTreeSet<String>) -> Result<()> {
    let missing: Vec<_> = expected.difference(found).collect();
    let extra: Vec<_> = found.difference(expected).collect();
    if missing.is_empty() && extra.is_empty() {
        return Ok(());
    }
    bail!("{what}: missing: {missing:#?}; too much: {extra:#?}")
}
