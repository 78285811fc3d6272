// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Boots the installed tree in containers of several systemd versions; see `tests/boots.rs` for what is asserted.

pub mod boot;
pub mod expect;
pub mod mounted;
