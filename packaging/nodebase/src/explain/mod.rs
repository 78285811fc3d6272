// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `nodebase explain`: what a machine will run, and why. It asks the generator's own library, so it cannot say
//! anything else than the generator does.

mod report;

use std::io::Read;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use nodebase_generator::cmdline::Cmdline;
use nodebase_generator::layer::is_unit_name;
use nodebase_generator::root::Root;

use crate::output::{self, Format, Outcome};
use crate::tree::Tree;

pub use report::Report;

/// Say what a machine will run, and why.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nodebase explain
      what this machine runs
  nodebase explain --root image --platform aws --node node.json kubelet.service
      what an image's kubelet will be on AWS
  nodebase explain --cmdline 'ignition.platform.id=metal nodebase.role=master' --output json

Exit status: 0 well, 1 the generator would leave kubelet off (the notes say why), 2 wrong usage or unreadable files.")]
pub struct Args {
    /// The image or machine to look at
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub root: PathBuf,
    /// The kernel command line [default: the root's /proc/cmdline]
    #[arg(long, value_name = "STRING")]
    pub cmdline: Option<String>,
    /// Short for --cmdline ignition.platform.id=ID
    #[arg(long, value_name = "ID", conflicts_with = "cmdline")]
    pub platform: Option<String>,
    /// Facts in the place of the root's /etc/nodebase/node.json; - is standard input
    #[arg(long, value_name = "FILE")]
    pub node: Option<PathBuf>,
    /// The form of the report
    #[arg(long, value_enum, default_value_t)]
    pub output: Format,
    /// The unit to show
    #[arg(default_value = "kubelet.service")]
    pub unit: String,
}

/// Runs the verb.
///
/// # Errors
/// Wrong usage, a root or file that cannot be read, no such unit.
pub fn run(args: &Args) -> Result<Outcome> {
    let report = explain(args)?;
    output::print(args.output, &report, || report.text())?;
    Ok(if report.complete { Outcome::Well } else { Outcome::Finding })
}

/// Works out the report.
///
/// # Errors
/// As [`run`].
pub fn explain(args: &Args) -> Result<Report> {
    if !is_unit_name(&args.unit) {
        bail!("{:?} is no unit's name: kubelet.service is one", args.unit);
    }
    let tree = Tree::new(open(&args.root)?, cmdline(args)?, node(args)?);
    let unit = tree.effective(&args.unit)?;
    if unit.fragment.is_none() && unit.dropins.is_empty() {
        bail!("{} has no unit {}", args.root.display(), args.unit);
    }
    Report::new(&tree, &args.unit, unit)
}

fn open(path: &std::path::Path) -> Result<Root> {
    Root::at(path).with_context(|| format!("opening --root {}", path.display()))
}

fn cmdline(args: &Args) -> Result<Cmdline> {
    if let Some(text) = &args.cmdline {
        return Ok(Cmdline::from_text(text.as_bytes()));
    }
    if let Some(id) = &args.platform {
        return Ok(Cmdline::from_text(format!("ignition.platform.id={id}").as_bytes()));
    }
    let bytes = open(&args.root)?.read("/proc/cmdline").context("reading /proc/cmdline")?;
    Ok(Cmdline::from_text(&bytes.unwrap_or_default()))
}

fn node(args: &Args) -> Result<Option<Vec<u8>>> {
    let Some(path) = &args.node else { return Ok(None) };
    if path.as_os_str() == "-" {
        let mut bytes = Vec::new();
        std::io::stdin().lock().read_to_end(&mut bytes).context("reading --node from standard input")?;
        return Ok(Some(bytes));
    }
    std::fs::read(path).map(Some).with_context(|| format!("reading --node {}", path.display()))
}
