// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Clouds where the provider id is all that is asked for.

use super::{member, word};
use crate::attempt::{Attempt, Failure};
use crate::context::Context;
use crate::names;

/// `digitalocean://DROPLET`: digitalocean/digitalocean-cloud-controller-manager,
/// cloud-controller-manager/do/droplets.go (`dropletIDFromProviderID`).
/// Service: <https://docs.digitalocean.com/reference/api/metadata/>
pub fn digitalocean(context: &Context) -> Attempt<String> {
    let id = word(context, "http://169.254.169.254/metadata/v1/id", &[], "the droplet id")?;
    Ok(format!("digitalocean://{}", number("the droplet id", id)?))
}

/// `hcloud://SERVER`: hetznercloud/hcloud-cloud-controller-manager, internal/providerid/providerid.go.
/// Service: <https://docs.hetzner.cloud/reference/cloud#server-metadata>
pub fn hetzner(context: &Context) -> Attempt<String> {
    let url = "http://169.254.169.254/hetzner/v1/metadata/instance-id";
    let id = match context.afterburn.get("HETZNER_INSTANCE_ID") {
        Some(id) => names::identifier("the server id", id)?,
        None => word(context, url, &[], "the server id")?,
    };
    Ok(format!("hcloud://{}", number("the server id", id)?))
}

/// `vultr://INSTANCE`: vultr/vultr-cloud-controller-manager, vultr/instances.go (`vultrIDFromProviderID`). The id is
/// the UUID of API version 2; afterburn's INSTANCE_ID is the older number.
/// Service: <https://www.vultr.com/metadata/>
pub fn vultr(context: &Context) -> Attempt<String> {
    let id = word(context, "http://169.254.169.254/v1/instance-v2-id", &[], "the instance id")?;
    Ok(format!("vultr://{id}"))
}

/// `scaleway://instance/ZONE/ID`: scaleway/scaleway-cloud-controller-manager, scaleway/instances.go.
/// The document needs no privileged source port, user data would.
pub fn scaleway(context: &Context) -> Attempt<String> {
    let attributes = (context.afterburn.get("SCALEWAY_ZONE_ID"), context.afterburn.get("SCALEWAY_INSTANCE_ID"));
    let (zone, id) = if let (Some(zone), Some(id)) = attributes {
        (zone.to_owned(), id.to_owned())
    } else {
        let url = "http://169.254.42.42/conf?format=json";
        let document = context.client.get(url, &[])?.json()?;
        let zone = member(&document, "/zone", url).or_else(|_| member(&document, "/location/zone_id", url))?;
        (zone.to_owned(), member(&document, "/id", url)?.to_owned())
    };
    // The first zones still call themselves by their old names.
    let zone = match zone.as_str() {
        "par1" => "fr-par-1",
        "ams1" => "nl-ams-1",
        other => other,
    };
    let zone = names::identifier("the zone", zone)?;
    let id = names::identifier("the instance id", &id)?;
    Ok(format!("scaleway://instance/{zone}/{id}"))
}

/// `oci://OCID`: oracle/oci-cloud-controller-manager, pkg/cloudprovider/providers/oci/util.go
/// (`MapProviderIDToResourceID`; it takes the bare OCID as well).
/// Service: <https://docs.oracle.com/iaas/Content/Compute/Tasks/gettingmetadata.htm>, version 2.
pub fn oraclecloud(context: &Context) -> Attempt<String> {
    let id = if let Some(id) = context.afterburn.get("ORACLECLOUD_INSTANCE_ID") {
        names::identifier("the instance's OCID", id)?
    } else {
        let headers = [("Authorization", "Bearer Oracle")];
        word(context, "http://169.254.169.254/opc/v2/instance/id", &headers, "the instance's OCID")?
    };
    if !id.starts_with("ocid1.instance.") {
        return Err(Failure::Again(format!("{id:?} is no instance's OCID")));
    }
    Ok(format!("oci://{id}"))
}

/// `nutanix://UUID`: nutanix-cloud-native/cloud-provider-nutanix, pkg/provider/manager.go (the node is looked up by
/// its system UUID, which is the virtual machine's). There is no service to ask: the firmware says it.
pub fn nutanix(context: &Context) -> Attempt<String> {
    let uuid = context.small_file("sys/class/dmi/id/product_uuid")?.to_ascii_lowercase();
    let shape: Vec<usize> = uuid.split('-').map(str::len).collect();
    if shape != [8, 4, 4, 4, 12] || !uuid.bytes().all(|b| b == b'-' || b.is_ascii_hexdigit()) {
        return Err(Failure::Never(format!("the firmware's product_uuid {uuid:?} is no UUID")));
    }
    Ok(format!("nutanix://{uuid}"))
}

fn number(what: &str, id: String) -> Attempt<String> {
    if id.bytes().all(|b| b.is_ascii_digit()) {
        Ok(id)
    } else {
        Err(Failure::Again(format!("{what} {id:?} is no number")))
    }
}
