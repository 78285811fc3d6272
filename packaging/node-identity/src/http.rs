// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A client for metadata services: plain HTTP to fixed addresses.
//!
//! No DNS, no proxy, no redirects, no cookies, one connection per request; small bodies only. A metadata service that
//! behaves otherwise is something else that answers at its address.

use crate::attempt::{Attempt, Failure};
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::time::Duration;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};
use ureq::{Agent, Body, http};

/// More than any metadata document (Azure's compute document is the largest, some KiB).
const BODY_MAX: u64 = 256 * 1024;

/// Headers of a request.
pub type Headers<'a> = &'a [(&'a str, &'a str)];

/// A reply whose body arrived whole.
#[derive(Debug)]
pub struct Reply {
    /// The status code.
    pub status: u16,
    /// The body, as text.
    pub body: String,
    headers: http::HeaderMap,
    url: String,
}

impl Reply {
    /// A header's value, when it is there and is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The body of a 200 reply. `json` says which kind of document is expected: a proxy's or a portal's error page
    /// comes with 200 and text/html.
    ///
    /// # Errors
    /// By status: [`Failure::Never`] for 400, 401, 403 and 405, which do not change by asking again;
    /// [`Failure::Again`] for every other.
    pub fn text(self) -> Attempt<String> {
        let url = &self.url;
        match self.status {
            200 => {}
            300..=399 => {
                let to = self.header("location").unwrap_or("nowhere");
                return Err(Failure::Again(format!("{url}: redirect to {to:?} not followed")));
            }
            status @ (400 | 401 | 403 | 405) => return Err(Failure::Never(format!("{url}: refused with {status}"))),
            status => return Err(Failure::Again(format!("{url}: status {status}"))),
        }
        let kind = self.header("content-type").unwrap_or_default().to_ascii_lowercase();
        if kind.starts_with("text/html") || self.body.trim_start().starts_with("<!") {
            return Err(Failure::Again(format!("{url}: answered with a web page, not with metadata")));
        }
        Ok(self.body)
    }

    /// The JSON document of a 200 reply. The content type is not looked at: half of the services say text/plain.
    ///
    /// # Errors
    /// As [`Self::text`], and [`Failure::Again`] for what is no JSON.
    pub fn json(self) -> Attempt<serde_json::Value> {
        let url = self.url.clone();
        serde_json::from_str(&self.text()?).map_err(|error| Failure::Again(format!("{url}: no JSON: {error}")))
    }
}

/// Resolves literal addresses only, and adds the interface to link-local ones.
#[derive(Debug)]
struct Literal {
    scope: u32,
}

impl Resolver for Literal {
    fn resolve(&self, uri: &Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let address: IpAddr = host.parse().map_err(|_| ureq::Error::HostNotFound)?;
        let port = uri.port_u16().unwrap_or(80);
        let mut found = self.empty();
        found.push(match address {
            IpAddr::V6(v6) if v6.is_unicast_link_local() => SocketAddrV6::new(v6, port, 0, self.scope).into(),
            other => SocketAddr::new(other, port),
        });
        Ok(found)
    }
}

/// Asks metadata services.
#[derive(Debug)]
pub struct Client {
    agent: Agent,
    request: Duration,
}

impl Client {
    /// `request` bounds one request, from connecting to the last byte of the body.
    pub fn new(request: Duration) -> Self {
        Self::on_interface(request, 0)
    }

    /// The same limits, on one interface: link-local addresses mean nothing without.
    #[must_use]
    pub fn scoped(&self, interface: u32) -> Self {
        Self::on_interface(self.request, interface)
    }

    fn on_interface(request: Duration, scope: u32) -> Self {
        let config = Config::builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .max_idle_connections(0)
            .user_agent(concat!("nodebase-node-identity/", env!("CARGO_PKG_VERSION")))
            .timeout_global(Some(request))
            .build();
        Self { agent: Agent::with_parts(config, DefaultConnector::default(), Literal { scope }), request }
    }

    /// GET; the reply may have any status.
    ///
    /// # Errors
    /// [`Failure::Again`] when no whole reply came.
    pub fn get(&self, url: &str, headers: Headers<'_>) -> Attempt<Reply> {
        let request = headers.iter().fold(self.agent.get(url), |request, (name, value)| request.header(*name, *value));
        noted("GET", url, receive(url, request.call()))
    }

    /// PUT with an empty body, for tokens; the reply may have any status.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn put(&self, url: &str, headers: Headers<'_>) -> Attempt<Reply> {
        let request = headers.iter().fold(self.agent.put(url), |request, (name, value)| request.header(*name, *value));
        noted("PUT", url, receive(url, request.send_empty()))
    }
}

/// One line for each request, with the address as a field of its own: `journalctl URL=…` finds it.
fn noted(method: &str, url: &str, reply: Attempt<Reply>) -> Attempt<Reply> {
    match &reply {
        Ok(reply) => log::info!(URL = url; "{method} {url}: status {}", reply.status),
        Err(_) => log::info!(URL = url; "{method} {url}: no whole answer"),
    }
    reply
}

fn receive(url: &str, response: Result<http::Response<Body>, ureq::Error>) -> Attempt<Reply> {
    let response = response.map_err(|error| explain(url, &error))?;
    let (parts, mut body) = response.into_parts();
    let body = body.with_config().limit(BODY_MAX).read_to_string().map_err(|error| explain(url, &error))?;
    Ok(Reply { status: parts.status.as_u16(), body, headers: parts.headers, url: url.to_owned() })
}

/// Says what went wrong in words that lead to the cause.
fn explain(url: &str, error: &ureq::Error) -> Failure {
    use rustix::io::Errno;
    let errno = match error {
        ureq::Error::Io(io) => io.raw_os_error().map(Errno::from_raw_os_error),
        _ => None,
    };
    let reason = match (error, errno) {
        // A prohibit route answers with EACCES (IPv4) or EPERM; systemd-imdsd's network=locked makes one. A unit's
        // IPAddressDeny= gives EPERM as well.
        (_, Some(Errno::ACCESS | Errno::PERM)) => "forbidden on this machine: a prohibit route (`ip route get`, is \
            systemd.imds.network=locked set?) or a packet filter keeps it away"
            .to_owned(),
        (_, Some(Errno::NETUNREACH | Errno::HOSTUNREACH)) => format!("no route: {error}"),
        (_, Some(Errno::CONNREFUSED)) => "nobody listens there (connection refused)".to_owned(),
        (_, Some(Errno::CONNRESET | Errno::PIPE)) => "connection reset".to_owned(),
        (ureq::Error::Timeout(phase), _) => format!("no whole answer in time ({phase})"),
        (ureq::Error::BodyExceedsLimit(limit), _) => format!("the answer is larger than {limit} bytes"),
        _ => error.to_string(),
    };
    Failure::Again(format!("{url}: {reason}"))
}
