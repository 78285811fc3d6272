// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a machine is, and which drop-ins follow from it.
//!
//! A node image ships every unit once, static, in `/usr`. At boot `nodebase-generator` reads the kernel command line
//! ([`cmdline`]), the platform table ([`platform`]) and the node's facts ([`node`]), works out the machine's facets
//! ([`facet`]), finds the layers that match them ([`layer`]) and links their drop-ins into the generator directory
//! that systemd gave it ([`emit`]). [`plan`] is all of that except the writing, so that `nodebase explain` says what
//! the generator would do by asking the very same code.
//!
//! Nothing here panics on any input, runs a process, talks to the network or the journal, or keeps state.

pub mod cmdline;
pub mod emit;
pub mod environment;
pub mod facet;
pub mod json;
pub mod kmsg;
pub mod layer;
pub mod node;
pub mod plan;
pub mod platform;
pub mod report;
pub mod root;
pub mod run;

/// Where things are in the image, as the booted system sees them.
pub mod paths {
    /// The directory of everything that is ours in the image.
    pub const NODEBASE: &str = "/usr/lib/nodebase";
    /// The table of platform ids and cluster platforms.
    pub const TABLE: &str = "/usr/lib/nodebase/platforms.json";
    /// The layers.
    pub const LAYERS: &str = "/usr/lib/nodebase/layers";
    /// Which unit is given which facts.
    pub const ENVIRONMENT: &str = "/usr/lib/nodebase/environment.json";
    /// More of the same, by users of the image.
    pub const ENVIRONMENT_DIR: &str = "/usr/lib/nodebase/environment.d";
    /// Marks an image whose `/etc` and plain credentials do not count.
    pub const SEALED: &str = "/usr/lib/nodebase/sealed";
    /// Facts baked into a derived image.
    pub const NODE_USR: &str = "/usr/lib/nodebase/node.json";
    /// Facts of this machine, by Ignition or an administrator.
    pub const NODE_ETC: &str = "/etc/nodebase/node.json";
    /// Where systemd puts system credentials that came in plain text (`systemd.exec(5)`, "CREDENTIALS").
    pub const CREDENTIALS: &str = "/run/credentials/@system";
    /// Where it puts the ones that came encrypted.
    pub const ENCRYPTED_CREDENTIALS: &str = "/run/credentials/@encrypted";
    /// The name of our credential.
    pub const CREDENTIAL: &str = "nodebase.node";
    /// Static units.
    pub const UNITS: &str = "/usr/lib/systemd/system";
    /// Units of the administrator.
    pub const UNITS_ETC: &str = "/etc/systemd/system";
    /// The marker, in the normal generator directory.
    pub const MARKER: &str = "nodebase.complete";
    /// Our own directory in the normal generator directory.
    pub const PRIVATE: &str = "nodebase";
    /// In it: what keeps the marker from being written, for the reporter unit.
    pub const PROBLEMS: &str = "problems";
    /// In it: proxy settings, readable by root only.
    pub const PROXY_ENV: &str = "proxy.env";
    /// The drop-in that carries facts, one per unit that `environment.json` names.
    pub const FACTS_DROPIN: &str = "15-nodebase.conf";
}
