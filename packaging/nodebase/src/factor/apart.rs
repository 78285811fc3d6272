// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Layers whose names can match the same machine, and facts where no layer can hold them.

use std::collections::{BTreeMap, BTreeSet};

use super::input::{Machine, literals};

/// Does the name of one hold all conditions of the other, and more?
pub(super) fn nested(a: &str, b: &str) -> bool {
    let set = |s: &str| s.split(',').map(str::to_owned).collect::<BTreeSet<_>>();
    let (a, b) = (set(a), set(b));
    a.len() != b.len() && (a.is_subset(&b) || b.is_subset(&a))
}

/// Facts that stand literally where no variable can be: they are right for the cluster of the input only.
pub(super) fn facts_in_content(machines: &[Machine]) -> Vec<String> {
    let mut out = BTreeSet::new();
    for machine in machines {
        for (value, fact) in literals(&machine.node) {
            for (path, file) in &machine.files {
                if file.bytes.windows(value.len()).any(|w| w == value.as_bytes()) {
                    out.insert(format!("{path}: holds {fact} literally ({value}): it fits this cluster only"));
                }
            }
            for (unit, own) in &machine.units {
                let lines = own.text.iter().chain(own.dropins.values()).flat_map(|t| t.lines());
                if lines.filter(|l| !l.starts_with("Exec")).any(|l| l.contains(&value)) {
                    out.insert(format!("{unit}: holds {fact} literally ({value}) outside of its command lines"));
                }
            }
        }
    }
    out.into_iter().collect()
}

/// Can one machine match both?
pub(super) fn compatible(a: &str, b: &str) -> bool {
    let conditions = |s: &str| -> BTreeMap<String, String> {
        s.split(',').filter_map(|c| c.split_once('=')).map(|(n, v)| (n.to_owned(), v.to_owned())).collect()
    };
    let b = conditions(b);
    conditions(a).iter().all(|(name, value)| b.get(name).is_none_or(|v| v == value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_can_meet() {
        for (a, b, meet, more_special) in [
            ("role=master", "role=worker", false, false),
            ("role=master", "class=cloud", true, false),
            ("role=master", "class=cloud,role=master", true, true),
            ("class=cloud,role=master", "class=cloud,role=worker", false, false),
            ("class=cloud,role=master", "role=master,vips=no", true, false),
        ] {
            assert_eq!(compatible(a, b), meet, "{a} {b}");
            assert_eq!(nested(a, b), more_special, "{a} {b}");
            assert_eq!((compatible(b, a), nested(b, a)), (meet, more_special), "{b} {a}");
        }
    }
}
