// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Google Compute Engine: <https://cloud.google.com/compute/docs/metadata/querying-metadata>

use crate::attempt::{Attempt, Failure};
use crate::context::Context;
use crate::names;

const BASE: &str = "http://169.254.169.254/computeMetadata/v1";
const FLAVOR: (&str, &str) = ("Metadata-Flavor", "Google");

/// The service answers with the flavour it was asked with; anything else that answers does not.
fn get(context: &Context, path: &str) -> Attempt<String> {
    let url = format!("{BASE}/{path}");
    let reply = context.client.get(&url, &[FLAVOR])?;
    if reply.status == 200 && reply.header(FLAVOR.0) != Some(FLAVOR.1) {
        return Err(Failure::Again(format!("{url}: the answer lacks Metadata-Flavor: Google, it is somebody else's")));
    }
    reply.text()
}

/// The instance's full name, cut to what a host name can hold.
pub fn host_name(context: &Context) -> Attempt<String> {
    match context.afterburn.get("GCP_HOSTNAME") {
        Some(name) => names::host_name(name),
        None => names::host_name(&get(context, "instance/hostname")?),
    }
}

/// `gce://PROJECT/ZONE/NAME`: kubernetes/cloud-provider-gcp, providers/gce/gce_instances.go (`InstanceID`) and
/// gce_util.go (`splitProviderID`). Afterburn has none of the three.
pub fn provider_id(context: &Context) -> Attempt<String> {
    let project = get(context, "project/project-id")?;
    // Domain-scoped projects (example.com:project) exist from before 2013.
    let project = project.trim();
    if project.is_empty() || !project.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.:".contains(&b)) {
        return Err(Failure::Never(format!("the project id {project:?} is none")));
    }
    let zone = get(context, "instance/zone")?;
    // projects/NUMBER/zones/ZONE
    let zone = names::identifier("the zone", zone.rsplit('/').next().unwrap_or_default())?;
    let name = names::identifier("the instance name", &get(context, "instance/name")?)?;
    Ok(format!("gce://{project}/{zone}/{name}"))
}
