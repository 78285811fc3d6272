// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Command lines that differ in their options only: one line with variables that layers set.
//!
//! A drop-in can give `ExecStart=` only as a whole, so each value of each option would need a line of its own. What is
//! a constant goes into a variable instead. Which run-time variable an option names cannot: `Environment=` values are
//! expanded once, so those lines stay whole.

use std::collections::BTreeSet;

/// An option that became a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// `--cloud-provider`
    pub option: String,
    /// `NODEBASE_CLOUD_PROVIDER_FLAGS`
    pub variable: String,
    /// Its value for each line; empty where the line has no such option.
    pub values: Vec<String>,
}

/// Command lines after the split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// The lines with variables, in the order of the input; what still differs must be replaced as a whole.
    pub lines: Vec<String>,
    /// What the variables stand for.
    pub parts: Vec<Part>,
}

/// Splits lines that have the same beginning and then nothing but options, each at most once: then the order of the
/// options means nothing. `None`: they are not like that, or no option is a constant.
pub fn split(lines: &[&str]) -> Option<Split> {
    let parsed: Vec<(Vec<&str>, Vec<&str>)> = lines.iter().map(|l| options(l)).collect::<Option<_>>()?;
    let head = &parsed.first()?.0;
    if parsed.iter().any(|(own, _)| own != head) {
        return None;
    }
    // Options in the order of the first line that has them, each after the one that it follows there.
    let mut order: Vec<&str> = Vec::new();
    for (_, tail) in &parsed {
        let mut at = 0;
        for name in tail.iter().map(|w| name(w)) {
            if let Some(found) = order.iter().position(|o| *o == name) {
                at = found + 1;
            } else {
                order.insert(at, name);
                at += 1;
            }
        }
    }
    let mut lines: Vec<String> = vec![head.join(" "); parsed.len()];
    let mut parts = Vec::new();
    for option in order {
        let words: Vec<Option<&str>> =
            parsed.iter().map(|(_, tail)| tail.iter().find(|w| name(w) == option).copied()).collect();
        if let Some((word, part)) = variable(option, &words) {
            for line in &mut lines {
                push(line, &word);
            }
            parts.push(part);
        } else {
            lines.iter_mut().zip(&words).for_each(|(l, w)| w.iter().for_each(|w| push(l, w)));
        }
    }
    (!parts.is_empty()).then_some(Split { lines, parts })
}

/// The words before the options, and the options; `None` when there is anything else.
fn options(line: &str) -> Option<(Vec<&str>, Vec<&str>)> {
    if line.contains(['"', '\'', '\\']) {
        return None;
    }
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let first = words.iter().position(|w| w.starts_with("--"))?;
    let (head, tail) = words.split_at(first);
    let bare = |w: &str| w.strip_prefix('$').is_some_and(|n| n.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'));
    let all = tail.iter().all(|w| (w.starts_with("--") && w.len() > 2) || bare(w));
    let names: BTreeSet<&str> = tail.iter().map(|w| name(w)).collect();
    (all && names.len() == tail.len()).then(|| (head.to_vec(), tail.to_vec()))
}

fn name(word: &str) -> &str {
    word.split_once('=').map_or(word, |(name, _)| name)
}

fn push(line: &mut String, word: &str) {
    line.push(' ');
    line.push_str(word);
}

/// The word that stands for an option everywhere, and what it stands for.
fn variable(option: &str, words: &[Option<&str>]) -> Option<(String, Part)> {
    let stem: String = option
        .trim_start_matches('-')
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' })
        .collect();
    let part = |suffix: &str, values: Vec<String>| Part {
        option: option.to_owned(),
        variable: format!("NODEBASE_{stem}_{suffix}"),
        values,
    };
    if !option.starts_with("--") || words.iter().all(|w| *w == words[0]) {
        return None;
    }
    if words.iter().flatten().all(|w| is_constant(w)) {
        let values = words.iter().map(|w| w.unwrap_or_default().to_owned()).collect();
        let part = part("FLAGS", values);
        return Some((format!("${}", part.variable), part));
    }
    let words: Vec<&str> = words.iter().copied().collect::<Option<_>>()?;
    let (before, after) = surroundings(&words)?;
    let values: Vec<String> = words.iter().map(|w| w[before..w.len() - after].to_owned()).collect();
    let closed = words[0][..before].matches("${").count() == words[0][..before].matches('}').count();
    if !closed || !values.iter().all(|v| is_constant(v)) {
        return None;
    }
    let part = part("VALUE", values);
    let word = format!("{}${{{}}}{}", &words[0][..before], part.variable, &words[0][words[0].len() - after..]);
    Some((word, part))
}

/// How many bytes all words share at the beginning and at the end, up to `=` and `,`.
fn surroundings(words: &[&str]) -> Option<(usize, usize)> {
    let first = words.first()?;
    let shared = |a: &mut dyn Iterator<Item = (u8, u8)>| a.take_while(|(x, y)| x == y).count();
    let before = words.iter().map(|w| shared(&mut first.bytes().zip(w.bytes()))).min()?;
    let before = first[..before].rfind(['=', ',']).map(|at| at + 1)?;
    let after = words.iter().map(|w| shared(&mut first.bytes().rev().zip(w.bytes().rev()))).min()?;
    let after = after.min(words.iter().map(|w| w.len() - before).min()?);
    let rest = &first[first.len() - after..];
    Some((before, rest.find(',').map_or(0, |at| rest.len() - at)))
}

/// Would `Environment=` carry it unchanged, as one word?
fn is_constant(text: &str) -> bool {
    !text.contains(['$', '%', '{', '}'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_become_variables_and_run_time_variables_stay() {
        let split = split(&[
            "/w /k --a=1 --labels=x/master,${ID} --id=${P} --cloud=external --taint=t:NoSchedule --z",
            "/w /k --a=1 --labels=x/worker,${ID} --id=${P} --cloud= --z",
            "/w /k --a=1 --labels=x/worker,${ID} --addr=${IP} $LATE --cloud=external --z",
        ])
        .unwrap();
        let shared = "--labels=${NODEBASE_LABELS_VALUE},${ID}";
        let flags = "$NODEBASE_CLOUD_FLAGS $NODEBASE_TAINT_FLAGS --z";
        assert_eq!(split.lines[0], split.lines[1]);
        assert!(split.lines[0].starts_with(&format!("/w /k --a=1 {shared}")), "{}", split.lines[0]);
        assert!(split.lines[0].ends_with(flags), "{}", split.lines[0]);
        assert_eq!(split.lines[2], format!("/w /k --a=1 {shared} --addr=${{IP}} $LATE {flags}"));
        let values: Vec<_> = split.parts.iter().map(|p| (p.option.as_str(), p.values.join("|"))).collect();
        assert_eq!(
            values,
            [
                ("--labels", "x/master|x/worker|x/worker".to_owned()),
                ("--cloud", "--cloud=external|--cloud=|--cloud=external".to_owned()),
                ("--taint", "--taint=t:NoSchedule||".to_owned()),
            ]
        );
    }

    #[test]
    fn what_is_not_options_only_stays_whole() {
        for lines in [
            ["/k --a=1", "/other --a=2"],
            ["/k --a 1", "/k --a 2"],
            ["/k --a=1 --a=2", "/k --a=2 --a=1"],
            ["/k --a=\"x y\"", "/k --a=z"],
            ["/k --a=${X}", "/k --a=${Y}"],
            ["/k --a=%n", "/k --a=b"],
            ["/k -- --a=1", "/k -- --a=2"],
            ["/k run", "/k walk"],
            ["/k --a=1 ; /b", "/k --a=2 ; /b"],
        ] {
            assert_eq!(split(&lines), None, "{lines:?}");
        }
    }
}
