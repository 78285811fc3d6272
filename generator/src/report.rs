// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What there is to say about the input: warnings that a person should read, problems that keep kubelet off.

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth reading; the marker is written all the same.
    Warning,
    /// Something exists and cannot be used: the marker is not written, kubelet stays off.
    Problem,
}

/// One thing to say, with the file, the key and the remedy in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// How bad it is.
    pub severity: Severity,
    /// One line, without a full stop at the end.
    pub text: String,
}

/// More notes than this tell nobody more; a file of a hundred thousand unknown keys must not cost their square.
const MAX_NOTES: usize = 256;

/// Gathers notes: one bad input must not lose the rest.
#[derive(Clone, Debug, Default)]
pub struct Report {
    notes: Vec<Note>,
    dropped: usize,
    has_problem: bool,
}

impl Report {
    /// Adds a warning.
    pub fn warning(&mut self, text: impl Into<String>) {
        self.push(Severity::Warning, text.into());
    }

    /// Adds a problem.
    pub fn problem(&mut self, text: impl Into<String>) {
        self.push(Severity::Problem, text.into());
    }

    fn push(&mut self, severity: Severity, text: String) {
        // Input may hold anything; a note is one line of printable text wherever it ends up.
        let text = if text.contains(char::is_control) { text.replace(char::is_control, "\u{fffd}") } else { text };
        let note = Note { severity, text };
        self.has_problem |= severity == Severity::Problem;
        // Counted apart: a flood of warnings must not hide what keeps kubelet off.
        if self.notes.iter().filter(|n| n.severity == severity).count() >= MAX_NOTES {
            self.dropped += 1;
        } else if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// All notes, in the order in which they came up.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// The problems only.
    pub fn problems(&self) -> impl Iterator<Item = &Note> {
        self.notes.iter().filter(|n| n.severity == Severity::Problem)
    }

    /// How many there were beyond those that are kept.
    pub fn dropped(&self) -> usize {
        self.dropped
    }

    /// Is there nothing that keeps the marker from being written?
    pub fn is_complete(&self) -> bool {
        !self.has_problem
    }
}

/// `text` for a message: at most 64 characters, control characters replaced.
pub fn shown(text: &str) -> String {
    let mut out: String = text.chars().take(64).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if text.chars().nth(64).is_some() {
        out.push('…');
    }
    out
}

/// The same for bytes that need not be UTF-8.
pub fn shown_bytes(bytes: &[u8]) -> String {
    shown(&String::from_utf8_lossy(bytes.get(..512).unwrap_or(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_one_line_and_said_once() {
        let mut r = Report::default();
        r.warning("a\nb");
        r.warning("a\nb");
        assert_eq!(r.notes().len(), 1);
        assert!(!r.notes()[0].text.contains('\n'));
        assert!(r.is_complete());
        r.problem("x");
        assert!(!r.is_complete());
    }

    #[test]
    fn a_flood_is_bounded_and_no_problem_is_lost_in_it() {
        let mut r = Report::default();
        for i in 0..100_000 {
            r.warning(format!("{i}"));
        }
        assert_eq!((r.notes().len(), r.dropped()), (MAX_NOTES, 100_000 - MAX_NOTES));
        r.problem("x");
        assert!(!r.is_complete());
        assert_eq!(r.problems().count(), 1);
    }

    #[test]
    fn shown_is_bounded() {
        assert_eq!(shown("abc"), "abc");
        assert_eq!(shown(&"x".repeat(100)).chars().count(), 65);
        assert_eq!(shown_bytes(b"a\xff\n"), "a\u{fffd}\u{fffd}");
    }
}
