// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `systemd-analyze verify` and `systemd-analyze security` of the effective units: every platform and every cluster
//! platform × role × topology × IP family, on every systemd version, by that version's own systemd-analyze. Any output
//! is a failure. Machines whose generated trees are the same are looked at once.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use libtest_mimic::{Arguments, Failed, Trial};
use nodebase_nspawn::boot::repository;
use nodebase_nspawn::mounted::Mounted;

const VERSIONS: &[&str] = &["252", "257", "262"];
const ROLES: &[&str] = &["master", "worker", "arbiter"];
const TOPOLOGIES: &[&str] = &["HighlyAvailable", "SingleReplica", "DualReplica"];
const FAMILIES: &[&str] = &["IPv4", "IPv6", "DualStack", "DualStackIPv6Primary"];
/// Where systemd-analyze looks, generated units among them; `--generators=yes` is broken in 257.
const UNIT_PATH: &str = "/run/systemd/generator.early:/etc/systemd/system:/run/systemd/system:/run/systemd/generator:\
                         /usr/local/lib/systemd/system:/usr/lib/systemd/system:/run/systemd/generator.late";

/// A machine, as kernel command line and node.json.
struct Machine {
    name: String,
    cmdline: String,
    node: String,
}

fn machines() -> Result<Vec<Machine>> {
    let table: serde_json::Value = serde_json::from_slice(&fs::read(repository().join("units/platforms.json"))?)?;
    let keys = |name: &str| -> Result<Vec<String>> {
        Ok(table[name].as_object().context("table")?.keys().filter(|k| !k.is_empty()).cloned().collect())
    };
    let mut machines = Vec::new();
    // Clouds with a controller of their own, which layers name by both conditions.
    for id in keys("platforms")? {
        machines.push(Machine {
            name: format!("External/{id}"),
            cmdline: format!("ignition.platform.id={id}"),
            node: serde_json::json!({"clusterPlatform": "External", "cloudControllerManager": "External"}).to_string(),
        });
    }
    for role in ROLES {
        for id in keys("platforms")?.into_iter().chain(["ec2".into(), "unheardof".into(), String::new()]) {
            machines.push(Machine {
                name: format!("{}/{role}", if id.is_empty() { "no-id" } else { &id }),
                cmdline: format!("ignition.platform.id={id}"),
                node: serde_json::json!({ "role": role }).to_string(),
            });
        }
        for cluster in keys("clusterPlatforms")? {
            for topology in TOPOLOGIES {
                for family in FAMILIES {
                    for vips in [true, false] {
                        let mut node = serde_json::json!({
                            "role": role, "clusterPlatform": cluster, "controlPlaneTopology": topology,
                            "ipFamilies": family, "proxy": {"httpProxy": "http://u:p@proxy.example.com"},
                            "cloudControllerManager": "External", "images": {"baremetalRuntimeCfgImage": "q.example.com/x"},
                        });
                        if vips {
                            node["apiServerInternalIPs"] = serde_json::json!(["192.0.2.5"]);
                        }
                        machines.push(Machine {
                            name: format!("{cluster}/{role}/{topology}/{family}/vips={vips}"),
                            cmdline: "ignition.platform.id=metal".into(),
                            node: node.to_string(),
                        });
                    }
                }
            }
        }
    }
    Ok(machines)
}

/// Runs the real generator for a machine; what it made, as text that two equal outputs share.
fn generate(mounted: &Mounted, machine: &Machine) -> Result<String> {
    let out = mounted.root().join("run/systemd/generator");
    if out.exists() {
        fs::remove_dir_all(&out)?;
    }
    fs::create_dir_all(&out)?;
    fs::create_dir_all(mounted.root().join("etc/nodebase"))?;
    fs::write(mounted.root().join("etc/nodebase/node.json"), &machine.node)?;
    let output = Command::new(mounted.root().join("usr/lib/systemd/system-generators/nodebase-generator"))
        .arg(&out)
        .env("NODEBASE_ROOT", mounted.root())
        .env("SYSTEMD_PROC_CMDLINE", &machine.cmdline)
        .output()?;
    ensure!(output.status.success() && out.join("nodebase.complete").exists(), "generator: {output:?}");
    let find = Command::new("find")
        .arg(&out)
        .args(["-not", "-name", "15-nodebase.conf", "(", "-type", "l", "-o", "-type", "f", ")", "-printf", "%P %l\n"])
        .output()?;
    let mut lines: Vec<_> = String::from_utf8(find.stdout)?.lines().map(str::to_owned).collect();
    lines.sort();
    Ok(lines.join("\n"))
}

fn analyze(mounted: &Mounted, arguments: &[&str]) -> Result<std::process::Output> {
    Command::new("chroot")
        .arg(mounted.root())
        .args(["/usr/bin/env", "-i", "PATH=/usr/bin:/usr/sbin", &format!("SYSTEMD_UNIT_PATH={UNIT_PATH}")])
        .arg("systemd-analyze")
        .args(arguments)
        .output()
        .context("chroot")
}

/// Our units; templates cannot be verified without an instance.
fn units(root: &Path) -> Result<Vec<String>> {
    let mut units = Vec::new();
    for entry in fs::read_dir(repository().join("units/system"))? {
        let entry = entry?;
        let name = entry.file_name().into_string().ok().context("name")?;
        if entry.file_type()?.is_file() && !name.contains('@') {
            ensure!(root.join("usr/lib/systemd/system").join(&name).exists(), "{name} is not installed");
            units.push(name);
        }
    }
    units.sort();
    Ok(units)
}

fn verify(version: &str, machines: &[&Machine]) -> Result<()> {
    let mounted = Mounted::new(version)?;
    let units = units(&mounted.root())?;
    let mut problems = Vec::new();
    for machine in machines {
        generate(&mounted, machine)?;
        let mut arguments = vec!["verify", "--man=no", "--recursive-errors=no"];
        arguments.extend(units.iter().map(String::as_str));
        let output = analyze(&mounted, &arguments)?;
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        let said: Vec<_> = said.lines().filter(|l| !l.trim().is_empty()).collect();
        if !said.is_empty() || !output.status.success() {
            problems.push(format!("{}: {}\n  {}", machine.name, output.status, said.join("\n  ")));
        }
    }
    ensure!(
        problems.is_empty(),
        "{} of {} differ from silence:\n{}",
        problems.len(),
        machines.len(),
        problems.join("\n")
    );
    Ok(())
}

/// What each of our services may be exposed to at most, in tenths as systemd-analyze takes it; 100 is no limit and
/// stands where the unit's purpose is to run with the machine's own rights.
fn levels() -> Result<BTreeMap<String, u32>> {
    let text = fs::read_to_string(repository().join("tests/verify/security"))?;
    let lines = text.lines().filter(|l| !l.starts_with('#') && !l.trim().is_empty());
    lines
        .map(|l| {
            let (unit, level) = l.split_once(' ').with_context(|| format!("tests/verify/security: {l}"))?;
            Ok((unit.to_owned(), level.trim().parse().with_context(|| l.to_owned())?))
        })
        .collect()
}

fn security(version: &str) -> Result<()> {
    let mounted = Mounted::new(version)?;
    let levels = levels()?;
    let mut problems = Vec::new();
    for unit in units(&mounted.root())?.iter().filter(|u| u.ends_with(".service")) {
        let Some(level) = levels.get(unit) else {
            problems.push(format!("{unit}: tests/verify/security states no level"));
            continue;
        };
        let threshold = format!("--threshold={level}");
        let output = analyze(&mounted, &["security", "--offline=yes", "--no-pager", &threshold, unit])?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stdout);
            problems.push(format!("{unit}: above {level}: {}", text.lines().last().unwrap_or_default()));
        }
    }
    ensure!(problems.is_empty(), "{}", problems.join("\n"));
    Ok(())
}

/// A check that cannot fail is none: a bad key in a layer must be found.
fn notices(version: &str) -> Result<()> {
    let mounted = Mounted::new(version)?;
    let layer = mounted.root().join("usr/lib/nodebase/layers/role=worker/kubelet.service.d/11-role.conf");
    fs::write(layer, "[Service]\nNoSuchKey=1\n")?;
    drop(generate(&mounted, &Machine { name: String::new(), cmdline: String::new(), node: "{}".into() })?);
    let output = analyze(&mounted, &["verify", "--man=no", "--recursive-errors=no", "kubelet.service"])?;
    if String::from_utf8_lossy(&output.stderr).contains("NoSuchKey") {
        Ok(())
    } else {
        bail!("not noticed: {output:?}")
    }
}

fn main() -> std::process::ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(2);
    let trials = match trials() {
        Ok(trials) => trials,
        Err(e) => vec![Trial::test("setup", move || Err(Failed::from(format!("{e:#}"))))],
    };
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trials() -> Result<Vec<Trial>> {
    // Generated trees do not depend on the version: find the distinct ones once.
    let machines = machines()?;
    let count = machines.len();
    let mounted = Mounted::new(VERSIONS[0])?;
    let mut distinct: BTreeMap<String, Machine> = BTreeMap::new();
    for machine in machines {
        distinct.entry(generate(&mounted, &machine)?).or_insert(machine);
    }
    drop(mounted);
    let distinct: Arc<Vec<Machine>> = Arc::new(distinct.into_values().collect());
    println!("{count} machines, {} distinct generated trees", distinct.len());
    let trial = |name: String, check: Box<dyn FnOnce() -> Result<()> + Send>| {
        Trial::test(name, move || check().map_err(|e| Failed::from(format!("{e:#}"))))
    };
    let mut trials = Vec::new();
    for version in VERSIONS {
        // Both cores have something to do, and a failure is found in a part.
        let parts = 6;
        for part in 0..parts {
            let distinct = Arc::clone(&distinct);
            trials.push(trial(
                format!("{version}/verify/{}-of-{parts}", part + 1),
                Box::new(move || {
                    let mine: Vec<_> = distinct.iter().skip(part).step_by(parts).collect();
                    verify(version, &mine)
                }),
            ));
        }
        trials.push(trial(format!("{version}/security"), Box::new(move || security(version))));
        trials.push(trial(format!("{version}/a-bad-key-is-found"), Box::new(move || notices(version))));
    }
    Ok(trials)
}
