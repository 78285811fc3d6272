// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which facets explain which machines: sets of machines as unions of few conjunctions.

use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A set of machines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Set(Vec<u64>);

impl Set {
    /// No machine, of `n`.
    pub fn none(n: usize) -> Self {
        Self(vec![0; n.div_ceil(64)])
    }

    /// Adds one.
    pub fn insert(&mut self, i: usize) {
        self.0[i / 64] |= 1 << (i % 64);
    }

    /// Is it one of them?
    pub fn has(&self, i: usize) -> bool {
        self.0[i / 64] & (1 << (i % 64)) != 0
    }

    /// How many are in both?
    pub fn common(&self, other: &Self) -> u32 {
        self.0.iter().zip(&other.0).map(|(a, b)| (a & b).count_ones()).sum()
    }

    /// How many?
    pub fn len(&self) -> u32 {
        self.0.iter().map(|a| a.count_ones()).sum()
    }

    /// None at all?
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|a| *a == 0)
    }

    fn minus(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(a, b)| *a &= !b);
    }

    fn and(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(a, b)| a & b).collect())
    }
}

/// Facets in the order in which people think of them as causes. What is not named comes last.
const PREFERENCE: &[&str] =
    &["role", "class", "cloudProvider", "clusterPlatform", "vips", "platform", "credentialProvider"];

/// A conjunction of facets with the machines that it matches.
#[derive(Clone, Debug)]
pub struct Conjunction {
    /// The layer's name: conditions sorted.
    pub name: String,
    conditions: usize,
    preference: usize,
    /// Conditions on facets that people do not think of as causes.
    strange: u32,
    machines: Set,
}

/// All conjunctions that tell machines apart, one for each set of machines.
#[derive(Debug)]
pub struct Space {
    all: Vec<Conjunction>,
    used: BTreeSet<String>,
    known: HashMap<(Set, Set), Option<Vec<String>>>,
}

impl Space {
    /// From the machines' facets. Facets that are the same everywhere explain nothing and are left out.
    pub fn new(machines: &[BTreeMap<String, String>], depth: usize) -> Self {
        let n = machines.len();
        let mut atoms: BTreeMap<(String, String), Set> = BTreeMap::new();
        for (i, facets) in machines.iter().enumerate() {
            for (name, value) in facets {
                atoms.entry((name.clone(), value.clone())).or_insert_with(|| Set::none(n)).insert(i);
            }
        }
        let rank = |name: &str| PREFERENCE.iter().position(|p| *p == name).unwrap_or(PREFERENCE.len());
        let mut singles: Vec<_> =
            atoms.into_iter().filter(|(_, s)| s.len() < u32::try_from(n).unwrap_or(u32::MAX)).collect();
        singles.sort_by_key(|((name, value), _)| (rank(name), name.clone(), value.clone()));
        // One facet for each set of machines: a second name for the same set explains nothing more.
        let mut seen: BTreeMap<Vec<u64>, usize> = BTreeMap::new();
        singles.retain(|(_, set)| {
            let count = seen.entry(set.0.clone()).or_default();
            *count += 1;
            *count == 1
        });
        let mut best: HashMap<Set, (usize, usize, Vec<usize>)> = HashMap::new();
        let mut level: Vec<(Vec<usize>, Set)> = vec![(Vec::new(), Set(vec![u64::MAX; n.div_ceil(64)]))];
        for size in 1..=depth {
            let mut next = Vec::new();
            for (members, set) in &level {
                let first = members.last().map_or(0, |l| l + 1);
                for (at, (name, own)) in singles.iter().enumerate().skip(first) {
                    if members.iter().any(|m| singles[*m].0.0 == name.0) {
                        continue;
                    }
                    let both = set.and(own);
                    // A condition that changes nothing, or leaves nobody, leads nowhere.
                    if both.is_empty() || both == *set {
                        continue;
                    }
                    let mut all = members.clone();
                    all.push(at);
                    let cost = all.iter().map(|m| rank(&singles[*m].0.0)).sum();
                    let better = best.get(&both).is_none_or(|(s, c, _)| (size, cost) < (*s, *c));
                    if better {
                        best.insert(both.clone(), (size, cost, all.clone()));
                        next.push((all, both));
                    }
                }
            }
            level = next;
        }
        let mut all: Vec<Conjunction> = best
            .into_iter()
            .map(|(machines, (conditions, preference, members))| {
                let mut words: Vec<String> =
                    members.iter().map(|m| format!("{}={}", singles[*m].0.0, singles[*m].0.1)).collect();
                words.sort();
                let strange = members.iter().filter(|m| rank(&singles[**m].0.0) == PREFERENCE.len()).count();
                let strange = u32::try_from(strange).unwrap_or(u32::MAX);
                Conjunction { name: words.join(","), conditions, preference, strange, machines }
            })
            .collect();
        all.sort_by(|a, b| (a.conditions, a.preference, &a.name).cmp(&(b.conditions, b.preference, &b.name)));
        Self { all, used: BTreeSet::new(), known: HashMap::new() }
    }

    /// Layers that together match all of `wanted` and none of `forbidden`; `None` when no facets tell them apart.
    /// Layers that something else needs already cost least.
    pub fn cover(&mut self, wanted: &Set, forbidden: &Set) -> Option<Vec<String>> {
        let key = (wanted.clone(), forbidden.clone());
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let found = self.search(wanted, forbidden);
        self.used.extend(found.iter().flatten().cloned());
        self.known.insert(key, found.clone());
        found
    }

    fn search(&self, wanted: &Set, forbidden: &Set) -> Option<Vec<String>> {
        let candidates: Vec<&Conjunction> =
            self.all.iter().filter(|c| c.machines.common(forbidden) == 0 && c.machines.common(wanted) > 0).collect();
        let mut left = wanted.clone();
        let mut chosen: Vec<&Conjunction> = Vec::new();
        while !left.is_empty() {
            let score = |c: &&&Conjunction| {
                let gain = c.machines.common(&left) * 120;
                let cost = if self.used.contains(&c.name) { 3 } else { 6 + u32::try_from(c.conditions).unwrap_or(9) };
                // What fits by chance (all of them boot with the network) says nothing of machines to come.
                gain / (cost + 12 * c.strange)
            };
            // The first of equals: fewer conditions, then the better known facet.
            let best = candidates.iter().rev().max_by_key(score).filter(|c| c.machines.common(&left) > 0)?;
            left.minus(&best.machines);
            chosen.push(best);
        }
        // What later choices made superfluous.
        let mut i = 0;
        while i < chosen.len() {
            let mut rest = wanted.clone();
            chosen.iter().enumerate().filter(|(k, _)| *k != i).for_each(|(_, c)| rest.minus(&c.machines));
            if rest.is_empty() {
                chosen.remove(i);
            } else {
                i += 1;
            }
        }
        let mut names: Vec<String> = chosen.into_iter().map(|c| c.name.clone()).collect();
        names.sort();
        Some(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machines() -> Vec<BTreeMap<String, String>> {
        let one = |p: &str, c: &str, r: &str| {
            [("clusterPlatform", p), ("class", c), ("role", r), ("same", "x")]
                .map(|(a, b)| (a.to_owned(), b.to_owned()))
                .into()
        };
        let mut out = Vec::new();
        for (p, c) in [("AWS", "cloud"), ("GCP", "cloud"), ("VSphere", "on-prem"), ("BareMetal", "on-prem")] {
            out.extend([one(p, c, "master"), one(p, c, "worker")]);
        }
        out
    }

    fn set(members: &[usize]) -> Set {
        let mut s = Set::none(8);
        for m in members {
            s.insert(*m);
        }
        s
    }

    fn rest(members: &[usize]) -> Set {
        set(&(0..8).filter(|i| !members.contains(i)).collect::<Vec<_>>())
    }

    #[test]
    fn smallest_explanations() {
        let m = machines();
        for (wanted, want) in [
            (&[0, 2, 4, 6][..], &["role=master"][..]),
            (&[4, 5, 6, 7], &["class=on-prem"]),
            (&[0, 1], &["clusterPlatform=AWS"]),
            (&[4, 6], &["class=on-prem,role=master"]),
            (&[0, 1, 4, 5], &["clusterPlatform=AWS", "clusterPlatform=VSphere"]),
            (&[2], &["clusterPlatform=GCP,role=master"]),
        ] {
            assert_eq!(Space::new(&m, 4).cover(&set(wanted), &rest(wanted)).unwrap(), want);
        }
    }

    #[test]
    fn machines_that_do_not_matter_make_it_simpler() {
        assert_eq!(Space::new(&machines(), 4).cover(&set(&[4]), &set(&[0, 1, 2, 3])).unwrap(), ["class=on-prem"]);
    }

    #[test]
    fn twins_cannot_be_told_apart() {
        let mut m = machines();
        m[1] = m[0].clone();
        assert_eq!(Space::new(&m, 4).cover(&set(&[0]), &rest(&[0])), None);
    }
}
