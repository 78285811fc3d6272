// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which configuration chronyd gets, when it is left alone, and whether chronyd itself accepts the files.
#![allow(clippy::unwrap_used)] // in functions that tests call, too

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use support::{Root, impatient, stderr, well};

fn shipped() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../units/usr-lib/nodebase/chrony")
}

const CHRONY_CONF: &str = "pool 2.fedora.pool.ntp.org iburst\nmakestep 1.0 3\nleapsectz right/UTC\n";

/// An ostree system as installed.
fn system() -> Root {
    let root = Root::bare();
    for file in fs::read_dir(shipped()).unwrap() {
        let file = file.unwrap();
        let name = file.file_name().into_string().unwrap();
        root.write(&format!("usr/lib/nodebase/chrony/{name}"), &fs::read_to_string(file.path()).unwrap());
    }
    for etc in ["etc", "usr/etc"] {
        root.write(&format!("{etc}/chrony.conf"), CHRONY_CONF);
        root.write(&format!("{etc}/sysconfig/chronyd"), "# Command-line options for chronyd\nOPTIONS=\"-F 2\"\n");
    }
    root
}

fn choose(root: &Root, source: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_node-identity"));
    impatient(&mut command);
    command.arg("--root").arg(root.path()).args(["time-source", "--source", source]).output().unwrap()
}

const CHOSEN: &str = "run/nodebase/chrony.env";

#[test]
fn each_source_its_file() {
    for source in ["aws", "gcp", "hyperv"] {
        let root = system();
        well(&choose(&root, source));
        let want = format!("OPTIONS=\"-F 2 -f /usr/lib/nodebase/chrony/{source}.conf\"\n");
        assert!(root.read(CHOSEN).ends_with(&want), "{}", root.read(CHOSEN));
        assert_eq!(root.read("etc/chrony.conf"), CHRONY_CONF);
        // Once more: the same.
        let before = root.read(CHOSEN);
        well(&choose(&root, source));
        assert_eq!(root.read(CHOSEN), before);
    }
}

#[test]
fn kvm_only_with_its_clock() {
    let root = system();
    well(&choose(&root, "kvm"));
    assert!(!root.join(CHOSEN).exists(), "ptp_kvm did not load");
    root.write("sys/class/ptp/ptp0/clock_name", "ice-0000:3b:00.0-clk\n");
    well(&choose(&root, "kvm"));
    assert!(!root.join(CHOSEN).exists(), "another card's clock");
    root.write("sys/class/ptp/ptp1/clock_name", "KVM virtual PTP\n");
    well(&choose(&root, "kvm"));
    assert!(!root.join(CHOSEN).exists(), "udev has not named it");
    root.write("dev/ptp_kvm", "");
    well(&choose(&root, "kvm"));
    assert!(root.read(CHOSEN).contains("/kvm-by-name.conf"));
    root.write("sys/class/ptp/ptp0/clock_name", "KVM virtual PTP\n");
    well(&choose(&root, "kvm"));
    assert!(root.read(CHOSEN).contains("/kvm.conf"));
}

#[test]
fn an_administrators_configuration_is_respected() {
    type Change = (&'static str, fn(&Root));
    let changes: [Change; 7] = [
        ("/etc/chrony.conf is not as shipped", |root| root.write("etc/chrony.conf", "server ntp.example\n")),
        ("/etc/chrony.conf is not as shipped", |root| fs::remove_file(root.join("etc/chrony.conf")).unwrap()),
        ("/etc/sysconfig/chronyd is not as shipped", |root| root.write("etc/sysconfig/chronyd", "OPTIONS=-4\n")),
        ("/etc/chrony.d is an administrator's", |root| root.write("etc/chrony.d/mine.conf", "server ntp.example\n")),
        ("/etc/systemd/system/chronyd.service.d is an administrator's", |root| {
            root.write("etc/systemd/system/chronyd.service.d/90-mine.conf", "[Service]\n");
        }),
        ("/etc/systemd/system/chronyd.service is an administrator's", |root| {
            root.write("etc/systemd/system/x", "");
            std::os::unix::fs::symlink("/dev/null", root.join("etc/systemd/system/chronyd.service")).unwrap();
        }),
        ("has no copy in /usr/etc", |root| fs::remove_dir_all(root.join("usr/etc")).unwrap()),
    ];
    for (says, change) in changes {
        let root = system();
        well(&choose(&root, "aws"));
        assert!(root.join(CHOSEN).exists());
        change(&root);
        let output = choose(&root, "aws");
        well(&output);
        assert!(stderr(&output).contains(says), "{says}: {}", stderr(&output));
        assert!(!root.join(CHOSEN).exists(), "{says}: an earlier choice must go");
    }
}

#[test]
fn what_the_distribution_ships_in_directories_is_no_administrators() {
    let root = system();
    for etc in ["etc", "usr/etc"] {
        root.write(&format!("{etc}/chrony.d/vendor.conf"), "");
    }
    well(&choose(&root, "gcp"));
    assert!(root.join(CHOSEN).exists());
}

#[test]
fn faults_name_the_file() {
    let root = system();
    let output = choose(&root, "sundial");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("sundial"), "{}", stderr(&output));
    fs::remove_file(root.join("usr/lib/nodebase/chrony/aws.conf")).unwrap();
    let output = choose(&root, "aws");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("/usr/lib/nodebase/chrony/aws.conf is not in this image"), "{}", stderr(&output));
}

/// chronyd parses every file (`-p` prints the configuration and exits); what matters is in what it prints.
#[test]
fn chronyd_accepts_them() {
    let directory = tempfile::tempdir().unwrap();
    let base = directory.path().join("chrony.conf");
    fs::write(&base, CHRONY_CONF).unwrap();
    for (name, has, has_not) in [
        ("aws", &["server 169.254.169.123 prefer iburst minpoll 4 maxpoll 4"][..], &["leapsectz", "pool "][..]),
        ("gcp", &["server metadata.google.internal prefer iburst"], &["leapsectz", "pool "]),
        ("hyperv", &["refclock PHC /dev/ptp_hyperv poll 3 dpoll -2 offset 0", "leapsectz right/UTC"], &["pool "]),
        ("kvm", &["refclock PHC /dev/ptp0 poll 2", "pool 2.fedora.pool.ntp.org iburst"], &[]),
        ("kvm-by-name", &["refclock PHC /dev/ptp_kvm poll 2", "pool 2.fedora.pool.ntp.org iburst"], &[]),
    ] {
        let text = fs::read_to_string(shipped().join(format!("{name}.conf"))).unwrap();
        let file = directory.path().join(name);
        // The distribution's file is where this test has put it.
        fs::write(&file, text.replace("/etc/chrony.conf", base.to_str().unwrap())).unwrap();
        let output = Command::new("chronyd").arg("-p").arg("-f").arg(&file).output();
        let output = output.unwrap_or_else(|error| panic!("cannot run chronyd: {error} (apt: chrony)"));
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{name}: {}", stderr(&output));
        for line in has {
            assert!(printed.lines().any(|printed| printed == *line), "{name}: {line} in {printed}");
        }
        for word in has_not {
            assert!(!printed.lines().any(|line| line.starts_with(word)), "{name}: {word} in {printed}");
        }
        // The last one counts.
        let makestep = printed.lines().rfind(|line| line.starts_with("makestep"));
        assert_eq!(makestep, Some("makestep 1.0 -1"), "{name}");
    }
}
