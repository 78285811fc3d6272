// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command line. The static units are its only regular users; `--root` and the timings serve tests.

use crate::attempt::Patience;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

/// Asks the platform who this machine is, and hands the answer to kubelet or to hostnamed.
///
/// Exit codes: 0 well or nothing to do, 1 no usable answer in time, 2 wrong usage or the answer could not be stored, 3 an
/// answer that will not change: access refused, or a name that no node can have.
#[derive(Debug, Parser)]
#[command(name = "node-identity", version)]
pub struct Arguments {
    /// Look everything up below this directory instead of /
    #[arg(long, global = true, env = "NODEBASE_ROOT", default_value = "/")]
    pub root: PathBuf,
    /// The facet that enabled the calling unit, for the journal's FACET= field
    #[arg(long, global = true)]
    pub facet: Option<String>,
    /// Timings
    #[command(flatten)]
    pub timing: Timing,
    /// What to find out
    #[command(subcommand)]
    pub verb: Verb,
}

/// How long to go on asking; milliseconds.
#[derive(Debug, Args)]
pub struct Timing {
    /// Give up after this long
    #[arg(long, global = true, env = "NODEBASE_DEADLINE_MS", default_value_t = 300_000)]
    pub deadline_ms: u64,
    /// Pause after the first attempt; doubles with every further one
    #[arg(long, global = true, env = "NODEBASE_PAUSE_MS", default_value_t = 500)]
    pub pause_ms: u64,
    /// Longest pause between two attempts
    #[arg(long, global = true, env = "NODEBASE_LONGEST_PAUSE_MS", default_value_t = 15_000)]
    pub longest_pause_ms: u64,
    /// Time for one request, from connecting to the last byte
    #[arg(long, global = true, env = "NODEBASE_REQUEST_MS", default_value_t = 10_000)]
    pub request_ms: u64,
}

impl Timing {
    /// The same as durations.
    pub fn patience(&self) -> Patience {
        Patience {
            deadline: Duration::from_millis(self.deadline_ms),
            first_pause: Duration::from_millis(self.pause_ms),
            longest_pause: Duration::from_millis(self.longest_pause_ms),
            request: Duration::from_millis(self.request_ms),
        }
    }
}

/// A platform, as named by `ignition.platform.id`.
#[derive(Debug, Args)]
pub struct Provider {
    /// The platform id whose metadata is asked
    #[arg(long, visible_alias = "platform", env = "NODEBASE_PLATFORM")]
    pub provider: String,
}

/// How the host name is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SetWith {
    /// systemd-hostnamed, which tells everybody who listens
    Hostnamed,
    /// sethostname(2); needs CAP_SYS_ADMIN
    Kernel,
}

/// One verb for each unit.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Write KUBELET_NODE_NAME to node.env
    NodeName {
        /// Whom to ask
        #[command(flatten)]
        provider: Provider,
        /// Keep the name over later boots: it must not follow the metadata once the node has joined
        #[arg(long)]
        keep: bool,
    },
    /// Write KUBELET_PROVIDERID to node.env
    ProviderId {
        /// Whom to ask
        #[command(flatten)]
        provider: Provider,
    },
    /// Set the transient host name, unless /etc/hostname has one
    Hostname {
        /// Whom to ask
        #[command(flatten)]
        provider: Provider,
        /// Keep the name over later boots
        #[arg(long)]
        keep: bool,
        /// An absent name is well: the name comes from DHCP then
        #[arg(long)]
        optional: bool,
        /// How to set it
        #[arg(long, value_enum, default_value = "hostnamed")]
        set_with: SetWith,
        /// Also tell NetworkManager, before it starts, to leave the host name alone
        #[arg(long)]
        hold: bool,
    },
    /// Wait until the host name is a real one
    WaitHostname,
    /// Wait until the chosen node IPs can be bound
    WaitNodeIp {
        /// Which address families matter: IPv4, IPv6, DualStack, DualStackIPv6Primary
        #[arg(long, env = "NODEBASE_IP_FAMILIES")]
        ip_families: Option<String>,
    },
    /// Choose chronyd's configuration
    TimeSource {
        /// aws, hyperv, gcp or kvm
        #[arg(long, env = "NODEBASE_TIME_SOURCE")]
        source: String,
    },
    /// List what is known about every provider, as JSON
    Providers,
}
