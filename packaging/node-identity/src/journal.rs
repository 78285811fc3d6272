// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where messages go: the journal with fields PLATFORM=, FACET= and URL=, or standard error; and the status line
//! that `systemctl status` shows.

use crate::cli::{Arguments, Verb};
use libsystemd::daemon::{NotifyState, notify};
use log::{LevelFilter, Log, Metadata, Record};
use systemd_journal_logger::{JournalLog, connected_to_journal};

/// For people and tests: level and message, one line each.
struct StandardError;

impl Log for StandardError {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn log(&self, record: &Record<'_>) {
        eprintln!("{}: {}", record.level().as_str().to_lowercase(), record.args());
    }
    fn flush(&self) {}
}

/// Installs the logger. Quiet by default: what was found is info, what was asked is debug (`NODEBASE_LOG=debug`).
pub fn install(arguments: &Arguments) {
    let level = std::env::var("NODEBASE_LOG").ok().and_then(|level| level.parse().ok()).unwrap_or(LevelFilter::Info);
    // Dependencies log request headers at debug and trace, and a header can be a token.
    log::set_max_level(level.min(LevelFilter::Debug));
    let platform = match &arguments.verb {
        Verb::NodeName { provider, .. } | Verb::ProviderId { provider } | Verb::Hostname { provider, .. } => {
            Some(provider.provider.as_str())
        }
        _ => None,
    };
    let facet = arguments.facet.clone().or_else(|| platform.map(|id| format!("platform={id}")));
    if connected_to_journal() {
        let fields = platform.map(|id| ("PLATFORM", id)).into_iter();
        let fields = fields.chain(facet.as_deref().map(|facet| ("FACET", facet)));
        let logger = JournalLog::new().map(|logger| logger.with_extra_fields(fields));
        if logger.is_ok_and(|logger| Filtered(logger).install()) {
            return;
        }
    }
    // Only fails when a logger is there already.
    let _ = log::set_logger(&FILTERED_STDERR);
}

static FILTERED_STDERR: Filtered<StandardError> = Filtered(StandardError);

/// Passes this crate's own records only.
struct Filtered<L>(L);

impl<L: Log + 'static> Filtered<L> {
    fn install(self) -> bool {
        log::set_boxed_logger(Box::new(self)).is_ok()
    }
}

impl<L: Log> Log for Filtered<L> {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("node_identity") && self.0.enabled(metadata)
    }
    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            self.0.log(record);
        }
    }
    fn flush(&self) {
        self.0.flush();
    }
}

/// Tells systemd what is being waited for. Nothing happens outside of a service.
pub fn status(text: &str) {
    // A status line is a courtesy: failing to send it must not fail the job.
    if let Err(error) = notify(false, &[NotifyState::Status(text.replace('\n', " "))]) {
        log::debug!("cannot send the status to systemd: {error}");
    }
}
