// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a machine of each platform runs.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use nodebase_nspawn::boot::{Boot, Outcome, repository};
use nodebase_nspawn::expect::{self, Case};

use crate::Check;

/// A boot: name, reference case, arguments of PID 1.
const BOOTS: &[(&str, &str, &str)] = &[
    ("aws", "aws/master", "ignition.platform.id=aws"),
    ("azure", "azure/worker", "ignition.platform.id=azure"),
    ("gcp", "gcp/master", "ignition.platform.id=gcp"),
    ("baremetal", "baremetal/master", "ignition.platform.id=metal"),
    ("baremetal-dual", "ip_baremetal_DualStackIPv6Primary/worker", "ignition.platform.id=metal"),
    ("vsphere-without-vips", "vsphere-upi/worker", "ignition.platform.id=vmware"),
    ("vsphere", "vsphere/worker", "ignition.platform.id=vmware"),
    ("openstack", "openstack/worker", "ignition.platform.id=openstack"),
    ("ibmcloud", "ibmcloud/master", "ignition.platform.id=ibmcloud"),
    ("nutanix", "nutanix/worker", "ignition.platform.id=nutanix"),
    ("kubevirt", "kubevirt/worker", "ignition.platform.id=kubevirt"),
    ("powervs", "powervs/worker", "ignition.platform.id=powervs"),
    ("arbiter", "arbiter_baremetal/arbiter", "ignition.platform.id=metal"),
    ("proxy", "opt_proxy_aws/worker", "ignition.platform.id=aws"),
    ("qemu", "default/qemu", "ignition.platform.id=qemu"),
    ("alias", "default/aws", "ignition.platform.id=ec2"),
    ("unknown-id", "default/frobnicate", "ignition.platform.id=frobnicate"),
    ("no-id", "default/frobnicate", "nodebase.container=1"),
    ("role-by-argument", "aws/master", "ignition.platform.id=aws nodebase.role=master"),
];

pub fn checks() -> Vec<(String, Check)> {
    let mut checks: Vec<(String, Check)> = BOOTS
        .iter()
        .map(|&(name, case, arguments)| {
            let check: Check = Box::new(move |version| {
                let cases = expect::cases(&repository().join("tests/data/cases.json"))?;
                let case = cases.into_iter().find(|c| c.case == case).context("no such case")?;
                boot(version, &case, arguments)
            });
            (format!("platform/{name}"), check)
        })
        .collect();
    checks.push(("platform/container-without-arguments".into(), Box::new(nothing)));
    checks
}

fn boot(version: &str, case: &Case, arguments: &str) -> Result<()> {
    let arguments: Vec<&str> = arguments.split(' ').collect();
    let boot = Boot::new(&arguments)?;
    let by_argument = arguments.iter().any(|a| a.starts_with("nodebase.role="));
    if !by_argument && case.node.as_object().is_some_and(|o| !o.is_empty()) {
        boot.write("/etc/nodebase/node.json", &case.node.to_string())?;
    }
    let outcome = boot.run(version, "plain.sh")?;
    command_line(&outcome, case)?;
    units(&outcome, case)?;
    marker(&outcome, &arguments)?;
    proxy(&outcome, case)?;
    quiet(&outcome)?;
    for what in ["links", "kubelet.show"] {
        let (before, after) = (outcome.text(&format!("boot/{what}"))?, outcome.text(&format!("reloaded/{what}"))?);
        let pick = |t: &str| -> Vec<String> {
            t.lines()
                .filter(|l| what == "links" || l.starts_with("DropInPaths") || l.starts_with("ExecStart="))
                .map(no_times)
                .collect()
        };
        ensure!(pick(&before) == pick(&after), "{what} changed by two reloads:\n{before}\n{after}");
    }
    Ok(())
}

/// `ExecStart=` as shown holds times of the last start.
fn no_times(line: &str) -> String {
    line.split(" ; start_time=").next().unwrap_or_default().to_owned()
}

fn command_line(outcome: &Outcome, case: &Case) -> Result<()> {
    ensure!(outcome.has("boot/kubelet/argv.0"), "kubelet was not started:\n{}", outcome.text("boot/status")?);
    let argv = outcome.argv("boot")?;
    let have = expect::flags(argv.iter().map(String::as_str));
    let mut run_time = BTreeMap::from([("ID".to_owned(), "debian".to_owned())]);
    let on = |unit: &str| case.units.get(unit).copied().flatten() == Some(true);
    // The stand-in for podman plays runtimecfg where its image is known; else there is nobody who finds an address.
    let image = case.node.get("images").is_some();
    if image && (on("nodeip-configuration.service") || on("nodeip-configuration-vsphere-upi.service")) {
        run_time.insert("KUBELET_NODE_IP".into(), "192.0.2.9".into());
        run_time.insert("KUBELET_NODE_IPS".into(), "192.0.2.9,2001:db8::9".into());
    }
    if on("aws-kubelet-nodename.service") || on("openstack-kubelet-nodename.service") {
        run_time.insert("KUBELET_NODE_NAME".into(), "node-1.example.com".into());
    }
    if on("aws-kubelet-providerid.service") {
        run_time.insert("KUBELET_PROVIDERID".into(), "prov:///zone/i-1".into());
    }
    let differences = expect::differences(&have, &expect::expected(case, &run_time));
    ensure!(differences.is_empty(), "kubelet's command line:\n{}", differences.join("\n"));
    // What systemd shows is what it started.
    let shown = outcome.kubelet("boot", "ExecStart")?;
    ensure!(shown.contains("/usr/bin/kubelet"), "ExecStart is {shown}");
    let environment = outcome.environment("boot")?;
    for name in ["GODEBUG", "KUBELET_LOG_LEVEL"] {
        let want = case.kubelet.environment.get(name);
        ensure!(environment.get(name) == want, "{name}: have {:?}, want {want:?}", environment.get(name));
    }
    Ok(())
}

fn units(outcome: &Outcome, case: &Case) -> Result<()> {
    let pulled = outcome.text("boot/dependencies")?;
    let units = outcome.text("boot/units")?;
    for (unit, on) in &case.units {
        let ours = repository().join("units/system").join(unit).exists();
        let is = pulled.lines().any(|l| l == unit);
        if ours && on.is_some_and(|on| on != is) {
            anyhow::bail!("{unit}: the reference says {on:?}, pulled in: {is}\n{units}");
        }
    }
    for foreign in ["aws-", "gcp-", "openstack-", "powervs-", "vsphere-"] {
        for line in pulled.lines().filter(|l| l.starts_with(foreign)) {
            ensure!(case.units.contains_key(line), "{line} is pulled in on a foreign platform");
        }
    }
    Ok(())
}

fn marker(outcome: &Outcome, arguments: &[&str]) -> Result<()> {
    let marker = outcome.text("boot/generator/nodebase.complete")?;
    let id = arguments.iter().find_map(|a| a.strip_prefix("ignition.platform.id=")).unwrap_or("unknown");
    let want = match id {
        "ec2" => "aws",
        "frobnicate" => "unknown",
        id => id,
    };
    ensure!(marker.lines().nth(1) == Some(&format!("NODEBASE_PLATFORM={want}")), "marker:\n{marker}");
    let environment = outcome.environment("boot")?;
    ensure!(environment.get("NODEBASE_PLATFORM").map(String::as_str) == Some(want), "kubelet lacks NODEBASE_PLATFORM");
    Ok(())
}

fn proxy(outcome: &Outcome, case: &Case) -> Result<()> {
    let secret = "user:p%40ss";
    let has = case.node.get("proxy").is_some();
    let environment = outcome.environment("boot")?;
    ensure!(environment.get("HTTP_PROXY").is_some_and(|v| v.contains(secret)) == has, "HTTP_PROXY");
    ensure!(!outcome.text("boot/kubelet.show")?.contains(secret), "the proxy's password is in a property");
    Ok(())
}

/// Nothing failed, nothing was odd to systemd, nothing of ours wrote to /etc.
fn quiet(outcome: &Outcome) -> Result<()> {
    let failed = outcome.text("boot/failed")?;
    ensure!(failed.trim().is_empty(), "failed units:\n{failed}\n{}", outcome.text("boot/journal")?);
    let written = outcome.text("boot/etc-written")?;
    let ours: Vec<_> = written
        .lines()
        .filter(|l| {
            !l.ends_with("/20-nodenet.conf") && (l.contains("kube") || l.contains("nodebase") || l.contains("chrony"))
        })
        .collect();
    ensure!(ours.is_empty(), "written to /etc: {ours:?}");
    for line in outcome.text("boot/journal")?.lines() {
        let of_ours =
            ["/nodebase/", "kubelet", "nodeip", "node-", "firstboot-osupdate"].iter().any(|w| line.contains(w));
        // "…/kubelet.service:12: Unknown key …": what systemd says of a file names its line.
        let of_a_file = line.split(':').any(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()));
        let odd = ["ordering cycle", "Unit has a bad", "refusing"].iter().any(|w| line.contains(w));
        ensure!(!(of_ours && (odd || of_a_file)), "systemd says: {line}");
    }
    Ok(())
}

/// A container that names neither platform nor one of our keys is not ours.
fn nothing(version: &str) -> Result<()> {
    let outcome = Boot::new(&["quiet"])?.run(version, "plain.sh")?;
    let links = outcome.text("boot/links")?;
    ensure!(!links.contains("nodebase"), "output without being asked:\n{links}");
    ensure!(!outcome.has("boot/kubelet/argv.0"), "kubelet runs without a marker");
    ensure!(outcome.text("boot/failed")?.contains("nodebase-incomplete.service"), "not visible");
    Ok(())
}
