// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One run of the generator: arguments and environment in, exit status out.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use log::{error, info, warn};

use crate::cmdline::Cmdline;
use crate::emit;
use crate::facet::PLATFORM_ID;
use crate::kmsg;
use crate::node::KARG;
use crate::plan::{Input, Plan};
use crate::report::{Report, Severity};
use crate::root::Root;

/// Exit status for everything but the other one, bad data too.
pub const SUCCESS: u8 = 0;
/// Exit status for wrong usage and for output that cannot be written.
pub const FAILURE: u8 = 1;

/// Far below any limit of open files (systemd's is 1024 and more), far above what an image's layers need.
const HANDLES: u32 = 256;

/// Runs the generator on the directories in `args`, with the variables that `env` gives.
pub fn run(args: &[OsString], env: impl Fn(&str) -> Option<OsString>) -> u8 {
    let normal = match args {
        [normal] | [normal, _, _] => Path::new(normal),
        _ => {
            kmsg::init("/dev/kmsg");
            error!("takes one or three directories (systemd.generator(7)), not {}", args.len());
            return FAILURE;
        }
    };
    // What the initramfs needs is the dracut module's part.
    if env("SYSTEMD_IN_INITRD").is_some_and(|v| v == "1") {
        return SUCCESS;
    }
    let root_path = env("NODEBASE_ROOT").filter(|p| !p.is_empty() && !below_run_systemd(normal)).map(PathBuf::from);
    let root = match root_path.as_deref().map_or_else(|| Ok(Root::system()), Root::at) {
        Ok(root) => root.leaving_open(HANDLES),
        Err(e) => {
            kmsg::init("/dev/kmsg");
            error!("NODEBASE_ROOT={}: {e}", root_path.unwrap_or_default().display());
            return FAILURE;
        }
    };
    let container = env("SYSTEMD_VIRTUALIZATION").is_some_and(|v| v.as_bytes().starts_with(b"container:"));
    let mut report = Report::default();
    let cmdline = read_cmdline(&root, container, env("SYSTEMD_PROC_CMDLINE"), &mut report);
    if container && !asks_for_us(&cmdline) {
        return SUCCESS;
    }
    let credentials = credentials(&root, env("CREDENTIALS_DIRECTORY"));
    let plan = Plan::make(&root, &Input { cmdline, credentials, node_etc: None }, report);
    let result = emit::emit(&plan, normal);
    kmsg::init(&format!("{}/dev/kmsg", root.path().to_str().unwrap_or_default().trim_end_matches('/')));
    say(&plan, &result);
    if result.is_ok() { SUCCESS } else { FAILURE }
}

/// PID 1 hands words of the kernel command line to generators as environment: at boot ours must not count.
fn below_run_systemd(directory: &Path) -> bool {
    let real = std::fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
    real.starts_with("/run/systemd") || directory.starts_with("/run/systemd")
}

fn read_cmdline(root: &Root, container: bool, given: Option<OsString>, report: &mut Report) -> Cmdline {
    if let Some(given) = given {
        return Cmdline::from_text(given.as_bytes());
    }
    let path = if container { "/proc/1/cmdline" } else { "/proc/cmdline" };
    match root.read(path) {
        Ok(Some(argv)) if container => Cmdline::from_argv(&argv),
        // As systemd itself refuses it; the kernel writes none.
        Ok(Some(text)) if text.contains(&0) => {
            report.problem(format!("{path}: holds a NUL byte"));
            Cmdline::default()
        }
        Ok(Some(text)) => Cmdline::from_text(&text),
        Ok(None) if !root.is_system() => Cmdline::default(),
        Ok(None) => {
            report.problem(format!("{path}: is missing"));
            Cmdline::default()
        }
        Err(e) => {
            report.problem(format!("{path}: cannot be read: {e}"));
            Cmdline::default()
        }
    }
}

/// Does a container's command line name a platform or one of our keys?
fn asks_for_us(cmdline: &Cmdline) -> bool {
    cmdline.values(PLATFORM_ID).next().is_some()
        || cmdline.assignments().any(|(key, _)| key.starts_with(KARG.as_bytes()))
}

/// At boot the directory is systemd's fixed one, whatever the environment says; below another root it may be named.
fn credentials(root: &Root, given: Option<OsString>) -> Option<String> {
    if root.is_system() {
        return None;
    }
    let given = given?.into_string().ok()?;
    let inside = Path::new(&given).strip_prefix(root.path()).ok().and_then(Path::to_str).map(str::to_owned);
    Some(inside.map_or(given, |p| format!("/{p}")))
}

/// One line that says what was done, then what a person must know, worst first: the kernel passes on only the first
/// ten lines of a burst.
fn say(plan: &Plan, result: &Result<(), emit::Failure>) {
    let facet = |name| plan.facets.get(name).unwrap_or("?");
    let complete = if result.is_ok() && plan.report.is_complete() {
        "complete"
    } else {
        "INCOMPLETE, kubelet stays off (systemctl status nodebase-incomplete.service)"
    };
    info!(
        "platform {}, clusterPlatform {}, role {}: {} of {} layers, {} links: {complete}",
        facet("platform"),
        facet("clusterPlatform"),
        facet("role"),
        plan.layers.len(),
        plan.layers.len() + plan.others.len(),
        plan.links.len(),
    );
    if let Err(e) = result {
        error!("{}: cannot be written: {}", e.path, e.why);
    }
    let notes = plan.report.notes();
    let problems = notes.iter().filter(|n| n.severity == Severity::Problem);
    let warnings = notes.iter().filter(|n| n.severity == Severity::Warning);
    let room = kmsg::MAX_LINES - 3;
    for note in problems.chain(warnings).take(room) {
        match note.severity {
            Severity::Problem => error!("{}", note.text),
            Severity::Warning => warn!("{}", note.text),
        }
    }
    let more = notes.len().saturating_sub(room) + plan.report.dropped();
    if more > 0 {
        warn!("{more} more of these: `nodebase explain` shows them");
    }
}

/// `env` for [`run`] that reads the process's own environment.
pub fn process_env(name: &str) -> Option<OsString> {
    std::env::var_os(OsStr::new(name))
}
