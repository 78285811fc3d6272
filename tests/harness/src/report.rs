// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The results for machines (JUnit XML) and for people (one HTML page that needs no other file).

use crate::machine::Outcome;
use anyhow::{Context, Result};
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite, XmlString};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// What the page tells about the run as a whole.
#[derive(Debug, Clone)]
pub struct Run {
    /// The image that was tested.
    pub image: String,
    /// `kvm` or `tcg`.
    pub acceleration: String,
    /// Wall time.
    pub duration: Duration,
    /// Tests that were left out, and why.
    pub skipped: Vec<(String, String)>,
}

/// Write `junit.xml`.
///
/// # Errors
/// When the file cannot be written.
pub fn junit(outcomes: &[Outcome], run: &Run, path: &Path) -> Result<()> {
    let mut report = Report::new("nodebase-harness");
    report.set_time(run.duration);
    let mut suite = TestSuite::new(format!("kola on {}", run.acceleration));
    suite.set_time(run.duration);
    for outcome in outcomes {
        let status = if outcome.passed() {
            TestCaseStatus::success()
        } else {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
            status.set_message(outcome.failures[0].clone());
            status
                .set_description(outcome.failures.iter().chain(&outcome.hints).cloned().collect::<Vec<_>>().join("\n"));
            status
        };
        let mut case = TestCase::new(outcome.name.clone(), status);
        case.set_classname("kola").set_time(outcome.duration).set_system_out(XmlString::new(&outcome.output));
        suite.add_test_case(case);
    }
    for (name, reason) in &run.skipped {
        let mut status = TestCaseStatus::skipped();
        status.set_message(reason.clone());
        let mut case = TestCase::new(name.clone(), status);
        case.set_classname("kola");
        suite.add_test_case(case);
    }
    report.add_test_suite(suite);
    let file = fs::File::create(path).with_context(|| format!("create {}", path.display()))?;
    report.serialize(file).with_context(|| format!("write {}", path.display()))
}

/// Write the page.
///
/// # Errors
/// When the file cannot be written.
pub fn html(outcomes: &[Outcome], run: &Run, path: &Path) -> Result<()> {
    fs::write(path, page(outcomes, run)).with_context(|| format!("write {}", path.display()))
}

const STYLE: &str = "\
:root{color-scheme:light dark;--ok:#2e7d32;--bad:#c62828;--dim:#757575;--line:#9995}
body{font:15px/1.45 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.4rem;margin:0 0 .3rem}p.run{color:var(--dim);margin:0 0 1rem}
.sum{display:flex;gap:2rem;margin:1rem 0;font-size:1.1rem}.sum b{font-size:1.7rem;display:block}
.ok{color:var(--ok)}.bad{color:var(--bad)}.dim{color:var(--dim)}
table{border-collapse:collapse;width:100%}td,th{padding:.35rem .6rem;border-bottom:1px solid var(--line);text-align:left;vertical-align:top}
td.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
code{font:13px ui-monospace,monospace}ul{margin:.2rem 0;padding-left:1.1rem}
.bar{display:flex;height:.6rem;min-width:9rem;margin-top:.4rem}.bar i{background:#5c8fd6;border-right:1px solid Canvas}
details{margin:.2rem 0}summary{cursor:pointer;color:var(--dim)}
pre{font:12px/1.35 ui-monospace,monospace;overflow-x:auto;background:#8881;padding:.6rem;max-height:30rem}";

fn page(outcomes: &[Outcome], run: &Run) -> String {
    let failed = outcomes.iter().filter(|outcome| !outcome.passed()).count();
    let boots: usize = outcomes.iter().map(|outcome| outcome.boots.len()).sum();
    let longest = outcomes.iter().map(|outcome| outcome.duration.as_secs_f64()).fold(1.0, f64::max);
    let mut rows = String::new();
    // What needs a look stands first.
    let mut sorted: Vec<_> = outcomes.iter().collect();
    sorted.sort_by_key(|outcome| (outcome.passed(), outcome.name.clone()));
    for outcome in sorted {
        row(&mut rows, outcome, longest);
    }
    for (name, reason) in &run.skipped {
        let _ = writeln!(
            rows,
            "<tr><td class=dim>skip</td><td><code>{}</code><div class=dim>{}</div></td><td></td><td></td></tr>",
            escape(name),
            escape(reason)
        );
    }
    format!(
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width\">\n\
         <title>{failed} failed, {} passed</title><style>{STYLE}</style>\n\
         <h1>Boot tests</h1><p class=run><code>{}</code>, {}</p>\n\
         <div class=sum><div class=ok><b>{}</b>passed</div><div class={}><b>{failed}</b>failed</div>\
         <div class=dim><b>{}</b>skipped</div><div><b>{boots}</b>boots</div><div><b>{}</b>wall time</div></div>\n\
         <table><tr><th></th><th>test</th><th>boots</th><th>time</th></tr>\n{rows}</table></html>\n",
        outcomes.len() - failed,
        escape(&run.image),
        escape(&run.acceleration),
        outcomes.len() - failed,
        if failed > 0 { "bad" } else { "dim" },
        run.skipped.len(),
        clock(run.duration),
    )
}

fn row(rows: &mut String, outcome: &Outcome, longest: f64) {
    let (class, word) = if outcome.passed() { ("ok", "pass") } else { ("bad", "FAIL") };
    let _ = write!(
        rows,
        "<tr><td class={class}>{word}</td><td><code>{}</code><div class=dim>{}</div>",
        escape(&outcome.name),
        escape(&outcome.description)
    );
    let list = |rows: &mut String, class: &str, items: &[String]| {
        if !items.is_empty() {
            let _ = write!(rows, "<ul class={class}>");
            for item in items {
                let _ = write!(rows, "<li>{}", escape(item));
            }
            rows.push_str("</ul>");
        }
    };
    list(rows, "bad", &outcome.failures);
    if !outcome.passed() {
        list(rows, "dim", &outcome.hints);
    }
    let open = if outcome.passed() { "" } else { " open" };
    let logs = outcome.logs.file_name().unwrap_or_default().to_string_lossy();
    let _ = write!(rows, "<details{open}><summary>output</summary><pre>{}</pre>", escape(&tail(&outcome.output, 200)));
    for (number, (duration, analyze)) in outcome.boots.iter().enumerate() {
        let number = number + 1;
        let _ = write!(
            rows,
            "<div class=dim>boot {number}, {}: {} <a href=\"{logs}/boot-{number}/console.txt\">console</a> \
             <a href=\"{logs}/boot-{number}/journal.txt\">journal</a></div>",
            clock(*duration),
            escape(analyze.as_deref().unwrap_or("no report"))
        );
    }
    let _ = write!(
        rows,
        "</details></td><td class=n>{}</td><td class=n>{}<div class=bar>",
        outcome.boots.len(),
        clock(outcome.duration)
    );
    for (duration, _) in &outcome.boots {
        let _ = write!(rows, "<i style=\"width:{:.0}%\"></i>", 100.0 * duration.as_secs_f64() / longest);
    }
    rows.push_str("</div></td></tr>\n");
}

fn clock(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if seconds < 60 {
        format!("{:.1} s", duration.as_secs_f64())
    } else {
        format!("{}:{:02} min", seconds / 60, seconds % 60)
    }
}

fn tail(text: &str, lines: usize) -> String {
    let all: Vec<_> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(name: &str, failures: &[&str]) -> Outcome {
        Outcome {
            name: name.to_owned(),
            description: "what <it> does".to_owned(),
            failures: failures.iter().map(|failure| (*failure).to_owned()).collect(),
            hints: Vec::new(),
            output: "a & b\u{1}\n".to_owned(),
            duration: Duration::from_secs(75),
            boots: vec![(Duration::from_secs(75), None)],
            logs: "/out/x".into(),
        }
    }

    fn run() -> Run {
        Run {
            image: "img".to_owned(),
            acceleration: "tcg".to_owned(),
            duration: Duration::from_secs(80),
            skipped: vec![("ext.s".to_owned(), "platforms: aws".to_owned())],
        }
    }

    #[test]
    fn the_page_escapes_and_puts_failures_first() {
        let page = page(&[outcome("ext.a", &[]), outcome("ext.b", &["<boom>"])], &run());
        assert!(page.contains("&lt;boom&gt;") && page.contains("what &lt;it&gt; does") && !page.contains("<boom>"));
        assert!(page.find("ext.b").unwrap() < page.find("ext.a").unwrap());
        assert!(page.contains("1:15 min") && page.contains("platforms: aws"));
    }

    #[test]
    fn junit_can_be_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("junit.xml");
        junit(&[outcome("ext.a", &[]), outcome("ext.b", &["boom"])], &run(), &path).unwrap();
        let report = Report::deserialize_from_str(&fs::read_to_string(path).unwrap()).unwrap();
        assert_eq!((report.tests, report.failures), (3, 1));
    }
}
