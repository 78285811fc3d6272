// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Boots: every assertion is on the running manager of a real systemd, or on what it started.

mod breakage;
mod etc;
mod platforms;

use anyhow::Result;
use libtest_mimic::{Arguments, Failed, Trial};

/// The versions: RHEL 9's base, RHEL 10's, the newest.
const VERSIONS: &[&str] = &["252", "257", "262"];

/// A named check that is run on one version.
type Check = Box<dyn Fn(&str) -> Result<()> + Send + Sync>;

fn main() -> std::process::ExitCode {
    let mut arguments = Arguments::from_args();
    // A boot waits more than it computes; more than four at once and systemd's own time-outs come near.
    arguments.test_threads.get_or_insert(3);
    let checks: Vec<(String, Check)> =
        [platforms::checks(), breakage::checks(), etc::checks()].into_iter().flatten().collect();
    let checks: Vec<(String, std::sync::Arc<Check>)> = checks.into_iter().map(|(n, c)| (n, c.into())).collect();
    let trials = VERSIONS
        .iter()
        .flat_map(|version| {
            checks.iter().map(move |(name, check)| {
                let check = check.clone();
                Trial::test(format!("{version}/{name}"), move || {
                    check(version).map_err(|e| Failed::from(format!("{e:#}")))
                })
            })
        })
        .collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}
