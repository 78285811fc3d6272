// SPDX-License-Identifier: Apache-2.0 OR MIT
//! systemd units as text: assignments with their lines ([`parse`]), words ([`words`]), and a unit with its drop-ins as
//! systemd puts them together ([`effective`]), each line with its origin.

pub mod effective;
pub mod parse;
pub mod words;
