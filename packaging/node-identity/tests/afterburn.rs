// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The real afterburn, built from its published source, against the services of these tests: what it writes is what
//! `node-identity` reads.
#![allow(clippy::unwrap_used)] // in functions that tests call, too

mod support;

use std::path::PathBuf;
use std::process::Command;
use support::services::{self, AWS};
use support::{Act, Net, Request, Root, ok, status, well};

const VERSION: &str = "5.11.0";

/// Builds afterburn once, in the cache directory of the tests.
fn afterburn() -> PathBuf {
    let cache = std::env::var_os("NODEBASE_CACHE").map_or_else(|| PathBuf::from("/var/cache/nodebase"), PathBuf::from);
    let root = cache.join(format!("afterburn-{VERSION}"));
    let program = root.join("bin/afterburn");
    if !program.exists() {
        let output = Command::new("cargo")
            .args(["install", "--quiet", "--locked", "afterburn", "--version", VERSION, "--root"])
            .arg(&root)
            .arg("--target-dir")
            .arg(cache.join("afterburn-build"))
            // Not this workspace's settings.
            .current_dir("/")
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "afterburn {VERSION} cannot be built here (it needs the crate registry, pkg-config and libssl-dev): {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    program
}

/// Runs it in a namespace with a service; its attributes file lands where a machine has it.
fn attributes(net: &Net, root: &Root, provider: &str) -> String {
    let program = afterburn();
    root.write("run/metadata/.keep", "");
    let mut command = Command::new("ip");
    command.args(["netns", "exec", net.name()]).arg(program).args(["--provider", provider]);
    let file = root.join("run/metadata/afterburn");
    well(&command.arg(format!("--attributes={}", file.display())).output().unwrap());
    root.read("run/metadata/afterburn")
}

#[test]
fn its_attributes_are_what_is_read() {
    // Afterburn asks for more than we do, under its own version.
    let mut inner = services::aws(true, false);
    let service = move |request: &Request| -> Act {
        let mut request = request.clone();
        if let Some(rest) = request.target.strip_prefix("/2021-01-03/") {
            request.target = format!("/2022-09-24/{rest}");
        }
        match inner(&request) {
            Act::Reply(404, ..) if request.target.ends_with("/placement/region") => ok("eu-central-1"),
            Act::Reply(404, ..) if request.target.ends_with("/meta-data/hostname") => {
                ok("ip-10-0-12-34.eu-central-1.compute.internal")
            }
            other => other,
        }
    };
    let (net, root) = (Net::with(&[AWS]), Root::new());
    net.serve(AWS, service);
    let text = attributes(&net, &root, "aws");
    assert!(text.contains("AFTERBURN_AWS_INSTANCE_ID=i-0123456789abcdef0\n"), "{text}");

    // A namespace where nobody answers: all comes from afterburn's file.
    let silent = Net::new();
    for verb in ["node-name", "provider-id"] {
        well(&silent.command(root.path()).args([verb, "--provider", "aws", "--deadline-ms", "0"]).output().unwrap());
    }
    assert_eq!(root.env("KUBELET_NODE_NAME").unwrap(), "ip-10-0-12-34.eu-central-1.compute.internal");
    assert_eq!(root.env("KUBELET_PROVIDERID").unwrap(), "aws:///eu-central-1b/i-0123456789abcdef0");
}

#[test]
fn hetzner_and_openstack_too() {
    let (net, root) = (Net::with(&[AWS]), Root::new());
    net.serve(AWS, |request| match request.target.as_str() {
        "/hetzner/v1/metadata" => ok("hostname: worker-0\ninstance-id: 4711\nregion: eu-central\n"),
        "/hetzner/v1/metadata/private-networks" => ok("[]"),
        _ => status(404),
    });
    attributes(&net, &root, "hetzner");
    let silent = Net::new();
    let ask = |root: &Root, provider: &str| {
        let mut command = silent.command(root.path());
        well(&command.args(["provider-id", "--provider", provider, "--deadline-ms", "0"]).output().unwrap());
        root.env("KUBELET_PROVIDERID").unwrap()
    };
    assert_eq!(ask(&root, "hetzner"), "hcloud://4711");

    let (net, root) = (Net::with(&[AWS]), Root::new());
    let document = services::meta_data("worker-0");
    net.serve(AWS, move |request| match request.target.as_str() {
        "/openstack/2012-08-10/meta_data.json" => support::json(&document),
        target if target.ends_with("/meta-data/hostname") => ok("worker-0.novalocal"),
        target if target.ends_with("/meta-data/instance-id") => ok("i-00000001"),
        _ => status(404),
    });
    attributes(&net, &root, "openstack-metadata");
    assert_eq!(ask(&root, "openstack"), "openstack:///d8e02d56-2648-49a3-bf97-6be8f1204f38");
}
