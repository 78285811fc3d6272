// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Waiting for the kernel to say that something changed, instead of looking every few seconds.

pub mod hostname;
pub mod node_ip;

use crate::attempt::GaveUp;
use anyhow::{Context as _, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// Blocks until one of the descriptors has something to say.
///
/// # Errors
/// [`GaveUp`] with `missing` when the deadline is over first; poll(2) failed.
fn until(start: Instant, deadline: Duration, fds: &[(BorrowedFd<'_>, PollFlags)], missing: &str) -> Result<()> {
    loop {
        let Some(left) = deadline.checked_sub(start.elapsed()).filter(|left| !left.is_zero()) else {
            return Err(GaveUp::in_time(format!("{missing}; deadline {} s", deadline.as_secs_f32())).into());
        };
        let timeout = Timespec::try_from(left).context("the deadline is out of range")?;
        let mut polled: Vec<_> = fds.iter().map(|(fd, flags)| PollFd::from_borrowed_fd(*fd, *flags)).collect();
        match poll(&mut polled, Some(&timeout)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(error).context("poll(2)"),
        }
    }
}
