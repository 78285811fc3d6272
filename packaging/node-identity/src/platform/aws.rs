// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Amazon EC2: instance metadata service, version 2 first.
//!
//! <https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html>

use crate::attempt::{Attempt, Failure};
use crate::context::Context;
use crate::names;

/// IPv4, and the address for subnets without IPv4.
const BASES: [&str; 2] = ["http://169.254.169.254", "http://[fd00:ec2::254]"];
const VERSION: &str = "2022-09-24";
/// Seconds; the token is used for a handful of requests right away.
const TOKEN_TTL: &str = "60";
const TOKEN_HEADER: &str = "X-aws-ec2-metadata-token";

/// A session: where the service answers, and the token if it gives tokens.
struct Session<'a> {
    context: &'a Context,
    base: &'static str,
    token: Option<String>,
}

impl<'a> Session<'a> {
    fn open(context: &'a Context) -> Attempt<Self> {
        let mut reasons = Vec::new();
        for base in BASES {
            match token(context, base) {
                Ok(token) => return Ok(Self { context, base, token }),
                Err(Failure::Never(reason)) => return Err(Failure::Never(reason)),
                Err(Failure::Again(reason)) => reasons.push(reason),
            }
        }
        Err(Failure::Again(reasons.join("; ")))
    }

    fn get(&self, path: &str) -> Attempt<String> {
        let url = format!("{}/{VERSION}/meta-data/{path}", self.base);
        let token = self.token.as_deref().map(|token| (TOKEN_HEADER, token));
        let reply = self.context.client.get(&url, token.as_slice())?;
        match (reply.status, &self.token) {
            // The token may have been forgotten by a restarted service: the next attempt asks for a new one.
            (401, Some(_)) => Err(Failure::Again(format!("{url}: the token was refused with 401"))),
            (401, None) => Err(Failure::Never(format!(
                "{url}: refused with 401: this instance demands IMDSv2, but gave no token (status 404)"
            ))),
            (403, _) => Err(Failure::Never(format!("{url}: refused with 403: the metadata service is switched off"))),
            _ => reply.text(),
        }
    }
}

/// Asks for an IMDSv2 token. `None`: the service does not know tokens (404), version 1 it is.
fn token(context: &Context, base: &str) -> Attempt<Option<String>> {
    let url = format!("{base}/latest/api/token");
    let reply =
        context.client.put(&url, &[("X-aws-ec2-metadata-token-ttl-seconds", TOKEN_TTL)]).map_err(|failure| {
            // With a hop limit of 1 the token's packet dies at the first router: the request arrives, no answer does.
            let hint = if failure.message().contains("in time") {
                "; if other paths answer, the instance's metadata hop limit (HttpPutResponseHopLimit) is too low"
            } else {
                ""
            };
            Failure::Again(format!("{}{hint}", failure.message()))
        })?;
    match reply.status {
        404 => Ok(None),
        403 => Err(Failure::Never(format!("{url}: refused with 403: the metadata service is switched off"))),
        _ => {
            let token = reply.text()?.trim().to_owned();
            if token.is_empty() || !token.bytes().all(|b| b.is_ascii_graphic()) {
                // Never put into the message: a token is a secret.
                return Err(Failure::Again(format!("{url}: the answer is no token")));
            }
            Ok(Some(token))
        }
    }
}

/// The private DNS name, which the cloud controller looks the instance up by. With several DHCP domains the answer
/// has several names; the first is the one.
pub fn node_name(context: &Context) -> Attempt<String> {
    let answer = match context.afterburn.get("AWS_HOSTNAME") {
        Some(name) => name.to_owned(),
        None => Session::open(context)?.get("local-hostname")?,
    };
    names::node_name(names::first_word(&answer))
}

/// `aws:///ZONE/INSTANCE`: kubernetes/cloud-provider-aws, pkg/providers/v1/instances.go
/// (`KubernetesInstanceID.MapToAWSInstanceID`).
pub fn provider_id(context: &Context) -> Attempt<String> {
    let attributes = (context.afterburn.get("AWS_AVAILABILITY_ZONE"), context.afterburn.get("AWS_INSTANCE_ID"));
    let (zone, instance) = if let (Some(zone), Some(instance)) = attributes {
        (zone.to_owned(), instance.to_owned())
    } else {
        let session = Session::open(context)?;
        (session.get("placement/availability-zone")?, session.get("instance-id")?)
    };
    let zone = names::identifier("the availability zone", &zone)?;
    let instance = names::identifier("the instance id", &instance)?;
    Ok(format!("aws:///{zone}/{instance}"))
}
