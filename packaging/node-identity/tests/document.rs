// SPDX-License-Identifier: Apache-2.0 OR MIT
//! docs/platforms.md: made from the table of platforms, the layers and what the program knows. This test fails when the
//! document is not current; `NODEBASE_UPDATE_DOCS=1 cargo test -p node-identity --test document` writes it.
//!
//! Every cell names the test that proves it; a name that is no test of this crate is an error.
#![allow(clippy::unwrap_used)] // in functions that tests call, too

use node_identity::platform::lookup;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The units that layers enable for a machine with these facets.
fn enabled(facets: &[(&str, &str)]) -> BTreeSet<String> {
    let mut units = BTreeSet::new();
    for layer in fs::read_dir(repository().join("units/layers")).unwrap() {
        let layer = layer.unwrap();
        let name = layer.file_name().into_string().unwrap();
        let matches = name
            .split(',')
            .all(|condition| condition.split_once('=').is_some_and(|condition| facets.contains(&condition)));
        if !matches {
            continue;
        }
        for directory in fs::read_dir(layer.path()).unwrap() {
            let directory = directory.unwrap();
            let name = directory.file_name().into_string().unwrap();
            let kind = name.rsplit('.').next().unwrap();
            if matches!(kind, "wants" | "requires") {
                let links = fs::read_dir(directory.path()).unwrap();
                units.extend(links.map(|link| link.unwrap().file_name().into_string().unwrap()));
            }
        }
    }
    units
}

/// A cell: what it says, and which tests show it.
type Cell = (String, Vec<&'static str>);

fn cell(text: impl Into<String>, tests: &[&'static str]) -> Cell {
    (text.into(), tests.to_vec())
}

fn node_name(units: &BTreeSet<String>) -> Cell {
    if units.contains("aws-kubelet-nodename.service") {
        cell("private DNS name (`local-hostname`)", &["boots::aws", "protocols::aws_with_tokens"])
    } else if units.contains("openstack-kubelet-nodename.service") {
        let tests = [
            "boots::openstack",
            "rules::config_drives_of_every_kind",
            "rules::the_openstack_name_is_kept_and_others_are_not",
        ];
        cell("the server's name, kept", &tests)
    } else {
        cell("the host name", &["boots::other_machines"])
    }
}

fn provider_id(id: &str, units: &BTreeSet<String>, external: &BTreeSet<String>) -> Cell {
    let form = lookup(id).map_or("", |provider| provider.form);
    if units.contains("aws-kubelet-providerid.service") {
        return cell(format!("`{form}`, on External clusters too"), &["boots::aws", "boots::external_clusters"]);
    }
    if !external.contains("nodebase-provider-id.service") {
        return cell("set by the cloud controller, if any", &["boots::other_machines"]);
    }
    assert!(!form.is_empty(), "{id}: a layer enables nodebase-provider-id.service, and nothing is known");
    let test = match id {
        "ibmcloud" => "boots::ibmcloud_external",
        "nutanix" | "vmware" => "protocols::firmware",
        _ => "boots::external_clusters",
    };
    cell(format!("External: `{form}`"), &[test])
}

fn host_name(units: &BTreeSet<String>) -> Cell {
    for (unit, text, tests) in [
        ("gcp-hostname.service", "metadata, at most 63 characters", &["boots::gcp", "rules::gcp_host_name"][..]),
        (
            "openstack-hostname.service",
            "metadata, kept",
            &["boots::openstack", "rules::the_openstack_host_name_is_kept"],
        ),
        ("powervs-hostname.service", "afterburn, else config drive", &["boots::powervs", "rules::other_host_names"]),
        ("vsphere-hostname.service", "guestinfo, else DHCP", &["boots::vmware", "rules::vmware_host_names"]),
    ] {
        if units.contains(unit) {
            return cell(text, tests);
        }
    }
    let boot = if units.contains("aws-kubelet-nodename.service") { "boots::aws" } else { "boots::other_machines" };
    cell("afterburn-hostname, DHCP or /etc/hostname; waited for", &[boot, "waits::a_real_name_ends_the_wait"])
}

fn time(id: &str, source: &str, units: &BTreeSet<String>) -> Cell {
    let enabled = units.contains("nodebase-time-source.service");
    assert_eq!(enabled, source != "none", "timeSource={source} and the layers disagree");
    let tests = ["boots::time_source", "timesource::each_source_its_file", "timesource::chronyd_accepts_them"];
    match source {
        "none" => {
            let test = match id {
                "openstack" => "boots::openstack",
                "powervs" => "boots::powervs",
                "vmware" => "boots::vmware",
                _ => "boots::other_machines",
            };
            cell("the distribution's servers", &[test])
        }
        "aws" => cell("169.254.169.123", &tests),
        "gcp" => cell("metadata.google.internal", &tests),
        "hyperv" => cell("/dev/ptp_hyperv", &tests),
        "kvm" => {
            cell("ptp_kvm, if it loads", &["timesource::kvm_only_with_its_clock", "timesource::chronyd_accepts_them"])
        }
        other => panic!("timeSource {other} is not described"),
    }
}

/// Is there such a test?
fn exists(test: &str) -> bool {
    let (file, function) = test.split_once("::").unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/{file}.rs"));
    fs::read_to_string(path).is_ok_and(|text| text.contains(&format!("#[test]\nfn {function}() {{")))
}

const HEAD: &str = "<!-- SPDX-License-Identifier: Apache-2.0 OR MIT -->
<!-- Made by packaging/node-identity/tests/document.rs from units/platforms.json and units/layers; do not edit. -->
# Who a machine is, platform by platform

With the platform's own cluster type (second column) and no other fact. *External* in the fourth column is what happens on
a cluster whose `clusterPlatform` is External. Below each answer stand the tests that prove it (`packaging/node-identity/tests/`,
file and function).

Rules that hold everywhere: `/etc/hostname` wins over every source. A name is never `localhost`. Afterburn's attributes are
believed before the service is asked. An image that has Fedora CoreOS' `coreos-platform-chrony-config.service`, or a chrony
configuration that an administrator has changed, keeps its time source. Nothing is written to /etc.

| platform | cluster | node name | provider id | host name | time |
|---|---|---|---|---|---|
";

fn document() -> String {
    let table = fs::read(repository().join("units/platforms.json")).unwrap();
    let table: serde_json::Value = serde_json::from_slice(&table).unwrap();
    let mut text = HEAD.to_owned();
    for (id, row) in table["platforms"].as_object().unwrap() {
        let (cluster, source) = (row["clusterPlatform"].as_str().unwrap(), row["timeSource"].as_str().unwrap());
        let units = enabled(&[("platform", id), ("clusterPlatform", cluster), ("timeSource", source)]);
        let known = row["providerId"].as_str().unwrap();
        let external = enabled(&[("platform", id), ("clusterPlatform", "External"), ("providerId", known)]);
        let aliases: Vec<_> =
            row["aliases"].as_array().into_iter().flatten().filter_map(|alias| alias.as_str()).collect();
        let alias = if aliases.is_empty() { String::new() } else { format!(" ({})", aliases.join(", ")) };
        write!(text, "| {id}{alias} | {cluster} |").unwrap();
        for (answer, tests) in
            [node_name(&units), provider_id(id, &units, &external), host_name(&units), time(id, source, &units)]
        {
            for test in &tests {
                assert!(exists(test), "{id}: {test} is no test");
            }
            write!(text, " {answer}<br><sub>{}</sub> |", tests.join(", ")).unwrap();
        }
        text.push('\n');
    }
    text
}

#[test]
fn is_current() {
    let path = repository().join("docs/platforms.md");
    let want = document();
    if std::env::var_os("NODEBASE_UPDATE_DOCS").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &want).unwrap();
    }
    let have = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        have == want,
        "docs/platforms.md is not current: NODEBASE_UPDATE_DOCS=1 cargo test -p node-identity --test document"
    );
}
