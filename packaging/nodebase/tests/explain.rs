// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `nodebase explain` as a person runs it.

#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

mod common;

use std::process::{Command, Output};

fn explain(image: &std::path::Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nodebase")).arg("explain").arg("--root").arg(image).args(args).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn text_names_sources_misses_origins_and_the_command_line() {
    let image = common::image();
    std::fs::create_dir_all(image.path().join("etc/systemd/system/kubelet.service.d")).unwrap();
    let mine = image.path().join("etc/systemd/system/kubelet.service.d/30-mine.conf");
    std::fs::write(mine, "[Service]\nEnvironment=KUBELET_LOG_LEVEL=6\n").unwrap();
    let output = explain(image.path(), &["--cmdline", "ignition.platform.id=ec2 nodebase.role=master"]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    for want in [
        "role                  master",
        "kernel command line",
        "follows from clusterPlatform",
        "clusterPlatform=Azure ",
        "clusterPlatform is AWS",
        "# /usr/lib/nodebase/layers/clusterPlatform=AWS/kubelet.service.d/20-node-env.conf:",
        "# /etc/systemd/system/kubelet.service.d/30-mine.conf:2",
        "--cloud-provider=external",
        "--v=6",
        "--provider-id=${KUBELET_PROVIDERID}",
    ] {
        assert!(text.contains(want), "no {want:?} in\n{text}");
    }
}

#[test]
fn json_is_the_same_for_programs() {
    let image = common::image();
    let node = image.path().join("facts.json");
    std::fs::write(
        &node,
        r#"{"clusterPlatform":"BareMetal","apiServerInternalIPs":["192.0.2.5"],"ipFamilies":"DualStack"}"#,
    )
    .unwrap();
    let output = explain(image.path(), &["--platform", "metal", "--node", node.to_str().unwrap(), "--output", "json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["complete"], true);
    assert!(json["layers"].as_array().unwrap().contains(&"class=on-prem,stack=dual".into()));
    let argv = json["commandLine"].as_array().unwrap();
    assert!(argv.contains(&"--node-ip=${KUBELET_NODE_IPS}".into()), "{argv:?}");
    let vips = json["facets"].as_array().unwrap().iter().find(|f| f["name"] == "vips").unwrap();
    assert_eq!((vips["value"].as_str(), vips["source"].as_str()), (Some("yes"), Some("/etc/nodebase/node.json")));
    let lost = json["skipped"].as_array().unwrap();
    assert!(
        lost.iter().any(|s| s["layer"] == "class=on-prem" && s["path"] == "kubelet.service.d/12-exec.conf"),
        "{lost:?}"
    );
}

#[test]
fn findings_and_errors_have_their_own_exit_status() {
    let image = common::image();
    let output = explain(image.path(), &["--cmdline", "nodebase.role="]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains("nodebase.role") || stdout(&output).contains("\"role\""), "{}", stdout(&output));
    assert!(stdout(&output).contains("kubelet.service stays off"));
    for (args, want) in [
        (&["nosuch.service"][..], "has no unit nosuch.service"),
        (&["../x"], "is no unit's name"),
        (&["--node", "/nonexistent/facts"], "/nonexistent/facts"),
    ] {
        let output = explain(image.path(), args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(want), "{output:?}");
    }
    let output = explain(std::path::Path::new("/nonexistent"), &[]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn any_unit_can_be_asked_for() {
    let image = common::image();
    let text = stdout(&explain(image.path(), &["--platform", "aws", "nodeip-configuration.service"]));
    assert!(text.contains("Environment=\"NODEBASE_CLUSTER_PLATFORM=AWS\""), "{text}");
    assert!(text.contains("/run/systemd/generator/nodeip-configuration.service.d/15-nodebase.conf:"), "{text}");
}

#[test]
fn help_has_an_example() {
    let output = Command::new(env!("CARGO_BIN_EXE_nodebase")).args(["explain", "--help"]).output().unwrap();
    assert!(stdout(&output).contains("nodebase explain --root image --platform aws"));
}
