// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `nodebase factor` made, on real managers: the factored tree and the rendering, installed below /etc as an MCO
//! does it, are booted, and what `systemctl show` says of every unit must be the same.

mod rendering;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use libtest_mimic::{Arguments, Failed, Trial};
use nodebase_nspawn::boot::{Boot, Outcome, repository, tree};
use rendering::Rendering;

const VERSIONS: &[&str] = &["252", "257", "262"];
/// A cloud with a credential provider, one with units of its own, an on-prem one with VIPs.
const SAMPLE: &[(&str, &str)] = &[("aws", "master"), ("gcp", "master"), ("baremetal", "worker"), ("vsphere", "master")];
/// What is compared of every unit.
const PROPERTIES: &[&str] = &[
    "LoadState",
    "Type",
    "Restart",
    "RestartUSec",
    "RemainAfterExit",
    "User",
    "Nice",
    "Environment",
    "EnvironmentFiles",
    "ExecStartPre",
    "ExecStart",
    "ExecStartPost",
    "ExecStop",
    "StandardOutput",
    "StandardError",
    "SyslogIdentifier",
    "TimeoutStartUSec",
    "After",
    "Before",
    "Wants",
    "Requires",
    "BindsTo",
    "PartOf",
    "Conflicts",
    "Description",
    "OnFailure",
    "IOSchedulingClass",
    "IOSchedulingPriority",
];
const GENERATOR: &str = "usr/lib/systemd/system-generators/nodebase-generator";

/// Only what is needed to answer questions is started: the units themselves need networks and registries.
const TARGET: &str = "[Unit]\nDescription=Ask the manager\nRequires=basic.target\nAfter=basic.target\nWants=nspawn-test.service\nAllowIsolate=yes\n";

fn renderings() -> PathBuf {
    repository().join("packaging/nodebase/tests/data/renderings")
}

fn main() -> Result<std::process::ExitCode> {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(3);
    let factored = Arc::new(tempfile::tempdir()?);
    let output = Command::new(tree()?.join("usr/bin/nodebase"))
        .args(["factor", "--out"])
        .arg(factored.path())
        .arg(renderings())
        .output()
        .context("running nodebase factor")?;
    ensure!(output.status.success(), "nodebase factor: {}", String::from_utf8_lossy(&output.stdout));
    let mut trials = Vec::new();
    for version in VERSIONS {
        for (kind, role) in SAMPLE {
            let factored = factored.clone();
            trials.push(Trial::test(format!("{version}/{kind}/{role}"), move || {
                same(version, kind, role, factored.path(), None).map_err(|e| Failed::from(format!("{e:#}")))
            }));
        }
        trials.push(Trial::test(format!("{version}/defaults-are-what-we-think"), move || {
            defaults(version).map_err(|e| Failed::from(format!("{e:#}")))
        }));
        let factored = factored.clone();
        trials.push(Trial::test(format!("{version}/other-facts-other-files"), move || {
            other_facts(version, factored.path()).map_err(|e| Failed::from(format!("{e:#}")))
        }));
    }
    trials.push(Trial::test("257/differences-are-noticed", move || {
        noticed("257", factored.path()).map_err(|e| Failed::from(format!("{e:#}")))
    }));
    Ok(libtest_mimic::run(&arguments, trials).exit_code())
}

/// A boot with the units that only the base image has stood in for.
fn boot(trees: &[PathBuf], rendering: &Rendering) -> Result<Boot> {
    let mut all = trees.to_vec();
    all.push(repository().join("tests/nspawn/standins"));
    let platform = format!("ignition.platform.id={}", rendering.platform);
    let boot = Boot::over(&all, &[&platform, "systemd.unit=factored.target"])?;
    boot.write("/usr/lib/systemd/system/factored.target", TARGET)?;
    // The stand-ins' own drop-in is for the boots of the hand-made units.
    let _ = std::fs::remove_dir_all(boot.path("/etc/systemd/system/kubelet.service.d"));
    for unit in rendering.foreign_units() {
        let path = format!("/usr/lib/systemd/system/{unit}");
        if unit.ends_with(".service") && !boot.path(&path).exists() {
            boot.write(&path, "[Unit]\nDescription=stands in\n[Service]\nExecStart=/bin/true\n")?;
        }
    }
    Ok(boot)
}

fn factored_boot(factored: &Path, rendering: &Rendering) -> Result<Boot> {
    let boot = boot(&[factored.to_owned()], rendering)?;
    let generator = boot.path(GENERATOR);
    std::fs::create_dir_all(generator.parent().context("no parent")?)?;
    std::fs::copy(tree()?.join(GENERATOR), generator)?;
    boot.write("/etc/nodebase/node.json", &rendering.node)?;
    Ok(boot)
}

fn same(version: &str, kind: &str, role: &str, factored: &Path, damage: Option<&str>) -> Result<()> {
    let rendering = Rendering::read(&renderings(), kind, role)?;
    let reference = boot(&[], &rendering)?;
    let pullers = rendering.install(&reference)?;
    let ours = factored_boot(factored, &rendering)?;
    if let Some(text) = damage {
        ours.write("/usr/lib/systemd/system/kubelet.service.d/19-damage.conf", text)?;
    }
    let mut units: BTreeSet<String> = rendering.units().filter(|u| !u.contains("@.")).map(str::to_owned).collect();
    units.extend(pullers);
    let list = units.iter().fold(String::new(), |out, u| out + u + "\n");
    for boot in [&reference, &ours] {
        boot.give("units", &list)?;
    }
    let paths: Vec<&str> = rendering.files().collect();
    reference.give("paths", &(paths.join("\n") + "\n"))?;
    // Where the twin of a directory below /etc is read as well, either place will do.
    let both: Vec<String> = paths.iter().flat_map(|p| rendering::places(p)).collect();
    ours.give("paths", &(both.join("\n") + "\n"))?;
    let (reference, ours) = (reference.run(version, "factored.sh")?, ours.run(version, "factored.sh")?);

    ensure!(ours.text("files-unit")?.trim() == "success", "nodebase-files.service: {}", ours.text("journal")?);
    let (want, have) = (show(&reference)?, show(&ours)?);
    ensure!(want.len() == units.len(), "systemctl show told of {} units of {}", want.len(), units.len());
    let kubelet = want.get("kubelet.service").and_then(|p| p.get("ExecStart")).into_iter().flatten().next();
    ensure!(
        kubelet.is_some_and(|l| l.contains("--node-ip=")),
        "the rendering's kubelet was not asked for: {kubelet:?}"
    );
    let mut differences = Vec::new();
    for (unit, properties) in &want {
        for (property, value) in properties {
            let own = have.get(unit).and_then(|p| p.get(property));
            if own != Some(value) {
                differences.push(format!("{unit}: {property}\n  rendered {value:?}\n  factored {own:?}"));
            }
        }
    }
    let (want, have) = (sums(&reference)?, sums(&ours)?);
    ensure!(want.len() == paths.len(), "only {} of {} files are there as rendered", want.len(), paths.len());
    for (path, sum) in &want {
        let found: Vec<&String> = rendering::places(path).iter().filter_map(|p| have.get(p)).collect();
        if found.first() != Some(&sum) {
            differences.push(format!("file {path}: {found:?} instead of {sum}"));
        }
    }
    ensure!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
    Ok(())
}

/// Would the comparison see anything? One thing of each sort is made different.
fn noticed(version: &str, factored: &Path) -> Result<()> {
    let damage = "[Unit]\nAfter=damage.service\n[Service]\nNice=5\nEnvironment=DAMAGE=1\n\
                  Environment=NODEBASE_CLOUD_PROVIDER_FLAGS=--cloud-provider=damage\n";
    let Err(error) = same(version, "aws", "master", factored, Some(damage)) else {
        anyhow::bail!("a damaged tree passes");
    };
    let error = error.to_string();
    for property in ["After", "Nice", "Environment", "ExecStart"] {
        ensure!(error.contains(&format!("kubelet.service: {property}\n")), "{property} is not in: {error}");
    }
    Ok(())
}

/// What factor writes where a layer must take a key back is what the manager has when nobody sets it.
fn defaults(version: &str) -> Result<()> {
    let boot = Boot::over(&[], &["systemd.unit=factored.target"])?;
    boot.write("/usr/lib/systemd/system/factored.target", TARGET)?;
    let bare = "[Service]\nExecStart=/bin/true\n";
    let set = "StandardOutput=journal\nStandardError=inherit\nRemainAfterExit=no\nRestart=no\nNice=0\n";
    boot.write("/usr/lib/systemd/system/bare.service", bare)?;
    boot.write("/usr/lib/systemd/system/set.service", &format!("{bare}{set}"))?;
    boot.give("units", "bare.service\nset.service\n")?;
    boot.give("paths", "")?;
    let shown = show(&boot.run(version, "factored.sh")?)?;
    let (bare, set) = (&shown["bare.service"], &shown["set.service"]);
    for key in ["StandardOutput", "StandardError", "RemainAfterExit", "Restart", "Nice"] {
        ensure!(
            bare.contains_key(key) && bare.get(key) == set.get(key),
            "{key}: {:?}, {:?}",
            bare.get(key),
            set.get(key)
        );
    }
    Ok(())
}

/// Facts that select no variants any more: the links go, a person's file stays.
fn other_facts(version: &str, factored: &Path) -> Result<()> {
    let rendering = Rendering::read(&renderings(), "vsphere", "master")?;
    let boot = factored_boot(factored, &rendering)?;
    boot.give("units", "kubelet.service\n")?;
    boot.give("paths", "/etc/kubernetes/manifests/keepalived.yaml\n")?;
    boot.give("other", r#"{"role": "master", "clusterPlatform": "None"}"#)?;
    let outcome = boot.run(version, "factored.sh")?;
    ensure!(sums(&outcome)?.len() == 1, "no keepalived.yaml at boot: {}", outcome.text("journal")?);
    ensure!(outcome.text("mine")? == "mine\n", "a person's file was replaced");
    let links = outcome.text("links-after")?;
    ensure!(!links.contains("keepalived") && !links.contains("coredns"), "links that nothing selects:\n{links}");
    ensure!(links.contains("/etc/kubernetes/kubelet.conf"), "the role's own files are gone:\n{links}");
    Ok(())
}

type Properties = BTreeMap<String, Vec<String>>;

/// `systemctl show` of all units, in a form in which only what matters differs.
fn show(outcome: &Outcome) -> Result<BTreeMap<String, Properties>> {
    let text = outcome.text("show")?;
    let mut out = BTreeMap::new();
    for block in text.split("\n\n") {
        let mut properties = Properties::new();
        for (key, value) in block.lines().filter_map(|l| l.split_once('=')) {
            properties.entry(key.to_owned()).or_default().push(value.to_owned());
        }
        let Some(id) = properties.get("Id").and_then(|v| v.first()).cloned() else { continue };
        let variables: Vec<(String, String)> = properties
            .get("Environment")
            .into_iter()
            .flatten()
            .flat_map(|v| rendering::words(v))
            .filter_map(|w| w.split_once('=').map(|(n, v)| (n.to_owned(), v.to_owned())))
            .filter(|(n, _)| n.starts_with("NODEBASE_"))
            .collect();
        let mut kept = Properties::new();
        for key in PROPERTIES {
            let Some(values) = properties.get(*key) else { continue };
            kept.insert(
                (*key).to_owned(),
                values.iter().flat_map(|v| rendering::property(key, v, &variables)).collect(),
            );
        }
        for (key, values) in &mut kept {
            if !key.starts_with("Exec") {
                values.sort();
            }
        }
        out.insert(id, kept);
    }
    Ok(out)
}

fn sums(outcome: &Outcome) -> Result<BTreeMap<String, String>> {
    let text = outcome.text("sums")?;
    Ok(text.lines().filter_map(|l| l.split_once("  ")).map(|(sum, path)| (path.to_owned(), sum.to_owned())).collect())
}
