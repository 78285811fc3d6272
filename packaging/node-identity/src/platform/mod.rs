// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The platforms that can be asked, and what each knows.
//!
//! A provider id is what the platform's cloud controller manager writes into `Node.spec.providerID`; each function
//! names the source that defines the form. A platform whose controller documents none has none here.

mod alibaba;
mod aws;
mod azure;
mod clouds;
mod gcp;
mod ibmcloud;
mod openstack;
mod vmware;

use crate::attempt::{Attempt, Failure};
use crate::context::Context;
use crate::names;

/// Asks for one attribute; one attempt.
pub type Ask = fn(&Context) -> Attempt<String>;

/// What can be asked of a platform.
#[derive(Debug)]
pub struct Provider {
    /// `ignition.platform.id`.
    pub id: &'static str,
    /// KUBELET_NODE_NAME, where it must not be the host name.
    pub node_name: Option<Ask>,
    /// `spec.providerID`.
    pub provider_id: Option<Ask>,
    /// What a provider id looks like, for documentation; empty where there is none.
    pub form: &'static str,
    /// The host name, where nothing else sets it.
    pub host_name: Option<Ask>,
}

const fn only_provider_id(id: &'static str, ask: Ask, form: &'static str) -> Provider {
    Provider { id, node_name: None, provider_id: Some(ask), form, host_name: None }
}

/// All of them, by id.
pub const PROVIDERS: &[Provider] = &[
    only_provider_id("aliyun", alibaba::provider_id, "REGION.INSTANCE"),
    Provider {
        id: "aws",
        node_name: Some(aws::node_name),
        provider_id: Some(aws::provider_id),
        form: "aws:///ZONE/INSTANCE",
        host_name: Some(aws::node_name),
    },
    Provider {
        id: "azure",
        node_name: None,
        provider_id: Some(azure::provider_id),
        form: "azure:///subscriptions/…/virtualMachines/NAME",
        host_name: Some(azure::host_name),
    },
    Provider {
        id: "azurestack",
        node_name: None,
        provider_id: None,
        form: "",
        host_name: Some(azure::stack_host_name),
    },
    only_provider_id("digitalocean", clouds::digitalocean, "digitalocean://DROPLET"),
    Provider {
        id: "gcp",
        node_name: None,
        provider_id: Some(gcp::provider_id),
        form: "gce://PROJECT/ZONE/NAME",
        host_name: Some(gcp::host_name),
    },
    only_provider_id("hetzner", clouds::hetzner, "hcloud://SERVER"),
    Provider {
        id: "ibmcloud",
        node_name: None,
        provider_id: Some(ibmcloud::provider_id),
        form: "ibm://ACCOUNT///CLUSTER/INSTANCE",
        host_name: Some(ibmcloud::host_name),
    },
    only_provider_id("nutanix", clouds::nutanix, "nutanix://UUID"),
    Provider {
        id: "openstack",
        node_name: Some(openstack::node_name),
        provider_id: Some(openstack::provider_id),
        form: "openstack:///UUID",
        host_name: Some(openstack::host_name),
    },
    only_provider_id("oraclecloud", clouds::oraclecloud, "oci://OCID"),
    Provider {
        id: "powervs",
        node_name: None,
        provider_id: None,
        form: "",
        host_name: Some(openstack::powervs_host_name),
    },
    only_provider_id("scaleway", clouds::scaleway, "scaleway://instance/ZONE/ID"),
    Provider {
        id: "vmware",
        node_name: None,
        provider_id: Some(vmware::provider_id),
        form: "vsphere://UUID",
        host_name: Some(vmware::host_name),
    },
    only_provider_id("vultr", clouds::vultr, "vultr://INSTANCE"),
];

/// The provider of a platform id; the two old ids that machines still carry are folded.
pub fn lookup(id: &str) -> Option<&'static Provider> {
    let id = match id {
        "ec2" => "aws",
        "gce" => "gcp",
        other => other,
    };
    PROVIDERS.iter().find(|provider| provider.id == id)
}

/// GET of a one-word answer.
fn word(context: &Context, url: &str, headers: crate::http::Headers<'_>, what: &str) -> Attempt<String> {
    names::identifier(what, &context.client.get(url, headers)?.text()?)
}

/// A string in a JSON document.
fn member<'a>(document: &'a serde_json::Value, pointer: &str, url: &str) -> Attempt<&'a str> {
    document
        .pointer(pointer)
        .and_then(serde_json::Value::as_str)
        .filter(|text| !text.is_empty())
        .ok_or_else(|| Failure::Again(format!("{url}: the answer has no {pointer}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorted_and_unique() {
        let ids: Vec<_> = PROVIDERS.iter().map(|provider| provider.id).collect();
        let mut sorted = ids.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(ids, sorted);
    }

    #[test]
    fn old_ids() {
        assert_eq!(lookup("ec2").unwrap().id, "aws");
        assert_eq!(lookup("gce").unwrap().id, "gcp");
        assert!(lookup("").is_none());
        assert!(lookup("metal").is_none());
    }
}
