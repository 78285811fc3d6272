// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Manual pages.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};
use libtest_mimic::Trial;
use nodebase_generator::platform::Table;
use nodebase_packages::{command, output, project, run, text, trial};
use tempfile::TempDir;

pub fn trials() -> Vec<Trial> {
    vec![
        trial("man/format-without-a-warning", format),
        trial("man/every-verb-has-a-page", verbs),
        trial("man/platforms-are-those-of-the-table", platforms),
        trial("man/pages-that-are-named-exist", references),
        trial("man/completions-load", completions),
    ]
}

/// Pages, those of the commands made anew.
fn pages(dir: &Path) -> Result<Vec<PathBuf>> {
    nodebase_pages::commands(&dir.join("man"), &dir.join("completions"))?;
    let mut pages = Vec::new();
    for place in [project().join("docs/man"), dir.join("man")] {
        for entry in fs::read_dir(&place).with_context(|| format!("reading {}", place.display()))? {
            pages.push(entry?.path());
        }
    }
    pages.sort();
    ensure!(pages.len() >= 6, "found {pages:?} only");
    Ok(pages)
}

fn format() -> Result<()> {
    let dir = TempDir::new()?;
    for page in pages(dir.path())? {
        let lint = output(command("mandoc").args(["-T", "lint", "-W", "warning"]).arg(&page))?;
        ensure!(lint.status.success() && lint.stdout.is_empty(), "{}", text(&lint));
        let mut groff = command("man");
        groff.args(["--warnings", "-l", "-Tutf8"]).arg(&page).env("MANWIDTH", "80").env("MAN_KEEP_FORMATTING", "1");
        let groff = output(&mut groff)?;
        ensure!(
            groff.status.success() && groff.stderr.is_empty(),
            "{}: {}",
            page.display(),
            String::from_utf8_lossy(&groff.stderr)
        );
        ensure!(groff.stdout.len() > 500, "{} is empty", page.display());
    }
    Ok(())
}

fn verbs() -> Result<()> {
    let dir = TempDir::new()?;
    pages(dir.path())?;
    let help = run(command(&project().join("target/release/nodebase").to_string_lossy()).arg("--help"))?;
    let list = help.split_once("Commands:\n").context("no list of verbs in --help")?.1;
    let mut count = 0;
    for line in list.lines().take_while(|l| l.starts_with("  ")) {
        // Further lines of a description are indented more.
        let Some(verb) = line.strip_prefix("  ").filter(|l| !l.starts_with(' ')) else { continue };
        let verb = verb.split(' ').next().unwrap_or_default();
        if verb == "help" {
            continue;
        }
        let page = dir.path().join(format!("man/nodebase-{verb}.1"));
        let page = fs::read_to_string(&page).with_context(|| format!("the verb {verb} has no page"))?;
        ensure!(page.contains(".SH OPTIONS"), "nodebase-{verb}(1) has no options");
        count += 1;
    }
    ensure!(count > 0, "no verb found in {help}");
    Ok(())
}

fn platforms() -> Result<()> {
    let json = fs::read(project().join("units/platforms.json")).context("reading units/platforms.json")?;
    let page = fs::read_to_string(project().join("docs/man/nodebase-platforms.7")).context("reading the page")?;
    ensure!(
        nodebase_pages::platforms_page(&json)? == page,
        "docs/man/nodebase-platforms.7 is old: make docs/man/nodebase-platforms.7"
    );
    // Its columns are explained where people look them up.
    let table = Table::parse(&json).map_err(|e| anyhow!("units/platforms.json: {e}"))?;
    let columns: BTreeSet<&str> =
        table.platforms().iter().flat_map(|r| &r.columns).map(|(name, _)| name.as_str()).collect();
    for file in ["docs/add-a-platform.md", "docs/man/nodebase-layers.5"] {
        let text = fs::read_to_string(project().join(file)).with_context(|| format!("reading {file}"))?;
        let missing: Vec<_> = columns.iter().filter(|c| !text.contains(**c)).collect();
        ensure!(missing.is_empty(), "{file} does not name {missing:?}");
    }
    ensure!(page.contains(".It aws Ta AWS Ta always Ta aws Ta"), "no row for aws");
    Ok(())
}

/// `Documentation=man:` of units, `.Xr` of pages, and names in Markdown lead to a page of ours or of systemd's.
fn references() -> Result<()> {
    let dir = TempDir::new()?;
    let ours: Vec<String> = pages(dir.path())?
        .iter()
        .filter_map(|p| p.file_name()?.to_string_lossy().rsplit_once('.').map(|(n, s)| format!("{n}({s})")))
        .collect();
    let mut bad = Vec::new();
    let tracked = run(command("git").args(["ls-files", "units", "docs", "README.md", "*.md"]))?;
    for name in tracked.lines() {
        let Ok(text) = fs::read_to_string(project().join(name)) else { continue };
        for (i, line) in text.lines().enumerate() {
            for reference in named(line) {
                if !ours.contains(&reference) {
                    bad.push(format!("{name}:{}: {reference}", i + 1));
                }
            }
        }
    }
    if bad.is_empty() { Ok(()) } else { bail!("no such page: {bad:#?}") }
}

/// `nodebase…(N)` and `node.json(N)` in a line, however they are marked up.
fn named(line: &str) -> Vec<String> {
    let plain = line.strip_prefix(".Xr ").map_or_else(
        || line.to_owned(),
        |xr| {
            let mut words = xr.split(' ');
            format!("{}({})", words.next().unwrap_or_default(), words.next().unwrap_or_default())
        },
    );
    let mut found = Vec::new();
    for (at, _) in plain.match_indices('(') {
        let section = plain.get(at + 1..at + 3).unwrap_or_default();
        let name: Vec<char> = plain
            .get(..at)
            .unwrap_or_default()
            .chars()
            .rev()
            .take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_'))
            .collect();
        let name: String = name.into_iter().rev().collect();
        let number = section.chars().next().is_some_and(|c| c.is_ascii_digit()) && section.ends_with(')');
        if number && (name.starts_with("nodebase") || name.starts_with("node-") || name == "node.json") {
            found.push(format!("{name}({})", &section[..1]));
        }
    }
    found
}

fn completions() -> Result<()> {
    let dir = TempDir::new()?;
    pages(dir.path())?;
    let script = "source \"$1\"; COMP_WORDS=(nodebase ex); COMP_CWORD=1; _nodebase nodebase ex nodebase; echo \"${COMPREPLY[*]}\"";
    let file = dir.path().join("completions/nodebase.bash");
    let said = run(command("bash").args(["-c", script, "bash"]).arg(file))?;
    ensure!(said.contains("explain"), "bash completes `nodebase ex` to {said:?}");
    for name in ["_nodebase", "nodebase.fish"] {
        let text = fs::read_to_string(dir.path().join("completions").join(name))?;
        ensure!(text.contains("explain"), "{name} does not know explain");
    }
    Ok(())
}
