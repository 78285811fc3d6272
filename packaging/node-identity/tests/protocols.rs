// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every provider against a service that speaks its protocol, at the real address.
#![allow(clippy::unwrap_used)] // in functions that tests call, too

mod support;

use support::services::{self, AWS, TOKEN};
use support::{Net, Root, stderr, well};

/// Asks inside a namespace where `service` listens at `address`; returns node.env's key.
fn provider_id(
    id: &str,
    address: &str,
    service: impl FnMut(&support::Request) -> support::Act + Send + 'static,
) -> String {
    let (net, root) = (Net::with(&[address]), Root::new());
    net.serve(address, service);
    well(&net.command(root.path()).args(["provider-id", "--provider", id]).output().unwrap());
    root.env("KUBELET_PROVIDERID").unwrap()
}

#[test]
fn aws_with_tokens() {
    let (net, root) = (Net::with(&[AWS]), Root::new());
    let log = net.serve(AWS, services::aws(true, false));
    for verb in ["node-name", "provider-id"] {
        let output = net.command(root.path()).args([verb, "--provider", "aws"]).env("NODEBASE_LOG", "trace").output();
        let output = output.unwrap();
        well(&output);
        assert!(!stderr(&output).contains(TOKEN), "a token in the log");
    }
    assert_eq!(root.env("KUBELET_NODE_NAME").unwrap(), "ip-10-0-12-34.eu-central-1.compute.internal");
    assert_eq!(root.env("KUBELET_PROVIDERID").unwrap(), "aws:///eu-central-1b/i-0123456789abcdef0");
    let lines = log.lines();
    assert_eq!(lines.iter().filter(|line| *line == "PUT /latest/api/token").count(), 2, "one token a run: {lines:?}");
    assert!(!root.join("etc").exists(), "nothing may be written to /etc");
}

#[test]
fn aws_without_tokens_falls_back_on_404_only() {
    let (net, root) = (Net::with(&[AWS]), Root::new());
    let log = net.serve(AWS, services::aws(false, true));
    well(&net.command(root.path()).args(["node-name", "--provider", "ec2"]).output().unwrap());
    assert_eq!(log.lines(), ["PUT /latest/api/token", "GET /2022-09-24/meta-data/local-hostname"]);
    assert!(log.all()[1].header("X-aws-ec2-metadata-token").is_none());
}

#[test]
fn aws_over_ipv6() {
    let address = "fd00:ec2::254";
    assert_eq!(provider_id("aws", address, services::aws(true, false)), "aws:///eu-central-1b/i-0123456789abcdef0");
}

#[test]
fn aws_refusals_say_what_to_do() {
    // Version 1 is refused, version 2 is unknown: no answer will ever come.
    let (net, root) = (Net::with(&[AWS]), Root::new());
    net.serve(AWS, services::aws(false, false));
    let output = net.command(root.path()).args(["node-name", "--provider", "aws"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("demands IMDSv2"), "{}", stderr(&output));

    let (net, root) = (Net::with(&[AWS]), Root::new());
    net.serve(AWS, |_| support::status(403));
    let output = net.command(root.path()).args(["node-name", "--provider", "aws"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("switched off"), "{}", stderr(&output));
    assert!(root.env("KUBELET_NODE_NAME").is_none());
}

#[test]
fn aws_hop_limit() {
    // The token request arrives, its answer never does.
    let (net, root) = (Net::with(&[AWS]), Root::new());
    net.serve(AWS, |_| support::Act::Silence);
    let mut command = net.command(root.path());
    command.args(["node-name", "--provider", "aws", "--deadline-ms", "0", "--request-ms", "300"]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("HttpPutResponseHopLimit"), "{}", stderr(&output));
}

#[test]
fn aws_takes_a_new_token_when_the_old_one_is_refused() {
    let (net, root) = (Net::with(&[AWS]), Root::new());
    let mut inner = services::aws(true, false);
    let mut refused = false;
    let log = net.serve(AWS, move |request| {
        if request.method == "GET" && !refused {
            refused = true;
            return support::status(401);
        }
        inner(request)
    });
    well(&net.command(root.path()).args(["node-name", "--provider", "aws"]).output().unwrap());
    assert_eq!(log.lines().iter().filter(|line| line.starts_with("PUT")).count(), 2);
}

#[test]
fn gcp() {
    assert_eq!(provider_id("gcp", AWS, services::gcp("x")), "gce://my-project/europe-west3-c/worker-a");
    assert_eq!(provider_id("gce", AWS, services::gcp("x")), "gce://my-project/europe-west3-c/worker-a");
}

#[test]
fn gcp_wants_the_flavour_back() {
    let (net, root) = (Net::with(&[AWS]), Root::new());
    net.serve(AWS, |_| support::ok("somebody-else"));
    let mut command = net.command(root.path());
    let output = command.args(["provider-id", "--provider", "gcp", "--deadline-ms", "0"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("lacks Metadata-Flavor"), "{}", stderr(&output));
}

#[test]
fn azure() {
    assert_eq!(
        provider_id("azure", AWS, services::azure()),
        "azure:///subscriptions/aaaaaaaa-0000-1111-2222-333333333333/resourceGroups/my-rg/providers/\
         Microsoft.Compute/virtualMachines/worker_0"
    );
}

#[test]
fn openstack_over_ipv4_and_ipv6() {
    for address in [AWS, "fe80::a9fe:a9fe"] {
        let (net, root) = (Net::with(&[address]), Root::new());
        net.serve(address, services::openstack("worker-0"));
        well(&net.command(root.path()).args(["node-name", "--provider", "openstack", "--keep"]).output().unwrap());
        assert_eq!(root.env("KUBELET_NODE_NAME").unwrap(), "worker-0", "{address}");
        well(&net.command(root.path()).args(["provider-id", "--provider", "openstack"]).output().unwrap());
        assert_eq!(root.env("KUBELET_PROVIDERID").unwrap(), "openstack:///d8e02d56-2648-49a3-bf97-6be8f1204f38");
    }
}

#[test]
fn openstack_ipv6_asks_on_the_interface_that_answers() {
    // The first interface has nobody; the second one has the service.
    let net = Net::new();
    net.ip(&["link", "add", "eth1", "type", "veth", "peer", "name", "peer1"]);
    net.ip(&["link", "set", "peer1", "up"]);
    net.ip(&["link", "set", "eth1", "up"]);
    net.ip(&["address", "add", "fe80::a9fe:a9fe/64", "dev", "eth1", "nodad"]);
    let root = Root::new();
    net.serve("fe80::a9fe:a9fe", services::openstack("worker-1"));
    let mut command = net.command(root.path());
    well(&command.args(["node-name", "--provider", "openstack", "--request-ms", "500"]).output().unwrap());
    assert_eq!(root.env("KUBELET_NODE_NAME").unwrap(), "worker-1");
}

#[test]
fn alibaba() {
    assert_eq!(provider_id("aliyun", "100.100.100.200", services::alibaba()), "cn-hangzhou.i-bp15zckdt37pq72z");
    // Normal mode, no tokens.
    let service = |request: &support::Request| match request.target.as_str() {
        "/latest/meta-data/region-id" => support::ok("cn-beijing"),
        "/latest/meta-data/instance-id" => support::ok("i-2"),
        _ => support::status(404),
    };
    assert_eq!(provider_id("aliyun", "100.100.100.200", service), "cn-beijing.i-2");
}

#[test]
fn plain_services() {
    let oracle = Some(("Authorization", "Bearer Oracle"));
    for (id, path, header, answer, want) in [
        ("digitalocean", "/metadata/v1/id", None, "2756294", "digitalocean://2756294"),
        ("hetzner", "/hetzner/v1/metadata/instance-id", None, "4711\n", "hcloud://4711"),
        (
            "vultr",
            "/v1/instance-v2-id",
            None,
            "cb676a46-66fd-4dfb-b839-443f2e6c0b60",
            "vultr://cb676a46-66fd-4dfb-b839-443f2e6c0b60",
        ),
        (
            "oraclecloud",
            "/opc/v2/instance/id",
            oracle,
            "ocid1.instance.oc1.eu-frankfurt-1.antheljs",
            "oci://ocid1.instance.oc1.eu-frankfurt-1.antheljs",
        ),
    ] {
        assert_eq!(provider_id(id, AWS, services::plain(path, header, answer)), want);
    }
}

#[test]
fn scaleway() {
    let document = r#"{"id":"11111111-1111-1111-1111-111111111111","hostname":"w","location":{"zone_id":"par1"}}"#;
    let service = services::plain("/conf?format=json", None, document);
    assert_eq!(
        provider_id("scaleway", "169.254.42.42", service),
        "scaleway://instance/fr-par-1/11111111-1111-1111-1111-111111111111"
    );
}

#[test]
fn firmware() {
    let (net, root) = (Net::new(), Root::bare());
    root.write("sys/class/dmi/id/product_uuid", "421C1D7A-4FF1-7EF6-6BE1-9D0B4F2B9D7C\n");
    root.write("sys/class/dmi/id/product_serial", "VMware-42 1c 1d 7a 4f f1 7e f6-6b e1 9d 0b 4f 2b 9d 7c\n");
    for (id, want) in [
        ("nutanix", "nutanix://421c1d7a-4ff1-7ef6-6be1-9d0b4f2b9d7c"),
        ("vmware", "vsphere://421c1d7a-4ff1-7ef6-6be1-9d0b4f2b9d7c"),
    ] {
        well(&net.command(root.path()).args(["provider-id", "--provider", id]).output().unwrap());
        assert_eq!(root.env("KUBELET_PROVIDERID").unwrap(), want);
    }
}

#[test]
fn afterburn_is_believed_and_nobody_is_asked() {
    // An empty namespace: any request would fail.
    let net = Net::new();
    for (id, attributes, want) in [
        ("aws", "AFTERBURN_AWS_AVAILABILITY_ZONE=eu-west-1a\nAFTERBURN_AWS_INSTANCE_ID=i-1\n", "aws:///eu-west-1a/i-1"),
        ("aliyun", "AFTERBURN_ALIYUN_REGION_ID=cn-x\nAFTERBURN_ALIYUN_INSTANCE_ID=i-3\n", "cn-x.i-3"),
        ("hetzner", "AFTERBURN_HETZNER_INSTANCE_ID=12\n", "hcloud://12"),
        (
            "scaleway",
            "AFTERBURN_SCALEWAY_ZONE_ID=ams1\nAFTERBURN_SCALEWAY_INSTANCE_ID=u\n",
            "scaleway://instance/nl-ams-1/u",
        ),
        ("oraclecloud", "AFTERBURN_ORACLECLOUD_INSTANCE_ID=ocid1.instance.x\n", "oci://ocid1.instance.x"),
        ("openstack", "AFTERBURN_OPENSTACK_INSTANCE_UUID=uu-id\n", "openstack:///uu-id"),
        ("ibmcloud", "AFTERBURN_IBMCLOUD_INSTANCE_ID=0717_a-b\n", "ibm://acc///clu/0717_a-b"),
    ] {
        let root = Root::new();
        root.write("run/metadata/afterburn", attributes);
        let mut command = net.command(root.path());
        command.args(["provider-id", "--provider", id, "--deadline-ms", "0"]);
        command.env("NODEBASE_IBM_ACCOUNT_ID", "acc").env("NODEBASE_IBM_CLUSTER_ID", "clu");
        well(&command.output().unwrap());
        assert_eq!(root.env("KUBELET_PROVIDERID").unwrap(), want);
    }
    let root = Root::new();
    root.write("run/metadata/afterburn", "AFTERBURN_AWS_HOSTNAME=ip-10-0-0-1.one.example. ip-10-0-0-1.two.example\n");
    well(&net.command(root.path()).args(["node-name", "--provider", "aws"]).output().unwrap());
    assert_eq!(root.env("KUBELET_NODE_NAME").unwrap(), "ip-10-0-0-1.one.example");
}

#[test]
fn ibmcloud_says_which_fact_is_missing() {
    let (net, root) = (Net::new(), Root::new());
    let output = net.command(root.path()).args(["provider-id", "--provider", "ibmcloud"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("NODEBASE_IBM_ACCOUNT_ID is not set"), "{}", stderr(&output));
}

#[test]
fn wrong_usage() {
    let (net, root) = (Net::new(), Root::new());
    for (arguments, says) in [
        (&["provider-id", "--provider", "metal"][..], "\"metal\" is none that can be asked"),
        (&["node-name", "--provider", "gcp"], "no documented node name"),
        (&["provider-id"], "--provider"),
        (&["no-such-verb"], "no-such-verb"),
    ] {
        let output = net.command(root.path()).args(arguments).env_remove("NODEBASE_PLATFORM").output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(says), "{}", stderr(&output));
    }
}
