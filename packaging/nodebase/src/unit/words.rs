// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Words of `Exec…=` and `Environment=` lines, and what becomes of variables in them (`systemd.service(5)`,
//! "COMMAND LINES"; `systemd.syntax(7)`, "QUOTING").

use std::collections::BTreeMap;

/// Splits a line into words: quotes removed, C escapes replaced.
pub fn split(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (_, '\\') => match unescape(&mut chars) {
                Some(c) => word.get_or_insert_default().push(c),
                None => word.get_or_insert_default().push('\\'),
            },
            (Some(q), c) if c == q => quote = None,
            (None, c) if c.is_ascii_whitespace() => words.extend(word.take()),
            // The manual says "only at the beginning of a word"; extract_first_word() does it anywhere.
            (None, '"' | '\'') => {
                word.get_or_insert_default();
                quote = Some(c);
            }
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

fn unescape(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<char> {
    let c = *chars.peek()?;
    let simple = match c {
        'a' => '\x07',
        'b' => '\x08',
        'f' => '\x0c',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\x0b',
        's' => ' ',
        '\\' | '"' | '\'' => c,
        'x' => {
            chars.next();
            let hex: String = chars.by_ref().take(2).collect();
            return u8::from_str_radix(&hex, 16).ok().map(char::from);
        }
        _ => return None,
    };
    chars.next();
    Some(simple)
}

/// `Environment=` values as variables; `%%` is the one specifier that needs no running system.
pub fn environment<'a>(values: impl IntoIterator<Item = &'a str>) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    for word in values.into_iter().flat_map(split) {
        if let Some((name, value)) = word.split_once('=') {
            out.insert(name.to_owned(), value.replace("%%", "%"));
        }
    }
    out
}

/// A command line with the known variables replaced as systemd does: `$X` alone is split and may vanish, `${X}` is
/// replaced inside a word, values are not looked at again. Variables that are not known stay as they are: files that
/// only the running machine has may set them.
pub fn expand(words: &[String], variables: &BTreeMap<String, String>, unknown: &[&str]) -> Vec<String> {
    let mut out = Vec::new();
    for word in words {
        let bare = word.strip_prefix('$').filter(|n| is_name(n));
        if let Some(name) = bare {
            match variables.get(name) {
                Some(value) => out.extend(split(value)),
                None if unknown.contains(&name) => out.push(word.clone()),
                None => {}
            }
            continue;
        }
        let mut text = String::new();
        let mut rest = word.as_str();
        while let Some(at) = rest.find('$') {
            text.push_str(&rest[..at]);
            rest = &rest[at..];
            if let Some(after) = rest.strip_prefix("$$") {
                text.push('$');
                rest = after;
                continue;
            }
            let braced = rest.strip_prefix("${").and_then(|r| r.split_once('}')).filter(|(n, _)| is_name(n));
            let Some((name, after)) = braced else {
                text.push('$');
                rest = &rest[1..];
                continue;
            };
            match variables.get(name) {
                Some(value) => text.push_str(value),
                None if unknown.contains(&name) => text.extend(["${", name, "}"]),
                None => {}
            }
            rest = after;
        }
        text.push_str(rest);
        out.push(text);
    }
    out
}

fn is_name(s: &str) -> bool {
    !s.is_empty()
        && s.bytes().enumerate().all(|(i, b)| b == b'_' || b.is_ascii_alphabetic() || (i > 0 && b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_quotes() {
        for (text, want) in [
            ("a b  c", &["a", "b", "c"][..]),
            (r#""a b" 'c "d' e"f"#, &["a b", "c \"d", "ef"]),
            (r#""A=x\"y\\z" B"#, &["A=x\"y\\z", "B"]),
            (r"a\x41\tb \z", &["aA\tb", "\\z"]),
            ("\"\" x", &["", "x"]),
        ] {
            assert_eq!(split(text), want, "{text}");
        }
    }

    #[test]
    fn variables() {
        let v = environment([r#""A=x y""#, "B=100%% C=$A", ""]);
        assert_eq!(v["A"], "x y");
        assert_eq!(v["B"], "100%");
        let words: Vec<String> =
            ["$A", "${A}", "p${B}q", "$NONE", "${NONE}", "$$A", "${X:-y}", "$LATE", "a$A"].map(String::from).into();
        assert_eq!(expand(&words, &v, &["LATE"]), ["x", "y", "x y", "p100%q", "", "$A", "${X:-y}", "$LATE", "a$A"]);
    }
}
