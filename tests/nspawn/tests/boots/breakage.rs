// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whatever is broken: the machine boots, kubelet stays off, and a person is told which file and key.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use anyhow::{Result, ensure};
use nodebase_nspawn::boot::{Boot, Outcome};

use crate::Check;

const GENERATOR: &str = "/usr/lib/systemd/system-generators/nodebase-generator";
const NODE: &str = "/etc/nodebase/node.json";

/// What is done to the tree, what a person must read, how it is mended.
struct Breakage {
    name: &'static str,
    what: fn(&Boot) -> Result<()>,
    says: &'static [&'static str],
    mend: &'static str,
}

const BREAKAGES: &[Breakage] = &[
    Breakage {
        name: "node-json-unparsable",
        what: |b| b.write(NODE, "{\"role\": \"master\""),
        says: &["/etc/nodebase/node.json", "cannot be parsed"],
        mend: "rm /etc/nodebase/node.json",
    },
    Breakage {
        name: "node-json-wrong-type",
        what: |b| b.write(NODE, "{\"role\": 7}"),
        says: &["/etc/nodebase/node.json", "\"role\""],
        mend: "rm /etc/nodebase/node.json",
    },
    Breakage {
        name: "node-json-empty",
        what: |b| b.write(NODE, ""),
        says: &["/etc/nodebase/node.json", "cannot be parsed"],
        mend: "rm /etc/nodebase/node.json",
    },
    Breakage {
        name: "dangling-layer-link",
        what: |b| {
            b.link(
                "/usr/lib/systemd/system/gone.service",
                "/usr/lib/nodebase/layers/platform=aws/multi-user.target.wants/gone.service",
            )
        },
        says: &["platform=aws/multi-user.target.wants/gone.service", "/usr/lib/systemd/system/gone.service"],
        mend: "rm -r /usr/lib/nodebase/layers/platform=aws/multi-user.target.wants",
    },
    Breakage {
        name: "nonsense-layer-name",
        what: |b| b.write("/usr/lib/nodebase/layers/aws/foo.service.d/10-x.conf", "[Unit]\n"),
        says: &["/usr/lib/nodebase/layers/aws", "not a layer's name"],
        mend: "rm -r /usr/lib/nodebase/layers/aws",
    },
    Breakage {
        name: "table-missing",
        what: |b| Ok(fs::rename(b.path("/usr/lib/nodebase/platforms.json"), b.path("/usr/lib/nodebase/saved"))?),
        says: &["/usr/lib/nodebase/platforms.json", "is missing"],
        mend: "mv /usr/lib/nodebase/saved /usr/lib/nodebase/platforms.json",
    },
    Breakage {
        name: "generator-missing",
        what: |b| Ok(fs::rename(b.path(GENERATOR), b.path("/usr/lib/nodebase/saved"))?),
        says: &["It is missing", GENERATOR],
        mend: "mv /usr/lib/nodebase/saved /usr/lib/systemd/system-generators/nodebase-generator",
    },
    Breakage {
        name: "generator-not-executable",
        what: |b| Ok(fs::set_permissions(b.path(GENERATOR), fs::Permissions::from_mode(0o644))?),
        says: &["It is not executable", GENERATOR],
        mend: "chmod 0755 /usr/lib/systemd/system-generators/nodebase-generator",
    },
    Breakage {
        name: "generator-masked",
        what: |b| b.link("/dev/null", "/etc/systemd/system-generators/nodebase-generator"),
        says: &["It is masked"],
        mend: "rm /etc/systemd/system-generators/nodebase-generator",
    },
    Breakage {
        name: "generator-crashes-midway",
        what: crash,
        says: &["was stopped or could not write"],
        mend: "mv /usr/lib/nodebase/saved /usr/lib/systemd/system-generators/nodebase-generator",
    },
];

/// A generator that writes half of what the real one does and then dies by a signal.
fn crash(boot: &Boot) -> Result<()> {
    fs::rename(boot.path(GENERATOR), boot.path("/usr/lib/nodebase/saved"))?;
    boot.write(
        GENERATOR,
        "#!/bin/bash\n/usr/lib/nodebase/saved \"$@\"\nrm -f \"$1/nodebase.complete\" \"$1\"/kubelet.service.d/11-*\nkill -SEGV $$\n",
    )?;
    Ok(fs::set_permissions(boot.path(GENERATOR), fs::Permissions::from_mode(0o755))?)
}

pub fn checks() -> Vec<(String, Check)> {
    let mut checks: Vec<(String, Check)> = Vec::new();
    for breakage in BREAKAGES {
        checks.push((format!("broken-at-boot/{}", breakage.name), Box::new(move |version| at_boot(version, breakage))));
    }
    let later: &[(&str, &str, &[&str])] = &[
        ("node-json", "echo '{' >/etc/nodebase/node.json", &["/etc/nodebase/node.json"]),
        ("generator-missing", "rm /usr/lib/systemd/system-generators/nodebase-generator", &["It is missing"]),
        (
            "generator-masked",
            "mkdir -p /etc/systemd/system-generators; ln -s /dev/null /etc/systemd/system-generators/nodebase-generator",
            &["It is masked"],
        ),
    ];
    for &(name, script, says) in later {
        checks.push((format!("breaks-later/{name}"), Box::new(move |version| breaks_later(version, script, says))));
    }
    checks
}

fn at_boot(version: &str, breakage: &Breakage) -> Result<()> {
    let boot = Boot::new(&["ignition.platform.id=aws"])?;
    (breakage.what)(&boot)?;
    boot.give("mend", breakage.mend)?;
    let outcome = boot.run(version, "broken.sh")?;
    off(&outcome, "boot", breakage.says)?;
    ensure!(outcome.text("starts-before")?.trim() == "0", "kubelet was started");
    let start = outcome.text("start")?;
    ensure!(start.lines().last() != Some("0"), "`systemctl start kubelet` succeeds: {start}");
    // Once the cause is gone everything is as if it had never been.
    ensure!(
        outcome.text("mended-start")?.lines().last() == Some("0"),
        "does not start after: {}",
        outcome.text("mended-start")?
    );
    ensure!(outcome.kubelet("mended", "ActiveState")? == "active", "not active after mending");
    ensure!(outcome.argv("mended")?.iter().any(|w| w == "--cloud-provider=external"), "not specialised after mending");
    Ok(())
}

/// Kubelet is off, and everything that a person looks at says why.
fn off(outcome: &Outcome, dump: &str, says: &[&str]) -> Result<()> {
    ensure!(outcome.kubelet(dump, "ActiveState")? != "active", "kubelet runs");
    ensure!(!outcome.has(&format!("{dump}/generator/nodebase.complete")), "there is a marker");
    let failed = outcome.text(&format!("{dump}/failed"))?;
    ensure!(failed.contains("nodebase-incomplete.service"), "`systemctl --failed`:\n{failed}");
    for (what, text) in
        [("status", outcome.text(&format!("{dump}/status"))?), ("journal", outcome.text(&format!("{dump}/journal"))?)]
    {
        for word in says {
            ensure!(text.contains(word), "{what} lacks {word:?}:\n{text}");
        }
    }
    Ok(())
}

fn breaks_later(version: &str, script: &str, says: &[&str]) -> Result<()> {
    let boot = Boot::new(&["ignition.platform.id=aws"])?;
    boot.write(NODE, "{\"role\": \"master\"}")?;
    boot.give("break", script)?;
    let outcome = boot.run(version, "breaks-later.sh")?;
    ensure!(outcome.kubelet("boot", "ActiveState")? == "active", "kubelet does not run at first");
    // A reload is no reason to stop what runs.
    ensure!(outcome.kubelet("reloaded", "ActiveState")? == "active", "the reload stopped kubelet");
    ensure!(outcome.text("starts-before")? == outcome.text("starts-after")?, "kubelet was started again");
    ensure!(outcome.kubelet("killed", "ActiveState")? != "active", "kubelet came back by itself");
    off(&outcome, "restarted", says)
}
