// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The reference cases (`tests/data/cases.json`) and how two kubelet command lines are compared.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

/// What the reference says of one machine.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Case {
    /// `aws/master`
    pub case: String,
    /// The id on the kernel command line.
    pub platform_id: Option<String>,
    /// node.json.
    pub node: serde_json::Value,
    /// Kubelet.
    pub kubelet: Kubelet,
    /// Unit → is it pulled in? `null`: the reference does not say.
    pub units: BTreeMap<String, Option<bool>>,
}

/// Kubelet in the reference.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Kubelet {
    /// `ExecStart=` in words, variables unexpanded.
    pub argv: Vec<String>,
    /// `Environment=`
    pub environment: BTreeMap<String, String>,
    /// `EnvironmentFile=`
    pub environment_files: Vec<String>,
}

/// Reads the cases.
pub fn cases(path: &Path) -> Result<Vec<Case>> {
    let bytes = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    serde_json::from_slice(&bytes).with_context(|| format!("parsing {}", path.display()))
}

/// Flag → value, as kubelet reads them: empty values are as good as none, the order in sets does not matter.
pub type Flags = BTreeMap<String, String>;

/// Brings a command line (without the program) into a form that can be compared.
pub fn flags<'a>(argv: impl IntoIterator<Item = &'a str>) -> Flags {
    let mut flags = Flags::new();
    for word in argv {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        if word.contains('=') && value.is_empty() {
            continue;
        }
        let value = match key {
            "--node-labels" | "--register-with-taints" => value
                .split(',')
                .filter(|l| !l.is_empty())
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect::<Vec<_>>()
                .join(","),
            _ => value.to_owned(),
        };
        flags.insert(key.to_owned(), value);
    }
    flags
}

/// The reference's command line with its variables replaced, and files where this project has them.
pub fn expected(case: &Case, run_time: &BTreeMap<String, String>) -> Flags {
    let mut variables = case.kubelet.environment.clone();
    variables.extend(run_time.clone());
    let words = case.kubelet.argv.iter().skip_while(|w| !w.ends_with("/kubelet")).skip(1);
    let expanded: Vec<String> = words.filter(|w| !w.starts_with('$')).map(|w| expand(w, &variables)).collect();
    let mut flags = flags(expanded.iter().map(String::as_str));
    for (flag, ours) in [("--config", "/run/nodebase/kubelet.conf"), ("--config-dir", "/run/nodebase/kubelet.conf.d")] {
        flags.insert(flag.into(), ours.into());
    }
    if let Some(config) = flags.get_mut("--image-credential-provider-config") {
        *config = config.replace("/etc/kubernetes/credential-providers/", "/usr/lib/nodebase/credential-providers/");
    }
    flags
}

fn expand(word: &str, variables: &BTreeMap<String, String>) -> String {
    let mut out = String::new();
    let mut rest = word;
    while let Some((before, after)) = rest.split_once("${") {
        let (name, after) = after.split_once('}').unwrap_or((after, ""));
        out.push_str(before);
        out.push_str(variables.get(name).map_or("", String::as_str));
        rest = after;
    }
    out + rest
}

/// What differs, a line each.
pub fn differences(have: &Flags, want: &Flags) -> Vec<String> {
    let keys: BTreeSet<_> = have.keys().chain(want.keys()).collect();
    keys.into_iter()
        .filter(|k| have.get(*k) != want.get(*k))
        .map(|k| format!("{k}: have {:?}, want {:?}", have.get(k), want.get(k)))
        .collect()
}
