// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `nodebase-harness`: runs the tests below tests/kola on a disk, see docs/testing.md.

use anyhow::{Context, Result};
use clap::Parser;
use libtest_mimic::{Arguments, Failed, Trial};
use nodebase_harness::disk::Disk;
use nodebase_harness::machine::{Laboratory, Outcome};
use nodebase_harness::plan::{self, Machine, Shard};
use nodebase_harness::qemu::Acceleration;
use nodebase_harness::{report, suite};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

/// Run kola external tests on a nodebase image in QEMU.
#[derive(Debug, Parser)]
#[command(version)]
struct Options {
    /// The directory that tests/image/make-disk printed
    #[arg(long)]
    disk: PathBuf,
    /// The directory with the tests
    #[arg(long, default_value = "tests/kola")]
    tests: PathBuf,
    /// The project's name within the names of the tests
    #[arg(long, default_value = "nodebase")]
    project: String,
    /// Run tests that are tagged platform-id once for each of these ids (comma-separated), or for `all` of the table
    #[arg(long, value_delimiter = ',')]
    platform_id: Vec<String>,
    /// The table that `--platform-id all` means
    #[arg(long, default_value = "units/platforms.json")]
    platforms: PathBuf,
    /// Only tests with one of these tags
    #[arg(long, value_delimiter = ',')]
    tag: Vec<String>,
    /// Only the machines of this part, as INDEX/COUNT
    #[arg(long)]
    shard: Option<Shard>,
    /// Machines at the same time; by default one for two processors under emulation, one a processor under KVM
    #[arg(long)]
    jobs: Option<usize>,
    /// Where logs, junit.xml and report.html go
    #[arg(long, default_value = "target/kola")]
    output: PathBuf,
    /// How the guest's processor is made
    #[arg(long, value_enum, default_value_t = Acceleration::Auto)]
    accel: Acceleration,
    /// Keep each machine's disk beside its logs
    #[arg(long)]
    keep_disks: bool,
    /// Print the names of the tests, and run none
    #[arg(long)]
    list: bool,
    /// Only tests whose name matches one of these globs
    patterns: Vec<String>,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("nodebase-harness: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Outcomes of a machine's tests; the first of its tests that is asked for runs it.
type Lazy = Arc<OnceLock<Vec<Outcome>>>;

fn run(options: &Options) -> Result<ExitCode> {
    let tests = plan::select(suite::discover(&options.tests, &options.project)?, &options.patterns, &options.tag)?;
    let mut skipped = Vec::new();
    let mut selected = Vec::new();
    for test in tests {
        match test.metadata.reason_to_skip() {
            Some(reason) => skipped.push((test.name, reason)),
            None => selected.push(test),
        }
    }
    let mut machines = plan::machines(selected, &platform_ids(options)?);
    if let Some(shard) = options.shard {
        machines = shard.of(machines);
    }
    if options.list {
        for machine in &machines {
            for test in &machine.tests {
                println!("{}  {}", machine.label(test), test.metadata.description);
            }
        }
        return Ok(ExitCode::SUCCESS);
    }
    let started = Instant::now();
    let disk = Disk::open(&options.disk)?;
    let accelerated = options.accel;
    let laboratory = Laboratory::new(disk, accelerated, &options.output, patience(accelerated), options.keep_disks)?;
    let laboratory = Arc::new(laboratory);
    let jobs = options.jobs.unwrap_or_else(|| default_jobs(laboratory.acceleration()));
    let finished: Arc<Mutex<Vec<Outcome>>> = Arc::default();
    let mut trials = Vec::new();
    for machine in machines {
        trials.extend(trials_of(machine, &laboratory, &finished));
    }
    for (name, _) in &skipped {
        trials.push(Trial::test(name.clone(), || Ok(())).with_ignored_flag(true));
    }
    let arguments = Arguments { test_threads: Some(jobs), ..Arguments::default() };
    let conclusion = libtest_mimic::run(&arguments, trials);
    let outcomes = finished.lock().unwrap_or_else(PoisonError::into_inner);
    let run = report::Run {
        image: options.disk.display().to_string(),
        acceleration: format!("{:?}", laboratory.acceleration()).to_lowercase(),
        duration: started.elapsed(),
        skipped,
    };
    write_reports(&outcomes, &run, &options.output)?;
    Ok(conclusion.exit_code())
}

fn trials_of(machine: Machine, laboratory: &Arc<Laboratory>, finished: &Arc<Mutex<Vec<Outcome>>>) -> Vec<Trial> {
    let machine = Arc::new(machine);
    let lazy = Lazy::default();
    let names: Vec<_> = machine.tests.iter().map(|test| machine.label(test)).collect();
    let trial = |(index, name): (usize, String)| {
        let (machine, lazy) = (Arc::clone(&machine), Arc::clone(&lazy));
        let (laboratory, finished) = (Arc::clone(laboratory), Arc::clone(finished));
        Trial::test(name, move || {
            let outcome = &lazy.get_or_init(|| laboratory.run(&machine))[index];
            finished.lock().unwrap_or_else(PoisonError::into_inner).push(outcome.clone());
            if outcome.passed() { Ok(()) } else { Err(Failed::from(failure_text(outcome))) }
        })
    };
    names.into_iter().enumerate().map(trial).collect()
}

fn failure_text(outcome: &Outcome) -> String {
    let lines: Vec<_> = outcome.output.lines().collect();
    let tail = lines[lines.len().saturating_sub(25)..].join("\n");
    let reasons: Vec<_> = outcome.failures.iter().chain(&outcome.hints).cloned().collect();
    format!("{}\n--- output (end)\n{tail}\n--- logs: {}", reasons.join("\n"), outcome.logs.display())
}

fn write_reports(outcomes: &[Outcome], run: &report::Run, output: &Path) -> Result<()> {
    report::junit(outcomes, run, &output.join("junit.xml"))?;
    let page = output.join("report.html");
    report::html(outcomes, run, &page)?;
    let boots: usize = outcomes.iter().map(|outcome| outcome.boots.len()).sum();
    eprintln!("{boots} boots in {:.0} s ({}); {}", run.duration.as_secs_f64(), run.acceleration, page.display());
    Ok(())
}

/// Time limits are for real processors; an emulated one gets three times as much.
fn patience(acceleration: Acceleration) -> u32 {
    if acceleration == Acceleration::Kvm { 1 } else { 3 }
}

fn default_jobs(acceleration: Acceleration) -> usize {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    if acceleration == Acceleration::Kvm { processors } else { (processors / 2).max(1) }
}

/// The ids of `--platform-id`, with `all` replaced by those of the table.
fn platform_ids(options: &Options) -> Result<Vec<String>> {
    if !options.platform_id.iter().any(|id| id == "all") {
        return Ok(options.platform_id.clone());
    }
    let path = &options.platforms;
    let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    let table: serde_json::Value = serde_json::from_str(&text).with_context(|| format!("{}", path.display()))?;
    let ids = table.get("platforms").and_then(serde_json::Value::as_object);
    let ids = ids.with_context(|| format!("{}: platforms: no such object", path.display()))?;
    Ok(ids.keys().cloned().collect())
}
