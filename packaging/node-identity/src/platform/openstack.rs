// SPDX-License-Identifier: Apache-2.0 OR MIT
//! OpenStack, and PowerVS, whose config drive has the same shape.
//!
//! <https://docs.openstack.org/nova/latest/user/metadata.html>. The config drive is asked first, as it needs no
//! network; then the service over IPv4, then over link-local IPv6 on every interface.

use super::member;
use crate::attempt::{Attempt, Failure};
use crate::configdrive::{self, OPENSTACK};
use crate::context::Context;
use crate::names;
use serde_json::Value;

const PATH: &str = "openstack/2012-08-10/meta_data.json";
const BASE_V4: &str = "http://169.254.169.254";
const BASE_V6: &str = "http://[fe80::a9fe:a9fe]";

/// The metadata document from the first source that has a whole one.
fn document(context: &Context) -> Attempt<(Value, String)> {
    let mut tried = Vec::new();
    match drive(context, PATH) {
        Ok(value) => return Ok((value, "config drive".to_owned())),
        Err(failure) => tried.push(failure.message().to_owned()),
    }
    let url = format!("{BASE_V4}/{PATH}");
    match context.client.get(&url, &[]).and_then(crate::http::Reply::json) {
        Ok(value) => return Ok((value, url)),
        Err(failure) => tried.push(failure.message().to_owned()),
    }
    for (name, index) in interfaces(context) {
        let url = format!("{BASE_V6}/{PATH}");
        match context.client.scoped(index).get(&url, &[]).and_then(crate::http::Reply::json) {
            Ok(value) => return Ok((value, format!("{url} on {name}"))),
            Err(failure) => tried.push(format!("on {name}: {}", failure.message())),
        }
    }
    // None of the refusals is final: another source may come up.
    Err(Failure::Again(tried.join("; ")))
}

fn drive(context: &Context, path: &str) -> Attempt<Value> {
    let text = configdrive::read(&context.root, OPENSTACK, path)?;
    serde_json::from_str(&text).map_err(|error| Failure::Again(format!("config drive: {path}: no JSON: {error}")))
}

/// Interfaces that may reach a link-local address: all that are up but loopback, in the order of their index.
fn interfaces(context: &Context) -> Vec<(String, u32)> {
    let directory = context.root.join("sys/class/net");
    let mut found: Vec<_> = std::fs::read_dir(directory)
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
        .filter_map(|entry| {
            let read = |file: &str| std::fs::read_to_string(entry.path().join(file)).ok();
            let flags = u32::from_str_radix(read("flags")?.trim().trim_start_matches("0x"), 16).ok()?;
            let index = read("ifindex")?.trim().parse().ok()?;
            // IFF_UP is 1, IFF_LOOPBACK is 8.
            (flags & 1 != 0 && flags & 8 == 0).then(|| (entry.file_name().to_string_lossy().into_owned(), index))
        })
        .collect();
    found.sort_by_key(|(_, index)| *index);
    found
}

/// The server's name, which is what the cloud controller looks the node up by. Not the host name: that one has the
/// network's domain.
pub fn node_name(context: &Context) -> Attempt<String> {
    let (document, source) = document(context)?;
    names::node_name(member(&document, "/name", &source)?)
}

/// Nova's host name for the server.
pub fn host_name(context: &Context) -> Attempt<String> {
    if let Some(name) = context.afterburn.get("OPENSTACK_HOSTNAME") {
        return names::host_name(name);
    }
    let (document, source) = document(context)?;
    names::host_name(member(&document, "/hostname", &source)?)
}

/// PowerVS has the config drive only: its `latest` document, as afterburn reads it.
pub fn powervs_host_name(context: &Context) -> Attempt<String> {
    if let Some(name) = context.afterburn.get("POWERVS_LOCAL_HOSTNAME") {
        return names::host_name(name);
    }
    let document = drive(context, "openstack/latest/meta_data.json")?;
    names::host_name(member(&document, "/hostname", "config drive")?)
}

/// `openstack:///UUID`: kubernetes/cloud-provider-openstack, pkg/openstack/instances.go (`instanceIDFromProviderID`;
/// the region before the third slash is for clouds that set `OS_CCM_REGIONAL`).
pub fn provider_id(context: &Context) -> Attempt<String> {
    let uuid = if let Some(uuid) = context.afterburn.get("OPENSTACK_INSTANCE_UUID") {
        uuid.to_owned()
    } else {
        let (document, source) = document(context)?;
        member(&document, "/uuid", &source)?.to_owned()
    };
    Ok(format!("openstack:///{}", names::identifier("the server's uuid", &uuid)?))
}
