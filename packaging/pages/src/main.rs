// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes pages: `nodebase-pages commands MAN COMPLETIONS` those of the commands, `nodebase-pages platforms TABLE PAGE`
//! the one about platforms.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

fn main() -> ExitCode {
    match run(&std::env::args().skip(1).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("nodebase-pages: {e:#}");
            ExitCode::from(2)
        }
    }
}

fn run(args: &[String]) -> Result<()> {
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["commands", man, completions] => nodebase_pages::commands(Path::new(man), Path::new(completions)),
        ["platforms", table, page] => {
            let json = std::fs::read(table).with_context(|| format!("reading {table}"))?;
            let text = nodebase_pages::platforms_page(&json).with_context(|| format!("reading {table}"))?;
            std::fs::write(page, text).with_context(|| format!("writing {page}"))
        }
        _ => bail!("usage: nodebase-pages commands MAN COMPLETIONS | platforms TABLE PAGE"),
    }
}
