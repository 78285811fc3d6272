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
    assert!(account.layers.len() <= 40, "{} layers", account.layers.len());
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

/// Kinds that the others explain, because they share every facet that makes a difference.
#[test]
fn leave_one_out() {
    let all = machines();
    let kinds: BTreeSet<String> = all.iter().map(|m| m.name.split('/').next().unwrap().to_owned()).collect();
    assert_eq!(kinds.len(), 19);
    let mut predicted = BTreeSet::new();
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
            println!("{kind}: {}", lines.join(" | "));
        }
    }
    println!("predicted: {predicted:?}");
    for kind in ["azure", "azurestackhub", "alibabacloud", "ibmcloud", "equinixmetal", "libvirt", "external-none"] {
        assert!(predicted.contains(kind), "{kind} is explained by the others");
    }
}
