// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which machines are started for which tests.

use crate::suite::Test;
use anyhow::{Context, Result, bail};
use globset::{Glob, GlobSetBuilder};
use std::str::FromStr;

/// Tests with this tag are run again for each id of `--platform-id`, on a machine that was provisioned once.
pub const MATRIX_TAG: &str = "platform-id";

/// One machine.
#[derive(Debug, Clone)]
pub struct Machine {
    /// The tests that it runs in one boot; more than one only when none is exclusive.
    pub tests: Vec<Test>,
    /// The platform id that takes the place of the boot entry's, after provisioning.
    pub platform: Option<String>,
}

impl Machine {
    /// The name under which a test of this machine is reported.
    pub fn label(&self, test: &Test) -> String {
        match &self.platform {
            Some(id) => format!("{}@{id}", test.name),
            None => test.name.clone(),
        }
    }

    /// The name of its directory of logs.
    pub fn directory(&self) -> String {
        let name = if self.tests.len() == 1 { self.label(&self.tests[0]) } else { "shared".to_owned() };
        name.replace('/', "_")
    }

    /// MiB.
    pub fn memory(&self) -> u64 {
        self.tests.iter().map(|test| test.metadata.memory()).max().unwrap_or_default()
    }

    /// Kernel arguments that its tests ask for.
    pub fn kernel_arguments(&self) -> String {
        self.tests.iter().map(|test| test.metadata.append_kernel_args.trim()).collect::<Vec<_>>().join(" ")
    }
}

/// Selects tests as `kola run` does.
///
/// # Errors
/// When a pattern is no glob.
pub fn select(tests: Vec<Test>, patterns: &[String], tags: &[String]) -> Result<Vec<Test>> {
    let mut globs = GlobSetBuilder::new();
    for pattern in patterns {
        globs.add(Glob::new(pattern).with_context(|| format!("pattern {pattern:?}"))?);
    }
    let globs = globs.build().context("patterns")?;
    Ok(tests
        .into_iter()
        .filter(|test| patterns.is_empty() || globs.is_match(&test.name))
        .filter(|test| tags.is_empty() || tags.iter().any(|tag| test.metadata.has_tag(tag)))
        .filter(|test| {
            let required = &test.metadata.required_tag;
            required.is_empty() || tags.contains(required)
        })
        .collect())
}

/// Puts tests on machines: tests that are not exclusive share one where they can; tests of the matrix get one for each
/// platform id.
pub fn machines(tests: Vec<Test>, platforms: &[String]) -> Vec<Machine> {
    let mut machines: Vec<Machine> = Vec::new();
    for test in tests {
        if test.metadata.has_tag(MATRIX_TAG) && !platforms.is_empty() {
            machines
                .extend(platforms.iter().map(|id| Machine { tests: vec![test.clone()], platform: Some(id.clone()) }));
            continue;
        }
        let shared = machines.iter_mut().find(|machine| can_join(machine, &test));
        match shared {
            Some(machine) => machine.tests.push(test),
            None => machines.push(Machine { tests: vec![test], platform: None }),
        }
    }
    machines
}

fn can_join(machine: &Machine, test: &Test) -> bool {
    let same = |other: &Test| {
        !other.metadata.is_exclusive()
            && other.metadata.append_kernel_args == test.metadata.append_kernel_args
            && other.metadata.append_firstboot_kernel_args == test.metadata.append_firstboot_kernel_args
            && !other.metadata.conflicts.contains(&test.name)
            && !test.metadata.conflicts.contains(&other.name)
    };
    machine.platform.is_none() && !test.metadata.is_exclusive() && machine.tests.iter().all(same)
}

/// `--shard INDEX/COUNT`, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    index: usize,
    count: usize,
}

impl Shard {
    /// The machines of this shard. Machines, not tests, are dealt out: what is shared stays together.
    pub fn of(self, machines: Vec<Machine>) -> Vec<Machine> {
        machines.into_iter().enumerate().filter(|(at, _)| at % self.count == self.index - 1).map(|(_, m)| m).collect()
    }
}

impl FromStr for Shard {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (index, count) = text.split_once('/').context("a shard is written INDEX/COUNT, like 1/3")?;
        let shard = Self { index: index.parse().context("shard index")?, count: count.parse().context("shard count")? };
        if shard.index == 0 || shard.index > shard.count {
            bail!("shard {text}: the index goes from 1 to the count");
        }
        Ok(shard)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::Metadata;

    fn test(name: &str, edit: impl FnOnce(&mut Metadata)) -> Test {
        let mut metadata = Metadata::default();
        edit(&mut metadata);
        Test { name: name.to_owned(), executable: "/x".into(), config: None, data: None, metadata }
    }

    fn names(machines: &[Machine]) -> Vec<Vec<String>> {
        machines.iter().map(|machine| machine.tests.iter().map(|test| machine.label(test)).collect()).collect()
    }

    #[test]
    fn sharing_follows_exclusive_arguments_and_conflicts() {
        let open = |m: &mut Metadata| m.exclusive = Some(false);
        let planned = machines(
            vec![
                test("a", open),
                test("alone", |_| {}),
                test("b", open),
                test("c", |m| {
                    open(m);
                    m.append_kernel_args = "x=1".to_owned();
                }),
                test("d", |m| {
                    open(m);
                    m.conflicts = vec!["b".to_owned()];
                }),
            ],
            &[],
        );
        assert_eq!(names(&planned), [vec!["a", "b"], vec!["alone"], vec!["c"], vec!["d"]]);
    }

    #[test]
    fn the_matrix_multiplies_only_its_own() {
        let tests = vec![test("m", |m| m.tags = MATRIX_TAG.to_owned()), test("n", |_| {})];
        let ids = ["aws".to_owned(), "metal".to_owned()];
        assert_eq!(names(&machines(tests.clone(), &ids)), [vec!["m@aws"], vec!["m@metal"], vec!["n"]]);
        assert_eq!(names(&machines(tests, &[])), [vec!["m"], vec!["n"]]);
    }

    #[test]
    fn selection_by_glob_tag_and_required_tag() {
        let tests = vec![
            test("ext.p.a", |m| m.tags = "quick".to_owned()),
            test("ext.p.b", |m| m.required_tag = "rare".to_owned()),
            test("ext.p.c", |_| {}),
        ];
        let select = |patterns: &[&str], tags: &[&str]| -> Vec<String> {
            let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
            let selected = select(tests.clone(), &owned(patterns), &owned(tags)).unwrap();
            selected.into_iter().map(|test| test.name).collect()
        };
        assert_eq!(select(&[], &[]), ["ext.p.a", "ext.p.c"]);
        assert_eq!(select(&[], &["quick"]), ["ext.p.a"]);
        assert_eq!(select(&["ext.*.c"], &[]), ["ext.p.c"]);
        assert!(super::select(tests.clone(), &["[".to_owned()], &[]).is_err());
    }

    #[test]
    fn shards_cover_everything_once() {
        let all: Vec<_> = (0..5).map(|n| test(&n.to_string(), |_| {})).collect();
        let planned = machines(all, &[]);
        let mut seen: Vec<_> =
            ["1/2", "2/2"].iter().flat_map(|s| names(&s.parse::<Shard>().unwrap().of(planned.clone()))).collect();
        seen.sort();
        assert_eq!(seen, names(&planned));
        for wrong in ["0/2", "3/2", "1", "a/b"] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }
}
