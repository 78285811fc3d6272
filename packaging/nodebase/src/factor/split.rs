// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What all machines share, and what layers add.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;

use super::apart::{compatible, facts_in_content, nested};
use super::cover::{Set, Space};
use super::input::{File, Machine, literals, variable};
use super::options;
use crate::bake::install::install;
use crate::config::hex;
use crate::unit::parse::{is_dependency, is_list, parse};

/// Keys that take no empty assignment, with what they are when nobody sets them: measured on three versions of systemd
/// by `make check-factored` (`defaults-are-what-we-think`).
pub(super) const DEFAULTS: &[(&str, &str)] = &[
    ("StandardOutput", "journal"),
    ("StandardError", "inherit"),
    ("RemainAfterExit", "no"),
    ("Restart", "no"),
    ("Nice", "0"),
];

/// The unit that puts files in place that differ between machines.
pub const FILES_UNIT: &str = "nodebase-files.service";
/// Where their variants are.
pub const VARIANTS: &str = "/usr/share/nodebase/variants";

/// The static set.
#[derive(Debug, Default)]
pub struct Factored {
    /// Whole units, as assignments in order: unit → (section, key, value).
    pub units: BTreeMap<String, Vec<(String, String, String)>>,
    /// Drop-ins for everybody: unit, name → text.
    pub dropins: BTreeMap<(String, String), String>,
    /// Links for everybody: path below the unit directory → target.
    pub links: BTreeMap<String, String>,
    /// Files for everybody.
    pub files: BTreeMap<String, File>,
    /// Variants of files: path on the machine → digest → file.
    pub variants: BTreeMap<String, BTreeMap<String, File>>,
    /// Layers: name → content.
    pub layers: BTreeMap<String, Layer>,
    /// Unit → variable → fact.
    pub environment: BTreeMap<String, BTreeMap<String, String>>,
    /// Units enabled everywhere that only the base image has.
    pub presets: BTreeSet<String>,
    /// What no facet explains.
    pub unexplained: Vec<String>,
    /// What a person should look at.
    pub warnings: Vec<String>,
}

/// One layer's content.
#[derive(Debug, Default)]
pub struct Layer {
    /// `kubelet.service.d/12-exec.conf` → text.
    pub dropins: BTreeMap<String, String>,
    /// `multi-user.target.wants/a.service`
    pub links: BTreeSet<String>,
    /// Path on the machine → digest of the variant.
    pub files: BTreeMap<String, String>,
}

impl Layer {
    /// What the layer is for, in one line.
    pub fn reason(&self) -> String {
        let mut parts = Vec::new();
        let units: BTreeSet<&str> = self.dropins.keys().filter_map(|k| k.split_once(".d/")).map(|(u, _)| u).collect();
        if !units.is_empty() {
            parts.push(format!("other settings of {}", units.into_iter().collect::<Vec<_>>().join(", ")));
        }
        let started: BTreeSet<&str> = self.links.iter().filter_map(|l| l.rsplit('/').next()).collect();
        if !started.is_empty() {
            parts.push(format!("starts {}", started.into_iter().collect::<Vec<_>>().join(", ")));
        }
        if !self.files.is_empty() {
            let names: Vec<&str> = self.files.keys().map(String::as_str).collect();
            parts.push(format!("its own {}", names.join(", ")));
        }
        parts.join("; ")
    }
}

/// Factors the machines.
pub fn factor(machines: &[Machine]) -> Factored {
    let facets: Vec<_> = machines.iter().map(|m| m.facets.clone()).collect();
    // Beyond some hundred machines three conditions have to do: there are too many conjunctions of four.
    let depth = if machines.len() > 200 { 3 } else { 4 };
    let mut splitter = Splitter { machines, space: Space::new(&facets, depth), out: Factored::default() };
    splitter.links();
    splitter.dropins();
    splitter.units();
    splitter.files();
    splitter.name_apart();
    splitter.out.warnings = facts_in_content(machines);
    splitter.out
}

struct Splitter<'a> {
    machines: &'a [Machine],
    space: Space,
    out: Factored,
}

type Assignments = Vec<(String, String, String)>;

impl Splitter<'_> {
    fn set(&self, has: impl Fn(&Machine) -> bool) -> Set {
        let mut set = Set::none(self.machines.len());
        self.machines.iter().enumerate().filter(|(_, m)| has(m)).for_each(|(i, _)| set.insert(i));
        set
    }

    fn everywhere(&self, set: &Set) -> bool {
        set.len() as usize == self.machines.len()
    }

    fn cover(&mut self, what: &str, wanted: &Set, forbidden: &Set) -> Vec<String> {
        if let Some(layers) = self.space.cover(wanted, forbidden) {
            return layers;
        }
        let name = |s: &Set| {
            self.machines.iter().enumerate().find(|(i, _)| s.has(*i)).map_or("", |(_, m)| m.name.as_str()).to_owned()
        };
        let (a, b) = (name(wanted), name(forbidden));
        self.out
            .unexplained
            .push(format!("{what}: no facets tell {a} (and those like it) from the others, such as {b}"));
        Vec::new()
    }

    fn links(&mut self) {
        let mut sets: BTreeMap<(String, String), Set> = BTreeMap::new();
        let mut presets: BTreeMap<String, Set> = BTreeMap::new();
        let n = self.machines.len();
        let mut cache: HashMap<(&str, &crate::factor::input::Unit), Result<crate::bake::install::Install, String>> =
            HashMap::new();
        for (i, machine) in self.machines.iter().enumerate() {
            for (name, unit) in machine.units.iter().filter(|(_, u)| u.enabled) {
                let Some(text) = &unit.text else {
                    presets.entry(name.clone()).or_insert_with(|| Set::none(n)).insert(i);
                    continue;
                };
                let found = cache.entry((name, unit)).or_insert_with(|| {
                    let texts: Vec<&str> =
                        std::iter::once(text).chain(unit.dropins.values()).map(String::as_str).collect();
                    install(name, &texts)
                });
                match found {
                    Ok(found) => {
                        for link in &found.links {
                            let key = (link.path.clone(), link.target.clone());
                            sets.entry(key).or_insert_with(|| Set::none(n)).insert(i);
                        }
                    }
                    Err(e) => self.out.unexplained.push(format!("{}: {e}", machine.name)),
                }
            }
        }
        for (unit, set) in presets {
            if !self.everywhere(&set) {
                self.out.unexplained.push(format!(
                    "{unit}: enabled on some machines, and its [Install] is in the base image: give it as text"
                ));
            }
            self.out.presets.insert(unit);
        }
        for ((path, target), set) in sets {
            if self.everywhere(&set) {
                self.out.links.insert(path, target);
                continue;
            }
            let forbidden = self.set_not(&set);
            for layer in self.cover(&path, &set, &forbidden) {
                self.out.layers.entry(layer).or_default().links.insert(path.clone());
            }
        }
    }

    fn set_not(&self, set: &Set) -> Set {
        let mut out = Set::none(self.machines.len());
        (0..self.machines.len()).filter(|i| !set.has(*i)).for_each(|i| out.insert(i));
        out
    }

    fn dropins(&mut self) {
        let mut sets: BTreeMap<(String, String, String), Set> = BTreeMap::new();
        for (i, machine) in self.machines.iter().enumerate() {
            for (unit, u) in &machine.units {
                for (name, text) in &u.dropins {
                    let key = (unit.clone(), name.clone(), text.clone());
                    sets.entry(key).or_insert_with(|| Set::none(self.machines.len())).insert(i);
                }
            }
        }
        for ((unit, name, text), set) in sets {
            // Where the whole unit is ours, machines without it do not care.
            let own = self.set(|m| m.units.get(&unit).is_some_and(|u| u.text.is_some()));
            let forbidden = if own.is_empty() { self.set_not(&set) } else { minus(&own, &set, self.machines.len()) };
            if forbidden.is_empty() {
                self.out.dropins.insert((unit, name), text);
                continue;
            }
            for layer in self.cover(&format!("{unit}.d/{name}"), &set, &forbidden) {
                self.put(&layer, &unit, &name, &text);
            }
        }
    }

    fn put(&mut self, layer: &str, unit: &str, file: &str, text: &str) {
        let text = format!("# Layer {layer} of nodebase factor.\n{text}");
        self.out.layers.entry(layer.to_owned()).or_default().dropins.insert(format!("{unit}.d/{file}"), text);
    }

    /// Two layers that can both match a machine, neither of which is the more special one, must not hold the same file
    /// name: then nothing but the alphabet would decide. Our own files get names of their own; a drop-in that was
    /// rendered keeps its name, by which an administrator masks it, and is refused when its content differs.
    fn name_apart(&mut self) {
        let mut holders: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, layer) in &self.out.layers {
            for path in layer.dropins.keys() {
                holders.entry(path.clone()).or_default().push(name.clone());
            }
        }
        for (path, layers) in holders {
            for (at, layer) in layers.iter().enumerate() {
                let unclear = |other: &&String| compatible(other, layer) && !nested(other, layer);
                let Some(other) = layers[..at].iter().find(unclear).cloned() else { continue };
                let body = |layer: &str| {
                    let text = self.out.layers.get(layer).and_then(|l| l.dropins.get(&path));
                    text.and_then(|t| t.split_once('\n')).map(|(_, body)| body.to_owned())
                };
                let ours = path.contains(".d/11-") || path.contains(".d/12-");
                if ours {
                    if let Some(own) = self.out.layers.get_mut(layer)
                        && let Some(text) = own.dropins.remove(&path)
                    {
                        // ExecStart= stays recognisable by its name.
                        let stem = path.trim_end_matches(".conf");
                        let (stem, end) = stem.strip_suffix("-exec").map_or((stem, ""), |s| (s, "-exec"));
                        own.dropins.insert(format!("{stem}-{}{end}.conf", slug(layer)), text);
                    }
                } else if body(layer) != body(&other) {
                    self.out
                        .unexplained
                        .push(format!("{path}: the layers {other} and {layer} can both match and both have it"));
                }
            }
        }
    }

    fn units(&mut self) {
        let names: BTreeSet<String> = self.machines.iter().flat_map(|m| m.units.keys().cloned()).collect();
        for unit in names {
            let mut texts: HashMap<String, Set> = HashMap::new();
            for (i, machine) in self.machines.iter().enumerate() {
                let Some(text) = machine.units.get(&unit).and_then(|u| u.text.as_ref()) else { continue };
                texts.entry(with_variables(text, machine)).or_insert_with(|| Set::none(self.machines.len())).insert(i);
            }
            let mut variants: Vec<(Assignments, Set)> = texts
                .into_iter()
                .map(|(t, s)| (parse(&t).assignments.into_iter().map(|a| (a.section, a.key, a.value)).collect(), s))
                .collect();
            // The most common one first, and the same order every time.
            variants.sort_by(|a, b| b.1.len().cmp(&a.1.len()).then_with(|| a.0.cmp(&b.0)));
            if !variants.is_empty() {
                let whole = self.unit(&unit, &variants);
                self.out.units.insert(unit, whole);
            }
        }
    }

    fn unit(&mut self, unit: &str, variants: &[(Assignments, Set)]) -> Assignments {
        for (assignments, _) in variants {
            for (_, _, value) in assignments {
                for machine in self.machines {
                    if !value.contains("${NODEBASE_") {
                        break;
                    }
                    for (_, fact) in literals(&machine.node) {
                        let name = variable(&fact);
                        if value.contains(&format!("${{{name}}}")) {
                            self.out.environment.entry(unit.to_owned()).or_default().insert(name, fact);
                        }
                    }
                }
            }
        }
        if variants.len() == 1 {
            return variants[0].0.clone();
        }
        let mut keys: Vec<(String, String)> = Vec::new();
        for (assignments, _) in variants {
            for (section, key, _) in assignments {
                if !keys.iter().any(|(s, k)| s == section && k == key) {
                    keys.push((section.clone(), key.clone()));
                }
            }
        }
        let mut variants = variants.to_vec();
        let flags = self.options(unit, &mut variants);
        let mut base: Assignments = variants[0].0.clone();
        for (section, key) in keys.into_iter().filter(|(s, _)| s != "Install") {
            let values: Vec<Vec<String>> = variants.iter().map(|(a, _)| values(a, &section, &key)).collect();
            if values.iter().all(|v| *v == values[0]) {
                continue;
            }
            let sets: Vec<&Set> = variants.iter().map(|(_, s)| s).collect();
            let kept = if adds_up(&key) {
                self.additive(unit, &section, &key, &values, &sets)
            } else {
                self.replaced(unit, &section, &key, &values, &sets)
            };
            replace(&mut base, &section, &key, kept);
        }
        let at = base.iter().rposition(|(s, _, _)| s == "Service").map_or(base.len(), |at| at + 1);
        base.splice(at..at, flags.into_iter().map(|f| ("Service".to_owned(), "Environment".to_owned(), f)));
        base
    }

    /// Puts constant options of the command lines into variables. Gives what the base sets them to: what is most
    /// common; layers set the rest.
    fn options(&mut self, unit: &str, variants: &mut [(Assignments, Set)]) -> Vec<String> {
        let exec = |a: &Assignments| match &values(a, "Service", "ExecStart")[..] {
            [one] => Some(one.clone()),
            _ => None,
        };
        let Some(lines) = variants.iter().map(|(a, _)| exec(a)).collect::<Option<Vec<String>>>() else {
            return Vec::new();
        };
        let Some(split) = options::split(&lines.iter().map(String::as_str).collect::<Vec<_>>()) else {
            return Vec::new();
        };
        // A unit that has such a variable already is left alone.
        let taken = |name: &str| variants.iter().any(|(a, _)| a.iter().any(|(_, _, v)| v.contains(name)));
        if split.parts.iter().any(|p| taken(&p.variable)) {
            return Vec::new();
        }
        for ((assignments, _), line) in variants.iter_mut().zip(split.lines) {
            replace(assignments, "Service", "ExecStart", vec![line]);
        }
        let n = self.machines.len();
        let mut out = Vec::new();
        for part in split.parts {
            let mut groups: BTreeMap<&String, Set> = BTreeMap::new();
            for (value, (_, set)) in part.values.iter().zip(variants.iter()) {
                add(groups.entry(value).or_insert_with(|| Set::none(n)), set, n);
            }
            // Of equals the one that is less: what is not there by mistake is noticed sooner.
            let base = groups
                .iter()
                .max_by_key(|(v, s)| (s.len(), std::cmp::Reverse(v.len()), std::cmp::Reverse(**v)))
                .map(|(v, _)| (*v).clone())
                .unwrap_or_default();
            for (value, wanted) in groups.iter().filter(|(v, _)| ***v != base) {
                let forbidden = self.set_not(wanted);
                let without: Set = variants.iter().fold(Set::none(n), |mut all, (_, s)| {
                    add(&mut all, s, n);
                    all
                });
                let forbidden = common(&forbidden, &without, n);
                let file = format!("12-flags{}.conf", part.option.replace("--", "-"));
                for layer in self.cover(&format!("{unit}: {}", part.option), wanted, &forbidden) {
                    self.put(&layer, unit, &file, &format!("[Service]\nEnvironment=\"{}={value}\"\n", part.variable));
                }
            }
            out.push(format!("\"{}={base}\"", part.variable));
        }
        out
    }

    /// Keys of which a drop-in can only add: the base holds what all have.
    fn additive(&mut self, unit: &str, section: &str, key: &str, values: &[Vec<String>], sets: &[&Set]) -> Vec<String> {
        let n = self.machines.len();
        let mut kept = Vec::new();
        let mut seen = BTreeSet::new();
        for item in values.iter().flatten() {
            if !seen.insert(item.clone()) {
                continue;
            }
            let (mut wanted, mut forbidden) = (Set::none(n), Set::none(n));
            for (value, set) in values.iter().zip(sets) {
                add(if value.contains(item) { &mut wanted } else { &mut forbidden }, set, n);
            }
            if forbidden.is_empty() {
                kept.push(item.clone());
                continue;
            }
            let file = format!("11-{}-{}.conf", key.to_lowercase(), slug(item));
            for layer in self.cover(&format!("{unit}: {key}={item}"), &wanted, &forbidden) {
                self.put(&layer, unit, &file, &format!("[{section}]\n{key}={item}\n"));
            }
        }
        kept
    }

    /// Keys that a drop-in can replace: the base holds the most common value.
    fn replaced(&mut self, unit: &str, section: &str, key: &str, values: &[Vec<String>], sets: &[&Set]) -> Vec<String> {
        let n = self.machines.len();
        let mut groups: BTreeMap<&Vec<String>, Set> = BTreeMap::new();
        for (value, set) in values.iter().zip(sets) {
            add(groups.entry(value).or_insert_with(|| Set::none(n)), set, n);
        }
        let default = DEFAULTS.iter().find(|(k, _)| *k == key).map(|(_, d)| *d);
        let absent = groups.keys().any(|v| v.is_empty());
        let base: Vec<String> = if absent && !is_list(key) && default.is_none() {
            Vec::new()
        } else {
            groups
                .iter()
                .max_by_key(|(v, s)| (s.len(), std::cmp::Reverse(**v)))
                .map(|(v, _)| (*v).clone())
                .unwrap_or_default()
        };
        let mut layers: Vec<(String, String)> = Vec::new();
        for (value, wanted) in groups.iter().filter(|(v, _)| ***v != base) {
            let mut forbidden = Set::none(n);
            groups.iter().filter(|(v, _)| v != &value).for_each(|(_, s)| add(&mut forbidden, s, n));
            let own = self.cover(&format!("{unit}: {key}="), wanted, &forbidden);
            // Where two of the layers can match one machine, what only adds would add twice.
            let overlap = own.iter().enumerate().any(|(i, a)| own[..i].iter().any(|b| compatible(a, b)));
            let rest = value.strip_prefix(base.as_slice()).filter(|_| !overlap);
            let mut text = format!("[{section}]\n");
            match (is_list(key), rest) {
                // Only added to: no need to reset what other drop-ins may have set.
                (true, Some(rest)) => rest.iter().for_each(|v| line(&mut text, key, v)),
                (true, None) => {
                    line(&mut text, key, "");
                    value.iter().for_each(|v| line(&mut text, key, v));
                }
                (false, _) => line(&mut text, key, value.last().map_or(default.unwrap_or_default(), String::as_str)),
            }
            for layer in own {
                layers.push((layer, text.clone()));
            }
        }
        let stem = if key == "ExecStart" { "exec".to_owned() } else { key.to_lowercase() };
        for (at, (layer, text)) in layers.iter().enumerate() {
            // Two layers that can both match need names of their own.
            let clash = layers[..at].iter().filter(|(other, _)| compatible(other, layer)).count();
            let file = if clash == 0 { format!("12-{stem}.conf") } else { format!("12-{clash}-{stem}.conf") };
            self.put(layer, unit, &file, text);
        }
        base
    }

    fn files(&mut self) {
        let mut sets: BTreeMap<String, BTreeMap<File, Set>> = BTreeMap::new();
        let n = self.machines.len();
        for (i, machine) in self.machines.iter().enumerate() {
            for (path, file) in &machine.files {
                let own = sets.entry(path.clone()).or_default();
                if let Some(set) = own.get_mut(file) {
                    set.insert(i);
                } else {
                    let mut set = Set::none(n);
                    set.insert(i);
                    own.insert(file.clone(), set);
                }
            }
        }
        for (path, own) in sets {
            if own.len() == 1
                && let Some((file, set)) = own.first_key_value()
                && (self.everywhere(set) || is_inert(&path))
            {
                self.out.files.insert(path, file.clone());
                continue;
            }
            for (file, set) in own {
                let place = variant_place(&path, &file);
                let digest = digest(&file);
                let forbidden = self.set_not(&set);
                for layer in self.cover(&path, &set, &forbidden) {
                    self.out.layers.entry(layer).or_default().files.insert(place.clone(), digest.clone());
                }
                self.out.variants.entry(place).or_default().insert(digest, file);
            }
        }
    }
}

/// Commands that only units run: they may lie about where nothing runs them.
pub(super) fn is_inert(path: &str) -> bool {
    ["/usr/bin/", "/usr/sbin/", "/usr/libexec/"].iter().any(|d| path.starts_with(d))
}

/// Where a variant of a file is put at boot: /usr cannot be written then.
pub(super) fn variant_place(path: &str, file: &File) -> String {
    if file.source.starts_with("/etc/") {
        file.source.clone()
    } else if path.starts_with("/usr/") {
        format!("/run/nodebase/files{path}")
    } else {
        path.to_owned()
    }
}

fn digest(file: &File) -> String {
    use sha2::Digest;
    let mut hash = sha2::Sha256::new();
    hash.update(&file.bytes);
    hash.update(file.mode.to_le_bytes());
    hex(&hash.finalize())[..16].to_owned()
}

/// Does every assignment of the key add, with nothing to take one back without harm?
pub(super) fn adds_up(key: &str) -> bool {
    is_dependency(key) || key.starts_with("Condition") || key.starts_with("Assert") || key == "Environment"
}

pub(super) fn values(assignments: &Assignments, section: &str, key: &str) -> Vec<String> {
    let mut out = Vec::new();
    for (_, _, value) in assignments.iter().filter(|(s, k, _)| s == section && k == key) {
        if is_dependency(key) {
            out.extend(value.split_whitespace().map(str::to_owned));
        } else if value.is_empty() {
            out.clear();
        } else {
            if !is_list(key) {
                out.clear();
            }
            out.push(value.clone());
        }
    }
    out
}

/// Puts values where the key stood first; a new key goes to the end of the unit.
fn replace(base: &mut Assignments, section: &str, key: &str, kept: Vec<String>) {
    let at = base.iter().position(|(s, k, _)| s == section && k == key).unwrap_or(base.len());
    base.retain(|(s, k, _)| !(s == section && k == key));
    let kept = if is_dependency(key) && !kept.is_empty() { vec![kept.join(" ")] } else { kept };
    let new = kept.into_iter().map(|v| (section.to_owned(), key.to_owned(), v));
    let at = at.min(base.len());
    base.splice(at..at, new);
}

fn line(text: &mut String, key: &str, value: &str) {
    let _ = writeln!(text, "{key}={value}");
}

fn add(to: &mut Set, from: &Set, n: usize) {
    (0..n).filter(|i| from.has(*i)).for_each(|i| to.insert(i));
}

fn minus(a: &Set, b: &Set, n: usize) -> Set {
    let mut out = Set::none(n);
    (0..n).filter(|i| a.has(*i) && !b.has(*i)).for_each(|i| out.insert(i));
    out
}

fn common(a: &Set, b: &Set, n: usize) -> Set {
    let mut out = Set::none(n);
    (0..n).filter(|i| a.has(*i) && b.has(*i)).for_each(|i| out.insert(i));
    out
}

pub(super) fn slug(text: &str) -> String {
    let plain: String = text.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect();
    plain.trim_matches('-').chars().take(60).collect()
}

/// Replaces facts that stand literally in command lines by variables.
fn with_variables(text: &str, machine: &Machine) -> String {
    let facts = literals(&machine.node);
    let mut out = String::new();
    for line in text.split_inclusive('\n') {
        let mut line = line.to_owned();
        if line.starts_with("Exec") {
            for (value, fact) in &facts {
                line = line.replace(value, &format!("${{{}}}", variable(fact)));
            }
        }
        out.push_str(&line);
    }
    out
}
