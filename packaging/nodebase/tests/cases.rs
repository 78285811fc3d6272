// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The reference cases (`tests/data/cases.json`): kubelet's command line and what is pulled in, for every machine.

#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

mod common;

use std::collections::{BTreeMap, BTreeSet};

use nodebase::tree::Tree;
use nodebase::unit::effective::Effective;
use nodebase::unit::words;
use nodebase_generator::cmdline::Cmdline;
use nodebase_generator::root::Root;
use nodebase_nspawn::expect::{self, Case};

/// What is written at run time, the same for the reference and for us.
const NODE_ENV: [(&str, &str); 2] =
    [("KUBELET_NODE_NAME", "node-1.example.com"), ("KUBELET_PROVIDERID", "prov:///zone/i-1")];
const NODENET: [(&str, &str); 2] = [("KUBELET_NODE_IP", "192.0.2.9"), ("KUBELET_NODE_IPS", "192.0.2.9,2001:db8::9")];

fn pulled(tree: &Tree) -> BTreeSet<String> {
    let mut todo: Vec<String> = [
        "default.target",
        "multi-user.target",
        "basic.target",
        "sysinit.target",
        "kubelet-dependencies.target",
        "network-online.target",
        "NetworkManager.service",
        "chronyd.service",
    ]
    .map(String::from)
    .into();
    let mut seen = BTreeSet::new();
    while let Some(unit) = todo.pop() {
        if !seen.insert(unit.clone()) {
            continue;
        }
        todo.extend(tree.pulled(&unit).unwrap());
        let effective = tree.effective(&unit).unwrap();
        for key in ["Wants", "Requires", "BindsTo"] {
            for line in effective.values("Unit", key) {
                todo.extend(line.value.split_whitespace().map(str::to_owned));
            }
        }
    }
    seen
}

fn run_time(case: &Case, kubelet: Option<&Effective>) -> BTreeMap<String, String> {
    let mut out = BTreeMap::from([("ID".to_owned(), "rhcos".to_owned())]);
    let files: Vec<String> = match kubelet {
        Some(k) => k.values("Service", "EnvironmentFile").map(|l| l.value.clone()).collect(),
        None => case.kubelet.environment_files.clone(),
    };
    if files.iter().any(|f| f.ends_with("/node.env")) {
        out.extend(NODE_ENV.map(|(k, v)| (k.to_owned(), v.to_owned())));
    }
    let on = |u: &str| case.units.get(u).copied().flatten() == Some(true);
    if on("nodeip-configuration.service") || on("nodeip-configuration-vsphere-upi.service") {
        out.extend(NODENET.map(|(k, v)| (k.to_owned(), v.to_owned())));
    }
    out
}

fn problems(root: &std::path::Path, case: &Case) -> Vec<String> {
    let id = case.platform_id.as_ref().map(|id| format!("ignition.platform.id={id}")).unwrap_or_default();
    let cmdline = Cmdline::from_text(format!("BOOT_IMAGE=/vmlinuz {id} rw").as_bytes());
    let node = case.node.as_object().filter(|o| !o.is_empty()).map(|_| case.node.to_string().into_bytes());
    let tree = Tree::new(Root::at(root).unwrap(), cmdline, node);
    let mut out: Vec<String> = tree.plan.report.problems().map(|n| n.text.clone()).collect();
    let kubelet = tree.effective("kubelet.service").unwrap();

    let mut variables = words::environment(kubelet.values("Service", "Environment").map(|l| l.value.as_str()));
    variables.extend(run_time(case, Some(&kubelet)));
    let exec: Vec<_> = kubelet.values("Service", "ExecStart").collect();
    if exec.len() == 1 {
        let argv = words::expand(&words::split(&exec[0].value), &variables, &[]);
        let argv = argv.iter().skip_while(|w| !w.ends_with("/kubelet")).skip(1);
        let have = expect::flags(argv.map(String::as_str));
        out.extend(expect::differences(&have, &expect::expected(case, &run_time(case, None))));
    } else {
        out.push(format!("{} ExecStart lines", exec.len()));
    }
    for name in ["GODEBUG", "KUBELET_LOG_LEVEL", "KUBELET_NODE_IP"] {
        let want = match (name, run_time(case, None).get(name)) {
            (_, Some(v)) => Some(v.clone()),
            (_, None) => case.kubelet.environment.get(name).cloned(),
        };
        if variables.get(name) != want.as_ref() {
            out.push(format!("{name}: have {:?}, want {want:?}", variables.get(name)));
        }
    }
    let proxy = |files: &[String]| files.iter().any(|f| f.ends_with("/proxy.env"));
    let ours: Vec<_> = kubelet.values("Service", "EnvironmentFile").map(|l| l.value.clone()).collect();
    if proxy(&ours) != proxy(&case.kubelet.environment_files) {
        out.push("proxy.env".into());
    }
    let pulled = pulled(&tree);
    for (unit, on) in &case.units {
        let exists = tree.effective(unit).unwrap().fragment.is_some();
        if exists && on.is_some_and(|on| on != pulled.contains(unit)) {
            out.push(format!("{unit}: the reference says {on:?}"));
        }
    }
    out
}

#[test]
fn all_109() {
    let image = common::image();
    let cases = expect::cases(&common::repository().join("tests/data/cases.json")).unwrap();
    assert_eq!(cases.len(), 109);
    let wrong: Vec<String> = cases
        .iter()
        .flat_map(|case| problems(image.path(), case).into_iter().map(move |p| format!("{}: {p}", case.case)))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// No unit that the reference does not know for a platform is pulled in there.
#[test]
fn foreign_units_stay_off() {
    let image = common::image();
    let cases = expect::cases(&common::repository().join("tests/data/cases.json")).unwrap();
    for case in &cases {
        let id = case.platform_id.clone().unwrap_or_default();
        let cmdline = Cmdline::from_text(format!("ignition.platform.id={id}").as_bytes());
        let tree = Tree::new(Root::at(image.path()).unwrap(), cmdline, Some(case.node.to_string().into_bytes()));
        for unit in pulled(&tree) {
            let foreign =
                ["aws-", "azure-", "gcp-", "openstack-", "powervs-", "vsphere-"].iter().any(|p| unit.starts_with(p));
            assert!(!foreign || case.units.contains_key(&unit), "{}: {unit}", case.case);
        }
    }
}
