// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs one machine with its tests through all its boots.

use crate::disk::Disk;
use crate::ignition;
use crate::plan::Machine;
use crate::protocol::Reports;
use crate::qemu::{self, Acceleration, Boot, Booted};
use crate::verdict;
use anyhow::{Context, Result, bail};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// A test that reboots more often than this has lost its way.
const MOST_BOOTS: usize = 12;
/// No network in the initramfs, by a setting for an interface that does not exist: the config comes by fw_cfg, and an
/// interface that dracut has brought up by default is somebody else's to NetworkManager. The rest keeps a boot from waiting for a person (not by `systemd.firstboot=no`, which takes first boots their presets), names
/// the reasons of a failed initramfs on the console, and saves time under emulation. `audit=0` comes before a test's own
/// arguments, which can take it back; `no_timer_check` because the check fails on an emulated machine that is not given
/// its turn in time.
const ARGUMENTS: &str = "console=ttyS0 rd.shell=0 rd.emergency=poweroff systemd.mask=systemd-firstboot.service panic=-1 ip=unused0:off \
                         rd.systemd.journald.forward_to_console=1 mitigations=off audit=0 \
                         no_timer_check";
/// What the boot loader adds once. systemd does not take an empty machine-id for a first boot, at which alone it applies the
/// presets that Ignition has written.
const FIRST_BOOT: &str = "ignition.firstboot=1 systemd.condition_first_boot=true";
const PLATFORM: &str = "ignition.platform.id=";

/// What became of one test.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// As reported.
    pub name: String,
    /// For people.
    pub description: String,
    /// Empty when it passed.
    pub failures: Vec<String>,
    /// Lines of the logs that may explain a failure.
    pub hints: Vec<String>,
    /// What the test printed, all boots.
    pub output: String,
    /// All boots of the machine; of a shared machine its share.
    pub duration: Duration,
    /// Each boot of the machine: its duration, and what systemd-analyze said.
    pub boots: Vec<(Duration, Option<String>)>,
    /// Where the logs are.
    pub logs: PathBuf,
}

impl Outcome {
    /// Whether nothing was wrong.
    pub fn passed(&self) -> bool {
        self.failures.is_empty()
    }
}

/// A disk on which Ignition has run for a test, or why there is none.
type Provisioned = Arc<OnceLock<Result<PathBuf, String>>>;

/// What all machines share.
#[derive(Debug)]
pub struct Laboratory {
    disk: Disk,
    acceleration: Acceleration,
    output: PathBuf,
    /// Time limits are multiplied by it.
    patience: u32,
    memory: MemoryBudget,
    provisioned: Mutex<HashMap<String, Provisioned>>,
    keep_disks: bool,
}

impl Laboratory {
    /// `output` is for logs and is created.
    ///
    /// # Errors
    /// When the disk has nothing to boot, or `output` cannot be created.
    pub fn new(disk: Disk, acceleration: Acceleration, output: &Path, patience: u32, keep_disks: bool) -> Result<Self> {
        fs::create_dir_all(output).with_context(|| format!("create {}", output.display()))?;
        let output = output.canonicalize().with_context(|| format!("resolve {}", output.display()))?;
        let acceleration = acceleration.resolve(&disk.boot_entry(None)?.kernel);
        let memory = MemoryBudget::of_this_machine();
        let provisioned = Mutex::default();
        Ok(Self { disk, acceleration, output, patience, memory, provisioned, keep_disks })
    }

    /// What `auto` has become.
    pub fn acceleration(&self) -> Acceleration {
        self.acceleration
    }

    /// Runs all tests of a machine. A failure of the harness itself is a failure of each test.
    pub fn run(&self, machine: &Machine) -> Vec<Outcome> {
        let logs = self.output.join(machine.directory());
        let (boots, trouble) = match self.boots(machine, &logs) {
            Ok(boots) => (boots, None),
            Err(error) => (Vec::new(), Some(format!("harness: {error:#}"))),
        };
        machine.tests.iter().map(|test| judge(machine, test, &boots, trouble.as_deref(), &logs)).collect()
    }

    fn boots(&self, machine: &Machine, logs: &Path) -> Result<Vec<(Booted, Reports)>> {
        let _claim = self.memory.claim(machine.memory());
        if logs.exists() {
            fs::remove_dir_all(logs).with_context(|| format!("remove {}", logs.display()))?;
        }
        fs::create_dir_all(logs).with_context(|| format!("create {}", logs.display()))?;
        let base = match &machine.platform {
            Some(_) => Some(self.provision(machine)?),
            None => None,
        };
        let overlay = logs.join("disk.qcow2");
        self.disk.overlay(base.as_deref(), &overlay)?;
        let boots = self.boot_until_done(machine, logs, &overlay, base.is_none(), &[])?;
        if !self.keep_disks {
            fs::remove_file(&overlay).with_context(|| format!("remove {}", overlay.display()))?;
        }
        Ok(boots)
    }

    /// The disk after a first boot with the machine's Ignition config, made once for all platform ids.
    fn provision(&self, machine: &Machine) -> Result<PathBuf> {
        let name = &machine.tests[0].name;
        let cell = {
            let mut all = self.provisioned.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(all.entry(name.clone()).or_default())
        };
        let made = cell.get_or_init(|| self.provision_anew(machine, name).map_err(|error| format!("{error:#}")));
        made.clone().map_err(|error| anyhow::anyhow!("provisioning: {error}"))
    }

    fn provision_anew(&self, machine: &Machine, name: &str) -> Result<PathBuf> {
        let logs = self.output.join(format!("{name}@provision"));
        if logs.exists() {
            fs::remove_dir_all(&logs).with_context(|| format!("remove {}", logs.display()))?;
        }
        fs::create_dir_all(&logs).with_context(|| format!("create {}", logs.display()))?;
        let overlay = logs.join("disk.qcow2");
        self.disk.overlay(None, &overlay)?;
        let first = Machine { platform: None, ..machine.clone() };
        let boots = self.boot_until_done(&first, &logs, &overlay, true, &[("mode", "provision")])?;
        let Some((booted, Reports { complete: true, .. })) = boots.last() else {
            let reasons = boots.last().map(|(booted, _)| verdict::reasons(&[&booted.console])).unwrap_or_default();
            bail!("the first boot did not get to its end: {} (logs: {})", reasons.fatal.join("; "), logs.display());
        };
        debug_assert!(!booted.timed_out);
        Ok(overlay)
    }

    fn boot_until_done(
        &self,
        machine: &Machine,
        logs: &Path,
        overlay: &Path,
        provision: bool,
        carried: &[(&str, &str)],
    ) -> Result<Vec<(Booted, Reports)>> {
        let config = logs.join("config.ign");
        if provision {
            let text = serde_json::to_vec_pretty(&ignition::config(&machine.tests)?).context("write JSON")?;
            fs::write(&config, text).with_context(|| format!("write {}", config.display()))?;
        }
        let minutes: u64 = machine.tests.iter().map(|test| test.metadata.timeout()).sum();
        let deadline = Instant::now() + Duration::from_secs(60 * minutes) * self.patience;
        let mut boots: Vec<(Booted, Reports)> = Vec::new();
        loop {
            let first = provision && boots.is_empty();
            let mark = boots.last().and_then(|(_, reports)| reports.reboot.clone());
            let carried: Vec<_> = carried.iter().copied().chain(mark.as_deref().map(|mark| ("mark", mark))).collect();
            // After the first boot the guest's own changes decide.
            let entry = self.disk.boot_entry((!boots.is_empty()).then_some(overlay))?;
            let directory = logs.join(format!("boot-{}", boots.len() + 1));
            fs::create_dir_all(&directory).with_context(|| format!("create {}", directory.display()))?;
            let booted = qemu::boot(&Boot {
                entry: &entry,
                arguments: &arguments(&entry.options, machine, first),
                disk: overlay,
                ignition: first.then_some(config.as_path()),
                carried: &carried,
                memory: machine.memory(),
                acceleration: self.acceleration,
                directory: &directory,
                deadline,
            })?;
            let reports = Reports::parse(&booted.reports);
            let again = reports.reboot.is_some() && !booted.timed_out && !booted.hopeless && boots.len() < MOST_BOOTS;
            boots.push((booted, reports));
            if !again {
                return Ok(boots);
            }
        }
    }
}

/// The boot entry's arguments with the machine's platform id, then what a first boot adds, ours, and the test's own last.
fn arguments(options: &str, machine: &Machine, first: bool) -> String {
    let mut words: Vec<String> = options
        .split_whitespace()
        .map(|word| match &machine.platform {
            Some(id) if word.starts_with(PLATFORM) => format!("{PLATFORM}{id}"),
            _ => word.to_owned(),
        })
        .collect();
    words.push(ARGUMENTS.to_owned());
    if first {
        words.push(FIRST_BOOT.to_owned());
        words.extend(machine.tests.iter().map(|test| test.metadata.append_firstboot_kernel_args.clone()));
    }
    words.push(machine.kernel_arguments());
    words.join(" ").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The verdict on one test of a machine.
fn judge(
    machine: &Machine,
    test: &crate::suite::Test,
    boots: &[(Booted, Reports)],
    trouble: Option<&str>,
    logs: &Path,
) -> Outcome {
    let mut failures: Vec<String> = trouble.map(str::to_owned).into_iter().collect();
    let mut hints = Vec::new();
    let mut output = String::new();
    let mut exit = None;
    let exempt = test.metadata.has_tag("skip-base-checks");
    for (number, (booted, reports)) in boots.iter().enumerate() {
        for report in reports.tests.iter().filter(|report| report.name == test.name) {
            output.push_str(&report.output);
            exit = report.exit;
        }
        let number = number + 1;
        let reasons = verdict::reasons(&[&booted.console, &booted.journal]);
        if booted.timed_out {
            failures.push(format!("boot {number}: time is up"));
        }
        if booted.hopeless || !exempt {
            failures.extend(reasons.fatal.iter().map(|reason| format!("boot {number}: {reason}")));
        }
        if !exempt {
            failures.extend(reports.failed_units.iter().map(|unit| format!("boot {number}: unit failed: {unit}")));
        }
        hints.extend(reasons.hints.iter().map(|hint| format!("boot {number}: {hint}")));
    }
    if trouble.is_none() {
        match exit {
            Some(0) => {}
            Some(status) => failures.insert(0, format!("exit status {status}: {}", last_words(&output))),
            None if boots.last().is_some_and(|(_, reports)| reports.reboot.is_some()) => {
                failures.push(format!("{} boots and no end", boots.len()));
            }
            None => failures.push("the test did not come to its end".to_owned()),
        }
    }
    let total: Duration = boots.iter().map(|(booted, _)| booted.duration).sum();
    let share = u32::try_from(machine.tests.len()).unwrap_or(1).max(1);
    Outcome {
        name: machine.label(test),
        description: test.metadata.description.clone(),
        failures,
        hints,
        output,
        duration: total / share,
        boots: boots.iter().map(|(booted, reports)| (booted.duration, reports.boot_time.clone())).collect(),
        logs: logs.to_owned(),
    }
}

/// The last lines that are not a shell's trace: usually the message.
fn last_words(output: &str) -> String {
    let lines: Vec<_> = output.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(2)..].join(" / ")
}

/// Lets machines start as long as the host has memory for them.
#[derive(Debug)]
struct MemoryBudget {
    free: Mutex<u64>,
    total: u64,
    returned: Condvar,
}

impl MemoryBudget {
    /// Three quarters of what is available now, MiB.
    fn of_this_machine() -> Self {
        let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let available = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
        let kib: u64 = available.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0);
        Self::new(kib / 1024 * 3 / 4)
    }

    fn new(total: u64) -> Self {
        Self { free: Mutex::new(total), total, returned: Condvar::new() }
    }

    /// Waits until there is room. A machine larger than the whole gets everything.
    fn claim(&self, wanted: u64) -> Claim<'_> {
        let amount = wanted.min(self.total);
        let guard = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut guard = self.returned.wait_while(guard, |free| *free < amount).unwrap_or_else(PoisonError::into_inner);
        *guard -= amount;
        Claim { budget: self, amount }
    }
}

#[derive(Debug)]
struct Claim<'a> {
    budget: &'a MemoryBudget,
    amount: u64,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        *self.budget.free.lock().unwrap_or_else(PoisonError::into_inner) += self.amount;
        self.budget.returned.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::Metadata;
    use crate::suite::Test;

    fn machine(platform: Option<&str>, arguments: &str) -> Machine {
        let metadata = Metadata { append_kernel_args: arguments.to_owned(), ..Metadata::default() };
        let test = Test { name: "ext.t".to_owned(), executable: "/t".into(), config: None, data: None, metadata };
        Machine { tests: vec![test], platform: platform.map(str::to_owned) }
    }

    fn booted(reports: &str, console: &str) -> (Booted, Reports) {
        let booted = Booted {
            duration: Duration::from_secs(1),
            timed_out: false,
            hopeless: false,
            console: console.to_owned(),
            journal: String::new(),
            reports: reports.to_owned(),
        };
        (booted, Reports::parse(reports))
    }

    fn verdict_of(boots: &[(Booted, Reports)]) -> Outcome {
        let machine = machine(None, "");
        judge(&machine, &machine.tests[0], boots, None, Path::new("/logs"))
    }

    #[test]
    fn arguments_replace_the_platform_and_end_with_the_tests_own() {
        let entry = "root=LABEL=root ignition.platform.id=qemu rw";
        let first = arguments(entry, &machine(None, "a=1"), true);
        assert!(first.starts_with("root=LABEL=root ignition.platform.id=qemu rw console=ttyS0"), "{first}");
        assert!(
            first.ends_with("audit=0 no_timer_check ignition.firstboot=1 systemd.condition_first_boot=true a=1"),
            "{first}"
        );
        let other = arguments(entry, &machine(Some("aws"), ""), false);
        assert!(other.contains(" ignition.platform.id=aws ") && !other.contains("firstboot=1"), "{other}");
    }

    #[test]
    fn a_test_passes_only_with_status_0_and_clean_logs() {
        assert!(verdict_of(&[booted("@test ext.t\n@exit 0\n@end\n", "")]).passed());
        for (reports, console, expected) in [
            ("@test ext.t\nwhy\n@exit 1\n@end\n", "", "exit status 1: why"),
            ("@test ext.t\n@exit 0\n@failed x.service\n@end\n", "", "unit failed: x.service"),
            ("@test ext.t\n@exit 0\n@end\n", "Kernel panic - not syncing: x", "kernel panic"),
            ("@test ext.t\n", "", "did not come to its end"),
            ("", "", "did not come to its end"),
            ("@test ext.t\n@reboot m\n@end\n", "", "boots and no end"),
        ] {
            let failures = verdict_of(&[booted(reports, console)]).failures;
            assert!(failures.iter().any(|failure| failure.contains(expected)), "{reports:?}: {failures:?}");
        }
    }

    #[test]
    fn the_last_boot_decides() {
        let boots =
            [booted("@test ext.t\none\n@reboot m\n@end\n", ""), booted("@test ext.t\ntwo\n@exit 0\n@end\n", "")];
        let outcome = verdict_of(&boots);
        assert!(outcome.passed(), "{outcome:?}");
        assert_eq!(outcome.output, "one\ntwo\n");
        assert_eq!(outcome.boots.len(), 2);
    }

    #[test]
    fn memory_is_given_back_and_too_much_is_cut() {
        let budget = MemoryBudget::new(1000);
        {
            let _one = budget.claim(600);
            let _two = budget.claim(400);
            assert_eq!(*budget.free.lock().unwrap(), 0);
        }
        let _all = budget.claim(5000);
        assert_eq!(*budget.free.lock().unwrap(), 0);
    }
}
