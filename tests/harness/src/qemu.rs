// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One boot: QEMU from power-on to power-off, and everything that it left behind.

use crate::disk::BootEntry;
use crate::verdict;
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PROGRAM: &str = "qemu-system-x86_64";
/// How long a kernel may take, under KVM, to find that it was given no root file system.
const PROBE: Duration = Duration::from_secs(15);
/// After the console shows a dead end: time for the messages behind it.
const LAST_WORDS: Duration = Duration::from_secs(3);

/// A machine whose runner has not said a word by then never will.
const SILENCE: Duration = Duration::from_secs(600);

/// How the guest's processor is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Acceleration {
    /// KVM where a kernel boots under it, else emulation.
    Auto,
    /// The host's processor.
    Kvm,
    /// Emulation.
    Tcg,
}

impl Acceleration {
    /// Decides `Auto` by booting the kernel: /dev/kvm can exist and not work.
    #[must_use]
    pub fn resolve(self, kernel: &Path) -> Self {
        match self {
            Self::Auto if kvm_boots(kernel) => Self::Kvm,
            Self::Auto => Self::Tcg,
            chosen => chosen,
        }
    }

    fn arguments(self) -> [&'static str; 4] {
        match self {
            Self::Kvm => ["-accel", "kvm", "-cpu", "host"],
            // Of the models that distributions still boot on, the one that is emulated fastest (measured).
            _ => ["-accel", "tcg,thread=multi", "-cpu", "Nehalem"],
        }
    }
}

/// A kernel without a root file system panics, and QEMU ends: that is the sign that KVM works.
fn kvm_boots(kernel: &Path) -> bool {
    if !Path::new("/dev/kvm").exists() {
        return false;
    }
    let child = Command::new(PROGRAM)
        .args(["-machine", "pc", "-accel", "kvm", "-cpu", "host", "-m", "512", "-nodefaults", "-no-user-config"])
        .args(["-display", "none", "-no-reboot", "-append", "panic=-1", "-kernel"])
        .arg(kernel)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut child) = child else { return false };
    let ended = wait(&mut child, Instant::now() + PROBE, || false);
    matches!(ended, Ok(Ended::Exited(true)))
}

/// What a boot is given.
#[derive(Debug)]
pub struct Boot<'a> {
    /// What the boot loader would have chosen.
    pub entry: &'a BootEntry,
    /// Kernel arguments, complete.
    pub arguments: &'a str,
    /// The disk, written to.
    pub disk: &'a Path,
    /// The Ignition config, for a first boot.
    pub ignition: Option<&'a Path>,
    /// Told to the runner by fw_cfg: `mark`, `mode`.
    pub carried: &'a [(&'a str, &'a str)],
    /// MiB.
    pub memory: u64,
    /// Processor.
    pub acceleration: Acceleration,
    /// For logs; exists.
    pub directory: &'a Path,
    /// The test's end at the latest.
    pub deadline: Instant,
}

/// What a boot leaves.
#[derive(Debug)]
pub struct Booted {
    /// From QEMU's start to its end.
    pub duration: Duration,
    /// The deadline came.
    pub timed_out: bool,
    /// The console showed that nothing more would come.
    pub hopeless: bool,
    /// Without terminal control sequences.
    pub console: String,
    /// Of the runner's end; empty when it did not get there.
    pub journal: String,
    /// What the runner said.
    pub reports: String,
}

/// Boot, wait for the end, collect.
///
/// # Errors
/// When QEMU cannot be started or ends with a failure of its own; a guest that fails is no error.
pub fn boot(boot: &Boot<'_>) -> Result<Booted> {
    let directory = boot.directory;
    let (console, journal, reports) =
        (directory.join("console.txt"), directory.join("journal.txt"), directory.join("reports.txt"));
    let complaints = directory.join("qemu.txt");
    // A machine must not outlive the harness, however that ends.
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL", PROGRAM, "-machine", "pc"])
        .args(boot.acceleration.arguments())
        .args(["-smp", "2", "-m", &boot.memory.to_string(), "-nodefaults", "-no-user-config", "-display", "none"])
        .args(["-no-reboot", "-serial"])
        .arg(format!("file:{}", console.display()))
        .arg("-kernel")
        .arg(&boot.entry.kernel)
        .arg("-initrd")
        .arg(&boot.entry.initramfs)
        .args(["-append", boot.arguments, "-drive"])
        .arg(format!("file={},if=virtio,format=qcow2,cache=unsafe", boot.disk.display()))
        // A network that leads nowhere, with a DHCP server: an address and a host name, as on any platform.
        .args(["-netdev", "user,id=net,restrict=on,hostname=node1,domainname=test.internal"])
        .args(["-device", "virtio-net-pci,netdev=net"])
        .args(["-device", "virtio-rng-pci", "-device", "virtio-serial-pci"]);
    for (id, path) in [("result", &reports), ("journal", &journal)] {
        command
            .arg("-chardev")
            .arg(format!("file,id={id},path={}", path.display()))
            .arg("-device")
            .arg(format!("virtserialport,chardev={id},name=org.nodebase.{id}"));
    }
    if let Some(config) = boot.ignition {
        command.arg("-fw_cfg").arg(format!("name=opt/com.coreos/config,file={}", config.display()));
    }
    for (name, value) in boot.carried {
        let path = directory.join(format!("carried-{name}"));
        fs::write(&path, value).with_context(|| format!("write {}", path.display()))?;
        command.arg("-fw_cfg").arg(format!("name=opt/org.nodebase/{name},file={}", path.display()));
    }
    fs::write(directory.join("arguments.txt"), boot.arguments).context("write arguments.txt")?;
    let stderr = fs::File::create(&complaints).with_context(|| format!("create {}", complaints.display()))?;
    let started = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(stderr)
        .spawn()
        .with_context(|| format!("run {PROGRAM}"))?;
    let ended = wait(&mut child, boot.deadline, || {
        let silent = started.elapsed() > SILENCE && fs::metadata(&reports).map_or(0, |status| status.len()) == 0;
        silent || fs::read(&console).is_ok_and(|bytes| verdict::is_hopeless(&verdict::plain(&bytes)))
    })?;
    if ended == Ended::Exited(false) {
        let text = fs::read_to_string(&complaints).unwrap_or_default();
        anyhow::bail!("{PROGRAM} failed: {}", text.trim());
    }
    let text = |path: &Path| fs::read(path).map(|bytes| verdict::plain(&bytes)).unwrap_or_default();
    let booted = Booted {
        duration: started.elapsed(),
        timed_out: ended == Ended::TimedOut,
        hopeless: ended == Ended::Hopeless,
        console: text(&console),
        journal: text(&journal),
        reports: text(&reports),
    };
    // Kept as people want to read it.
    fs::write(&console, &booted.console).with_context(|| format!("write {}", console.display()))?;
    Ok(booted)
}

#[derive(Debug, PartialEq, Eq)]
enum Ended {
    /// By itself; whether with status 0.
    Exited(bool),
    TimedOut,
    Hopeless,
}

/// Waits for the end of a child; a child that must not go on is ended.
fn wait(child: &mut Child, deadline: Instant, mut hopeless: impl FnMut() -> bool) -> Result<Ended> {
    let mut polls = 0_u32;
    let mut doomed: Option<Instant> = None;
    let ended = loop {
        if let Some(status) = child.try_wait().context("wait for QEMU")? {
            return Ok(if doomed.is_some() { Ended::Hopeless } else { Ended::Exited(status.success()) });
        }
        if Instant::now() >= deadline {
            break Ended::TimedOut;
        }
        if doomed.is_some_and(|since| since.elapsed() >= LAST_WORDS) {
            break Ended::Hopeless;
        }
        // The console is looked at every second.
        polls += 1;
        if doomed.is_none() && polls.is_multiple_of(20) && hopeless() {
            doomed = Some(Instant::now());
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    child.kill().context("end QEMU")?;
    child.wait().context("wait for QEMU")?;
    Ok(ended)
}
