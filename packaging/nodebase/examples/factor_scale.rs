// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How long factor takes for many kinds: `cargo run --release -p nodebase --example factor_scale [KINDS]`.
//!
//! The input is made up: 600 kinds (their own facet `site`, 12 sizes, 4 classes of hardware) × 3 roles × 60 units, of
//! which a tenth differ by role, size, class or a single site. Printed: seconds for reading and for factoring with the round trip, and
//! the peak resident set in MB (`VmHWM`).

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use nodebase::factor::{self, input};
use nodebase_generator::platform::Table;
use serde_json::json;

const TABLE: &str = include_str!("../../../units/platforms.json");
const UNITS: usize = 60;

fn main() -> Result<()> {
    let kinds: usize = match std::env::args().nth(1) {
        Some(text) => text.parse().with_context(|| format!("{text}: no number of kinds"))?,
        None => 600,
    };
    let directory = tempfile::tempdir()?;
    write(directory.path(), kinds)?;
    let table = Table::parse(TABLE.as_bytes()).map_err(|e| anyhow::anyhow!("the table of platforms: {e}"))?;
    let begin = Instant::now();
    let machines = input::read(directory.path(), &table)?;
    let read = begin.elapsed();
    let begin = Instant::now();
    let out = tempfile::tempdir()?;
    let account = factor::factor(out.path(), &machines, TABLE.as_bytes())?;
    println!(
        "{} machines, {UNITS} units each: read in {:.1} s, factored and proved in {:.1} s, {} layers, {} equal, {} MB at most",
        account.machines,
        read.as_secs_f64(),
        begin.elapsed().as_secs_f64(),
        account.layers.len(),
        account.equal,
        peak()?
    );
    if account.equal != account.machines || !account.unexplained.is_empty() {
        bail!("not all came out as they were made: {:?}", account.unexplained);
    }
    Ok(())
}

fn write(directory: &std::path::Path, kinds: usize) -> Result<()> {
    for kind in 0..kinds {
        let own = directory.join(format!("kind-{kind:04}"));
        std::fs::create_dir(&own)?;
        let facets = BTreeMap::from([
            ("site", format!("s{kind}")),
            ("size", format!("z{}", kind % 12)),
            ("hardware", format!("h{}", kind % 4)),
        ]);
        std::fs::write(own.join("node.json"), json!({"platform": "metal", "facets": facets}).to_string())?;
        for role in ["master", "worker", "arbiter"] {
            let units: Vec<_> = (0..UNITS)
                .map(|unit| {
                    json!({"name": format!("unit-{unit}.service"), "enabled": true,
                "contents": text(unit, kind, role)})
                })
                .collect();
            let config = json!({"ignition": {"version": "3.4.0"}, "systemd": {"units": units}});
            std::fs::write(own.join(format!("{role}.ign")), config.to_string())?;
        }
    }
    Ok(())
}

fn text(unit: usize, kind: usize, role: &str) -> String {
    let differs = match unit {
        0 | 1 => format!("Environment=ROLE={role}\n"),
        2 | 3 => format!("Nice={}\n", kind % 12),
        4 => format!("ExecStartPre=/usr/bin/prepare h{}\n", kind % 4),
        5 if kind < 5 => format!("Environment=SITE=s{kind}\n"),
        _ => String::new(),
    };
    format!(
        "[Unit]\nDescription=Unit {unit}\nAfter=network-online.target\n[Service]\nExecStart=/usr/bin/program-{unit} --flag\n\
         {differs}[Install]\nWantedBy=multi-user.target\n"
    )
}

/// The peak resident set, in MB.
fn peak() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status").context("reading /proc/self/status")?;
    let kilobytes = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).and_then(|v| v.split_whitespace().next());
    Ok(kilobytes.context("no VmHWM in /proc/self/status")?.parse::<u64>()? / 1024)
}
