// SPDX-License-Identifier: Apache-2.0 OR MIT
//! References to files that moved.

use std::collections::BTreeMap;

use super::place::moved_directories;

/// A text after its references were looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rewritten {
    /// The text.
    pub text: String,
    /// What was replaced: line from 1, old path, new path.
    pub done: Vec<(usize, String, String)>,
    /// What could not be decided: line from 1, the word.
    pub unsure: Vec<(usize, String)>,
}

/// Is it a character that a path goes on with?
fn goes_on(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '/' | '.' | '@' | '$' | '{' | '*' | '?' | '[' | '%' | '~' | '\\')
}

/// Where a path may follow: all but what would make it the tail of a longer one.
fn begins_after(c: Option<char>) -> bool {
    // `-` stands before paths in Exec lines and EnvironmentFile=; `$` and `}` make it relative to a variable.
    c.is_none_or(|c| !(c.is_alphanumeric() || matches!(c, '_' | '/' | '.' | '}' | '~' | '*' | ']')))
}

/// The path-like word that begins at the start of `text`.
fn word(text: &str) -> &str {
    let end = text.find(|c| !goes_on(c)).unwrap_or(text.len());
    // A full stop that ends a sentence is none of the path's.
    text[..end].trim_end_matches('.')
}

/// Replaces exact references to the paths in `moves`; comments keep theirs, except a script's first line.
pub fn rewrite(text: &str, moves: &BTreeMap<String, String>) -> Rewritten {
    let mut out = Rewritten { text: String::with_capacity(text.len()), ..Rewritten::default() };
    for (i, line) in text.split_inclusive('\n').enumerate() {
        let trimmed = line.trim_start();
        if trimmed.starts_with(['#', ';']) && !(i == 0 && trimmed.starts_with("#!")) {
            out.text.push_str(line);
            continue;
        }
        let mut before = None;
        let mut rest = line;
        while let Some(c) = rest.chars().next() {
            if c == '/' && begins_after(before) {
                let path = word(rest);
                if let Some(new) = moves.get(path) {
                    out.done.push((i + 1, path.to_owned(), new.clone()));
                    out.text.push_str(new);
                } else {
                    let near = |d: &str| path.strip_prefix(d).is_some_and(|r| r.is_empty() || r.starts_with('/'));
                    if moved_directories().any(near) {
                        out.unsure.push((i + 1, path.to_owned()));
                    }
                    out.text.push_str(path);
                }
                if path.is_empty() {
                    out.text.push('/');
                }
                rest = &rest[path.len().max(1)..];
                before = Some('/');
                continue;
            }
            out.text.push(c);
            before = Some(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn moves() -> BTreeMap<String, String> {
        [("/usr/local/bin/a", "/usr/bin/a"), ("/etc/sysctl.d/a.conf", "/usr/lib/sysctl.d/a.conf")]
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
            .into()
    }

    #[test]
    fn exact_references_only() {
        for (text, want) in [
            ("ExecStart=-/usr/local/bin/a x", "ExecStart=-/usr/bin/a x"),
            (
                "ExecStart=/bin/bash -c \"until /usr/local/bin/a; do :; done\"",
                "ExecStart=/bin/bash -c \"until /usr/bin/a; do :; done\"",
            ),
            ("EnvironmentFile=-/etc/sysctl.d/a.conf", "EnvironmentFile=-/usr/lib/sysctl.d/a.conf"),
            (
                "#!/usr/local/bin/a\n# /usr/local/bin/a\nx=$(/usr/local/bin/a)",
                "#!/usr/bin/a\n# /usr/local/bin/a\nx=$(/usr/bin/a)",
            ),
            ("-v /usr/local/bin/a:/usr/local/bin/a:ro", "-v /usr/bin/a:/usr/bin/a:ro"),
            ("Runs /usr/local/bin/a.", "Runs /usr/bin/a."),
            (
                "/usr/local/bin/ab /usr/local/bin/a/b /usr/local/bin/a.sh",
                "/usr/local/bin/ab /usr/local/bin/a/b /usr/local/bin/a.sh",
            ),
            ("/host/usr/local/bin/a ${X}/usr/local/bin/a", "/host/usr/local/bin/a ${X}/usr/local/bin/a"),
        ] {
            assert_eq!(rewrite(text, &moves()).text, want);
        }
    }

    #[test]
    fn unsure_ones_are_named() {
        let r = rewrite("x\n/usr/local/bin/$X /etc/systemd/system:/x /usr/local/bin/other\n", &moves());
        let words: Vec<_> = r.unsure.iter().map(|(l, w)| (*l, w.as_str())).collect();
        assert_eq!(words, [(2, "/usr/local/bin/$X"), (2, "/etc/systemd/system"), (2, "/usr/local/bin/other")]);
    }

    proptest! {
        #[test]
        fn text_without_moved_paths_stays(text in "[ -~\n]{0,200}") {
            prop_assert_eq!(rewrite(&text, &BTreeMap::new()).text, text);
        }

        #[test]
        fn twice_is_once(text in "([ \"'=:;a/.-]|/usr/local/bin/a|/etc/sysctl.d/a.conf|\n){0,30}") {
            let once = rewrite(&text, &moves()).text;
            prop_assert_eq!(&rewrite(&once, &moves()).text, &once);
        }
    }
}
