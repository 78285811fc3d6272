// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel command line, read as systemd's own generators read it.
//!
//! Source: `src/basic/proc-cmdline.c` and `extract_first_word()` with the flags UNQUOTE, RELAX and RETAIN_ESCAPE:
//! space, tab, newline and carriage return separate; `'` and `"` are removed wherever they stand and may stay open
//! until the end; a backslash is an ordinary character; in keys `-` and `_` are the same; the last assignment wins.

/// One word of the command line, quotes removed.
pub type Word = Vec<u8>;

/// A command line in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cmdline {
    words: Vec<Word>,
}

impl Cmdline {
    /// Splits the text of a kernel command line.
    pub fn from_text(text: &[u8]) -> Self {
        Self { words: split(text) }
    }

    /// Takes the arguments of a container's PID 1 as they stand in `/proc/1/cmdline`: one per NUL-terminated string,
    /// the program's own name left out, no quotes to remove.
    pub fn from_argv(argv: &[u8]) -> Self {
        let argv = argv.strip_suffix(b"\0").unwrap_or(argv);
        Self { words: argv.split(|b| *b == 0).skip(1).filter(|w| !w.is_empty()).map(<[u8]>::to_vec).collect() }
    }

    /// The words.
    pub fn words(&self) -> &[Word] {
        &self.words
    }

    /// Every `key=value` in order, as key and value.
    pub fn assignments(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.words.iter().filter_map(|w| {
            let at = w.iter().position(|b| *b == b'=')?;
            Some((w.get(..at)?, w.get(at + 1..)?))
        })
    }

    /// Every value given to `key`, in order. A word without `=` gives none.
    pub fn values<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.assignments().filter(move |(k, _)| same_key(k, key.as_bytes())).map(|(_, v)| v)
    }
}

/// Are the two keys the same? `-` and `_` are.
pub fn same_key(a: &[u8], b: &[u8]) -> bool {
    let fold = |c: &u8| if *c == b'-' { b'_' } else { *c };
    a.len() == b.len() && a.iter().map(fold).eq(b.iter().map(fold))
}

/// Splits `text` into words.
pub fn split(text: &[u8]) -> Vec<Word> {
    let mut words = Vec::new();
    // `Some` from the first byte of a word on, so that `""` is an (empty) word.
    let mut word: Option<Word> = None;
    let mut quote: Option<u8> = None;
    for &c in text {
        match quote {
            Some(q) if c == q => quote = None,
            None if matches!(c, b' ' | b'\t' | b'\n' | b'\r') => words.extend(word.take()),
            None if matches!(c, b'\'' | b'"') => {
                word.get_or_insert_default();
                quote = Some(c);
            }
            Some(_) | None => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last<'a>(c: &'a Cmdline, key: &'a str) -> Option<&'a [u8]> {
        c.values(key).last()
    }

    #[test]
    fn splits_as_systemd_does() {
        let cases: &[(&str, &[&str])] = &[
            ("", &[]),
            ("  \t\n ", &[]),
            ("a b", &["a", "b"]),
            ("a\tb\nc\rd\n", &["a", "b", "c", "d"]),
            ("k=\"a b\" c", &["k=a b", "c"]),
            ("\"k=a b\" c", &["k=a b", "c"]),
            ("k='a \"b' c", &["k=a \"b", "c"]),
            ("k=a'b c'd", &["k=ab cd"]),
            ("k=\"open to the end", &["k=open to the end"]),
            ("k='", &["k="]),
            ("'' \"\" x", &["", "", "x"]),
            ("k=a\\ b", &["k=a\\", "b"]),
            ("k=\"a\\\"b c", &["k=a\\b", "c"]),
            ("-- x=1", &["--", "x=1"]),
            ("a\u{b}b", &["a\u{b}b"]),
        ];
        for (text, want) in cases {
            let have = split(text.as_bytes());
            let want: Vec<Vec<u8>> = want.iter().map(|w| w.as_bytes().to_vec()).collect();
            assert_eq!(have, want, "{text:?}");
        }
    }

    #[test]
    fn last_assignment_wins_and_bare_words_are_none() {
        let c = Cmdline::from_text(b"p.i=aws p.i=gcp p.i quiet");
        assert_eq!(last(&c, "p.i"), Some(&b"gcp"[..]));
        assert_eq!(last(&c, "quiet"), None);
        assert_eq!(last(&Cmdline::from_text(b"p.i=aws p.i="), "p.i"), Some(&b""[..]));
    }

    #[test]
    fn keys_fold_dash_and_underscore_but_not_case() {
        let c = Cmdline::from_text(b"a-b_c=1 A=2 rd.p=3");
        assert_eq!(last(&c, "a_b-c"), Some(&b"1"[..]));
        assert_eq!(last(&c, "a"), None);
        assert_eq!(last(&c, "p"), None);
    }

    #[test]
    fn argv_is_taken_as_it_is() {
        let c = Cmdline::from_argv(b"/sbin/init\0systemd.unit=x y\0k=\"v\"\0\0");
        assert_eq!(c.words(), [b"systemd.unit=x y".to_vec(), b"k=\"v\"".to_vec()]);
        assert_eq!(Cmdline::from_argv(b"").words().len(), 0);
        assert_eq!(Cmdline::from_argv(b"/sbin/init").words().len(), 0);
    }

    #[test]
    fn any_bytes_are_fine() {
        let c = Cmdline::from_text(b"\xff=\xfe k=\0");
        assert_eq!(last(&c, "k"), Some(&b"\0"[..]));
        assert_eq!(c.words().len(), 2);
    }
}
