// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The units that run this program: their sandbox, and that units and program agree.
#![allow(clippy::unwrap_used)] // in functions that tests call, too

use clap::Parser as _;
use node_identity::cli::{Arguments, Verb};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

struct Unit {
    name: String,
    settings: Vec<(String, String)>,
}

impl Unit {
    fn get(&self, key: &str) -> Vec<&str> {
        self.settings.iter().filter(|(name, _)| name == key).map(|(_, value)| value.as_str()).collect()
    }

    /// The last assignment, which counts for single values.
    fn last(&self, key: &str) -> &str {
        self.get(key).last().copied().unwrap_or_default()
    }

    /// Its command line, as the program itself parses it.
    fn arguments(&self) -> Arguments {
        // What the generator or a layer gives as environment.
        let mut words: Vec<&str> = self.last("ExecStart").split_whitespace().collect();
        if words[1] == "provider-id" && !words.contains(&"--provider") {
            words.extend(["--provider", "aws"]);
        } else if words[1] == "time-source" {
            words.extend(["--source", "aws"]);
        }
        Arguments::try_parse_from(words).unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }
}

/// Every unit that runs the program.
fn units() -> Vec<Unit> {
    let mut units = Vec::new();
    for file in fs::read_dir(repository().join("units/system")).unwrap() {
        let file = file.unwrap();
        let name = file.file_name().into_string().unwrap();
        if !name.contains(".service") || !file.path().is_file() {
            continue;
        }
        let text = fs::read_to_string(file.path()).unwrap();
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let settings: Vec<_> = lines
            .filter_map(|line| line.split_once('='))
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        let unit = Unit { name, settings };
        if unit.last("ExecStart").starts_with("/usr/libexec/nodebase/node-identity ") {
            units.push(unit);
        }
    }
    assert!(units.len() >= 11, "{} units", units.len());
    units
}

#[test]
fn exposure_is_at_most_two() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("usr/lib/systemd/system");
    fs::create_dir_all(&directory).unwrap();
    for unit in units() {
        fs::copy(repository().join("units/system").join(&unit.name), directory.join(&unit.name)).unwrap();
        let output = Command::new("systemd-analyze")
            .args(["security", "--offline=yes", "--threshold=20", "--no-pager"])
            .arg(format!("--root={}", root.path().display()))
            .arg(&unit.name)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}: {}", unit.name, String::from_utf8_lossy(&output.stdout));
    }
}

#[test]
fn command_lines_and_time_limits() {
    for unit in units() {
        let arguments = unit.arguments();
        let limit: u64 = unit.last("TimeoutStartSec").parse().unwrap_or_else(|_| panic!("{}: no limit", unit.name));
        // The program must be the one to give up, as it can say what it tried.
        if !matches!(arguments.verb, Verb::TimeSource { .. }) {
            let deadline = arguments.timing.deadline_ms;
            assert!(deadline + arguments.timing.request_ms <= limit * 1000, "{}: {deadline} ms, {limit} s", unit.name);
        }
        assert_eq!(unit.last("NotifyAccess"), "main", "{}", unit.name);
        if !unit.last("Restart").is_empty() {
            assert_eq!(unit.last("RestartPreventExitStatus"), "2 3", "{}", unit.name);
        }
        assert!(!unit.last("ExecStart").contains("${"), "{}", unit.name);
        assert!(unit.get("EnvironmentFile").iter().all(|file| !file.contains("/etc/")), "{}", unit.name);
    }
}

/// The addresses in a source file of the library.
fn addresses(module: &str) -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("src/platform/{module}.rs"));
    let text = fs::read_to_string(path).unwrap();
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    code.flat_map(|line| line.split("\"http://").skip(1))
        .map(|rest| rest.split(['/', '"']).next().unwrap().trim_matches(['[', ']']).to_owned())
        .collect()
}

/// Containers do not enforce these lists, so the boots cannot show that they are right.
#[test]
fn the_addresses_that_are_allowed_are_those_that_are_asked() {
    let mut seen = 0;
    for unit in units() {
        let arguments = unit.arguments();
        let want = match &arguments.verb {
            Verb::ProviderId { .. } if unit.name == "nodebase-provider-id.service" => {
                ["alibaba", "aws", "azure", "clouds", "gcp", "openstack"].iter().flat_map(|m| addresses(m)).collect()
            }
            Verb::NodeName { provider, .. } | Verb::ProviderId { provider } | Verb::Hostname { provider, .. } => {
                match provider.provider.as_str() {
                    // The config drive, and a program.
                    "powervs" | "vmware" => BTreeSet::new(),
                    module => addresses(module),
                }
            }
            _ => BTreeSet::new(),
        };
        let allowed = unit.get("IPAddressAllow");
        let allowed: BTreeSet<String> =
            allowed.iter().flat_map(|list| list.split_whitespace()).map(str::to_owned).collect();
        assert_eq!(allowed, want, "{}", unit.name);
        assert_eq!(unit.last("IPAddressDeny"), "any", "{}", unit.name);
        seen += want.len();
    }
    assert!(seen > 8, "{seen} addresses found");
}

/// An environment file that must exist is named only where a unit of the same layer writes it before kubelet.
#[test]
fn node_env_is_needed_where_it_is_written() {
    let layers = repository().join("units/layers");
    let mut needed = 0;
    for layer in fs::read_dir(&layers).unwrap() {
        let layer = layer.unwrap().path();
        let Ok(text) = fs::read_to_string(layer.join("kubelet.service.d/20-node-env.conf")) else { continue };
        needed += 1;
        let name = layer.file_name().unwrap().to_str().unwrap().to_owned();
        assert!(text.starts_with(&format!("# nodebase layer {name}\n")), "{name}");
        if name.contains("platform=ibmcloud") {
            // Not written without the account's facets, so it need not be there.
            assert!(text.contains("EnvironmentFile=-/run/nodebase/node.env"), "{name}");
            continue;
        }
        assert!(text.contains("EnvironmentFile=/run/nodebase/node.env"), "{name}");
        let writers: Vec<String> = ["network-online.target.wants", "kubelet-dependencies.target.wants"]
            .iter()
            .filter_map(|directory| fs::read_dir(layer.join(directory)).ok())
            .flatten()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        let units = units();
        let writes = units.iter().filter(|unit| writers.contains(&unit.name)).any(|unit| {
            matches!(unit.arguments().verb, Verb::NodeName { .. } | Verb::ProviderId { .. })
                && unit.get("Before").iter().any(|list| list.contains("kubelet-dependencies.target"))
        });
        assert!(writes, "{name}: nobody writes node.env");
    }
    assert!(needed >= 4, "{needed}");
}
