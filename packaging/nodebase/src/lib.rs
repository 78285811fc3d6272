// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The `nodebase` command as a library: one module for each verb, and what they share.

pub mod bake;
pub mod cli;
pub mod config;
pub mod explain;
pub mod factor;
pub mod output;
pub mod tree;
pub mod unit;
