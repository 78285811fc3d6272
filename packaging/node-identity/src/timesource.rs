// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Chooses chronyd's configuration: one of the static files in `/usr/lib/nodebase/chrony`, by an option in an
//! environment file that chronyd.service reads after its own.
//!
//! What each platform's clock is follows Fedora CoreOS' 20platform-chrony. An administrator's configuration wins:
//! then nothing is written, and chronyd runs as the distribution ships it.

use crate::envfile;
use anyhow::{Context as _, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};

/// Read by chronyd.service.d/12-nodebase-time-source.conf, below the root.
pub const ENVIRONMENT: &str = "run/nodebase/chrony.env";
/// Where the configurations are, as chronyd sees them.
const DIRECTORY: &str = "usr/lib/nodebase/chrony";
/// What ptp_kvm calls its clock.
const KVM_CLOCK: &str = "KVM virtual PTP";

/// Files that the distribution ships in /etc; on an ostree system /usr/etc has the pristine copy.
const SHIPPED: &[&str] = &["chrony.conf", "sysconfig/chronyd"];
/// What the distribution does not ship: anything there is an administrator's.
const OWN: &[&str] =
    &["chrony.d", "chrony/conf.d", "systemd/system/chronyd.service", "systemd/system/chronyd.service.d"];

/// Writes chronyd's environment for this source, or removes it where chronyd is to be left alone.
///
/// # Errors
/// An unknown source; the environment file cannot be written.
pub fn choose(root: &Path, source: &str) -> Result<()> {
    let environment = root.join(ENVIRONMENT);
    let configuration = match source {
        "aws" | "gcp" | "hyperv" => Some(source.to_owned()),
        "kvm" => kvm(root),
        other => bail!("time source {other:?}: aws, gcp, hyperv or kvm were expected"),
    };
    let configuration = match (configuration, administrator(root)?) {
        (None, _) => None,
        (_, Some(whose)) => {
            log::info!("{whose}: chronyd is left alone");
            None
        }
        (found, None) => found,
    };
    let Some(configuration) = configuration else {
        return match fs::remove_file(&environment) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot remove {}", environment.display()))
            }
            _ => Ok(()),
        };
    };
    let file = format!("{DIRECTORY}/{configuration}.conf");
    if !root.join(&file).exists() {
        bail!("/{file} is not in this image");
    }
    let options = options(root)?;
    log::info!("chronyd takes /{file}");
    let options = format!("{options} -f /{file}");
    envfile::replace(
        &environment,
        &format!("# Written by node-identity time-source.\nOPTIONS=\"{}\"\n", options.trim()),
    )
}

/// chronyd's options as shipped (`-F 2`), which the new ones must contain.
fn options(root: &Path) -> Result<String> {
    let path = root.join("etc/sysconfig/chronyd");
    let options = envfile::read(&path)?.remove("OPTIONS").unwrap_or_default();
    if options.contains(['"', '\\', '\n']) {
        bail!("{}: OPTIONS={options:?} holds quotes, which cannot be carried over", path.display());
    }
    Ok(options)
}

/// Which of the two configurations for virtual machines on KVM. The first PTP clock is ptp_kvm's unless a network
/// card brought one along; then udev's link is needed.
fn kvm(root: &Path) -> Option<String> {
    let clocks = root.join("sys/class/ptp");
    let names = |path: PathBuf| fs::read_to_string(path.join("clock_name")).unwrap_or_default();
    if names(clocks.join("ptp0")).trim() == KVM_CLOCK {
        return Some("kvm".to_owned());
    }
    let other = fs::read_dir(&clocks)
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
        .any(|entry| names(entry.path()).trim() == KVM_CLOCK);
    if other && root.join("dev/ptp_kvm").exists() {
        return Some("kvm-by-name".to_owned());
    }
    log::info!("no clock named {KVM_CLOCK:?} in {}: ptp_kvm did not load, chronyd is left alone", clocks.display());
    None
}

/// Why chronyd is not ours to configure; `None` when it is.
fn administrator(root: &Path) -> Result<Option<String>> {
    let etc = root.join("etc");
    let pristine = root.join("usr/etc");
    for file in SHIPPED {
        let (here, shipped) = (read(&etc.join(file))?, read(&pristine.join(file))?);
        match (here, shipped) {
            // No pristine copy: nobody can tell what was changed, so it counts as changed.
            (Some(_), None) => return Ok(Some(format!("/etc/{file} has no copy in /usr/etc to compare with"))),
            (here, shipped) if here != shipped => return Ok(Some(format!("/etc/{file} is not as shipped"))),
            _ => {}
        }
    }
    for name in OWN {
        let path = etc.join(name);
        let theirs = if path.is_dir() {
            fs::read_dir(&path)
                .with_context(|| format!("cannot read {}", path.display()))?
                .filter_map(Result::ok)
                .any(|entry| !pristine.join(name).join(entry.file_name()).exists())
        } else {
            // A link to /dev/null is a mask; it counts too, and `exists` would follow it.
            path.symlink_metadata().is_ok()
        };
        if theirs {
            return Ok(Some(format!("/etc/{name} is an administrator's")));
        }
    }
    Ok(None)
}

fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}
