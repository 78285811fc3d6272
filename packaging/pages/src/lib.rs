// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Manual pages and shell completions that follow from code and tables.
//!
//! A build-time program: what is installed needs none of the crates that format pages.

mod platforms;

use std::fmt::Write as _;
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
    write_page(&cli, man)?;
    for verb in cli.get_subcommands().filter(|verb| !verb.is_hide_set() && verb.get_name() != "help") {
        write_page(verb, man)?;
    }
    for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
        let mut cli = Cli::command();
        clap_complete::generate_to(shell, &mut cli, "nodebase", completions)
            .with_context(|| format!("writing completions for {shell} to {}", completions.display()))?;
    }
    Ok(())
}

fn write_page(command: &Command, dir: &Path) -> Result<()> {
    // After `build` it is the whole path: nodebase-explain.
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let text = page(command, &name).with_context(|| format!("formatting {name}.1"))?;
    let path = dir.join(format!("{name}.1"));
    fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
}

/// The date of all pages: the same source gives the same page.
const DATE: &str = "2026-12-01";

fn page(command: &Command, name: &str) -> Result<String> {
    let man = clap_mangen::Man::new(command.clone())
        .title(name.to_uppercase())
        .section("1")
        .date(DATE)
        .source("nodebase")
        .manual("nodebase");
    let mut bytes = Vec::new();
    man.render_title(&mut bytes)?;
    man.render_name_section(&mut bytes)?;
    man.render_synopsis_section(&mut bytes)?;
    man.render_description_section(&mut bytes)?;
    man.render_options_section(&mut bytes)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut bytes)?;
    }
    let mut text = String::from_utf8(bytes)?;
    // An empty line between two line breaks is what a paragraph's space is for.
    for (two, one) in [(".br\n\n.br\n", ".sp\n"), (" \n", "\n")] {
        text = text.replace(two, one);
    }
    if let Some(after) = command.get_after_long_help().or(command.get_after_help()) {
        text.push_str(&closing(&after.to_string()));
    }
    text.push_str(".SH SEE ALSO\n");
    let others =
        ["nodebase(1)", "node.json(5)", "nodebase-layers(5)", "nodebase-platforms(7)", "nodebase-generator(8)"];
    let others: Vec<&str> = others.into_iter().filter(|o| o.trim_end_matches("(1)") != name).collect();
    let _ = writeln!(text, "{}", escaped(&others.join(", ")));
    Ok(text)
}

/// What `--help` says last, in sections: the part after `Examples:` as it stands, the exit status, the rest.
fn closing(after: &str) -> String {
    let mut text = String::new();
    for paragraph in after.split("\n\n") {
        if let Some((title, body)) = paragraph.split_once(":\n") {
            let _ = writeln!(text, ".SH {}\n.nf", escaped(&title.to_uppercase()));
            for line in body.lines() {
                let _ = writeln!(text, "{}", escaped(line));
            }
            text.push_str(".fi\n");
        } else {
            let (note, status) = paragraph.split_once("Exit status: ").map_or((paragraph, None), |(n, s)| (n, Some(s)));
            for (title, body) in [("NOTES", Some(note)), ("EXIT STATUS", status)] {
                if let Some(body) = body.map(str::trim).filter(|b| !b.is_empty()) {
                    let _ = writeln!(text, ".SH {title}\n{}", escaped(&body.replace('\n', " ")));
                }
            }
        }
    }
    text
}

/// A line of text that roff takes as text.
fn escaped(line: &str) -> String {
    let line = line.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq");
    if line.starts_with('.') { format!("\\&{line}") } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_becomes_sections() {
        let text = closing("Examples:\n  a --b\n  .c 'd'\n\nExit status: 0\nwell.\n\nMore. Exit status: 1");
        assert_eq!(
            text,
            ".SH EXAMPLES\n.nf\n  a \\-\\-b\n  .c \\(aqd\\(aq\n.fi\n.SH EXIT STATUS\n0 well.\n.SH NOTES\nMore.\n.SH EXIT STATUS\n1\n"
        );
        assert_eq!(escaped(".x\\"), "\\&.x\\e");
    }
}
