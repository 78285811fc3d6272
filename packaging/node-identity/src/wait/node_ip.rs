// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Waits until the node IPs that nodeip-configuration chose can be bound: after nmstate rebuilt the interfaces they
//! may be absent, or tentative while IPv6 looks for duplicates.
//!
//! The test is bind(2) itself; the trigger is a netlink message about addresses, or inotify on the directory the
//! addresses are written to.

use super::until;
use crate::journal::status;
use anyhow::{Context as _, Result, bail};
use rustix::event::PollFlags;
use rustix::fs::inotify;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with};
use std::fs;
use std::net::{IpAddr, UdpSocket};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

/// nmstate's mark that it changed the machine's network; without it the addresses never went away.
const APPLIED: &str = "etc/nmstate/openshift/applied";
/// Where nodeip-configuration writes `primary-ip`, `ipv4` and `ipv6`.
const CHOSEN: &str = "run/nodeip-configuration";

/// `RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR` of linux/rtnetlink.h.
const ADDRESS_GROUPS: u32 = 0x10 | 0x100;

/// Which of the family files matter: `IPFamilies` as OpenShift writes it, everything when it is not known.
///
/// # Errors
/// An unknown word.
fn files(ip_families: Option<&str>) -> Result<&'static [&'static str]> {
    Ok(match ip_families {
        None | Some("" | "DualStack" | "DualStackIPv6Primary") => &["primary-ip", "ipv4", "ipv6"],
        Some("IPv4") => &["primary-ip", "ipv4"],
        Some("IPv6") => &["primary-ip", "ipv6"],
        Some(other) => bail!("ipFamilies {other:?}: IPv4, IPv6, DualStack or DualStackIPv6Primary were expected"),
    })
}

/// The addresses to wait for. `Err` is a message for people: the choice is not made yet, or cannot be read.
fn chosen(root: &Path, files: &[&str]) -> Result<Vec<IpAddr>, String> {
    let mut addresses = Vec::new();
    for file in files {
        let path = root.join(CHOSEN).join(file);
        let text = fs::read_to_string(&path).unwrap_or_default();
        match text.trim() {
            "" if *file == "primary-ip" => return Err(format!("{} names no address yet", path.display())),
            "" => {}
            text => match text.parse() {
                Ok(address) if addresses.contains(&address) => {}
                Ok(address) => addresses.push(address),
                Err(_) => return Err(format!("{}: {text:?} is no IP address", path.display())),
            },
        }
    }
    Ok(addresses)
}

/// What keeps kubelet from using the node IPs; `None` when nothing does.
fn missing(root: &Path, files: &[&str]) -> Option<String> {
    let addresses = match chosen(root, files) {
        Ok(addresses) => addresses,
        Err(message) => return Some(message),
    };
    let unbindable: Vec<_> = addresses
        .iter()
        .filter_map(|address| UdpSocket::bind((*address, 0)).err().map(|error| format!("{address} ({error})")))
        .collect();
    (!unbindable.is_empty()).then(|| format!("node IPs that cannot be bound: {}", unbindable.join(", ")))
}

/// Blocks until all chosen node IPs can be bound. Returns at once where nmstate changed nothing.
///
/// # Errors
/// [`crate::attempt::GaveUp`] after `deadline`; no netlink socket; an unknown `ip_families`.
pub fn wait(root: &Path, ip_families: Option<&str>, deadline: Duration) -> Result<()> {
    let files = files(ip_families)?;
    if !root.join(APPLIED).exists() {
        log::info!("nmstate has changed nothing ({APPLIED} is absent): nothing to wait for");
        return Ok(());
    }
    let start = Instant::now();
    // Subscribed before the first look, so that no change falls in between.
    let netlink = addresses_socket().context("cannot open a netlink socket")?;
    let files_changed =
        inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC).context("inotify_init1(2)")?;
    loop {
        watch(&files_changed, root);
        let Some(missing) = missing(root, files) else {
            log::info!("the node IPs can be bound");
            return Ok(());
        };
        log::info!("waiting: {missing}");
        status(&format!("Waiting: {missing}"));
        let fds = [(netlink.as_fd(), PollFlags::IN), (files_changed.as_fd(), PollFlags::IN)];
        until(start, deadline, &fds, &missing)?;
        drain(&netlink);
        drain_file(&files_changed);
    }
}

fn addresses_socket() -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    // Protocol 0, the default, is NETLINK_ROUTE.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    bind(&socket, &SocketAddrNetlink::new(0, ADDRESS_GROUPS))?;
    Ok(socket)
}

/// Watches the directory of the choice, and those above it as long as it is not there. Adding a watch again is fine.
fn watch(inotify_fd: &OwnedFd, root: &Path) {
    let mask = inotify::WatchFlags::CREATE | inotify::WatchFlags::MOVED_TO | inotify::WatchFlags::CLOSE_WRITE;
    for directory in [root.join(CHOSEN), root.join("run")] {
        // Its absence is the normal case; the directory above reports when it appears.
        let _ = inotify::add_watch(inotify_fd, &directory, mask);
    }
}

/// What the messages say does not matter: after any of them everything is looked at anew. An overrun (ENOBUFS) ends
/// the loop as well, for the same reason.
fn drain(socket: &OwnedFd) {
    let mut buffer = [0_u8; 8192];
    while recv(socket, &mut buffer[..], RecvFlags::DONTWAIT).is_ok_and(|(length, _)| length > 0) {}
}

fn drain_file(file: &OwnedFd) {
    let mut buffer = [0_u8; 4096];
    while rustix::io::read(file, &mut buffer[..]).is_ok_and(|length| length > 0) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choice() {
        let root = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| {
            fs::create_dir_all(root.path().join(CHOSEN)).unwrap();
            fs::write(root.path().join(CHOSEN).join(file), text).unwrap();
        };
        let all = files(None).unwrap();
        assert!(chosen(root.path(), all).unwrap_err().contains("names no address yet"));
        write("primary-ip", "192.0.2.1\n");
        write("ipv4", "192.0.2.1\n");
        write("ipv6", "2001:db8::1");
        assert_eq!(chosen(root.path(), all).unwrap().len(), 2);
        assert_eq!(chosen(root.path(), files(Some("IPv4")).unwrap()).unwrap().len(), 1);
        write("ipv6", "x");
        assert!(chosen(root.path(), all).unwrap_err().contains("no IP address"));
        assert!(files(Some("ipv4")).is_err());
    }
}
