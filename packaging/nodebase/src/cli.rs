// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command line as a whole; each verb's own arguments are in its module.

use clap::{Parser, Subcommand};

use crate::{bake, explain, factor};

/// Build, explain and check node images that serve every platform.
///
/// Exit status: 0 well, 1 a finding, 2 wrong usage or a file that cannot be read or written.
#[derive(Debug, Parser)]
#[command(name = "nodebase", version, propagate_version = true)]
pub struct Cli {
    /// What to do
    #[command(subcommand)]
    pub verb: Verb,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Put MachineConfigs and Ignition configs into an image
    Bake(bake::Args),
    /// Say what a machine will run, and why
    Explain(explain::Args),
    /// Make one static set with layers of the renderings of many cluster kinds
    Factor(factor::Args),
}
