// SPDX-License-Identifier: Apache-2.0 OR MIT
//! VMware: guestinfo properties, through open-vm-tools' `vmtoolsd`.

use super::ibmcloud::scalar;
use crate::attempt::{Attempt, Failure};
use crate::context::Context;
use crate::names;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::io::Read as _;
use std::process::{Command, Stdio};

/// More than a property can hold.
const METADATA_MAX: u64 = 1024 * 1024;

/// A guestinfo property; `None` when it is not set.
fn property(context: &Context, key: &str) -> Attempt<Option<String>> {
    let program = context.root.join("usr/bin/vmtoolsd");
    let output =
        Command::new(&program).arg("--cmd").arg(format!("info-get {key}")).stdin(Stdio::null()).output().map_err(
            |error| match error.kind() {
                std::io::ErrorKind::NotFound => {
                    Failure::Never(format!("{} is not there: no way to read guestinfo", program.display()))
                }
                _ => Failure::Again(format!("cannot run {}: {error}", program.display())),
            },
        )?;
    if output.status.success() {
        let value = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        return Ok((!value.is_empty()).then_some(value));
    }
    let reason = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    // vmtoolsd's only way to say "not set".
    if reason.contains("No value found") {
        return Ok(None);
    }
    Err(Failure::Again(format!("vmtoolsd: info-get {key}: {}: {reason}", output.status)))
}

/// `guestinfo.hostname`, else `local-hostname` in `guestinfo.metadata` (cloud-init's VMware datasource: base64 or
/// gzip+base64, YAML or JSON inside).
pub fn host_name(context: &Context) -> Attempt<String> {
    if let Some(name) = property(context, "guestinfo.hostname")? {
        return names::host_name(&name);
    }
    let Some(metadata) = property(context, "guestinfo.metadata")? else {
        return Err(Failure::Never("neither guestinfo.hostname nor guestinfo.metadata is set".to_owned()));
    };
    let encoding = property(context, "guestinfo.metadata.encoding")?.unwrap_or_default();
    let text = decode(&metadata, &encoding)?;
    let name = match serde_json::from_str::<serde_json::Value>(&text) {
        Ok(document) => document.get("local-hostname").and_then(|name| name.as_str()).map(str::to_owned),
        Err(_) => scalar(&text, "local-hostname").map(str::to_owned),
    };
    match name {
        Some(name) => names::host_name(&name),
        None => Err(Failure::Never("guestinfo.metadata has no local-hostname".to_owned())),
    }
}

fn decode(metadata: &str, encoding: &str) -> Attempt<String> {
    let broken = |why: String| Failure::Never(format!("guestinfo.metadata ({encoding:?}): {why}"));
    let compact: String = metadata.split_whitespace().collect();
    // OpenShift's own script takes base64 for granted, cloud-init only when told.
    let bytes = match (STANDARD.decode(&compact), encoding) {
        (Ok(bytes), _) => bytes,
        (Err(_), "") => return Ok(metadata.to_owned()),
        (Err(error), _) => return Err(broken(error.to_string())),
    };
    let bytes = if bytes.starts_with(&[0x1f, 0x8b]) {
        let mut plain = Vec::new();
        flate2::read::GzDecoder::new(bytes.as_slice())
            .take(METADATA_MAX)
            .read_to_end(&mut plain)
            .map_err(|error| broken(error.to_string()))?;
        plain
    } else {
        bytes
    };
    String::from_utf8(bytes).map_err(|_| broken("not UTF-8".to_owned()))
}

/// `vsphere://UUID`: kubernetes/cloud-provider-vsphere, pkg/cloudprovider/vsphere/util.go (`GetUUIDFromProviderID`).
/// The UUID is the BIOS one in VMware's own byte order, which the serial number shows on every firmware.
pub fn provider_id(context: &Context) -> Attempt<String> {
    let serial = context.small_file("sys/class/dmi/id/product_serial")?;
    let digits: String = serial
        .strip_prefix("VMware-")
        .unwrap_or_default()
        .chars()
        .filter(char::is_ascii_hexdigit)
        .map(|c| c.to_ascii_lowercase())
        .collect();
    if digits.len() != 32 {
        return Err(Failure::Never(format!("the serial number {serial:?} is not VMware's")));
    }
    let groups = [0..8, 8..12, 12..16, 16..20, 20..32].map(|range| &digits[range]);
    Ok(format!("vsphere://{}", groups.join("-")))
}
