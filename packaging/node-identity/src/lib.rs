// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who is this machine? The answers that kubelet, the cluster and `hostnamectl` need, from the platform it runs on.
//!
//! The binary `node-identity` is run by static units, one verb each; see [`cli`]. The library takes everything as an
//! argument: below `main` no path is absolute, everything is looked up under a root directory, so that tests and
//! image builds can use a miniature tree.
//!
//! Order of belief, everywhere: what an administrator wrote in /etc, what was answered on an earlier boot (where the
//! name must not change), afterburn's `/run/metadata/afterburn`, the platform itself.

pub mod afterburn;
pub mod attempt;
pub mod cli;
pub mod configdrive;
pub mod context;
pub mod envfile;
pub mod hostname;
pub mod http;
pub mod iso9660;
pub mod journal;
pub mod names;
pub mod platform;
pub mod timesource;
pub mod verbs;
pub mod wait;
