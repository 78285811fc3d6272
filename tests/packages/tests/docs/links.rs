// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Links between pages, and to headings in them.

use std::fs;

use anyhow::{Context, Result, bail};
use libtest_mimic::Trial;
use nodebase_packages::trial;

use crate::Page;

pub fn trials(page: &Page) -> Vec<Trial> {
    let (name, path, text) = (page.name.clone(), page.path.clone(), page.text.clone());
    vec![trial(format!("links/{name}"), move || {
        let mut bad = Vec::new();
        for link in links(&text) {
            if let Err(e) = check(&path, &text, &link) {
                bad.push(format!("{link}: {e:#}"));
            }
        }
        if bad.is_empty() { Ok(()) } else { bail!("{bad:#?}") }
    })]
}

/// Targets of `[text](target)`, outside of code.
fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut fenced = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        // Parts with an odd number are code.
        for part in line.split('`').step_by(2) {
            for rest in part.split("](").skip(1) {
                if let Some((target, _)) = rest.split_once(')') {
                    found.push(target.to_owned());
                }
            }
        }
    }
    found
}

fn check(page: &std::path::Path, own: &str, link: &str) -> Result<()> {
    if link.starts_with("https://") || link.starts_with("mailto:") {
        return Ok(());
    }
    if link.contains("://") || link.starts_with('/') {
        bail!("links are relative, or https");
    }
    let (file, heading) = link.split_once('#').map_or((link, None), |(f, h)| (f, Some(h)));
    let text = if file.is_empty() {
        own.to_owned()
    } else {
        let path = page.parent().context("a page without a directory")?.join(file);
        if path.is_dir() { String::new() } else { fs::read_to_string(&path).context("there is no such file")? }
    };
    match heading {
        Some(heading) if !text.lines().filter_map(anchor).any(|a| a == heading) => bail!("there is no such heading"),
        _ => Ok(()),
    }
}

/// A heading's anchor, as forges make it.
fn anchor(line: &str) -> Option<String> {
    let title = line.strip_prefix('#')?.trim_start_matches('#').strip_prefix(' ')?;
    let kept = title
        .to_lowercase()
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .collect::<String>();
    Some(kept.replace(' ', "-"))
}
