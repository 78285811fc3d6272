// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rules for names that come from outside.
//!
//! A node name is an RFC 1123 subdomain (at most 253 characters) and is never `localhost`; a Linux host name has at
//! most 64 bytes, and everything that turns it into a DNS label wants 63.

use crate::attempt::{Attempt, Failure};

/// Longest host name that is set: one DNS label.
pub const HOST_NAME_MAX: usize = 63;
/// Longest Kubernetes node name.
pub const NODE_NAME_MAX: usize = 253;

/// The first of the names in an answer. AWS lists one name per DHCP domain, blank-separated.
pub fn first_word(text: &str) -> &str {
    text.split_whitespace().next().unwrap_or_default()
}

/// Is this one of the names that stand for "no name yet"?
pub fn is_placeholder(name: &str) -> bool {
    let name = name.trim().trim_end_matches('.').to_ascii_lowercase();
    matches!(name.as_str(), "" | "(none)" | "localhost")
        || name.starts_with("localhost.")
        || name.starts_with("localhost-live")
}

/// Checks and folds a name for kubelet's `--hostname-override`: no trailing dot, lower case (kubelet folds it too),
/// nothing that the API server would refuse.
///
/// # Errors
/// [`Failure::Again`] for an empty or placeholder name, [`Failure::Never`] for one that no node can have.
pub fn node_name(raw: &str) -> Attempt<String> {
    let name = raw.trim().trim_end_matches('.').to_ascii_lowercase();
    if is_placeholder(&name) {
        return Err(Failure::Again(format!("the answer {raw:?} is no name")));
    }
    if name.len() > NODE_NAME_MAX {
        return Err(Failure::Never(format!("the name {name:?} is longer than {NODE_NAME_MAX} characters")));
    }
    if let Some(label) = name.split('.').find(|label| !is_label(label)) {
        return Err(Failure::Never(format!("the name {name:?} is no node name: its part {label:?} is no DNS label")));
    }
    Ok(name)
}

/// Like [`node_name`], and short enough for a host name: a name above 63 characters loses its domain, and what is
/// left is cut at 63.
///
/// # Errors
/// As [`node_name`].
pub fn host_name(raw: &str) -> Attempt<String> {
    let name = raw.trim().trim_end_matches('.');
    if name.len() <= HOST_NAME_MAX {
        return node_name(name);
    }
    let label = name.split('.').next().unwrap_or_default();
    // The names are ASCII if they are valid at all; a cut inside a character must not panic before that is known.
    let cut: String = label.chars().take(HOST_NAME_MAX).collect();
    node_name(cut.trim_end_matches('-'))
}

/// A value that may stand in an environment file and on a command line without quotes.
///
/// # Errors
/// [`Failure::Never`] naming the character that does not belong there.
pub fn identifier(what: &str, raw: &str) -> Attempt<String> {
    let value = raw.trim();
    if value.is_empty() {
        return Err(Failure::Again(format!("{what} is empty")));
    }
    match value.chars().find(|c| !(c.is_ascii_alphanumeric() || "._-~+".contains(*c))) {
        Some(c) => Err(Failure::Never(format!("{what} {value:?} holds {c:?}"))),
        None if value.len() > 255 => Err(Failure::Never(format!("{what} is longer than 255 characters"))),
        None => Ok(value.to_owned()),
    }
}

fn is_label(label: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    !label.is_empty()
        && label.len() <= 63
        && label.bytes().all(inner)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_names() {
        for (raw, want) in [
            ("ip-10-0-0-1.ec2.internal", Some("ip-10-0-0-1.ec2.internal")),
            ("ip-10-0-0-1.ec2.internal.", Some("ip-10-0-0-1.ec2.internal")),
            ("  Worker-0\n", Some("worker-0")),
            ("", None),
            (" \n", None),
            (".", None),
            ("localhost", None),
            ("LOCALHOST.", None),
            ("localhost.localdomain", None),
            ("localhost6.localdomain6", Some("localhost6.localdomain6")),
            ("my server", None),
            ("under_score", None),
            ("-a", None),
            ("a-", None),
            ("a..b", None),
            ("a\"b", None),
            ("a\u{0}b", None),
            ("nöde", None),
        ] {
            assert_eq!(node_name(raw).ok().as_deref(), want, "{raw:?}");
        }
        assert!(node_name(&"a.".repeat(126)).is_ok());
        assert!(matches!(node_name(&"a.".repeat(200)), Err(Failure::Never(_))));
        assert!(matches!(node_name("localhost"), Err(Failure::Again(_))), "may become a name later");
    }

    #[test]
    fn host_names_above_63_characters() {
        let exactly = format!("{}.example", "a".repeat(55));
        assert_eq!(exactly.len(), 63);
        assert_eq!(host_name(&exactly).unwrap(), exactly);
        assert_eq!(host_name(&format!("{exactly}.")).unwrap(), exactly, "the trailing dot does not count");
        assert_eq!(host_name(&format!("{exactly}x")).unwrap(), "a".repeat(55), "64: the domain goes");
        assert_eq!(host_name(&"b".repeat(80)).unwrap(), "b".repeat(63));
        assert_eq!(host_name(&format!("{}-{}", "c".repeat(62), "d".repeat(9))).unwrap(), "c".repeat(62));
        assert!(host_name(&"ü".repeat(64)).is_err());
    }

    #[test]
    fn several_names() {
        assert_eq!(first_word("a.one b.two\tc"), "a.one");
        assert_eq!(first_word("\n"), "");
    }

    #[test]
    fn identifiers() {
        assert_eq!(identifier("id", "i-0abc\n").unwrap(), "i-0abc");
        assert!(matches!(identifier("id", " "), Err(Failure::Again(_))));
        for bad in ["a b", "a/b", "a\"b", "a\nb", "a$b", "a%b"] {
            assert!(matches!(identifier("id", bad), Err(Failure::Never(_))), "{bad:?}");
        }
    }
}
