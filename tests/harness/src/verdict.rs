// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads reasons for a failure out of console and journal, so that nobody has to scroll for them.

use regex::Regex;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// What a pattern means for the test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Weight {
    /// The machine has failed, whatever the test says, unless the test is exempt from kola's base checks.
    Fatal,
    /// Worth showing beside another failure.
    Hint,
}

/// A name for people, how bad it is, what shows it.
static PATTERNS: LazyLock<Vec<(&str, Weight, Regex)>> = LazyLock::new(|| {
    [
        ("kernel panic", Weight::Fatal, r"Kernel panic - not syncing"),
        ("kernel oops", Weight::Fatal, r"(kernel BUG at|Oops: |BUG: (unable|kernel NULL)|general protection fault)"),
        (
            "emergency mode",
            Weight::Fatal,
            r"(Reached target .*[Ee]mergency|You are in emergency mode|Started .*emergency\.service)",
        ),
        (
            "dracut gave up",
            Weight::Fatal,
            r"(Warning: Boot has failed|dracut-initqueue.*timeout - starting timeout scripts)",
        ),
        ("Ignition failed", Weight::Fatal, r"(CRITICAL +: |Ignition failed: )"),
        (
            "generator failed",
            Weight::Fatal,
            r"(system-generators/\S+ (failed with|terminated by|died)|[Gg]enerators? (failed with|timed out))",
        ),
        ("SELinux denial", Weight::Hint, r"avc: +denied"),
        ("unit failed", Weight::Hint, r"systemd\[1\]: (Failed to start|\S+: Failed with result)"),
        ("assertion of a unit failed", Weight::Hint, r"(Starting requested but asserts failed|Assertion failed for )"),
        ("ordering cycle", Weight::Hint, r"[Oo]rdering cycle"),
        ("dependency failed", Weight::Hint, r"systemd\[1\]: Dependency failed for"),
    ]
    .into_iter()
    // The patterns are constants, and a test compiles them all.
    .filter_map(|(name, weight, pattern)| Regex::new(pattern).ok().map(|regex| (name, weight, regex)))
    .collect()
});

/// Colours, cursor movements, and carriage returns of a console.
static CONTROL: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new("\u{1b}\\[[0-9;:?]*[A-Za-z]|\u{1b}\\][^\u{7}\u{1b}]*(\u{7}|\u{1b}\\\\)|\r").ok());

/// Reasons found in the logs of one boot.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Reasons {
    /// These fail a test by themselves.
    pub fatal: Vec<String>,
    /// These explain a failure.
    pub hints: Vec<String>,
}

/// Text for people: no terminal control sequences.
pub fn plain(console: &[u8]) -> String {
    let text = String::from_utf8_lossy(console);
    match &*CONTROL {
        Some(regex) => regex.replace_all(&text, "").into_owned(),
        None => text.into_owned(),
    }
}

/// Looks through the logs; each line is told once, at most five of a kind.
pub fn reasons(logs: &[&str]) -> Reasons {
    let mut reasons = Reasons::default();
    for (name, weight, regex) in &*PATTERNS {
        let mut seen = BTreeSet::new();
        for line in logs.iter().flat_map(|log| log.lines()).filter(|line| regex.is_match(line)) {
            let line = line.trim();
            // The same message stands in console and journal behind different time stamps.
            let message = line.find("]: ").map_or(line, |at| &line[at + 3..]);
            if seen.len() < 5 && seen.insert(message.to_owned()) {
                let list = if *weight == Weight::Fatal { &mut reasons.fatal } else { &mut reasons.hints };
                list.push(format!("{name}: {line}"));
            }
        }
    }
    reasons
}

/// Whether the console shows that this boot will not get any further.
pub fn is_hopeless(console: &str) -> bool {
    PATTERNS.iter().take(3).any(|(_, _, regex)| regex.is_match(console))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_compiles_and_finds_its_line() {
        let lines = [
            "[ 2.3] Kernel panic - not syncing: VFS: Unable to mount root fs",
            "BUG: unable to handle page fault",
            "[  OK  ] Reached target emergency.target - Emergency Mode.",
            "Warning: Boot has failed. To debug this issue add",
            "[15.6] ignition[333]: CRITICAL : Ignition failed: failed to create files",
            "systemd[1]: /usr/lib/systemd/system-generators/nodebase-generator terminated by signal ABRT.",
            "audit: type=1400 avc:  denied  { read } for pid=1",
            "systemd[1]: Failed to start x.service",
            "systemd[1]: kubelet.service: Starting requested but asserts failed.",
            "systemd[1]: a.service: Found ordering cycle on b.service",
            "systemd[1]: Dependency failed for initrd.target",
        ];
        assert_eq!(PATTERNS.len(), lines.len());
        for (line, (name, weight, _)) in lines.iter().zip(&*PATTERNS) {
            let reasons = reasons(&[line]);
            let found = if *weight == Weight::Fatal { &reasons.fatal } else { &reasons.hints };
            assert!(found.iter().any(|reason| reason.starts_with(name)), "{name}: {line}: {reasons:?}");
        }
        assert_eq!(reasons(&["[ OK ] Started kubelet.service - Kubernetes Kubelet."]), Reasons::default());
    }

    #[test]
    fn the_same_message_of_console_and_journal_counts_once() {
        let found =
            reasons(&["[1.0] systemd[1]: Failed to start a.service", "[1.1] systemd[1]: Failed to start a.service"]);
        assert_eq!(found.hints.len(), 1, "{found:?}");
    }

    #[test]
    fn colours_are_removed() {
        assert_eq!(plain(b"[\x1b[0;1;31mFAILED\x1b[0m] Failed\r\n\xff"), "[FAILED] Failed\n\u{fffd}");
    }

    #[test]
    fn hopeless_is_panic_or_emergency() {
        assert!(is_hopeless("x\n[  OK  ] Reached target emergency.target - Emergency Mode.\n"));
        assert!(!is_hopeless("systemd[1]: Failed to start x.service\n"));
    }
}
