// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ControllerConfigs that `factor --print-controllerconfigs` writes, against the inputs that the MCO's templates use
//! (`tests/data/mco-inputs.json`), and against the node.json beside them.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde::Deserialize as _;
use serde_json::Value;

fn read(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap();
    Value::deserialize(serde_yaml_ng::Deserializer::from_str(&text)).unwrap()
}

#[test]
fn every_input_is_there_and_agrees_with_the_facts() {
    let data = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/mco-inputs.json"));
    let out = tempfile::tempdir().unwrap();
    let status = Command::new(env!("CARGO_BIN_EXE_nodebase"))
        .args(["factor", "--print-controllerconfigs"])
        .arg(out.path())
        .status()
        .unwrap();
    assert!(status.success());
    let mut types = BTreeSet::new();
    for kind in std::fs::read_dir(out.path()).unwrap() {
        let kind = kind.unwrap().path();
        let (config, node) = (read(&kind.join("controllerconfig.yaml")), read(&kind.join("node.json")));
        let name = kind.file_name().unwrap().to_string_lossy().into_owned();
        for (pointer, lands) in data["everywhere"].as_object().unwrap() {
            assert!(config.pointer(pointer).is_some(), "{name}: no {pointer}, which lands in {lands}");
        }
        let status = &config["spec"]["infra"]["status"];
        assert_eq!(node["clusterPlatform"], status["platformStatus"]["type"], "{name}");
        assert_eq!(node["controlPlaneTopology"], status["controlPlaneTopology"], "{name}");
        for (fact, pointer) in [
            ("networkType", "/spec/networkType"),
            ("ipFamilies", "/spec/ipFamilies"),
            ("images", "/spec/images/baremetalRuntimeCfgImage"),
        ] {
            let own = if fact == "images" { &node["images"]["baremetalRuntimeCfgImage"] } else { &node[fact] };
            assert_eq!(Some(own), config.pointer(pointer), "{name}: {fact}");
        }
        let kind_type = status["platformStatus"]["type"].as_str().unwrap().to_owned();
        let own = &status["platformStatus"][kind_type.to_lowercase()];
        for key in data["with VIPs"].as_array().unwrap() {
            let key = key.as_str().unwrap();
            assert_eq!(node[key], own[key], "{name}: {key}");
        }
        assert_eq!(node["cloudControllerManager"], own["cloudControllerManager"]["state"], "{name}");
        types.insert(kind_type);
    }
    let on_prem = ["BareMetal", "OpenStack", "VSphere", "Nutanix", "oVirt"];
    assert!(on_prem.iter().all(|t| types.contains(*t)) && types.len() >= 16, "{types:?}");
}
