// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packages: made, read, checked by the distributions' own checkers, installed into empty roots.
//!
//! They take the programs of the `make build` that ran before, so that a run costs no compilation.
//! NODEBASE_PACKAGES=offline runs the other half instead: a build from the source package, without a network.

#[path = "packages/deb.rs"]
mod deb;
#[path = "packages/dist.rs"]
mod dist;
#[path = "packages/offline.rs"]
mod offline;
#[path = "packages/rpm.rs"]
mod rpm;
#[path = "packages/tree.rs"]
mod tree;

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Trial};

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(2);
    let trials: Vec<Trial> = if std::env::var("NODEBASE_PACKAGES").is_ok_and(|v| v == "offline") {
        offline::trials()
    } else {
        let made = Arc::new(tree::Made::default());
        [dist::trials(), rpm::trials(&made), deb::trials(&made)].into_iter().flatten().collect()
    };
    libtest_mimic::run(&arguments, trials).exit_code()
}
