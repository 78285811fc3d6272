// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `/usr/libexec/nodebase/node-identity`: wires the command line to the library.

use clap::Parser;
use node_identity::{attempt::GaveUp, cli::Arguments, journal, verbs};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    journal::install(&arguments);
    match verbs::run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log::error!("{error:#}");
            journal::status(&format!("Failed: {error:#}"));
            ExitCode::from(error.downcast_ref().map_or(2, GaveUp::exit_status))
        }
    }
}
