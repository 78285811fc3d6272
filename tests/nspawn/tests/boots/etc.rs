// SPDX-License-Identifier: Apache-2.0 OR MIT
//! /etc wins, always: an administrator's files and what an MCO has left there.

use anyhow::{Result, ensure};
use nodebase_nspawn::boot::Boot;

use crate::Check;

pub fn checks() -> Vec<(String, Check)> {
    vec![
        ("etc/whole-kubelet-service".into(), Box::new(whole_unit)),
        ("etc/mco-node-env-masks-ours".into(), Box::new(node_env)),
        ("etc/nodenet-wins".into(), Box::new(nodenet)),
        ("etc/higher-number-wins".into(), Box::new(higher_number)),
        ("etc/dev-null-masks-ours".into(), Box::new(dev_null)),
        ("etc/mask-works".into(), Box::new(mask)),
    ]
}

const ON_PREM: &str = r#"{"clusterPlatform":"BareMetal"}"#;

/// An MCO's whole unit shadows ours; our drop-ins still apply, but none that would replace its ExecStart.
fn whole_unit(version: &str) -> Result<()> {
    let boot = Boot::new(&["ignition.platform.id=metal"])?;
    boot.write("/etc/nodebase/node.json", ON_PREM)?;
    boot.write(
        "/etc/systemd/system/kubelet.service",
        "[Unit]\nDescription=MCO's\n[Service]\nType=notify\nExecStart=/usr/bin/kubelet --mco $KUBELET_TAINT_FLAGS\n",
    )?;
    let outcome = boot.run(version, "plain.sh")?;
    ensure!(outcome.argv("boot")? == ["--mco"], "argv: {:?}", outcome.argv("boot")?);
    let dropins = outcome.kubelet("boot", "DropInPaths")?;
    ensure!(dropins.contains("11-role.conf") && !dropins.contains("12-exec.conf"), "drop-ins: {dropins}");
    ensure!(outcome.kubelet("boot", "FragmentPath")? == "/etc/systemd/system/kubelet.service", "fragment");
    Ok(())
}

fn node_env(version: &str) -> Result<()> {
    let boot = Boot::new(&["ignition.platform.id=aws"])?;
    boot.write("/etc/kubernetes/node.env", "KUBELET_NODE_NAME=from-etc\n")?;
    boot.write(
        "/etc/systemd/system/kubelet.service.d/20-node-env.conf",
        "[Service]\nEnvironmentFile=/etc/kubernetes/node.env\n",
    )?;
    let outcome = boot.run(version, "plain.sh")?;
    let argv = outcome.argv("boot")?;
    ensure!(argv.iter().any(|w| w == "--hostname-override=from-etc"), "argv: {argv:?}");
    let files = outcome.kubelet("boot", "EnvironmentFiles")?;
    ensure!(!files.contains("/run/nodebase/node.env"), "ours is still there: {files}");
    Ok(())
}

fn nodenet(version: &str) -> Result<()> {
    let boot = Boot::new(&["ignition.platform.id=metal"])?;
    boot.write(
        "/etc/systemd/system/kubelet.service.d/20-nodenet.conf",
        "[Service]\nEnvironment=\"KUBELET_NODE_IP=198.51.100.7\"\n",
    )?;
    let outcome = boot.run(version, "plain.sh")?;
    let argv = outcome.argv("boot")?;
    ensure!(argv.iter().any(|w| w == "--node-ip=198.51.100.7"), "argv: {argv:?}");
    Ok(())
}

fn higher_number(version: &str) -> Result<()> {
    let boot = Boot::new(&["ignition.platform.id=aws", "nodebase.kubeletLogLevel=4"])?;
    boot.write(
        "/etc/systemd/system/kubelet.service.d/20-logging.conf",
        "[Service]\nEnvironment=KUBELET_LOG_LEVEL=7\n",
    )?;
    let argv = boot.run(version, "plain.sh")?.argv("boot")?;
    ensure!(argv.iter().any(|w| w == "--v=7"), "argv: {argv:?}");
    let boot = Boot::new(&["ignition.platform.id=aws", "nodebase.kubeletLogLevel=4"])?;
    let argv = boot.run(version, "plain.sh")?.argv("boot")?;
    ensure!(argv.iter().any(|w| w == "--v=4"), "the fact does not arrive: {argv:?}");
    Ok(())
}

fn dev_null(version: &str) -> Result<()> {
    let boot = Boot::new(&["ignition.platform.id=aws"])?;
    boot.link("/dev/null", "/etc/systemd/system/kubelet.service.d/11-cloud-provider.conf")?;
    let argv = boot.run(version, "plain.sh")?.argv("boot")?;
    ensure!(!argv.iter().any(|w| w.starts_with("--cloud-provider")), "argv: {argv:?}");
    Ok(())
}

fn mask(version: &str) -> Result<()> {
    let boot = Boot::new(&["ignition.platform.id=aws"])?;
    boot.link("/dev/null", "/etc/systemd/system/kubelet.service")?;
    let outcome = boot.run(version, "plain.sh")?;
    ensure!(outcome.kubelet("boot", "LoadState")? == "masked", "not masked");
    ensure!(!outcome.has("boot/kubelet/argv.0"), "kubelet runs");
    Ok(())
}
