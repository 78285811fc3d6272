// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does nothing, linked as the generator is: the limit of what a generator in Rust can reach.
#![no_main]

use std::ffi::{c_char, c_int};

/// The C entry point.
#[unsafe(no_mangle)]
pub extern "C" fn main(_: c_int, _: *const *const c_char) -> c_int {
    0
}
