// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a verb reports.

use std::io::{self, Write};

use anyhow::{Context, Result};
use clap::ValueEnum;
use serde::Serialize;

/// What a verb found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing to object to: exit status 0.
    Well,
    /// Something that a person should look at: exit status 1.
    Finding,
}

/// The form of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    #[default]
    Text,
    /// For programs
    Json,
}

/// Prints a report in the form that was asked for.
///
/// # Errors
/// When standard output cannot be written; a reader that went away early is none.
pub fn print(format: Format, report: &impl Serialize, text: impl FnOnce() -> String) -> Result<()> {
    let out = match format {
        Format::Text => text(),
        Format::Json => serde_json::to_string_pretty(report).context("writing JSON")? + "\n",
    };
    match io::stdout().lock().write_all(out.as_bytes()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        r => r.context("writing to standard output"),
    }
}
