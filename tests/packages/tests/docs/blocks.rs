// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fenced blocks.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use libtest_mimic::Trial;
use nodebase_generator::environment::Map;
use nodebase_generator::layer::Name;
use nodebase_generator::node::Facts;
use nodebase_generator::report::Report;
use nodebase_packages::{command, output, project, run, text, trial};
use tempfile::TempDir;

use crate::Page;

/// What blocks are run against: the installed tree.
pub struct Image {
    tree: TempDir,
}

impl Image {
    pub fn make() -> Result<Arc<Self>> {
        let tree = TempDir::new()?;
        run(command("make").args(["-s", "install", &format!("DESTDIR={}", tree.path().display())]))?;
        Ok(Arc::new(Self { tree }))
    }

    fn nodebase(&self) -> std::path::PathBuf {
        self.tree.path().join("usr/bin/nodebase")
    }
}

/// A fenced block.
#[derive(Clone, Debug)]
struct Block {
    /// The line of the fence, from 1.
    line: usize,
    /// What stands behind the fence.
    kind: String,
    text: String,
}

fn blocks(text: &str) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    let mut open = false;
    for (i, line) in text.lines().enumerate() {
        if let Some(kind) = line.trim_start().strip_prefix("```") {
            if !open {
                found.push(Block { line: i + 1, kind: kind.trim().to_owned(), text: String::new() });
            }
            open = !open;
        } else if let (true, Some(block)) = (open, found.last_mut()) {
            block.text.push_str(line);
            block.text.push('\n');
        }
    }
    found
}

pub fn trials(page: &Page, image: &Arc<Image>) -> Result<Vec<Trial>> {
    ensure!(page.text.matches("\n```").count().is_multiple_of(2), "{}: a fence is not closed", page.name);
    let mut trials = Vec::new();
    for block in blocks(&page.text) {
        let (image, name) = (image.clone(), format!("blocks/{}:{} {}", page.name, block.line, block.kind));
        let mut words = block.kind.split(' ');
        let check: fn(&Block, &Image) -> Result<()> = match (words.next().unwrap_or_default(), words.next()) {
            ("sh", Some("run")) => run_block,
            ("console", Some("run")) => session,
            ("sh" | "bash", None | Some("node" | "cluster" | "build" | "dev")) => read_block,
            ("sh", Some(other)) => {
                bail!("{}:{}: sh {other}: is it run, node, cluster, build or dev?", page.name, block.line)
            }
            ("json", Some("node.json")) => node_json,
            ("json", Some("environment")) => environment,
            ("json", None) => json,
            _ => continue,
        };
        trials.push(trial(name, move || check(&block, &image)));
    }
    let text = page.text.clone();
    if text.contains("/layers/") {
        trials.push(trial(format!("layers/{}", page.name), move || layers(&text)));
    }
    Ok(trials)
}

fn run_block(block: &Block, image: &Image) -> Result<()> {
    let dir = TempDir::new()?;
    let path = format!("{}/usr/bin:{}", image.tree.path().display(), std::env::var("PATH").unwrap_or_default());
    let mut bash = Command::new("bash");
    bash.args(["-euo", "pipefail", "-c", &block.text]).current_dir(dir.path());
    bash.env("PATH", path).env("IMAGE", image.tree.path()).env("LC_ALL", "C.UTF-8");
    let result = output(&mut bash)?;
    let said = text(&result);
    ensure!(result.status.success(), "{}\n{said}", result.status);
    let mut rest = said.as_str();
    for expected in block.text.lines().filter_map(|l| l.trim_start().strip_prefix("# => ")) {
        rest = rest
            .split_once(expected)
            .with_context(|| format!("{expected:?} is not in the output, or not here:\n{said}"))?
            .1;
    }
    Ok(())
}

/// A session: after each `$ ` a command, then what it prints, to the letter; a line `…` stands for any number of lines.
/// `image` is the installed tree.
fn session(block: &Block, image: &Image) -> Result<()> {
    let dir = TempDir::new()?;
    run(Command::new("cp").arg("-a").arg(image.tree.path()).arg(dir.path().join("image")))?;
    let path = format!("{}/image/usr/bin:{}", dir.path().display(), std::env::var("PATH").unwrap_or_default());
    let mut lines = block.text.lines().peekable();
    while let Some(line) = lines.next() {
        let shell = line.strip_prefix("$ ").with_context(|| format!("{line:?} is no command"))?;
        let mut expected = Vec::new();
        while let Some(line) = lines.next_if(|l| !l.starts_with("$ ")) {
            expected.push(line);
        }
        let mut bash = Command::new("bash");
        bash.args(["-c", &format!("exec 2>&1; {shell}")]).current_dir(dir.path());
        bash.env("PATH", &path).env("LC_ALL", "C.UTF-8").env("COLUMNS", "120");
        let said = output(&mut bash)?;
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        let said: Vec<&str> = said.lines().map(str::trim_end).collect();
        ensure!(matches(&expected, &said), "$ {shell}\nprints:\n{}", said.join("\n"));
    }
    Ok(())
}

fn matches(expected: &[&str], said: &[&str]) -> bool {
    match expected.split_first() {
        None => said.is_empty(),
        Some((&"…", rest)) => (0..=said.len()).any(|n| matches(rest, said.get(n..).unwrap_or_default())),
        Some((line, rest)) => said.split_first().is_some_and(|(s, after)| s == line && matches(rest, after)),
    }
}

/// What cannot be run here is read: is it shell, and do programs and targets of ours know what it asks of them?
fn read_block(block: &Block, image: &Image) -> Result<()> {
    run(Command::new("bash").args(["-n", "-c", &block.text]))?;
    let lines = block.text.replace("\\\n", " ");
    for line in lines.lines().map(str::trim) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["nodebase", verb, rest @ ..] if !verb.starts_with('-') => {
                let help = run(Command::new(image.nodebase()).args([verb, "--help"]))
                    .with_context(|| format!("{line}: there is no such verb"))?;
                for option in rest.iter().take_while(|w| **w != "#").filter(|w| w.starts_with("--")) {
                    let option = option.split('=').next().unwrap_or_default();
                    ensure!(help.contains(option), "{line}: {verb} has no {option}");
                }
            }
            ["make", rest @ ..] => {
                let known = targets()?;
                for target in rest.iter().take_while(|w| **w != "#").filter(|w| !w.contains('=') && !w.starts_with('-'))
                {
                    ensure!(known.contains(*target), "{line}: the Makefile has no {target}");
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn targets() -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for file in run(command("git").args(["ls-files", "Makefile", "*.mk"]))?.lines() {
        for line in fs::read_to_string(project().join(file))?.lines().filter(|l| !l.starts_with(['\t', '#', ' '])) {
            let Some((names, _)) = line.split_once(':') else { continue };
            found.extend(names.split_whitespace().map(str::to_owned));
        }
    }
    Ok(found)
}

fn node_json(block: &Block, _: &Image) -> Result<()> {
    let (mut facts, mut report) = (Facts::default(), Report::default());
    facts.add_file("node.json", block.text.as_bytes(), &mut report);
    ensure!(report.notes().is_empty(), "{:#?}", report.notes());
    ensure!(!facts.all().is_empty(), "it has no fact");
    Ok(())
}

fn environment(block: &Block, _: &Image) -> Result<()> {
    Map::default().add(block.text.as_bytes()).map_err(|e| anyhow::anyhow!("{e}"))
}

fn json(block: &Block, _: &Image) -> Result<()> {
    serde_json::from_str::<serde_json::Value>(&block.text).context("no JSON").map(drop)
}

/// Names of layers are such as the generator takes.
fn layers(text: &str) -> Result<()> {
    for part in text.split("/layers/").skip(1) {
        let name = part.split(|c: char| c == '/' || c == '`' || c.is_whitespace()).next().unwrap_or_default();
        if name.contains('=') && !name.contains(['<', '$', '…', '*', '{']) {
            Name::parse(name).map_err(|e| anyhow::anyhow!("{name}: {e}"))?;
        }
    }
    Ok(())
}
