// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `explain` says, for people and for programs.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Result;
use nodebase_generator::layer::Name;
use nodebase_generator::report::Severity;
use serde::Serialize;

use crate::tree::Tree;
use crate::unit::effective::{Effective, Line};
use crate::unit::words;

/// The report.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Would the generator write its marker?
    pub complete: bool,
    /// The machine's facets.
    pub facets: Vec<Facet>,
    /// The layers that match, in the order in which they count.
    pub layers: Vec<String>,
    /// The others, those that lack least first.
    pub other_layers: Vec<Miss>,
    /// Entries of matching layers that are not linked.
    pub skipped: Vec<Skip>,
    /// What the generator warns of.
    pub notes: Vec<Note>,
    /// The unit's name.
    pub unit: String,
    /// The unit.
    pub effective: Effective,
    /// Its command line with every variable that is known replaced; `${…}` stands for what the running machine knows.
    pub command_line: Vec<String>,
    /// Files that give it variables at run time.
    pub environment_files: Vec<String>,
}

/// A facet.
#[derive(Debug, Serialize)]
pub struct Facet {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// Where that comes from.
    pub source: String,
}

/// A layer that does not match.
#[derive(Debug, Serialize)]
pub struct Miss {
    /// The layer.
    pub layer: String,
    /// The conditions that do not hold.
    pub because: Vec<Condition>,
}

/// A condition that does not hold.
#[derive(Debug, Serialize)]
pub struct Condition {
    /// The facet.
    pub facet: String,
    /// What the layer wants.
    pub want: String,
    /// What the machine has.
    pub have: Option<String>,
}

/// An entry that is not linked.
#[derive(Debug, Serialize)]
pub struct Skip {
    /// The layer.
    pub layer: String,
    /// The entry.
    pub path: String,
    /// Why not.
    pub why: String,
}

/// Something the generator says.
#[derive(Debug, Serialize)]
pub struct Note {
    /// `warning`, or `problem`: kubelet stays off.
    pub severity: &'static str,
    /// What.
    pub text: String,
}

impl Report {
    pub(super) fn new(tree: &Tree, name: &str, effective: Effective) -> Result<Self> {
        let plan = &tree.plan;
        let facets = plan.facets.iter().map(|f| Facet {
            name: f.name.clone().into_owned(),
            value: f.value.clone(),
            source: f.source.clone().into_owned(),
        });
        let mut other_layers: Vec<Miss> = Vec::new();
        for layer in &plan.others {
            let Ok(parsed) = Name::parse(layer) else { continue };
            let because = parsed.mismatches(&plan.facets).map(|(facet, want, have)| Condition {
                facet: facet.to_owned(),
                want: want.to_owned(),
                have: have.map(str::to_owned),
            });
            other_layers.push(Miss { layer: layer.clone(), because: because.collect() });
        }
        other_layers.sort_by_key(|m| m.because.len());
        let notes = plan.report.notes().iter().map(|n| Note {
            severity: if n.severity == Severity::Problem { "problem" } else { "warning" },
            text: n.text.clone(),
        });
        let skipped =
            plan.skipped.iter().map(|s| Skip { layer: s.layer.clone(), path: s.path.clone(), why: s.why.clone() });
        Ok(Self {
            complete: plan.report.is_complete(),
            facets: facets.collect(),
            layers: plan.layers.clone(),
            other_layers,
            skipped: skipped.collect(),
            notes: notes.collect(),
            command_line: command_line(tree, &effective)?,
            environment_files: effective.values("Service", "EnvironmentFile").map(|l| l.value.clone()).collect(),
            unit: name.to_owned(),
            effective,
        })
    }

    /// The report for people.
    pub fn text(&self) -> String {
        let mut t = String::new();
        let width = self.facets.iter().map(|f| f.name.len()).max().unwrap_or(0);
        let values = self.facets.iter().map(|f| f.value.len()).max().unwrap_or(0);
        let _ = writeln!(t, "Facets");
        for f in &self.facets {
            let from = match f.source.as_str() {
                "default" => "default".to_owned(),
                s if self.facets.iter().any(|o| o.name == s) => format!("follows from {s}"),
                s => s.to_owned(),
            };
            let _ = writeln!(t, "  {:width$}  {:values$}  {from}", f.name, f.value);
        }
        let _ = writeln!(t, "\nLayers that match");
        for layer in &self.layers {
            let _ = writeln!(t, "  {layer}");
        }
        let _ = writeln!(t, "\nLayers that do not");
        let width = self.other_layers.iter().map(|m| m.layer.len()).max().unwrap_or(0);
        for miss in &self.other_layers {
            let why: Vec<_> = miss
                .because
                .iter()
                .map(|c| match &c.have {
                    Some(have) => format!("{} is {have}", c.facet),
                    None => format!("there is no facet {}", c.facet),
                })
                .collect();
            let _ = writeln!(t, "  {:width$}  {}", miss.layer, why.join(", "));
        }
        for skip in &self.skipped {
            let _ = writeln!(t, "  not linked: {} of layer {}: {}", skip.path, skip.layer, skip.why);
        }
        let _ = writeln!(t, "\n{}", self.unit);
        self.unit_text(&mut t);
        if !self.command_line.is_empty() {
            let _ = writeln!(t, "\nCommand line");
            for (i, word) in self.command_line.iter().enumerate() {
                let _ = writeln!(t, "  {}{word}", if i == 0 { "" } else { "    " });
            }
            for file in &self.environment_files {
                let _ = writeln!(t, "  # ${{…}} may come from {file}");
            }
        }
        if !self.notes.is_empty() {
            let _ = writeln!(t, "\nNotes");
            for note in &self.notes {
                let _ = writeln!(t, "  {}: {}", note.severity, note.text);
            }
        }
        if !self.complete {
            let _ = writeln!(t, "\nThe generator writes no marker here: kubelet.service stays off.");
        }
        t
    }

    fn unit_text(&self, t: &mut String) {
        let e = &self.effective;
        match &e.fragment {
            Some(path) if e.masked => t.extend(["  masked by ", path, "\n"]),
            Some(path) => t.extend(["  ", path, "\n"]),
            None => t.push_str("  no unit of that name, drop-ins only\n"),
        }
        for path in &e.dropins {
            let _ = writeln!(t, "  {path}");
        }
        for (path, by) in &e.hidden {
            let _ = writeln!(t, "  hidden: {path} by {by}");
        }
        // Sections in the order of their first line, as a unit would be written.
        let mut sections: Vec<(&str, Vec<&Line>)> = Vec::new();
        for line in &e.lines {
            match sections.iter_mut().find(|(s, _)| *s == line.section) {
                Some((_, lines)) => lines.push(line),
                None => sections.push((&line.section, vec![line])),
            }
        }
        for (section, lines) in sections {
            let _ = writeln!(t, "  [{section}]");
            for line in lines {
                let _ = writeln!(t, "    # {}:{}", line.origin.file, line.origin.line);
                let _ = writeln!(t, "    {}={}", line.key, line.value);
            }
        }
    }
}

/// The main command line, variables of the unit replaced.
fn command_line(tree: &Tree, unit: &Effective) -> Result<Vec<String>> {
    let Some(exec) = unit.values("Service", "ExecStart").last() else { return Ok(Vec::new()) };
    let mut variables = words::environment(unit.values("Service", "Environment").map(|l| l.value.as_str()));
    for file in unit.values("Service", "EnvironmentFile") {
        let path = file.value.trim_start_matches('-');
        variables.extend(environment_file(&tree.text(path)?.unwrap_or_default()));
    }
    let words = words::split(exec.value.trim_start_matches(['@', '-', ':', '+', '!']));
    // By the design of our units a bare $X comes from a layer or vanishes; ${X} is what the running machine fills in.
    let unknown: Vec<&str> = words.iter().flat_map(|w| braced(w)).filter(|n| !variables.contains_key(*n)).collect();
    Ok(words::expand(&words, &variables, &unknown))
}

fn braced(word: &str) -> Vec<&str> {
    word.split("${").skip(1).filter_map(|part| part.split_once('}').map(|(name, _)| name)).collect()
}

/// An `EnvironmentFile=`'s assignments.
fn environment_file(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().map(str::trim).filter(|l| !l.starts_with(['#', ';']));
    lines
        .filter_map(|l| l.split_once('='))
        .map(|(k, v)| (k.trim().to_owned(), words::split(v.trim()).join(" ")))
        .collect()
}
