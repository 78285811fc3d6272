// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `log` to the kernel log and standard error.
//!
//! Not to the journal: journald is started by PID 1, which waits for generators.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};

use log::{Level, LevelFilter, Log, Metadata, Record};
use once_cell::sync::OnceCell;
use rustix::fs::{Mode, OFlags};

/// No more lines than this in one run, whatever the input.
pub const MAX_LINES: usize = 20;
/// The kernel refuses a record that does not fit its line buffer.
const MAX_BYTES: usize = 900;
/// syslog's facility "daemon", as systemd's own generators use.
const DAEMON: u32 = 3 << 3;

struct Kmsg {
    kmsg: Option<OwnedFd>,
    lines: AtomicUsize,
}

static LOGGER: OnceCell<Kmsg> = OnceCell::new();

/// Starts logging to the kernel log at `path`; that it cannot be opened is no error. Once a process.
pub fn init(path: &str) {
    let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::APPEND;
    let logger = LOGGER
        .get_or_init(|| Kmsg { kmsg: rustix::fs::open(path, flags, Mode::empty()).ok(), lines: AtomicUsize::new(0) });
    if log::set_logger(logger).is_ok() {
        log::set_max_level(LevelFilter::Info);
    }
}

impl Log for Kmsg {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= Level::Info
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) || self.lines.fetch_add(1, Ordering::Relaxed) >= MAX_LINES {
            return;
        }
        let line = line(record.level(), &record.args().to_string());
        if let Some(kmsg) = &self.kmsg {
            let _ = rustix::io::write(kmsg, line.as_bytes());
        }
        let plain = line.split_once('>').map_or(line.as_str(), |(_, rest)| rest);
        let _ = rustix::io::write(rustix::stdio::stderr(), plain.as_bytes());
    }

    fn flush(&self) {}
}

/// One record: `<30>nodebase-generator: text\n`
fn line(level: Level, text: &str) -> String {
    let priority = match level {
        Level::Error => 3,
        Level::Warn => 4,
        _ => 6,
    };
    let mut line = format!("<{}>nodebase-generator: {text}", DAEMON | priority);
    if line.len() > MAX_BYTES {
        let mut end = MAX_BYTES;
        while !line.is_char_boundary(end) {
            end -= 1;
        }
        line.truncate(end);
        line.push('…');
    }
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_bounded() {
        assert_eq!(line(Level::Warn, "x"), "<28>nodebase-generator: x\n");
        let long = line(Level::Info, &"ä".repeat(2000));
        assert!(long.len() < 910 && long.ends_with("…\n"));
    }
}
