// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Metadata services that insist on their protocol, as the real ones do.

use super::{Act, Request, json, ok, status};

pub const AWS: &str = "169.254.169.254";
pub const TOKEN: &str = "AQAEAHSecretTokenOfThisTest==";

/// EC2's service. `tokens`: version 2 exists; `v1`: version 1 is allowed too.
pub fn aws(tokens: bool, v1: bool) -> impl FnMut(&Request) -> Act + Send {
    move |request| {
        let path = request.target.as_str();
        if path == "/latest/api/token" {
            if !tokens {
                return status(404);
            }
            if request.method != "PUT" {
                return status(405);
            }
            let ttl = request.header("X-aws-ec2-metadata-token-ttl-seconds").and_then(|ttl| ttl.parse::<u32>().ok());
            return match ttl {
                Some(1..=21600) if request.header("X-Forwarded-For").is_none() => ok(TOKEN),
                Some(1..=21600) => status(403),
                _ => status(400),
            };
        }
        match request.header("X-aws-ec2-metadata-token") {
            Some(TOKEN) if tokens => {}
            Some(_) => return status(401),
            None if !v1 => return status(401),
            None => {}
        }
        match path.strip_prefix("/2022-09-24/meta-data/") {
            Some("local-hostname") => ok("ip-10-0-12-34.eu-central-1.compute.internal"),
            Some("instance-id") => ok("i-0123456789abcdef0"),
            Some("placement/availability-zone") => ok("eu-central-1b"),
            _ => status(404),
        }
    }
}

/// Compute Engine's service.
pub fn gcp(hostname: &str) -> impl FnMut(&Request) -> Act + Send + use<> {
    let hostname = hostname.to_owned();
    move |request| {
        if request.header("Metadata-Flavor") != Some("Google") || request.header("X-Forwarded-For").is_some() {
            return status(403);
        }
        let body = match request.target.as_str() {
            "/computeMetadata/v1/instance/hostname" => hostname.as_str(),
            "/computeMetadata/v1/instance/name" => "worker-a",
            "/computeMetadata/v1/instance/zone" => "projects/123456789012/zones/europe-west3-c",
            "/computeMetadata/v1/project/project-id" => "my-project",
            _ => return status(404),
        };
        let headers = ["Metadata-Flavor", "Content-Type"].into_iter().zip(["Google", "application/text"]);
        Act::Reply(200, headers.map(|(name, value)| (name, value.to_owned())).collect(), body.to_owned())
    }
}

/// Azure's service, and the one document that Azure Stack Hub has.
pub fn azure() -> impl FnMut(&Request) -> Act + Send {
    |request| {
        let refused = |why: &str| Act::Reply(400, Vec::new(), serde_json::json!({ "error": why }).to_string());
        if request.header("Metadata") != Some("true") {
            return refused("Bad request. Required metadata header not specified");
        }
        let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
        let Some(version) = query.split('&').find_map(|pair| pair.strip_prefix("api-version=")) else {
            return refused("Bad request. api-version is invalid or was not specified in the request.");
        };
        match path {
            "/metadata/instance/compute" if version == "2021-02-01" => json(&serde_json::json!({
                "name": "worker_0",
                "osProfile": { "computerName": "Worker-0" },
                "resourceGroupName": "My-RG",
                "subscriptionId": "AAAAAAAA-0000-1111-2222-333333333333",
                "resourceId": "/subscriptions/AAAAAAAA-0000-1111-2222-333333333333/resourceGroups/My-RG/providers/\
                               Microsoft.Compute/virtualMachines/worker_0",
            })),
            "/Microsoft.Compute/identity" if version == "2019-03-11" => json(&serde_json::json!({
                "vmName": "stackvm-1", "subscriptionId": "bbbb",
            })),
            _ => status(404),
        }
    }
}

pub fn meta_data(name: &str) -> serde_json::Value {
    serde_json::json!({
        "uuid": "d8e02d56-2648-49a3-bf97-6be8f1204f38",
        "name": name,
        "hostname": format!("{name}.novalocal"),
        "availability_zone": "nova",
        "public_keys": { "k": "ssh-ed25519 AAAA" },
    })
}

/// Nova's service.
pub fn openstack(name: &str) -> impl FnMut(&Request) -> Act + Send + use<> {
    let document = meta_data(name);
    move |request| match request.target.as_str() {
        "/openstack/2012-08-10/meta_data.json" => json(&document),
        _ => status(404),
    }
}

/// Alibaba's service in hardened mode (tokens only).
pub fn alibaba() -> impl FnMut(&Request) -> Act + Send {
    |request| {
        if request.target == "/latest/api/token" {
            return match (request.method.as_str(), request.header("X-aliyun-ecs-metadata-token-ttl-seconds")) {
                ("PUT", Some(_)) => ok(TOKEN),
                _ => status(400),
            };
        }
        if request.header("X-aliyun-ecs-metadata-token") != Some(TOKEN) {
            return status(403);
        }
        match request.target.as_str() {
            "/latest/meta-data/region-id" => ok("cn-hangzhou"),
            "/latest/meta-data/instance-id" => ok("i-bp15zckdt37pq72z"),
            _ => status(404),
        }
    }
}

/// The plain services: path, needed header, answer.
pub fn plain(
    path: &'static str,
    header: Option<(&'static str, &'static str)>,
    answer: &'static str,
) -> impl FnMut(&Request) -> Act + Send {
    move |request| {
        if let Some((name, value)) = header
            && request.header(name) != Some(value)
        {
            return status(401);
        }
        if request.target == path { ok(answer) } else { status(404) }
    }
}
