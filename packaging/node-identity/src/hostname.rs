// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reading and setting the host name.

use crate::cli::SetWith;
use crate::envfile;
use crate::names;
use anyhow::{Context as _, Result, bail};
use std::path::Path;
use std::process::{Command, Stdio};

/// Read by NetworkManager when it starts; below the root.
pub const HOLD: &str = "run/NetworkManager/conf.d/20-nodebase-hostname.conf";

/// The static name in /etc/hostname, if it has one and it is a real one. It wins over everything.
///
/// # Errors
/// The file exists and cannot be read.
pub fn static_name(root: &Path) -> Result<Option<String>> {
    let path = root.join("etc/hostname");
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    let name = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
    Ok(name.filter(|name| !names::is_placeholder(name)).map(str::to_owned))
}

/// The name that hostnamed makes up when nobody has set one: os-release's DEFAULT_HOSTNAME ("fedora").
pub fn fallback_name(root: &Path) -> Option<String> {
    ["etc/os-release", "usr/lib/os-release"]
        .iter()
        .find_map(|file| std::fs::read_to_string(root.join(file)).ok())
        .and_then(|text| envfile::parse(&text).remove("DEFAULT_HOSTNAME"))
        .filter(|name| !name.is_empty())
}

/// The kernel's name of this machine.
pub fn current() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Sets the transient name.
///
/// # Errors
/// The name could not be set; says how it was tried.
pub fn set(name: &str, with: SetWith) -> Result<()> {
    match with {
        SetWith::Kernel => rustix::system::sethostname(name.as_bytes()).context("sethostname(2)"),
        SetWith::Hostnamed => {
            // hostnamed checks the caller's user, not its capabilities, so this process needs none.
            let output = Command::new("hostnamectl")
                .args(["--no-ask-password", "--transient", "set-hostname", name])
                .stdin(Stdio::null())
                .output()
                .context("cannot run hostnamectl")?;
            if !output.status.success() {
                let reason = String::from_utf8_lossy(&output.stderr);
                bail!("hostnamectl --transient set-hostname {name}: {}: {}", output.status, reason.trim());
            }
            Ok(())
        }
    }
}

/// Keeps NetworkManager from replacing the name by what DHCP or reverse DNS say. Works only before it starts.
///
/// # Errors
/// The file cannot be written.
pub fn hold(root: &Path) -> Result<()> {
    envfile::replace(
        &root.join(HOLD),
        "# Written by node-identity: the platform gave the host name.\n[main]\nhostname-mode=none\n",
    )
}
