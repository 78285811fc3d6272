// SPDX-License-Identifier: Apache-2.0 OR MIT
//! IBM Cloud VPC: a NoCloud volume labelled `cidata`.

use crate::attempt::{Attempt, Failure};
use crate::configdrive::{self, NOCLOUD};
use crate::context::Context;
use crate::names;

/// A top-level scalar of NoCloud's `meta-data`, which is YAML but in practice `key: value` lines.
fn meta_data(context: &Context, key: &str) -> Attempt<String> {
    let text = configdrive::read(&context.root, NOCLOUD, "meta-data")?;
    scalar(&text, key)
        .map(str::to_owned)
        .ok_or_else(|| Failure::Again(format!("the cidata volume's meta-data has no {key}")))
}

/// The value of a top-level `key:` line; quotes around it removed. JSON's `"key": "value",` lines pass as well.
pub(super) fn scalar<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let rest = line.strip_prefix(key)?.trim_start().strip_prefix(':')?;
        let value = rest.split(" #").next()?.trim().trim_matches(['"', '\'']);
        (!value.is_empty()).then_some(value)
    })
}

/// The instance's name.
pub fn host_name(context: &Context) -> Attempt<String> {
    match context.afterburn.get("IBMCLOUD_LOCAL_HOSTNAME") {
        Some(name) => names::host_name(name),
        None => names::host_name(&meta_data(context, "local-hostname")?),
    }
}

/// `ibm://ACCOUNT///CLUSTER/INSTANCE`: openshift/cloud-provider-ibm, ibm/ibm_metadata_service.go and ibm_instances.go
/// (`providerIDV2`). Account and cluster are facts of the cluster that the machine cannot find out: the unit passes
/// them as NODEBASE_IBM_ACCOUNT_ID and NODEBASE_IBM_CLUSTER_ID.
pub fn provider_id(context: &Context) -> Attempt<String> {
    let fact = |key: &str| -> Attempt<String> {
        let value = std::env::var(key).ok().filter(|value| !value.is_empty()).ok_or_else(|| {
            Failure::Never(format!("{key} is not set: an ibm:// provider id names account and cluster"))
        })?;
        names::identifier(key, &value)
    };
    let (account, cluster) = (fact("NODEBASE_IBM_ACCOUNT_ID")?, fact("NODEBASE_IBM_CLUSTER_ID")?);
    let instance = match context.afterburn.get("IBMCLOUD_INSTANCE_ID") {
        Some(id) => id.to_owned(),
        None => meta_data(context, "instance-id")?,
    };
    let instance = names::identifier("the instance id", &instance)?;
    Ok(format!("ibm://{account}///{cluster}/{instance}"))
}

#[cfg(test)]
mod tests {
    use super::scalar;

    #[test]
    fn top_level_scalars() {
        let text = "#cloud\nnested:\n  local-hostname: wrong\nlocal-hostname: \"right\"  # note\ninstance-id : 'i-1'\nempty:\n";
        assert_eq!(scalar(text, "local-hostname"), Some("right"));
        assert_eq!(scalar(text, "instance-id"), Some("i-1"));
        assert_eq!(scalar(text, "empty"), None);
        assert_eq!(scalar(text, "instance"), None);
    }
}
