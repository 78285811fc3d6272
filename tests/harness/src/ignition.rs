// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The Ignition config of a test machine: the test's own, untouched, merged into one that brings the runner.

use crate::suite::Test;
use anyhow::{Context, Result, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// The guest's side, embedded: the harness is one file.
const RUNNER: &str = include_str!("../guest/runner");
const RUNNER_UNIT: &str = include_str!("../guest/kola-runext.service");
/// Where kola puts them.
const EXECUTABLES: &str = "/usr/local/bin";
const DATA: &str = "/var/opt/kola";
/// The newest specification that Ignition 2.14 knows; newer ones read it as well.
const SPECIFICATION: &str = "3.3.0";

/// The config for one machine that runs `tests`, one after the other.
///
/// # Errors
/// When a file of a test cannot be read or its config is no Ignition config.
pub fn config(tests: &[Test]) -> Result<Value> {
    let mut files = vec![file("/usr/local/bin/nodebase-kola-runner", 0o755, RUNNER.as_bytes())];
    let mut merge = Vec::new();
    let mut list = String::new();
    for (index, test) in tests.iter().enumerate() {
        let base = test.executable.file_name().context("a test without a name")?.to_string_lossy().into_owned();
        // kola names the program by its base name alone; machines that are shared need a directory each.
        let directory = if index == 0 { EXECUTABLES.to_owned() } else { format!("{EXECUTABLES}/{index}") };
        let executable = format!("{directory}/kola-runext-{base}");
        files.push(file(&executable, 0o755, &read(&test.executable)?));
        let data = if index == 0 { format!("{DATA}/extdata") } else { format!("{DATA}/extdata{index}") };
        if let Some(source) = &test.data {
            add_tree(source, &data, &mut files)?;
        }
        let _ = writeln!(list, "{} {executable} {data}", test.name);
        if let Some(path) = &test.config {
            merge.push(json!({ "source": data_url(&own_config(path)?) }));
        }
    }
    files.push(file(&format!("{DATA}/list"), 0o644, list.as_bytes()));
    Ok(json!({
        "ignition": { "version": SPECIFICATION, "config": { "merge": merge } },
        "storage": { "files": files },
        "systemd": { "units": [{ "name": "kola-runext.service", "enabled": true, "contents": RUNNER_UNIT }] },
    }))
}

/// The test's config as Ignition JSON; a Butane one goes through butane.
fn own_config(path: &Path) -> Result<Vec<u8>> {
    if path.extension().is_some_and(|extension| extension == "bu") {
        let file = fs::File::open(path).with_context(|| format!("read {}", path.display()))?;
        let output = Command::new("butane").arg("--strict").stdin(Stdio::from(file)).output();
        let output = output.with_context(|| {
            format!(
                "{}: butane is needed for config.bu and could not be run (config.ign needs nothing)",
                path.display()
            )
        })?;
        if !output.status.success() {
            bail!("{}: butane: {}", path.display(), String::from_utf8_lossy(&output.stderr).trim());
        }
        return Ok(output.stdout);
    }
    let text = read(path)?;
    let value: Value = serde_json::from_slice(&text).with_context(|| format!("{}", path.display()))?;
    if value.pointer("/ignition/version").and_then(Value::as_str).is_none() {
        bail!("{}: ignition.version is missing", path.display());
    }
    Ok(text)
}

fn add_tree(source: &Path, target: &str, files: &mut Vec<Value>) -> Result<()> {
    let read_directory = || format!("read directory {}", source.display());
    let mut entries: Vec<_> = fs::read_dir(source)
        .with_context(read_directory)?
        .collect::<std::io::Result<_>>()
        .with_context(read_directory)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let target = format!("{target}/{}", entry.file_name().to_string_lossy());
        let status = fs::metadata(&path).with_context(|| format!("stat {}", path.display()))?;
        if status.is_dir() {
            add_tree(&path, &target, files)?;
        } else {
            files.push(file(&target, status.permissions().mode() & 0o777, &read(&path)?));
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("read {}", path.display()))
}

fn file(path: &str, mode: u32, contents: &[u8]) -> Value {
    json!({ "path": path, "mode": mode, "overwrite": true, "contents": { "source": data_url(contents) } })
}

fn data_url(contents: &[u8]) -> String {
    format!("data:;base64,{}", STANDARD.encode(contents))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::Metadata;

    fn test_in(directory: &Path, name: &str) -> Test {
        let executable = directory.join("test.sh");
        fs::write(&executable, "#!/bin/sh\n").unwrap();
        Test { name: name.to_owned(), executable, config: None, data: None, metadata: Metadata::default() }
    }

    #[test]
    fn the_tests_config_is_merged_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let mut test = test_in(dir.path(), "ext.p.a");
        let own = r#"{"ignition":{"version":"3.0.0"},"storage":{}}"#;
        let path = dir.path().join("config.ign");
        fs::write(&path, own).unwrap();
        test.config = Some(path);
        let data = dir.path().join("data/sub");
        fs::create_dir_all(&data).unwrap();
        fs::write(data.join("expected"), "x").unwrap();
        test.data = Some(dir.path().join("data"));
        let config = config(&[test]).unwrap();
        let source = config.pointer("/ignition/config/merge/0/source").unwrap().as_str().unwrap();
        assert_eq!(STANDARD.decode(source.trim_start_matches("data:;base64,")).unwrap(), own.as_bytes());
        let paths: Vec<_> = config["storage"]["files"]
            .as_array()
            .unwrap()
            .iter()
            .map(|file| (file["path"].as_str().unwrap(), file["mode"].as_u64().unwrap()))
            .collect();
        assert!(paths.contains(&("/usr/local/bin/kola-runext-test.sh", 0o755)), "{paths:?}");
        assert!(paths.contains(&("/var/opt/kola/extdata/sub/expected", 0o644)), "{paths:?}");
    }

    #[test]
    fn two_tests_of_one_machine_do_not_share_files() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let config = config(&[test_in(one.path(), "a"), test_in(two.path(), "b")]).unwrap();
        let mut paths: Vec<_> =
            config["storage"]["files"].as_array().unwrap().iter().map(|file| file["path"].to_string()).collect();
        let all = paths.len();
        paths.sort();
        paths.dedup();
        assert_eq!(paths.len(), all);
    }

    #[test]
    fn a_config_without_a_version_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.ign");
        fs::write(&path, "{}").unwrap();
        assert!(own_config(&path).unwrap_err().to_string().contains("ignition.version"));
    }
}
