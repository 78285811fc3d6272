// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Services that misbehave. Each fault once for good (exit code 1, the cause in the message, nothing written), and
//! once as something that passes.
#![allow(clippy::unwrap_used)] // in functions that tests call, too

mod support;

use support::services::{self, AWS};
use support::{Act, Net, Root, ok, status, stderr, well};

fn redirect() -> Act {
    Act::Reply(302, vec![("Location", "http://192.0.2.1/login".to_owned())], String::new())
}

fn html() -> Act {
    Act::Reply(200, vec![("Content-Type", "text/html; charset=utf-8".to_owned())], "<html>sign in</html>".to_owned())
}

/// Name, what the service does, what the message must say.
fn faults() -> Vec<(&'static str, Act, &'static str)> {
    let truncated = b"HTTP/1.1 200 OK\r\nContent-Length: 4000\r\nContent-Type: text/plain\r\n\r\nip-10-".to_vec();
    let endless = {
        let mut bytes = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n".to_vec();
        bytes.resize(2_000_000, b'a');
        bytes
    };
    vec![
        ("500", status(500), "status 500"),
        ("503", status(503), "status 503"),
        ("404", status(404), "status 404"),
        ("429", status(429), "status 429"),
        ("silence", Act::Silence, "no whole answer in time"),
        ("reset", Act::Reset, "connection reset"),
        ("closed", Act::Raw(Vec::new()), AWS),
        ("truncated", Act::Raw(truncated), AWS),
        ("garbage", Act::Raw(b"SSH-2.0-OpenSSH_9.2\r\n".to_vec()), AWS),
        ("huge", Act::Raw(endless), "larger than 262144 bytes"),
        ("redirect", redirect(), "redirect to \"http://192.0.2.1/login\" not followed"),
        ("web page", html(), "answered with a web page"),
        ("untyped web page", ok("<!DOCTYPE html><title>portal</title>"), "answered with a web page"),
        ("empty", ok(""), "is no name"),
        ("blank", ok(" \n"), "is no name"),
        ("localhost", ok("localhost.localdomain"), "is no name"),
    ]
}

#[test]
fn each_fault_has_its_message() {
    for (name, act, says) in faults() {
        let (net, root) = (Net::with(&[AWS]), Root::new());
        let mut inner = services::aws(true, false);
        let act_again = act.clone();
        net.serve(AWS, move |request| if request.method == "PUT" { inner(request) } else { act_again.clone() });
        let mut command = net.command(root.path());
        command.args(["node-name", "--provider", "aws", "--deadline-ms", "0"]);
        if name == "silence" {
            command.args(["--request-ms", "300"]);
        }
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{name}: {}", stderr(&output));
        assert!(stderr(&output).contains(says), "{name}: {}", stderr(&output));
        assert!(stderr(&output).contains("the node name from aws"), "{name}: {}", stderr(&output));
        assert!(!root.join("run").exists(), "{name}: nothing may be written");
    }
}

#[test]
fn each_fault_may_pass() {
    for (name, act, _) in faults() {
        let (net, root) = (Net::with(&[AWS]), Root::new());
        let mut inner = services::aws(true, false);
        let mut bad = 2;
        let log = net.serve(AWS, move |request| {
            // Token requests are hit as well.
            if bad > 0 && !(name == "404" && request.method == "PUT") {
                bad -= 1;
                return act.clone();
            }
            inner(request)
        });
        let mut command = net.command(root.path());
        command.args(["node-name", "--provider", "aws"]);
        if name == "silence" {
            command.args(["--request-ms", "500"]);
        }
        let output = command.output().unwrap();
        well(&output);
        assert_eq!(root.env("KUBELET_NODE_NAME").unwrap(), "ip-10-0-12-34.eu-central-1.compute.internal", "{name}");
        assert!(log.all().len() >= 4, "{name}: {:?}", log.lines());
    }
}

#[test]
fn refusals_end_at_once() {
    for code in [400, 401, 403, 405] {
        let (net, root) = (Net::with(&[AWS]), Root::new());
        let log = net.serve(AWS, move |_| status(code));
        let mut command = net.command(root.path());
        let output = command.args(["provider-id", "--provider", "hetzner"]).output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{code}");
        assert_eq!(log.all().len(), 1, "{code}: asked again");
        assert!(stderr(&output).contains(&format!("refused with {code}")), "{}", stderr(&output));
    }
}

#[test]
fn azure_passes_its_reason_on() {
    let (net, root) = (Net::with(&[AWS]), Root::new());
    let mut inner = services::azure();
    net.serve(AWS, move |request| {
        let mut request = request.clone();
        request.target = request.target.replace("api-version=", "x=");
        inner(&request)
    });
    let output = net.command(root.path()).args(["provider-id", "--provider", "azure"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("api-version is invalid"), "{}", stderr(&output));
}

#[test]
fn azure_is_asked_again_when_throttled_or_young() {
    for code in [404, 410, 429, 500] {
        let (net, root) = (Net::with(&[AWS]), Root::new());
        let mut inner = services::azure();
        let mut bad = 3;
        net.serve(AWS, move |request| {
            bad -= 1;
            if bad >= 0 { status(code) } else { inner(request) }
        });
        well(&net.command(root.path()).args(["provider-id", "--provider", "azure"]).output().unwrap());
    }
}

#[test]
fn json_that_is_none_or_lacks_the_member() {
    for (body, says) in [("{\"uuid\":", "no JSON"), ("[]", "has no /uuid"), ("{\"uuid\":7}", "has no /uuid")] {
        let (net, root) = (Net::with(&[AWS]), Root::new());
        net.serve(AWS, move |_| ok(body));
        let mut command = net.command(root.path());
        let output = command.args(["provider-id", "--provider", "openstack", "--deadline-ms", "0"]).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains(says), "{}", stderr(&output));
    }
}

#[test]
fn answers_that_would_break_out_of_the_file() {
    for body in ["i-1\nLD_PRELOAD=/x", "i-1 --v=9", "$(reboot)", "i-1\"", "i-1%n", "${HOME}", "i\u{7f}1"] {
        let (net, root) = (Net::with(&[AWS]), Root::new());
        net.serve(AWS, move |_| ok(body));
        let mut command = net.command(root.path());
        let output = command.args(["provider-id", "--provider", "vultr", "--deadline-ms", "0"]).output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{body:?}");
        assert!(root.env("KUBELET_PROVIDERID").is_none(), "{body:?}");
    }
}

#[test]
fn nobody_there() {
    // The address exists, nobody listens.
    let (net, root) = (Net::with(&[AWS]), Root::new());
    let mut command = net.command(root.path());
    let output = command.args(["provider-id", "--provider", "hetzner", "--deadline-ms", "50"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("nobody listens there"), "{}", stderr(&output));
    assert!(stderr(&output).contains("http://169.254.169.254/hetzner/v1/metadata/instance-id"), "{}", stderr(&output));

    // No route at all.
    let net = Net::new();
    let mut command = net.command(root.path());
    let output = command.args(["provider-id", "--provider", "hetzner", "--deadline-ms", "0"]).output().unwrap();
    assert!(stderr(&output).contains("no route"), "{}", stderr(&output));
}

#[test]
fn a_prohibit_route_is_named() {
    let (net, root) = (Net::new(), Root::new());
    net.ip(&["route", "add", "prohibit", "169.254.169.254/32"]);
    let mut command = net.command(root.path());
    let output = command.args(["provider-id", "--provider", "hetzner", "--deadline-ms", "0"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("prohibit route"), "{}", stderr(&output));
    assert!(stderr(&output).contains("systemd.imds.network=locked"), "{}", stderr(&output));
}

#[test]
fn the_address_appears_late() {
    let (net, root) = (Net::new(), Root::new());
    let child = net.command(root.path()).args(["provider-id", "--provider", "hetzner"]).spawn().unwrap();
    net.address(AWS);
    net.serve(AWS, services::plain("/hetzner/v1/metadata/instance-id", None, "5"));
    well(&child.wait_with_output().unwrap());
    assert_eq!(root.env("KUBELET_PROVIDERID").unwrap(), "hcloud://5");
}
