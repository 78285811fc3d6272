// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Placeholder until the first version lands in this session.
fn main() {}
