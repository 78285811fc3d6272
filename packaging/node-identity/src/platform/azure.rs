// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Azure and Azure Stack Hub.
//!
//! <https://learn.microsoft.com/azure/virtual-machines/instance-metadata-service>

use super::member;
use crate::attempt::{Attempt, Failure};
use crate::context::Context;
use crate::http::Reply;
use crate::names;

const COMPUTE: &str = "http://169.254.169.254/metadata/instance/compute?api-version=2021-02-01&format=json";
/// Azure Stack Hub has no instance metadata service, but this one document (afterburn uses it as well).
const STACK_IDENTITY: &str = "http://169.254.169.254/Microsoft.Compute/identity?api-version=2019-03-11";
/// Without this header the service refuses: it keeps forwarded requests out.
const HEADERS: &[(&str, &str)] = &[("Metadata", "true")];

fn document(reply: Reply, url: &str) -> Attempt<serde_json::Value> {
    if reply.status == 400 {
        // The service's text says which of header and api-version it misses.
        let reason: String = reply.body.chars().take(200).collect();
        return Err(Failure::Never(format!("{url}: refused with 400: {reason}")));
    }
    reply.json()
}

/// The machine's own name (`osProfile.computerName` is what its creator asked the system to be called).
pub fn host_name(context: &Context) -> Attempt<String> {
    let compute = document(context.client.get(COMPUTE, HEADERS)?, COMPUTE)?;
    let name = member(&compute, "/osProfile/computerName", COMPUTE).or_else(|_| member(&compute, "/name", COMPUTE))?;
    names::host_name(name)
}

/// The machine's name on Azure Stack Hub.
pub fn stack_host_name(context: &Context) -> Attempt<String> {
    let identity = document(context.client.get(STACK_IDENTITY, HEADERS)?, STACK_IDENTITY)?;
    names::host_name(member(&identity, "/vmName", STACK_IDENTITY)?)
}

/// `azure://RESOURCE-ID`, with subscription and resource group in lower case: kubernetes-sigs/cloud-provider-azure,
/// pkg/provider/azure_instances_v1.go (`getLocalInstanceProviderID`). Covers members of scale sets, whose resource
/// id has the scale set in it.
pub fn provider_id(context: &Context) -> Attempt<String> {
    let compute = document(context.client.get(COMPUTE, HEADERS)?, COMPUTE)?;
    let resource = member(&compute, "/resourceId", COMPUTE)?;
    let subscription = member(&compute, "/subscriptionId", COMPUTE)?;
    let group = member(&compute, "/resourceGroupName", COMPUTE)?;
    let resource = resource
        .replace(subscription, &subscription.to_lowercase())
        .replace(&format!("/{group}/"), &format!("/{}/", group.to_lowercase()));
    // Names of resource groups may hold parentheses.
    if !resource.starts_with("/subscriptions/")
        || !resource.bytes().all(|b| b.is_ascii_alphanumeric() || b"/._-()".contains(&b))
    {
        return Err(Failure::Never(format!("{COMPUTE}: the resource id {resource:?} cannot be used")));
    }
    Ok(format!("azure://{resource}"))
}
