// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Manual pages and shell completions that follow from code and tables.
//!
//! A build-time program: what is installed needs none of the crates that format pages.

mod platforms;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use clap::{Command, CommandFactory};
use clap_complete::Shell;
use nodebase::cli::Cli;

pub use platforms::page as platforms_page;

/// Writes nodebase(1), a page for each verb, and completions for three shells.
///
/// # Errors
/// A directory or file that cannot be written.
pub fn commands(man: &Path, completions: &Path) -> Result<()> {
    for dir in [man, completions] {
        fs::create_dir_all(dir).with_context(|| format!("making {}", dir.display()))?;
    }
    let mut cli = Cli::command();
    cli.build();
    write_page(&cli, None, man)?;
    for verb in cli.get_subcommands().filter(|verb| !verb.is_hide_set() && verb.get_name() != "help") {
        write_page(verb, Some(cli.get_name()), man)?;
    }
    for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
        let mut cli = Cli::command();
        clap_complete::generate_to(shell, &mut cli, "nodebase", completions)
            .with_context(|| format!("writing completions for {shell} to {}", completions.display()))?;
    }
    Ok(())
}

fn write_page(command: &Command, of: Option<&str>, dir: &Path) -> Result<()> {
    let name = of.map_or_else(|| command.get_name().to_owned(), |of| format!("{of}-{}", command.get_name()));
    let mut page = Vec::new();
    // No date and no version in the header: the same source gives the same page.
    clap_mangen::Man::new(command.clone().name(name.clone()))
        .title(name.to_uppercase())
        .section("1")
        .source("nodebase")
        .manual("nodebase")
        .render(&mut page)
        .with_context(|| format!("formatting {name}.1"))?;
    let path = dir.join(format!("{name}.1"));
    fs::write(&path, page).with_context(|| format!("writing {}", path.display()))
}
