// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The documentation: links lead somewhere, command blocks do what the text says, manual pages format without a warning.
//!
//! A fenced block says by its first word how it is tested:
//!
//! - ` ```sh run ` is run as a script, in an empty directory, with the installed tree in `$IMAGE` and its `nodebase` in
//!   the path. Lines after `# =>` are expected in the output, in this order.
//! - ` ```console run ` is a session: commands after `$ `, and what they print, to the letter (`…`: any lines).
//! - ` ```json node.json `, ` ```json environment ` are given to the generator's own code.
//! - ` ```sh node ` needs a node, ` ```sh cluster ` a cluster, ` ```sh build ` an image build, ` ```sh dev ` this repository:
//!   they are checked for syntax, and that the programs of ours that they call know the options.

#[path = "docs/blocks.rs"]
mod blocks;
#[path = "docs/links.rs"]
mod links;
#[path = "docs/man.rs"]
mod man;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use libtest_mimic::{Arguments, Trial};
use nodebase_packages::{command, project, run};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    match trials() {
        Ok(trials) => libtest_mimic::run(&arguments, trials).exit_code(),
        Err(e) => {
            eprintln!("docs: {e:#}");
            ExitCode::FAILURE
        }
    }
}

fn trials() -> Result<Vec<Trial>> {
    let pages = markdown()?;
    let image = blocks::Image::make()?;
    let mut trials = man::trials();
    for page in &pages {
        trials.extend(links::trials(page));
        trials.extend(blocks::trials(page, &image)?);
    }
    Ok(trials)
}

/// A page of Markdown.
pub struct Page {
    /// Relative to the project.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// What it says.
    pub text: String,
}

fn markdown() -> Result<Vec<Page>> {
    let list = run(command("git").args(["ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.md"]))?;
    let mut pages = Vec::new();
    for name in list.split_terminator('\0').filter(|name| project().join(name).exists()) {
        let path = project().join(name);
        let text = std::fs::read_to_string(&path).with_context(|| format!("reading {name}"))?;
        pages.push(Page { name: name.to_owned(), path, text });
    }
    Ok(pages)
}
