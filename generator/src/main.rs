// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The generator that systemd runs at boot and at every reload: see `nodebase-generator(8)`.

// The standard library's start-up code costs more system calls than the rest of a run: `make bench` shows it.
#![no_main]

use std::ffi::{CStr, OsStr, OsString, c_char, c_int};
use std::os::unix::ffi::OsStrExt;

/// The C entry point.
#[allow(unsafe_code)] // the one place: `#![no_main]` needs the symbol, and arguments come as C strings
#[unsafe(no_mangle)]
extern "C" fn main(argc: c_int, argv: *const *const c_char) -> c_int {
    // SAFETY: ignoring a signal has no precondition. A closed standard error must not kill the run.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    let count = usize::try_from(argc).unwrap_or(0);
    let args: Vec<OsString> = (1..count)
        // SAFETY: C guarantees argc valid, NUL-terminated strings in argv.
        .map(|i| unsafe { CStr::from_ptr(*argv.add(i)) })
        .map(|arg| OsStr::from_bytes(arg.to_bytes()).to_owned())
        .collect();
    c_int::from(nodebase_generator::run::run(&args, nodebase_generator::run::process_env))
}
