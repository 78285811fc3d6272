// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The syntax of unit files (`systemd.syntax(7)`, `systemd.unit(5)`).

/// One assignment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// `Service`
    pub section: String,
    /// `ExecStart`
    pub key: String,
    /// The value, continuation lines joined by a space; empty resets a list.
    pub value: String,
    /// The line on which it begins, from 1.
    pub line: usize,
}

/// What is not an assignment, a section or a comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Oddity {
    /// The line, from 1.
    pub line: usize,
    /// What it says.
    pub text: String,
}

/// A unit file's content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnitFile {
    /// The assignments in order.
    pub assignments: Vec<Assignment>,
    /// What systemd would ignore with a warning.
    pub oddities: Vec<Oddity>,
}

/// Parses a unit file. A line that ends in a backslash goes on in the next one, comments in between are skipped.
pub fn parse(text: &str) -> UnitFile {
    let mut file = UnitFile::default();
    let mut section = String::new();
    let mut pending: Option<(usize, String)> = None;
    for (i, raw) in text.lines().enumerate() {
        let line = raw.trim();
        if line.starts_with(['#', ';']) || (pending.is_none() && line.is_empty()) {
            continue;
        }
        let (begin, mut whole) = pending.take().unwrap_or((i + 1, String::new()));
        if !whole.is_empty() {
            whole.push(' ');
        }
        if let Some(part) = line.strip_suffix('\\') {
            whole.push_str(part.trim_end());
            pending = Some((begin, whole));
        } else {
            whole.push_str(line);
            take(&mut file, &mut section, begin, &whole);
        }
    }
    if let Some((begin, whole)) = pending {
        take(&mut file, &mut section, begin, &whole);
    }
    file
}

fn take(file: &mut UnitFile, section: &mut String, line: usize, text: &str) {
    if let Some(name) = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
        name.clone_into(section);
        return;
    }
    match text.split_once('=') {
        Some((key, value)) if !section.is_empty() && !key.trim().is_empty() => {
            file.assignments.push(Assignment {
                section: section.clone(),
                key: key.trim().to_owned(),
                value: value.trim().to_owned(),
                line,
            });
        }
        _ => file.oddities.push(Oddity { line, text: text.to_owned() }),
    }
}

/// Do several assignments of the key add up? With the others the last one counts.
///
/// Source: the parsers that `src/core/load-fragment-gperf.gperf.in` names for each key.
pub fn is_list(key: &str) -> bool {
    const LISTS: &[&str] = &[
        "After",
        "Alias",
        "Also",
        "Before",
        "BindPaths",
        "BindReadOnlyPaths",
        "BindsTo",
        "CapabilityBoundingSet",
        "AmbientCapabilities",
        "Conflicts",
        "DeviceAllow",
        "Documentation",
        "Environment",
        "EnvironmentFile",
        "ExecPaths",
        "IPAddressAllow",
        "IPAddressDeny",
        "ImportCredential",
        "InaccessiblePaths",
        "JoinsNamespaceOf",
        "LoadCredential",
        "LoadCredentialEncrypted",
        "LogExtraFields",
        "LogFilterPatterns",
        "MountImages",
        "NoExecPaths",
        "OnFailure",
        "OnSuccess",
        "OpenFile",
        "PartOf",
        "PassEnvironment",
        "PropagatesReloadTo",
        "PropagatesStopTo",
        "ReadOnlyPaths",
        "ReadWritePaths",
        "ReloadPropagatedFrom",
        "RequiredBy",
        "Requires",
        "RequiresMountsFor",
        "Requisite",
        "RestrictAddressFamilies",
        "RestrictNetworkInterfaces",
        "SetCredential",
        "SetCredentialEncrypted",
        "SocketBindAllow",
        "SocketBindDeny",
        "Sockets",
        "StopPropagatedFrom",
        "SupplementaryGroups",
        "SystemCallFilter",
        "SystemCallLog",
        "TemporaryFileSystem",
        "UnsetEnvironment",
        "Upholds",
        "UpheldBy",
        "WantedBy",
        "Wants",
        "WantsMountsFor",
        "RuntimeDirectory",
        "StateDirectory",
        "CacheDirectory",
        "LogsDirectory",
        "ConfigurationDirectory",
        "RestrictFileSystems",
        "SystemCallArchitectures",
    ];
    const PREFIXES: &[&str] = &["Condition", "Assert", "Exec", "Listen", "Path", "On"];
    const SCALARS: &[&str] =
        &["ExecSearchPath", "OnFailureJobMode", "OnSuccessJobMode", "OnClockChange", "OnTimezoneChange"];
    LISTS.contains(&key) || (PREFIXES.iter().any(|p| key.starts_with(p)) && !SCALARS.contains(&key))
}

/// Keys whose entries are names separated by blanks; an empty assignment does *not* reset those marked by systemd as
/// dependencies.
pub fn is_dependency(key: &str) -> bool {
    matches!(
        key,
        "After"
            | "Before"
            | "BindsTo"
            | "Conflicts"
            | "JoinsNamespaceOf"
            | "OnFailure"
            | "OnSuccess"
            | "PartOf"
            | "PropagatesReloadTo"
            | "PropagatesStopTo"
            | "ReloadPropagatedFrom"
            | "Requires"
            | "Requisite"
            | "StopPropagatedFrom"
            | "Upholds"
            | "Wants"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_comments_continuations() {
        let f = parse(
            "# c\n[Unit]\nDescription = a \\\n  b\\\n# in between\n; too\n c\n\n[Service]\nExecStart=\nExecStart=x y\n",
        );
        let got: Vec<_> =
            f.assignments.iter().map(|a| (a.section.as_str(), a.key.as_str(), a.value.as_str(), a.line)).collect();
        assert_eq!(
            got,
            [
                ("Unit", "Description", "a b c", 3),
                ("Service", "ExecStart", "", 10),
                ("Service", "ExecStart", "x y", 11)
            ]
        );
        assert!(f.oddities.is_empty());
    }

    #[test]
    fn oddities_are_kept() {
        let f = parse("A=1\n[Unit]\nnonsense\n=x\n");
        assert_eq!(f.oddities.iter().map(|o| o.line).collect::<Vec<_>>(), [1, 3, 4]);
        assert!(f.assignments.is_empty());
    }

    #[test]
    fn a_continuation_may_be_the_last_line() {
        assert_eq!(parse("[S]\nA=b \\").assignments[0].value, "b");
        assert_eq!(parse("[S]\nA=\\\n\\\n x").assignments[0].value, "x");
    }

    proptest::proptest! {
        /// What was written as assignments comes back, whatever blanks and comments are between.
        #[test]
        fn written_and_read_back(
            entries in proptest::collection::vec(("[A-Z][A-Za-z]{0,8}", "[!-Z^-~][ -Z^-~]{0,20}[!-Z^-~]"), 0..8),
            noise in "(\n|# x=y\\\\\n|;z\n|  \n){0,3}",
        ) {
            let mut text = String::from("[S]\n");
            for (key, value) in &entries {
                text.extend([&noise, " ", key, " = ", value, "\n"]);
            }
            let got: Vec<_> = parse(&text).assignments.into_iter().map(|a| (a.key, a.value)).collect();
            proptest::prop_assert_eq!(got, entries);
        }

        /// Any text at all is read without a panic, and every line of it is accounted for at most once.
        #[test]
        fn any_text(text in "[\\x00-\\x7fäß\\\\\n=\\[\\]#;]{0,200}") {
            let file = parse(&text);
            let lines: Vec<usize> =
                file.assignments.iter().map(|a| a.line).chain(file.oddities.iter().map(|o| o.line)).collect();
            let unique: std::collections::BTreeSet<_> = lines.iter().collect();
            proptest::prop_assert_eq!(unique.len(), lines.len());
            proptest::prop_assert!(lines.iter().all(|l| *l >= 1 && *l <= text.lines().count()));
        }
    }

    #[test]
    fn lists_and_scalars() {
        for list in ["ExecStart", "Environment", "After", "ConditionPathExists", "PathModified", "OnCalendar"] {
            assert!(is_list(list), "{list}");
        }
        for scalar in ["Type", "Restart", "Nice", "Description", "User"] {
            assert!(!is_list(scalar), "{scalar}");
        }
    }
}
