// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What each verb does.

use crate::attempt::GaveUp;
use crate::cli::{Arguments, SetWith, Verb};
use crate::context::Context;
use crate::envfile;
use crate::hostname;
use crate::journal::status;
use crate::names;
use crate::platform::{self, Ask};
use crate::timesource;
use crate::wait;
use anyhow::{Result, anyhow};

/// The key of the kept host name in the state file. Kubelet's environment does not get it.
const KEPT_HOSTNAME: &str = "NODEBASE_HOSTNAME";
const NODE_NAME: &str = "KUBELET_NODE_NAME";
const PROVIDER_ID: &str = "KUBELET_PROVIDERID";

/// Runs one verb.
///
/// # Errors
/// [`GaveUp`] when there is no usable answer; anything else when an answer could not be stored or applied.
pub fn run(arguments: &Arguments) -> Result<()> {
    match &arguments.verb {
        Verb::NodeName { provider, keep } => node_name(arguments, &provider.provider, *keep),
        Verb::ProviderId { provider } => provider_id(arguments, &provider.provider),
        Verb::Hostname { provider, keep, optional, set_with, hold } => {
            let how = HostName { keep: *keep, optional: *optional, set_with: *set_with, hold: *hold };
            host_name(arguments, &provider.provider, &how)
        }
        Verb::WaitHostname => {
            let deadline = arguments.timing.patience().deadline;
            wait::hostname::wait(&arguments.root, deadline).map(|name| status(&format!("Host name {name}")))
        }
        Verb::WaitNodeIp { ip_families } => {
            wait::node_ip::wait(&arguments.root, ip_families.as_deref(), arguments.timing.patience().deadline)
        }
        Verb::TimeSource { source } => timesource::choose(&arguments.root, source),
        Verb::Providers => {
            providers();
            Ok(())
        }
    }
}

/// Asks a platform for one attribute, again and again.
fn ask(arguments: &Arguments, id: &str, what: &str, select: fn(&platform::Provider) -> Option<Ask>) -> Result<String> {
    let provider = platform::lookup(id).ok_or_else(|| anyhow!("platform {id:?} is none that can be asked"))?;
    let question = select(provider).ok_or_else(|| anyhow!("platform {id:?} has no documented {what}"))?;
    let patience = arguments.timing.patience();
    let what = format!("the {what} from {}", provider.id);
    status(&format!("Asking for {what}"));
    Ok(patience.run(&what, &status, || {
        // Anew each time: afterburn may be done by now.
        question(&Context::new(&arguments.root, patience))
    })?)
}

/// A name that an earlier boot, or OpenShift's own unit before us, has written: the node is known by it.
fn kept(arguments: &Arguments, files: &[&str], key: &str) -> Result<Option<String>> {
    for file in files {
        let path = arguments.root.join(file);
        let Some(name) = envfile::read(&path)?.remove(key) else { continue };
        match names::node_name(&name) {
            Ok(name) => {
                log::info!("{key}={name} is kept from {}", path.display());
                return Ok(Some(name));
            }
            Err(failure) => log::warn!("{}: {key}: {}; asking anew", path.display(), failure.message()),
        }
    }
    Ok(None)
}

fn node_name(arguments: &Arguments, id: &str, keep: bool) -> Result<()> {
    let sources: &[&str] = if keep { &[envfile::STATE, envfile::LEGACY] } else { &[envfile::LEGACY] };
    let name = match kept(arguments, sources, NODE_NAME)? {
        Some(name) => name,
        None => ask(arguments, id, "node name", |provider| provider.node_name)?,
    };
    if keep {
        // First the lasting file: a name that kubelet registered and that is then forgotten would be worse.
        envfile::merge(&arguments.root.join(envfile::STATE), &[(NODE_NAME, &name)])?;
    }
    store(arguments, NODE_NAME, &name)
}

fn provider_id(arguments: &Arguments, id: &str) -> Result<()> {
    let value = ask(arguments, id, "provider id", |provider| provider.provider_id)?;
    store(arguments, PROVIDER_ID, &value)
}

fn store(arguments: &Arguments, key: &str, value: &str) -> Result<()> {
    envfile::merge(&arguments.root.join(envfile::RUN), &[(key, value)])?;
    log::info!("{key}={value}");
    status(&format!("{key}={value}"));
    Ok(())
}

struct HostName {
    keep: bool,
    optional: bool,
    set_with: SetWith,
    hold: bool,
}

fn host_name(arguments: &Arguments, id: &str, how: &HostName) -> Result<()> {
    if let Some(name) = hostname::static_name(&arguments.root)? {
        log::info!("/etc/hostname says {name:?}: the platform is not asked");
        status(&format!("Host name {name}, from /etc/hostname"));
        return Ok(());
    }
    let before = if how.keep { kept(arguments, &[envfile::STATE], KEPT_HOSTNAME)? } else { None };
    let name = match before {
        Some(name) => name,
        None => match ask(arguments, id, "host name", |provider| provider.host_name) {
            Ok(name) => name,
            Err(error) if how.optional && error.is::<GaveUp>() => {
                log::info!("{error}; left to DHCP");
                status("No host name from the platform, left to DHCP");
                return Ok(());
            }
            Err(error) => return Err(error),
        },
    };
    if how.keep {
        envfile::merge(&arguments.root.join(envfile::STATE), &[(KEPT_HOSTNAME, &name)])?;
    }
    if how.hold {
        hostname::hold(&arguments.root)?;
    }
    hostname::set(&name, how.set_with)?;
    log::info!("host name {name:?}");
    status(&format!("Host name {name}"));
    Ok(())
}

/// One JSON object per provider: what documentation and tests are generated from.
fn providers() {
    for provider in platform::PROVIDERS {
        let line = serde_json::json!({
            "id": provider.id,
            "nodeName": provider.node_name.is_some(),
            "providerId": (!provider.form.is_empty()).then_some(provider.form),
            "hostName": provider.host_name.is_some(),
        });
        println!("{line}");
    }
}
