// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `nodebase bake`: what MachineConfigs and Ignition configs would write at first boot, into the image.

pub mod install;
pub mod place;
mod plan;
pub mod rewrite;
pub mod secret;
pub mod tree;

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::Result;
use serde::Serialize;

use crate::config;
use crate::output::{self, Format, Outcome};

pub use plan::{Baked, Options, plan};

/// Put MachineConfigs and Ignition configs into an image.
// Each is a switch of its own on the command line.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nodebase bake --root image 99-worker.yaml 50-infra.ign
  oc get mc -o json 99-worker-foo | nodebase bake --root image -

Nothing is written unless everything can be. Exit status: 0 well, 2 wrong usage, or input that an image cannot hold.")]
pub struct Args {
    /// The image's root
    #[arg(long, value_name = "DIR")]
    pub root: PathBuf,
    /// Take the last one where two inputs, or an input and the image, have a file in common
    #[arg(long)]
    pub replace: bool,
    /// Let pull secrets, kubeconfigs and private keys into the image
    #[arg(long)]
    pub allow_secrets: bool,
    /// Fetch remote sources with curl
    #[arg(long)]
    pub fetch: bool,
    /// Say what would be done, write nothing
    #[arg(long)]
    pub dry_run: bool,
    /// The form of the report
    #[arg(long, value_enum, default_value_t)]
    pub output: Format,
    /// Ignition configs, MachineConfigs, lists of them; - is standard input
    #[arg(required = true, value_name = "INPUT")]
    pub inputs: Vec<PathBuf>,
}

/// One line of the report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// The path on a machine that Ignition sets up.
    pub source: String,
    /// The path in the image.
    pub target: String,
    /// The input.
    pub from: String,
    /// `static link`, `preset`, `masked`, …
    pub enabled: Option<String>,
    /// References that were replaced: `12: /usr/local/bin/x -> /usr/bin/x`
    pub rewritten: Vec<String>,
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// A line for each thing of the input.
    pub rows: Vec<Row>,
    /// What a person should look at.
    pub warnings: Vec<String>,
}

impl Report {
    fn text(&self) -> String {
        let mut out = String::new();
        for row in &self.rows {
            let _ = write!(out, "{} -> {}", row.source, row.target);
            if let Some(how) = &row.enabled {
                let _ = write!(out, " ({how})");
            }
            out.push('\n');
            for line in &row.rewritten {
                let _ = writeln!(out, "    line {line}");
            }
        }
        for warning in &self.warnings {
            let _ = writeln!(out, "warning: {warning}");
        }
        out
    }
}

/// Runs the verb.
///
/// # Errors
/// Input that cannot be read or that an image cannot hold: one error that lists all reasons. The root is then as it
/// was.
pub fn run(args: &Args) -> Result<Outcome> {
    let mut sources = Vec::new();
    for input in &args.inputs {
        sources.extend(config::read(input)?);
    }
    let options = Options { replace: args.replace, allow_secrets: args.allow_secrets, fetch: args.fetch };
    let baked = plan(&args.root, &sources, options)?;
    if !args.dry_run {
        tree::write(&args.root, &baked.tree, tree::epoch()?)?;
    }
    output::print(args.output, &baked.report, || baked.report.text())?;
    Ok(Outcome::Well)
}
