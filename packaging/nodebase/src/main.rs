// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `nodebase`: for people and for image builds. See `nodebase(1)`.

use std::process::ExitCode;

use clap::Parser;
use nodebase::cli::{Cli, Verb};
use nodebase::output::Outcome;
use nodebase::{bake, explain, factor};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.verb {
        Verb::Bake(args) => bake::run(&args),
        Verb::Explain(args) => explain::run(&args),
        Verb::Factor(args) => factor::run(&args),
    };
    match result {
        Ok(Outcome::Well) => ExitCode::SUCCESS,
        Ok(Outcome::Finding) => ExitCode::from(1),
        Err(e) => {
            eprintln!("nodebase: {e:#}");
            ExitCode::from(2)
        }
    }
}
