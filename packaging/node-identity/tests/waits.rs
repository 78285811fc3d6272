// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The waiting verbs: they end by an event, or at the deadline, and say meanwhile what they wait for.
#![allow(clippy::unwrap_used)] // in functions that tests call, too

mod support;

use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixDatagram;
use std::process::{Child, ChildStderr, Command, Stdio};
use support::{Net, Root, impatient, stderr, well};

/// A child whose messages are read as they come.
struct Waiting {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStderr>>,
    seen: String,
}

impl Waiting {
    fn start(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        Self { child, lines, seen: String::new() }
    }
    /// Blocks until a message contains `text`.
    fn says(&mut self, text: &str) {
        for line in self.lines.by_ref() {
            let line = line.unwrap();
            let found = line.contains(text);
            self.seen.push_str(&line);
            self.seen.push('\n');
            if found {
                return;
            }
        }
        panic!("ended without saying {text:?}: {}", self.seen);
    }
    fn ends_well(mut self) {
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}: {}", self.seen);
    }
}

fn wait_hostname(root: &Root, first: &str) -> Command {
    let mut command = Command::new("unshare");
    let script = "printf %s \"$1\" > /proc/sys/kernel/hostname; shift; exec \"$@\"";
    command.args(["--uts", "sh", "-c", script, "sh", first, env!("CARGO_BIN_EXE_node-identity"), "--root"]);
    command.arg(root.path()).arg("wait-hostname");
    impatient(&mut command);
    command
}

fn rename(pid: u32, name: &str) {
    let status = Command::new("nsenter")
        .args([
            &format!("--uts=/proc/{pid}/ns/uts"),
            "sh",
            "-c",
            "printf %s \"$1\" > /proc/sys/kernel/hostname",
            "sh",
            name,
        ])
        .status()
        .unwrap();
    assert!(status.success());
}

#[test]
fn a_real_name_ends_the_wait() {
    let root = Root::bare();
    let mut waiting = Waiting::start(wait_hostname(&root, "localhost"));
    let pid = waiting.child.id();
    waiting.says("waiting for a host name: the host name is \"localhost\"");
    // Still none.
    rename(pid, "localhost.localdomain");
    waiting.says("the host name is \"localhost.localdomain\"");
    rename(pid, "worker-0.example.com");
    waiting.says("host name \"worker-0.example.com\"");
    waiting.ends_well();
    assert!(!root.join("etc").exists());
}

#[test]
fn a_real_name_from_the_start() {
    well(&wait_hostname(&Root::bare(), "worker-0").output().unwrap());
}

#[test]
fn the_deadline_and_the_reason() {
    for (name, os_release, says) in
        [("localhost", "", "\"localhost\""), ("fedora", "DEFAULT_HOSTNAME=fedora\n", "only the system's default")]
    {
        let root = Root::bare();
        root.write("etc/os-release", os_release);
        let output = wait_hostname(&root, name).args(["--deadline-ms", "50"]).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        assert!(stderr(&output).contains(says), "{}", stderr(&output));
    }
}

#[test]
fn systemctl_status_shows_what_is_waited_for() {
    let root = Root::bare();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    let mut command = wait_hostname(&root, "localhost");
    command.env("NOTIFY_SOCKET", &path);
    let mut waiting = Waiting::start(command);
    let mut buffer = [0; 4096];
    let length = socket.recv(&mut buffer).unwrap();
    let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
    assert!(text.contains("STATUS=Waiting for a host name: the host name is \"localhost\""), "{text}");
    waiting.says("waiting");
    rename(waiting.child.id(), "worker-1");
    let length = socket.recv(&mut buffer).unwrap();
    assert!(String::from_utf8_lossy(&buffer[..length]).contains("STATUS=Host name worker-1"));
    waiting.ends_well();
}

const APPLIED: &str = "etc/nmstate/openshift/applied";

#[test]
fn nothing_to_wait_for_without_nmstate() {
    let (net, root) = (Net::new(), Root::bare());
    well(&net.command(root.path()).arg("wait-node-ip").output().unwrap());
}

#[test]
fn node_ips_appear_one_by_one() {
    let (net, root) = (Net::new(), Root::bare());
    root.write(APPLIED, "");
    std::fs::create_dir(root.join("run")).unwrap();
    let mut command = net.command(root.path());
    command.arg("wait-node-ip").env("NODEBASE_IP_FAMILIES", "DualStack");
    let mut waiting = Waiting::start(command);
    waiting.says("primary-ip names no address yet");
    root.write("run/nodeip-configuration/ipv6", "2001:db8::5\n");
    root.write("run/nodeip-configuration/primary-ip", "192.0.2.5\n");
    waiting.says("cannot be bound: 192.0.2.5");
    net.address("192.0.2.5");
    // Duplicate detection on: tentative first.
    net.ip(&["address", "add", "2001:db8::5/64", "dev", "eth0"]);
    waiting.says("the node IPs can be bound");
    waiting.ends_well();
}

#[test]
fn only_the_families_of_the_cluster_matter() {
    let net = Net::with(&["192.0.2.5"]);
    let root = Root::bare();
    root.write(APPLIED, "");
    root.write("run/nodeip-configuration/primary-ip", "192.0.2.5");
    root.write("run/nodeip-configuration/ipv4", "192.0.2.5");
    root.write("run/nodeip-configuration/ipv6", "2001:db8::99");
    well(&net.command(root.path()).args(["wait-node-ip", "--ip-families", "IPv4"]).output().unwrap());
    let mut command = net.command(root.path());
    let output = command.args(["wait-node-ip", "--deadline-ms", "50"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("2001:db8::99"), "{}", stderr(&output));
    let output = net.command(root.path()).args(["wait-node-ip", "--ip-families", "both"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}
