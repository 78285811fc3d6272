// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The node's facts: what OpenShift's ControllerConfig and Infrastructure say of it, from four sources of which the
//! later one wins key by key. `facets` and `images` are merged name by name; `proxy` is taken as a whole, as half of
//! one proxy with half of another is nobody's configuration.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::cmdline::Cmdline;
use crate::facet;
use crate::json::Json;
use crate::report::{Report, shown, shown_bytes};

/// What a key of node.json holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// A word of `[A-Za-z0-9._-]`; these names are all there are in OpenShift's API today (empty: any).
    Word(&'static [&'static str]),
    /// A list of IP addresses.
    Addresses,
    /// A small number.
    Level,
    /// `httpProxy`, `httpsProxy`, `noProxy`.
    Proxy,
    /// Names with strings.
    Images,
    /// Names with words.
    Facets,
    /// Anything: it is only handed on.
    Any,
}

/// The keys, in the words of the design.
pub const KEYS: &[(&str, Type)] = &[
    ("role", Type::Word(&[])),
    ("clusterPlatform", Type::Word(&[])),
    ("cloudControllerManager", Type::Word(&["External", "None"])),
    (
        "controlPlaneTopology",
        Type::Word(&["HighlyAvailable", "SingleReplica", "DualReplica", "HighlyAvailableArbiter", "External"]),
    ),
    ("ipFamilies", Type::Word(&["IPv4", "IPv6", "DualStack", "DualStackIPv6Primary"])),
    ("networkType", Type::Word(&[])),
    ("apiServerInternalIPs", Type::Addresses),
    ("ingressIPs", Type::Addresses),
    ("loadBalancerType", Type::Word(&["OpenShiftManagedDefault", "UserManaged"])),
    ("dnsType", Type::Word(&["PlatformDefault", "ClusterHosted"])),
    ("dnsRecordsType", Type::Word(&["Internal", "External"])),
    ("clusterHostedLoadBalancerIPs", Type::Any),
    ("proxy", Type::Proxy),
    ("images", Type::Images),
    ("kubeletLogLevel", Type::Level),
    ("mtuMigration", Type::Any),
    ("pool", Type::Word(&[])),
    ("facets", Type::Facets),
];

/// The prefix of our kernel arguments.
pub const KARG: &str = "nodebase.";
/// An argument without a meaning of its own: with it a container asks for the generator's output.
const KARG_CONTAINER: &str = "container";

/// One fact with where it came from.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    /// The key of node.json.
    pub key: &'static str,
    /// Its value.
    pub value: Json<'static>,
    /// A file, or `kernel command line`.
    pub source: Cow<'static, str>,
}

/// The facts of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    all: Vec<Fact>,
    /// For members of `facets` and `images`: the source of each.
    member_sources: BTreeMap<(&'static str, String), Cow<'static, str>>,
    sources: Vec<Cow<'static, str>>,
}

/// The source of facts that stand on the kernel command line.
pub const FROM_CMDLINE: &str = "kernel command line";

#[allow(clippy::ptr_arg)] // a source is cloned into every fact: borrowed ones must stay free
impl Facts {
    /// The fact of that key.
    pub fn get(&self, key: &str) -> Option<&Fact> {
        self.all.iter().find(|f| f.key == key)
    }

    /// A scalar fact.
    pub fn word(&self, key: &str) -> Option<(&str, &Cow<'static, str>)> {
        let fact = self.get(key)?;
        Some((fact.value.as_str()?, &fact.source))
    }

    /// All facts.
    pub fn all(&self) -> &[Fact] {
        &self.all
    }

    /// The sources that were there, in the order of the reading.
    pub fn sources(&self) -> &[Cow<'static, str>] {
        &self.sources
    }

    /// Where a member of `facets` or `images` came from.
    pub fn member_source(&self, key: &'static str, member: &str) -> Option<&Cow<'static, str>> {
        self.member_sources.get(&(key, member.to_owned()))
    }

    /// A fact, or a part of one (`images.baremetalRuntimeCfgImage`), by its path.
    pub fn lookup(&self, path: &str) -> Option<&Json<'static>> {
        let (key, rest) = path.split_once('.').map_or((path, None), |(k, r)| (k, Some(r)));
        let value = &self.get(key)?.value;
        match rest {
            None => Some(value),
            // Image names may hold dots: the rest is tried as one name first.
            Some(rest) => value.get(rest).or_else(|| rest.split('.').try_fold(value, |v, k| v.get(k))),
        }
    }

    /// Takes the facts of a node.json. Anything wrong with it is a problem that names file and key; what is right
    /// in it counts all the same.
    pub fn add_file(&mut self, path: &str, bytes: &[u8], report: &mut Report) {
        let source: Cow<'static, str> = Cow::Owned(path.to_owned());
        self.sources.push(source.clone());
        let json = match Json::parse(bytes) {
            Ok(json) => json,
            Err(e) => return report.problem(format!("{path}: cannot be parsed: {e}")),
        };
        let Json::Object(members) = json else {
            return report.problem(format!("{path}: expected an object, found {}", json.kind()));
        };
        for (key, value) in members {
            match KEYS.iter().find(|(k, _)| *k == key) {
                Some(&(key, kind)) => self.add(key, kind, value, &source, path, report),
                None => report.warning(format!("{path}: unknown key {:?}, ignored", shown(&key))),
            }
        }
    }

    /// Takes the facts of the kernel command line. Of several values for one key the last one counts, and only that
    /// one is looked at.
    pub fn add_cmdline(&mut self, cmdline: &Cmdline, report: &mut Report) {
        let prefix = KARG.as_bytes();
        let mut last: BTreeMap<&[u8], usize> = BTreeMap::new();
        for (i, (key, _)) in cmdline.assignments().enumerate() {
            if let Some(key) = key.strip_prefix(prefix) {
                last.insert(key, i);
            }
        }
        if !last.is_empty() {
            self.sources.push(Cow::Borrowed(FROM_CMDLINE));
        }
        for (i, (key, raw)) in cmdline.assignments().enumerate() {
            if let Some(key) = key.strip_prefix(prefix).filter(|key| last.get(key) == Some(&i)) {
                self.add_karg(&String::from_utf8_lossy(key), raw, report);
            }
        }
        // "nodebase.role master" is a slip of somebody who wanted a master.
        for word in cmdline.words() {
            let key = word.strip_prefix(prefix).and_then(|key| std::str::from_utf8(key).ok());
            if let Some(key) = key.filter(|key| KEYS.iter().any(|(k, _)| k.eq_ignore_ascii_case(key))) {
                report.problem(format!("{FROM_CMDLINE}: {KARG}{key}: has no value, write {KARG}{key}=<value>"));
            }
        }
    }

    fn add_karg(&mut self, name: &str, raw: &[u8], report: &mut Report) {
        let at = format!("{FROM_CMDLINE}: {KARG}{}", shown(name));
        let source = Cow::Borrowed(FROM_CMDLINE);
        let Ok(text) = std::str::from_utf8(raw) else {
            return report.problem(format!("{at}: the value is not UTF-8"));
        };
        if let Some(facet) = name.strip_prefix("facets.") {
            let value = Json::Object(vec![(facet.into(), Json::String(text.into()))]);
            return self.add("facets", Type::Facets, value, &source, FROM_CMDLINE, report);
        }
        let found = KEYS.iter().find(|(k, _)| *k == name);
        let Some(&(key, kind)) = found else {
            if let Some((right, _)) = KEYS.iter().find(|(k, _)| k.eq_ignore_ascii_case(name)) {
                report.problem(format!("{at}: is spelled {KARG}{right}"));
            } else if name != KARG_CONTAINER {
                report.warning(format!("{at}: unknown key, ignored"));
            }
            return;
        };
        let value = match kind {
            Type::Word(_) | Type::Level => Json::String(text.into()),
            Type::Addresses => {
                Json::List(text.split(',').filter(|s| !s.is_empty()).map(|s| Json::String(s.into())).collect())
            }
            Type::Any => match text {
                "true" => Json::Bool(true),
                "false" => Json::Bool(false),
                _ => Json::List(text.split(',').map(|s| Json::String(s.into())).collect()),
            },
            Type::Facets => {
                return report.problem(format!("{at}: give own facets one by one, as {KARG}facets.<name>=<value>"));
            }
            Type::Proxy | Type::Images => {
                return report.problem(format!(
                    "{at}: cannot be given on the kernel command line, use /etc/nodebase/node.json or the system \
                     credential nodebase.node"
                ));
            }
        };
        self.add(key, kind, value, &source, FROM_CMDLINE, report);
    }

    fn add(
        &mut self,
        key: &'static str,
        kind: Type,
        value: Json<'_>,
        source: &Cow<'static, str>,
        place: &str,
        report: &mut Report,
    ) {
        // `null` is how many tools write "not given".
        if value == Json::Null {
            return;
        }
        let checked = match kind {
            Type::Word(known) => check_word(key, known, &value, place, report),
            Type::Addresses => check_addresses(&value),
            Type::Level => check_level(&value),
            Type::Proxy => check_proxy(&value, place, report),
            Type::Images => check_members(&value, |s| !s.is_empty(), "an image's pull specification"),
            Type::Facets => check_facets(&value),
            Type::Any => Ok(Some(value.into_owned())),
        };
        match checked {
            Ok(None) => {}
            Ok(Some(value)) if matches!(kind, Type::Images | Type::Facets) => self.merge(key, value, source),
            Ok(Some(value)) => self.set(key, value, source),
            Err(e) => report.problem(format!("{place}: key {key:?}: {e}")),
        }
    }

    fn set(&mut self, key: &'static str, value: Json<'static>, source: &Cow<'static, str>) {
        let fact = Fact { key, value, source: source.clone() };
        match self.all.iter_mut().find(|f| f.key == key) {
            Some(old) => *old = fact,
            None => self.all.push(fact),
        }
    }

    fn merge(&mut self, key: &'static str, value: Json<'static>, source: &Cow<'static, str>) {
        let Json::Object(new) = value else { return };
        for (name, _) in &new {
            self.member_sources.insert((key, name.clone().into_owned()), source.clone());
        }
        let names: BTreeSet<&str> = new.iter().map(|(name, _)| name.as_ref()).collect();
        let old = self.get(key).and_then(|f| f.value.as_object()).unwrap_or_default();
        let mut all: Vec<_> = old.iter().filter(|(name, _)| !names.contains(name.as_ref())).cloned().collect();
        all.extend(new);
        self.set(key, Json::Object(all), source);
    }
}

type Checked = Result<Option<Json<'static>>, String>;

fn check_word(key: &str, known: &[&str], value: &Json<'_>, place: &str, report: &mut Report) -> Checked {
    let Some(word) = value.as_str() else { return Err(format!("expected a string, found {}", value.kind())) };
    if word.is_empty() {
        // OpenShift's API writes an enumeration that was not set as "". Which kubelet this is must be said, though.
        return match key {
            "role" | "clusterPlatform" => Err("is empty: name one, or leave the key out".into()),
            _ => Ok(None),
        };
    }
    if !facet::is_word(word) {
        return Err(format!("{:?} is not a word of [A-Za-z0-9._-]", shown(word)));
    }
    if !known.is_empty() && !known.contains(&word) {
        if let Some(right) = known.iter().find(|k| k.eq_ignore_ascii_case(word)) {
            return Err(format!("{:?} is spelled {right:?}", shown(word)));
        }
        if matches!(key, "ipFamilies" | "cloudControllerManager") {
            return Err(format!("{:?} is none of {}", shown(word), known.join(", ")));
        }
        report.warning(format!("{place}: key {key:?}: {:?} is not known to this image", shown(word)));
    }
    Ok(Some(Json::String(Cow::Owned(word.to_owned()))))
}

fn check_addresses(value: &Json<'_>) -> Checked {
    let Some(list) = value.as_list() else {
        return Err(format!("expected a list of IP addresses, found {}", value.kind()));
    };
    for item in list {
        let Some(text) = item.as_str() else {
            return Err(format!("expected a list of IP addresses, found {} in it", item.kind()));
        };
        if text.parse::<IpAddr>().is_err() {
            return Err(format!("{:?} is no IP address", shown(text)));
        }
    }
    Ok(Some(value.clone().into_owned()))
}

fn check_level(value: &Json<'_>) -> Checked {
    let level = match value {
        Json::Int(i) => Some(*i),
        Json::String(s) if s.bytes().all(|b| b.is_ascii_digit()) => s.parse().ok(),
        _ => None,
    };
    match level {
        // klog's verbosity: kubelet documents 0 to 10.
        Some(level @ 0..=10) => Ok(Some(Json::Int(level))),
        _ => Err("expected a whole number from 0 to 10".into()),
    }
}

fn check_proxy(value: &Json<'_>, place: &str, report: &mut Report) -> Checked {
    let Some(members) = value.as_object() else {
        return Err(format!("expected an object, found {}", value.kind()));
    };
    let mut out = Vec::new();
    for (name, value) in members {
        if !matches!(name.as_ref(), "httpProxy" | "httpsProxy" | "noProxy") {
            report.warning(format!("{place}: key \"proxy\": unknown key {:?}, ignored", shown(name)));
            continue;
        }
        match value {
            Json::Null => {}
            Json::String(s) if s.is_empty() => {}
            // The value itself may hold a password: no message ever shows it.
            Json::String(_) => out.push((Cow::Owned(name.clone().into_owned()), value.clone().into_owned())),
            _ => return Err(format!("{name}: expected a string, found {}", value.kind())),
        }
    }
    Ok(Some(Json::Object(out)))
}

fn check_members(value: &Json<'_>, good: impl Fn(&str) -> bool, what: &str) -> Checked {
    let Some(members) = value.as_object() else {
        return Err(format!("expected an object, found {}", value.kind()));
    };
    for (name, value) in members {
        match value.as_str() {
            None => return Err(format!("{:?}: expected {what}, found {}", shown(name), value.kind())),
            Some(s) if !good(s) => return Err(format!("{:?}: {:?} is not {what}", shown(name), shown(s))),
            Some(_) => {}
        }
    }
    Ok(Some(value.clone().into_owned()))
}

fn check_facets(value: &Json<'_>) -> Checked {
    if let Some(members) = value.as_object() {
        for (name, _) in members {
            if !facet::is_word(name) {
                return Err(format!("{:?} is not a word of [A-Za-z0-9._-]", shown(name)));
            }
            if facet::is_reserved(name) {
                return Err(format!("{name:?} is a facet that nodebase sets itself"));
            }
        }
    }
    check_members(value, facet::is_word, "a word of [A-Za-z0-9._-]")
}

/// For messages about a raw value.
pub fn shown_value(raw: &[u8]) -> String {
    shown_bytes(raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> (Facts, Report) {
        let (mut f, mut r) = (Facts::default(), Report::default());
        f.add_file("/etc/nodebase/node.json", text.as_bytes(), &mut r);
        (f, r)
    }

    fn karg(text: &str) -> (Facts, Report) {
        let (mut f, mut r) = (Facts::default(), Report::default());
        f.add_cmdline(&Cmdline::from_text(text.as_bytes()), &mut r);
        (f, r)
    }

    #[test]
    fn later_sources_win_key_by_key() {
        let mut r = Report::default();
        let mut f = Facts::default();
        f.add_file("/usr/lib/nodebase/node.json", br#"{"role":"master","networkType":"A","images":{"a":"1","b":"1"},"proxy":{"httpProxy":"x","noProxy":"y"}}"#, &mut r);
        f.add_file(
            "/etc/nodebase/node.json",
            br#"{"role":"worker","images":{"b":"2"},"proxy":{"httpProxy":"z"},"dnsType":null}"#,
            &mut r,
        );
        f.add_cmdline(
            &Cmdline::from_text(b"nodebase.role=arbiter nodebase.facets.rack=r1 nodebase.facets.row=2"),
            &mut r,
        );
        assert_eq!(r.notes(), []);
        assert_eq!(f.word("role").unwrap(), ("arbiter", &Cow::Borrowed(FROM_CMDLINE)));
        assert_eq!(f.word("networkType").unwrap().1, "/usr/lib/nodebase/node.json");
        assert_eq!(f.lookup("images.a").unwrap().as_str(), Some("1"));
        assert_eq!(f.lookup("images.b").unwrap().as_str(), Some("2"));
        assert_eq!(f.member_source("images", "b").unwrap(), "/etc/nodebase/node.json");
        assert_eq!(f.lookup("proxy.noProxy"), None);
        assert_eq!(f.lookup("facets.rack").unwrap().as_str(), Some("r1"));
        assert_eq!(f.lookup("facets.row").unwrap().as_str(), Some("2"));
        assert_eq!(f.sources().len(), 3);
        assert!(f.get("dnsType").is_none());
    }

    #[test]
    fn problems_name_file_and_key_and_lose_nothing_else() {
        for (text, want) in [
            ("", "cannot be parsed"),
            ("{", "cannot be parsed"),
            ("[]", "expected an object, found a list"),
            (r#"{"role":5}"#, r#"key "role": expected a string, found a number"#),
            (r#"{"role":""}"#, r#"key "role": is empty"#),
            (r#"{"role":"../x"}"#, r#"key "role": "../x" is not a word"#),
            (r#"{"ipFamilies":"ipv4"}"#, r#"key "ipFamilies": "ipv4" is spelled "IPv4""#),
            (r#"{"ipFamilies":"IPv5"}"#, r#"key "ipFamilies": "IPv5" is none of"#),
            (r#"{"controlPlaneTopology":"singlereplica"}"#, "is spelled"),
            (r#"{"apiServerInternalIPs":"192.0.2.1"}"#, r#"key "apiServerInternalIPs": expected a list"#),
            (r#"{"apiServerInternalIPs":["192.0.2"]}"#, "is no IP address"),
            (r#"{"apiServerInternalIPs":[1]}"#, "found a number in it"),
            (r#"{"kubeletLogLevel":11}"#, "from 0 to 10"),
            (r#"{"kubeletLogLevel":"x"}"#, "from 0 to 10"),
            (r#"{"proxy":"http://x"}"#, r#"key "proxy": expected an object"#),
            (r#"{"proxy":{"httpProxy":1}}"#, "httpProxy: expected a string"),
            (r#"{"images":{"a":1}}"#, r#"key "images": "a""#),
            (r#"{"facets":{"platform":"x"}}"#, "nodebase sets itself"),
            (r#"{"facets":{"a/b":"x"}}"#, "is not a word"),
            (r#"{"facets":{"a":"x y"}}"#, "is not a word"),
            (r#"{"role":"a","role":"b"}"#, "stands twice"),
        ] {
            let (_, r) = file(text);
            let notes: Vec<_> = r.problems().map(|n| n.text.clone()).collect();
            assert_eq!(notes.len(), 1, "{text}: {notes:?}");
            assert!(notes[0].starts_with("/etc/nodebase/node.json: "), "{notes:?}");
            assert!(notes[0].contains(want), "{notes:?} lacks {want}");
        }
        let (f, r) = file(r#"{"ipFamilies":"x","role":"master"}"#);
        assert!(!r.is_complete());
        assert_eq!(f.word("role").unwrap().0, "master");
    }

    #[test]
    fn unknown_keys_and_new_values_are_warnings() {
        let (f, r) = file(r#"{"rolle":"master","dnsType":"New","proxy":{"x":"y"},"loadBalancerType":""}"#);
        assert!(r.is_complete());
        assert_eq!(r.notes().len(), 3);
        assert_eq!(f.word("dnsType").unwrap().0, "New");
        assert!(f.get("loadBalancerType").is_none());
    }

    #[test]
    fn kernel_arguments_have_the_same_types() {
        let (f, r) = karg(
            "nodebase.apiServerInternalIPs=192.0.2.1,2001:db8::1 nodebase.kubeletLogLevel=4 nodebase.container=1 x.role=master",
        );
        assert_eq!(r.notes(), []);
        assert_eq!(f.lookup("apiServerInternalIPs").unwrap().as_list().unwrap().len(), 2);
        assert_eq!(f.lookup("kubeletLogLevel"), Some(&Json::Int(4)));
        for (text, want) in [
            ("nodebase.proxy=http://u:secret@x", "nodebase.proxy: cannot be given"),
            ("nodebase.images.a=x", ""),
            ("nodebase.images=x", "cannot be given"),
            ("nodebase.facets=x", "one by one"),
            ("nodebase.role=", "is empty"),
            ("nodebase.role=\"a b\"", "is not a word"),
            ("nodebase.facets.=x", "is not a word"),
            ("nodebase.role", "has no value"),
            ("nodebase.Role=master", "is spelled nodebase.role"),
        ] {
            let (_, r) = karg(text);
            assert_eq!(r.problems().count(), usize::from(!want.is_empty()), "{text}");
            assert!(r.notes()[0].text.contains(want));
            assert!(!r.notes()[0].text.contains("secret"));
        }
        let (f, r) = karg("nodebase.role=bad@ nodebase.role=master nodebase.container");
        assert_eq!((f.word("role").unwrap().0, r.notes().len()), ("master", 0), "the last one counts, alone");
        let (mut f, mut r) = (Facts::default(), Report::default());
        f.add_cmdline(&Cmdline::from_text(b"nodebase.role=\xff"), &mut r);
        assert!(!r.is_complete());
    }
}
