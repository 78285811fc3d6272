// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Waits for a host name under which kubelet may register.
//!
//! poll(2) on /proc/sys/kernel/hostname reports every sethostname(2), whoever calls it; no bus is needed, so this
//! works without D-Bus and without hostnamed. The unit must not have ProtectHostname=: the service would look at a
//! UTS namespace of its own, where nothing ever changes.

use super::until;
use crate::hostname;
use crate::journal::status;
use crate::names;
use anyhow::{Context as _, Result};
use rustix::event::PollFlags;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// Why a name is not good enough; `None` when it is.
fn objection(root: &Path, name: &str) -> Result<Option<String>> {
    if names::is_placeholder(name) {
        return Ok(Some(format!("the host name is {name:?}")));
    }
    // An administrator may have chosen that very name.
    let fallback = hostname::fallback_name(root);
    if fallback.as_deref() == Some(name) && hostname::static_name(root)?.as_deref() != Some(name) {
        return Ok(Some(format!("the host name {name:?} is only the system's default")));
    }
    Ok(None)
}

/// Blocks until the host name is a real one, and returns it.
///
/// # Errors
/// [`crate::attempt::GaveUp`] after `deadline`; /proc cannot be read.
pub fn wait(root: &Path, deadline: Duration) -> Result<String> {
    let start = Instant::now();
    loop {
        // Opened anew each time: the kernel compares with what it was at open, so no change can fall in between.
        let mut file = File::open("/proc/sys/kernel/hostname").context("cannot open /proc/sys/kernel/hostname")?;
        let mut name = String::new();
        file.read_to_string(&mut name).context("cannot read /proc/sys/kernel/hostname")?;
        let name = name.trim_end();
        let Some(objection) = objection(root, name)? else {
            log::info!("host name {name:?}");
            return Ok(name.to_owned());
        };
        log::info!("waiting for a host name: {objection}");
        status(&format!("Waiting for a host name: {objection}"));
        until(start, deadline, &[(file.as_fd(), PollFlags::PRI)], &format!("no valid host name: {objection}"))?;
    }
}

#[cfg(test)]
mod tests {
    use super::objection;
    use std::fs;

    #[test]
    fn the_default_name_counts_only_when_chosen() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("etc")).unwrap();
        fs::write(root.path().join("etc/os-release"), "ID=fedora\nDEFAULT_HOSTNAME=\"fedora\"\n").unwrap();
        assert!(objection(root.path(), "localhost").unwrap().is_some());
        assert!(objection(root.path(), "").unwrap().is_some());
        assert!(objection(root.path(), "fedora").unwrap().is_some());
        assert!(objection(root.path(), "worker-0").unwrap().is_none());
        fs::write(root.path().join("etc/hostname"), "fedora\n").unwrap();
        assert!(objection(root.path(), "fedora").unwrap().is_none());
    }
}
