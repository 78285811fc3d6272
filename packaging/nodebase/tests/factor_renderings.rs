// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The renderings of 19 cluster kinds, both roles, through factor and back.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::Path;

use nodebase::bake::tree;
use nodebase::factor::{self, emit, input, split, verify};
use nodebase_generator::platform::Table;

fn table() -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../units/platforms.json")).unwrap()
}

fn machines() -> Vec<input::Machine> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/renderings");
    input::read(&dir, &Table::parse(&table()).unwrap()).unwrap()
}

#[test]
fn all_come_out_as_they_were_rendered() {
    let out = tempfile::tempdir().unwrap();
    let account = factor::factor(out.path(), &machines(), &table()).unwrap();
    assert_eq!(account.machines, 38);
    assert_eq!(account.equal, 38, "{}", account.markdown());
    assert!(account.unexplained.is_empty(), "{:?}", account.unexplained);
    assert!(account.layers.len() <= 30, "{} layers", account.layers.len());
}

#[test]
fn a_damaged_tree_is_noticed() {
    let out = tempfile::tempdir().unwrap();
    let machines = machines();
    let tree = emit::tree(&split::factor(&machines), &table());
    tree::write(out.path(), &tree, 0).unwrap();
    let fixed = verify::Static::new(&tree);
    let aws = machines.iter().find(|m| m.name == "aws/master").unwrap();
    assert!(verify::verify(out.path(), &fixed, aws).unwrap().is_empty());
    let unit = out.path().join("usr/lib/systemd/system/kubelet.service");
    let text = std::fs::read_to_string(&unit).unwrap();
    std::fs::write(&unit, text.replace("Type=notify", "Type=simple")).unwrap();
    let diff = verify::verify(out.path(), &fixed, aws).unwrap().join("\n");
    assert!(diff.contains("+[Service] Type=simple"), "{diff}");
}

#[test]
fn twins_with_other_content_fail_the_run() {
    let mut machines = machines();
    let mut twin = machines[0].clone();
    twin.name = "twin/master".into();
    twin.units.get_mut("kubelet.service").unwrap().dropins.insert("30-x.conf".into(), "[Service]\nNice=5\n".into());
    machines.push(twin);
    let out = tempfile::tempdir().unwrap();
    let account = factor::factor(out.path(), &machines, &table()).unwrap();
    assert!(account.unexplained.iter().any(|u| u.contains("30-x.conf")), "{:?}", account.unexplained);
    assert!(account.equal < account.machines);
}

#[test]
fn what_factor_does_not_carry_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let kind = dir.path().join("x");
    std::fs::create_dir(&kind).unwrap();
    std::fs::write(kind.join("node.json"), r#"{"platform":"aws"}"#).unwrap();
    let config = r#"{"ignition":{"version":"3.4.0"},"kernelArguments":{"shouldExist":["nosmt"]},"storage":{
        "links":[{"path":"/etc/l","target":"/etc/x"}],"directories":[{"path":"/etc/d"}]}}"#;
    std::fs::write(kind.join("worker.ign"), config).unwrap();
    let error = input::read(dir.path(), &Table::parse(&table()).unwrap()).unwrap_err().to_string();
    for part in ["kernelArguments (1)", "storage.links (1)", "storage.directories (1)", "worker.ign"] {
        assert!(error.contains(part), "{part} in {error}");
    }
}

#[test]
fn facts_in_files_are_pointed_out() {
    let mut machines = machines();
    let own = machines.iter_mut().find(|m| m.name == "baremetal/worker").unwrap();
    own.files.values_mut().next().unwrap().bytes = b"vip: 192.168.111.5".to_vec();
    let warnings = split::factor(&machines).warnings;
    assert!(warnings.iter().any(|w| w.contains("apiServerInternalIPs literally")), "{warnings:?}");
}

/// Between layers that can both match, neither the more special one, the file name must decide.
#[test]
fn no_file_name_twice_where_the_alphabet_would_decide() {
    let factored = split::factor(&machines());
    let words = |s: &str| s.split(',').map(str::to_owned).collect::<BTreeSet<String>>();
    let key = |w: &str| w.split('=').next().unwrap().to_owned();
    for (a, one) in &factored.layers {
        for (b, two) in factored.layers.range(a.clone()..).skip(1) {
            let (left, right) = (words(a), words(b));
            let apart = left.iter().any(|x| right.iter().any(|y| key(x) == key(y) && x != y));
            if apart || left.len() != right.len() {
                continue;
            }
            for (path, text) in &one.dropins {
                let body = |t: &str| t.split_once('\n').unwrap().1.to_owned();
                assert!(two.dropins.get(path).is_none_or(|t| body(t) == body(text)), "{path} in {a} and {b}");
            }
        }
    }
}

/// Kinds that cannot be predicted, each with what no other kind's rendering has a word of (`None`: see there).
const NOT_PREDICTED: &[(&str, Option<&str>)] = &[
    ("aws", Some("aws-kubelet-nodename")),
    ("baremetal", Some("99-kni.conf")),
    ("gcp", Some("gcp-hostname")),
    ("kubevirt", Some("001-nmstate-disable-ipv6-autoconf.yml")),
    // On metal without VIPs there are then only the two kinds of External left: `clusterPlatform=External` explains the
    // link of nodeip-configuration.service as well as `platform=metal` does.
    ("none", None),
    ("nutanix", Some("99-nutanix.conf")),
    ("openstack", Some("openstack-hostname")),
    ("ovirt", Some("99-ovirt.conf")),
    ("powervs", Some("powervs-hostname")),
    ("vsphere", Some("--platform VSphere --retry-on-failure")),
    ("vsphere-upi", Some("--user-managed-lb")),
];

/// A kind's renderings as they are.
fn raw(kind: &str) -> String {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/renderings").join(kind);
    ["master.ign", "worker.ign"].map(|f| std::fs::read_to_string(dir.join(f)).unwrap()).concat()
}

/// Kinds that the others explain, because they share every facet that makes a difference.
#[test]
fn leave_one_out() {
    let all = machines();
    let kinds: BTreeSet<String> = all.iter().map(|m| m.name.split('/').next().unwrap().to_owned()).collect();
    assert_eq!(kinds.len(), 19);
    let mut predicted = BTreeSet::new();
    let mut missed = std::collections::BTreeMap::new();
    for kind in &kinds {
        let (out_of_it, rest): (Vec<_>, Vec<_>) =
            all.iter().cloned().partition(|m| m.name.split('/').next() == Some(kind));
        let out = tempfile::tempdir().unwrap();
        let tree = emit::tree(&split::factor(&rest), &table());
        tree::write(out.path(), &tree, 0).unwrap();
        let fixed = verify::Static::new(&tree);
        let lines: Vec<String> =
            out_of_it.iter().flat_map(|m| verify::verify(out.path(), &fixed, m).unwrap()).collect();
        if lines.is_empty() {
            predicted.insert(kind.as_str());
        } else {
            missed.insert(kind.as_str(), lines.join("\n"));
        }
    }
    assert_eq!(missed.keys().copied().collect::<Vec<_>>(), NOT_PREDICTED.iter().map(|(k, _)| *k).collect::<Vec<_>>());
    for (kind, own) in NOT_PREDICTED {
        let lines = &missed[kind];
        let Some(own) = own else {
            let link = "- pulled in: kubelet-dependencies.target.requires/nodeip-configuration.service";
            assert!(lines.lines().all(|l| l == link), "{kind}: {lines}");
            continue;
        };
        assert!(lines.contains(own), "{kind}: {own} is not what is missing: {lines}");
        for other in kinds.iter().filter(|k| k != kind) {
            assert!(!raw(other).contains(own), "{own} of {kind} is in {other} as well");
        }
    }
    assert_eq!(predicted.len() + missed.len(), 19);
}
