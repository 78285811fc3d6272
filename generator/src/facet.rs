// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Facets: named facts with one value each, all that dispatch looks at.

use std::borrow::Cow;

use crate::cmdline::Cmdline;
use crate::json::Json;
use crate::node::{FROM_CMDLINE, Facts};
use crate::paths;
use crate::platform::{CLUSTER_PLATFORM, Row, Table, UNKNOWN_CLUSTER_PLATFORM};
use crate::report::{Report, shown, shown_bytes};

/// The kernel argument that names the platform (Ignition's).
pub const PLATFORM_ID: &str = "ignition.platform.id";
/// The facet `platform` of a machine whose platform is not named or not in the table.
pub const UNKNOWN: &str = "unknown";

/// More facets of one's own than this are a mistake; each layer's name is looked up among them.
pub const MAX_OWN: usize = 256;

/// Facets that the program itself sets; the columns of the table are reserved too.
const RESERVED: &[&str] = &[
    "platform",
    "clusterPlatform",
    "class",
    "cloudProvider",
    "credentialProvider",
    "network",
    "timeSource",
    "providerId",
    "role",
    "pool",
    "controlPlaneTopology",
    "ipFamilies",
    "stack",
    "primaryFamily",
    "networkType",
    "vips",
    "loadBalancerType",
    "dnsType",
    "dnsRecordsType",
    "proxy",
    "sealed",
];

/// One facet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facet {
    /// `role`
    pub name: Cow<'static, str>,
    /// `master`
    pub value: String,
    /// Where the value came from: a file, the kernel command line, `default`, or the facet that it follows from.
    pub source: Cow<'static, str>,
}

/// A machine's facets, in the order of the design's table, users' own last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facets(Vec<Facet>);

impl Facets {
    /// The facet's value.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.facet(name).map(|f| f.value.as_str())
    }

    /// The facet.
    pub fn facet(&self, name: &str) -> Option<&Facet> {
        self.0.iter().find(|f| f.name == name)
    }

    /// All of them.
    pub fn iter(&self) -> std::slice::Iter<'_, Facet> {
        self.0.iter()
    }

    fn set(&mut self, name: impl Into<Cow<'static, str>>, value: &str, source: impl Into<Cow<'static, str>>) {
        let name = name.into();
        if self.get(&name).is_none() {
            self.0.push(Facet { name, value: value.to_owned(), source: source.into() });
        }
    }
}

impl<'a> IntoIterator for &'a Facets {
    type Item = &'a Facet;
    type IntoIter = std::slice::Iter<'a, Facet>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Is it a word that may stand in a layer's name: `[A-Za-z0-9._-]+`, short enough for a file name?
pub fn is_word(s: &str) -> bool {
    !s.is_empty() && s.len() <= 200 && s.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}

/// Is the name taken by a facet that the program sets?
pub fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
}

/// Works out the facets.
pub fn derive(cmdline: &Cmdline, table: &Table, facts: &Facts, sealed: bool, report: &mut Report) -> Facets {
    let mut facets = Facets::default();
    let platform = platform(cmdline, table, &mut facets, report);
    cluster_platform(platform, table, facts, &mut facets, report);
    if let Some(row) = platform {
        columns(row, "platform", &mut facets);
    }
    role(facts, &mut facets, report);
    for (name, default) in [("controlPlaneTopology", "HighlyAvailable"), ("ipFamilies", "IPv4")] {
        fact_or(name, default, facts, &mut facets);
    }
    let (stack, primary) = match facets.get("ipFamilies") {
        Some("DualStack") => ("dual", "IPv4"),
        Some("DualStackIPv6Primary") => ("dual", "IPv6"),
        Some("IPv6") => ("single", "IPv6"),
        _ => ("single", "IPv4"),
    };
    facets.set("stack", stack, "ipFamilies");
    facets.set("primaryFamily", primary, "ipFamilies");
    fact_or("networkType", "OVNKubernetes", facts, &mut facets);
    yes_no("vips", "apiServerInternalIPs", facts, &mut facets);
    for (name, default) in [
        ("loadBalancerType", "OpenShiftManagedDefault"),
        ("dnsType", "PlatformDefault"),
        ("dnsRecordsType", "Internal"),
    ] {
        fact_or(name, default, facts, &mut facets);
    }
    yes_no("proxy", "proxy", facts, &mut facets);
    facets.set("sealed", if sealed { "yes" } else { "no" }, if sealed { paths::SEALED } else { "default" });
    let own = facts.get("facets").and_then(|f| f.value.as_object()).map_or(0, <[_]>::len);
    if own > MAX_OWN {
        report.problem(format!("key \"facets\": {own} facets of one's own, {MAX_OWN} at most"));
        return facets;
    }
    for (name, value) in facts.get("facets").and_then(|f| f.value.as_object()).unwrap_or_default() {
        let source = facts.member_source("facets", name).cloned().unwrap_or_default();
        // A table column that a later table brings is not in RESERVED: the table's word stands.
        if let (None, Some(value)) = (facets.get(name), value.as_str()) {
            facets.set(name.clone(), value, source);
        } else {
            report.problem(format!("{source}: key \"facets\": {:?} is a facet that nodebase sets itself", shown(name)));
        }
    }
    facets
}

fn platform<'t>(cmdline: &Cmdline, table: &'t Table, facets: &mut Facets, report: &mut Report) -> Option<&'t Row> {
    let mut ids: Vec<&[u8]> = cmdline.values(PLATFORM_ID).collect();
    let id = ids.last().copied().unwrap_or_default();
    ids.retain(|other| !other.is_empty() && *other != id);
    if let Some(other) = ids.last() {
        report.warning(format!(
            "kernel command line: {PLATFORM_ID} is given as {:?} and as {:?}; the last one counts here, but \
             ConditionKernelCommandLine= matches any of them and afterburn takes the first: remove one",
            shown_bytes(other),
            shown_bytes(id)
        ));
    }
    if id.is_empty() {
        facets.set("platform", UNKNOWN, "default");
        return None;
    }
    let row = std::str::from_utf8(id).ok().and_then(|id| table.platform(id));
    if let Some(row) = row {
        facets.set("platform", &row.name, FROM_CMDLINE);
    } else {
        facets.set("platform", UNKNOWN, FROM_CMDLINE);
        report.warning(format!(
            "kernel command line: {PLATFORM_ID}={} is not in {}: generic configuration is used; ids are those of \
             Ignition's supported platforms, `metal` for a machine of no other kind",
            shown_bytes(id),
            paths::TABLE
        ));
    }
    row
}

fn cluster_platform(platform: Option<&Row>, table: &Table, facts: &Facts, facets: &mut Facets, report: &mut Report) {
    let default = platform.and_then(|r| r.column(CLUSTER_PLATFORM)).unwrap_or("None");
    let (name, source) = match facts.word("clusterPlatform") {
        Some((name, source)) => (name, source.clone()),
        None => (default, if platform.is_some() { "platform".into() } else { "default".into() }),
    };
    facets.set("clusterPlatform", name, source.clone());
    let row = table.cluster_platform(name).or_else(|| {
        let known = table.cluster_platforms().iter().find(|r| r.name.eq_ignore_ascii_case(name));
        match known {
            Some(row) => {
                report.problem(format!("{source}: key \"clusterPlatform\": {name:?} is spelled {:?}", row.name));
            }
            None if facts.get("clusterPlatform").is_none() => {} // a table without rows has its own problem
            None => report.warning(format!(
                "{source}: key \"clusterPlatform\": {name:?} is not in {}: generic configuration is used",
                paths::TABLE
            )),
        }
        table.cluster_platform(UNKNOWN_CLUSTER_PLATFORM)
    });
    // OpenShift's External leaves it to a fact whether a cloud controller manager runs.
    if name == "External" {
        let (value, source) = match facts.word("cloudControllerManager") {
            Some(("External", source)) => ("external", source.clone()),
            Some((_, source)) => ("none", source.clone()),
            None => ("none", "default".into()),
        };
        facets.set("cloudProvider", value, source);
    }
    if let Some(row) = row {
        columns(row, "clusterPlatform", facets);
    }
}

/// Every scalar column is a facet.
fn columns(row: &Row, of: &'static str, facets: &mut Facets) {
    for (name, value) in row.columns.iter().filter(|(name, _)| name != CLUSTER_PLATFORM) {
        facets.set(name.clone(), value, of);
    }
}

fn role(facts: &Facts, facets: &mut Facets, report: &mut Report) {
    let (role, source) = match facts.word("role") {
        None => ("worker", Cow::Borrowed("default")),
        Some((role @ ("master" | "worker" | "arbiter"), source)) => (role, source.clone()),
        Some((other, source)) => {
            let folded: String = other.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
            let meant = match folded.as_str() {
                "controlplane" | "master" | "masters" => Some("master"),
                "worker" | "workers" => Some("worker"),
                "arbiter" | "arbiters" => Some("arbiter"),
                _ => None,
            };
            if let Some(meant) = meant {
                // Taken as a custom pool it would come up as a worker.
                report.problem(format!("{source}: key \"role\": {other:?} is spelled {meant:?}"));
            }
            facets.set("role", "worker", source.clone());
            if facts.word("pool").is_none() {
                facets.set("pool", other, source.clone());
            }
            ("worker", source.clone())
        }
    };
    facets.set("role", role, source);
    if let Some((pool, source)) = facts.word("pool") {
        facets.set("pool", pool, source.clone());
    }
}

fn fact_or(name: &'static str, default: &str, facts: &Facts, facets: &mut Facets) {
    match facts.word(name) {
        Some((value, source)) => facets.set(name, value, source.clone()),
        None => facets.set(name, default, "default"),
    }
}

fn yes_no(name: &'static str, key: &str, facts: &Facts, facets: &mut Facets) {
    let fact = facts.get(key);
    let yes = match fact.map(|f| &f.value) {
        Some(Json::List(l)) => !l.is_empty(),
        Some(Json::Object(o)) => !o.is_empty(),
        _ => false,
    };
    let source = fact.map_or("default".into(), |f| f.source.clone());
    facets.set(name, if yes { "yes" } else { "no" }, source);
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = r#"{"platforms":{"aws":{"aliases":["ec2"],"clusterPlatform":"AWS","timeSource":"aws"},"metal":{"clusterPlatform":"None"}},
        "clusterPlatforms":{"":{"class":"none","cloudProvider":"none","credentialProvider":"none"},"None":{"class":"none","cloudProvider":"none"},
        "External":{"class":"none","cloudProvider":"none"},"AWS":{"class":"cloud","cloudProvider":"external","credentialProvider":"ecr"}}}"#;

    fn facets(cmdline: &str, node: &str) -> (Facets, Report) {
        let mut r = Report::default();
        let table = Table::parse(TABLE.as_bytes()).unwrap();
        let mut facts = Facts::default();
        let cmdline = Cmdline::from_text(cmdline.as_bytes());
        facts.add_file("/etc/nodebase/node.json", node.as_bytes(), &mut r);
        facts.add_cmdline(&cmdline, &mut r);
        (derive(&cmdline, &table, &facts, false, &mut r), r)
    }

    fn show(f: &Facets, names: &[&str]) -> String {
        names.iter().map(|n| f.get(n).unwrap_or("-")).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn platform_from_the_last_id_and_its_alias() {
        let names = ["platform", "clusterPlatform", "class", "cloudProvider", "timeSource"];
        for (cmdline, want, warnings) in [
            ("ignition.platform.id=aws", "aws AWS cloud external aws", 0),
            ("ignition.platform.id=ec2", "aws AWS cloud external aws", 0),
            ("ignition.platform.id=metal ignition.platform.id=aws", "aws AWS cloud external aws", 1),
            ("ignition.platform.id=aws ignition.platform.id=aws", "aws AWS cloud external aws", 0),
            ("ignition.platform.id=aws ignition.platform.id=", "unknown None none none -", 1),
            ("ignition.platform.id=", "unknown None none none -", 0),
            ("", "unknown None none none -", 0),
            ("ignition.platform.id", "unknown None none none -", 0),
            ("ignition.platform.id=AWS", "unknown None none none -", 1),
            ("x=\"a ignition.platform.id=aws\"", "unknown None none none -", 0),
            ("ignition_platform_id=aws", "unknown None none none -", 0),
            ("rd.ignition.platform.id=aws", "unknown None none none -", 0),
        ] {
            let (f, r) = facets(cmdline, "{}");
            assert_eq!(show(&f, &names), want, "{cmdline}");
            assert_eq!(r.notes().len(), warnings, "{cmdline}: {:?}", r.notes());
            assert!(r.is_complete());
        }
    }

    #[test]
    fn cluster_platform_overrides_and_external_asks_the_fact() {
        let names = ["platform", "clusterPlatform", "class", "cloudProvider"];
        for (node, want) in [
            (r#"{"clusterPlatform":"None"}"#, "aws None none none"),
            (r#"{"clusterPlatform":"External"}"#, "aws External none none"),
            (r#"{"clusterPlatform":"External","cloudControllerManager":"External"}"#, "aws External none external"),
            (r#"{"clusterPlatform":"External","cloudControllerManager":"None"}"#, "aws External none none"),
            (r#"{"clusterPlatform":"Brandnew"}"#, "aws Brandnew none none"),
        ] {
            let (f, r) = facets("ignition.platform.id=aws", node);
            assert_eq!(show(&f, &names), want);
            assert!(r.is_complete());
        }
        assert!(!facets("", r#"{"clusterPlatform":"aws"}"#).1.is_complete());
    }

    #[test]
    fn roles_and_pools() {
        for (node, want, complete) in [
            ("{}", "worker -", true),
            (r#"{"role":"master"}"#, "master -", true),
            (r#"{"role":"infra"}"#, "worker infra", true),
            (r#"{"role":"infra","pool":"gpu"}"#, "worker gpu", true),
            (r#"{"role":"master","pool":"x"}"#, "master x", true),
            (r#"{"role":"Master"}"#, "worker Master", false),
            (r#"{"role":"control-plane"}"#, "worker control-plane", false),
        ] {
            let (f, r) = facets("", node);
            assert_eq!(show(&f, &["role", "pool"]), want);
            assert_eq!(r.is_complete(), complete, "{node}");
        }
    }

    #[test]
    fn families_vips_proxy_and_own_facets() {
        let (f, _) = facets(
            "",
            r#"{"ipFamilies":"DualStackIPv6Primary","apiServerInternalIPs":["192.0.2.1"],"proxy":{"httpProxy":"x"},"facets":{"rack":"r1"}}"#,
        );
        assert_eq!(show(&f, &["stack", "primaryFamily", "vips", "proxy", "rack"]), "dual IPv6 yes yes r1");
        let (f, _) = facets("", r#"{"apiServerInternalIPs":[],"proxy":{"httpProxy":""}}"#);
        assert_eq!(show(&f, &["stack", "primaryFamily", "vips", "proxy", "rack"]), "single IPv4 no no -");
        assert_eq!(f.facet("vips").unwrap().source, "/etc/nodebase/node.json");
    }

    #[test]
    fn words() {
        for good in ["a", "A-1_b.c", &"x".repeat(200)] {
            assert!(is_word(good));
        }
        for bad in ["", "a b", "a/b", "ä", "a=b", "a,b", "a\n", &"x".repeat(201)] {
            assert!(!is_word(bad));
        }
    }
}
