// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `nodebase factor`: the renderings of many cluster kinds as one static set with layers.

mod apart;
pub mod controllerconfigs;
pub mod cover;
pub mod emit;
pub mod input;
pub mod options;
pub mod split;
pub mod verify;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use nodebase_generator::platform::Table;
use serde::Serialize;

use crate::bake::tree;
use crate::output::{self, Format, Outcome};

/// The table of this version, for images that have none yet.
const TABLE: &str = include_str!("../../../../units/platforms.json");

/// Make one static set with layers of the renderings of many cluster kinds.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nodebase factor --print-controllerconfigs kinds
      what an MCO image's own renderer is given, a directory for each kind
  nodebase factor --out image --report account kinds
      kinds/<kind>/{node.json,<role>.ign} to image/usr, account.md and account.json

Exit status: 0 well, 1 a machine does not come out as it was rendered (the diff is shown), 2 wrong usage or unreadable
files.")]
pub struct Args {
    /// Where the static set goes
    #[arg(long, value_name = "ROOT", required_unless_present = "print_controllerconfigs")]
    pub out: Option<PathBuf>,
    /// Write the account to FILE.md and FILE.json
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Another platforms.json than this version's
    #[arg(long, value_name = "FILE")]
    pub table: Option<PathBuf>,
    /// Write a ControllerConfig and node.json for each kind, and nothing else
    #[arg(long, value_name = "DIR", conflicts_with_all = ["out", "report", "dir"])]
    pub print_controllerconfigs: Option<PathBuf>,
    /// The form of the account on standard output
    #[arg(long, value_enum, default_value_t)]
    pub output: Format,
    /// The renderings: <kind>/node.json and <kind>/<role>.ign, Ignition or MachineConfigs
    #[arg(value_name = "DIR", required_unless_present = "print_controllerconfigs")]
    pub dir: Option<PathBuf>,
}

/// The account.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Account {
    /// Machines, by kind and role.
    pub machines: usize,
    /// Those that come out as they were rendered.
    pub equal: usize,
    /// Units in the base.
    pub units: usize,
    /// Those that are the same wherever they are.
    pub units_shared: usize,
    /// Files that are for everybody.
    pub files_shared: usize,
    /// Files with variants.
    pub files_with_variants: usize,
    /// Bytes of all renderings.
    pub bytes_in: u64,
    /// Bytes of the static set.
    pub bytes_out: u64,
    /// Layers with what they are for.
    pub layers: Vec<(String, String)>,
    /// What no facet explains.
    pub unexplained: Vec<String>,
    /// What a person should look at.
    pub warnings: Vec<String>,
    /// Differences by machine.
    pub differences: Vec<(String, Vec<String>)>,
}

impl Account {
    /// As Markdown.
    pub fn markdown(&self) -> String {
        let mut out = format!(
            "# Factored\n\n| | |\n|---|---|\n| machines | {} |\n| equal after the round trip | {} |\n| units | {} |\n| units that are the same wherever they are | {} |\n| files for everybody | {} |\n| files with variants | {} |\n| layers | {} |\n| bytes in the renderings | {} |\n| bytes in the static set | {} |\n\n| layer | what it is for |\n|---|---|\n",
            self.machines,
            self.equal,
            self.units,
            self.units_shared,
            self.files_shared,
            self.files_with_variants,
            self.layers.len(),
            self.bytes_in,
            self.bytes_out
        );
        for (name, reason) in &self.layers {
            let _ = writeln!(out, "| `{name}` | {reason} |");
        }
        for what in &self.unexplained {
            let _ = writeln!(out, "\nunexplained: {what}");
        }
        for what in &self.warnings {
            let _ = writeln!(out, "\nwarning: {what}");
        }
        for (machine, lines) in &self.differences {
            let _ =
                writeln!(out, "\n{machine} does not come out as it was rendered:\n```diff\n{}\n```", lines.join("\n"));
        }
        out
    }
}

/// Runs the verb.
///
/// # Errors
/// Input that cannot be read or understood, output that cannot be written.
pub fn run(args: &Args) -> Result<Outcome> {
    let bytes = match &args.table {
        Some(path) => std::fs::read(path).with_context(|| format!("reading {}", path.display()))?,
        None => TABLE.as_bytes().to_vec(),
    };
    let table = Table::parse(&bytes).map_err(|e| anyhow!("the table of platforms: {e}"))?;
    if let Some(dir) = &args.print_controllerconfigs {
        return print_controllerconfigs(dir, &table);
    }
    let (Some(out), Some(dir)) = (&args.out, &args.dir) else { bail!("--out ROOT and DIR are needed") };
    let machines = input::read(dir, &table)?;
    let account = factor(out, &machines, &bytes)?;
    if let Some(path) = &args.report {
        for (extension, text) in [("md", account.markdown()), ("json", serde_json::to_string_pretty(&account)? + "\n")]
        {
            let path = path.with_extension(extension);
            std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        }
    }
    output::print(args.output, &account, || account.markdown())?;
    Ok(if account.equal == account.machines && account.unexplained.is_empty() {
        Outcome::Well
    } else {
        Outcome::Finding
    })
}

/// Factors machines into a root and proves it.
///
/// # Errors
/// When the root cannot be written or read back.
pub fn factor(out: &Path, machines: &[input::Machine], table: &[u8]) -> Result<Account> {
    let factored = split::factor(machines);
    let tree = emit::tree(&factored, table);
    tree::write(out, &tree, tree::epoch()?)?;
    let fixed = verify::Static::new(&tree);
    let mut account = Account {
        machines: machines.len(),
        units: factored.units.len(),
        files_shared: factored.files.len(),
        files_with_variants: factored.variants.len(),
        layers: factored.layers.iter().map(|(n, l)| (n.clone(), l.reason())).collect(),
        ..Account::default()
    };
    let varies =
        |unit: &str| factored.layers.values().any(|l| l.dropins.keys().any(|d| d.starts_with(&format!("{unit}.d/1"))));
    account.units_shared = factored.units.keys().filter(|u| !varies(u)).count();
    for machine in machines {
        account.bytes_in += machine
            .units
            .values()
            .map(|u| size(u.text.as_ref()) + u.dropins.values().map(|d| d.len() as u64).sum::<u64>())
            .sum::<u64>();
        account.bytes_in += machine.files.values().map(|f| f.bytes.len() as u64).sum::<u64>();
        let lines = verify::verify(out, &fixed, machine)?;
        if lines.is_empty() {
            account.equal += 1;
        } else {
            account.differences.push((machine.name.clone(), lines));
        }
    }
    account.bytes_out =
        tree.values().map(|e| if let tree::Node::File(b, _) = &e.node { b.len() as u64 } else { 0 }).sum();
    account.unexplained = factored.unexplained;
    account.warnings = factored.warnings;
    Ok(account)
}

fn size(text: Option<&String>) -> u64 {
    text.map_or(0, |t| t.len() as u64)
}

fn print_controllerconfigs(dir: &Path, table: &Table) -> Result<Outcome> {
    for kind in controllerconfigs::kinds(table) {
        let own = dir.join(&kind.name);
        std::fs::create_dir_all(&own).with_context(|| format!("creating {}", own.display()))?;
        for (name, value) in [("node.json", &kind.node), ("controllerconfig.yaml", &kind.config)] {
            let text = if name.ends_with("json") {
                serde_json::to_string_pretty(value)?
            } else {
                serde_yaml_ng::to_string(value)?
            };
            let path = own.join(name);
            std::fs::write(&path, text + "\n").with_context(|| format!("writing {}", path.display()))?;
        }
    }
    Ok(Outcome::Well)
}
