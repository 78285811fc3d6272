// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ignition configs and MachineConfigs as input: JSON or YAML, one or many in a document.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail};
use data_url::DataUrl;
use ignition_config::v3_6::{Config, Resource};
use serde::Deserialize;
use serde_json::Value;

/// One input with where it came from.
#[derive(Clone, Debug)]
pub struct Source {
    /// `50-foo.yaml` or `50-foo.yaml: 99-worker-ssh`: what errors name.
    pub name: String,
    /// The Ignition part.
    pub ignition: Config,
    /// What a MachineConfig says beside it.
    pub machine: Machine,
}

/// A MachineConfig's own fields.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// Kernel arguments to add.
    pub kernel_arguments: Vec<String>,
    /// Extensions, `fips` and other things that a tree cannot hold: their names and values, for the error.
    pub unsupported: Vec<String>,
}

/// Reads one input, `-` being standard input.
///
/// # Errors
/// A file that cannot be read or is neither an Ignition config nor a MachineConfig; the message says where.
pub fn read(path: &Path) -> Result<Vec<Source>> {
    let name = path.display().to_string();
    let bytes = if path.as_os_str() == "-" {
        let mut bytes = Vec::new();
        std::io::stdin().lock().read_to_end(&mut bytes).context("reading standard input")?;
        bytes
    } else {
        std::fs::read(path).with_context(|| format!("reading {name}"))?
    };
    parse(&name, &bytes)
}

/// Parses an input's bytes; see [`read`].
///
/// # Errors
/// As [`read`].
pub fn parse(name: &str, bytes: &[u8]) -> Result<Vec<Source>> {
    let text = std::str::from_utf8(bytes).with_context(|| format!("{name}: not UTF-8"))?;
    let mut documents = Vec::new();
    if text.trim_start().starts_with('{') {
        for document in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
            documents.push(document.with_context(|| format!("{name}: not JSON"))?);
        }
    } else {
        for document in serde_yaml_ng::Deserializer::from_str(text) {
            let value = Value::deserialize(document).with_context(|| format!("{name}: not YAML"))?;
            if !value.is_null() {
                documents.push(value);
            }
        }
    }
    let mut out = Vec::new();
    for document in documents {
        take(name, &document, &mut out)?;
    }
    if out.is_empty() {
        bail!("{name}: holds no config");
    }
    Ok(out)
}

fn take(name: &str, document: &Value, out: &mut Vec<Source>) -> Result<()> {
    if let Some(items) = document.get("items").and_then(Value::as_array) {
        return items.iter().try_for_each(|item| take(name, item, out));
    }
    match document.get("kind").and_then(Value::as_str) {
        Some("MachineConfig") => {
            let own = document.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("unnamed");
            let name = format!("{name}: {own}");
            let spec = document.get("spec").cloned().unwrap_or_default();
            let ignition = match spec.get("config") {
                None | Some(Value::Null) => Config::new(ignition_config::v3_6::Ignition::new("3.6.0".to_owned())),
                Some(config) => ignition(&format!("{name}: spec.config"), config)?,
            };
            out.push(Source { ignition, machine: machine(&spec), name });
            Ok(())
        }
        Some(kind) => bail!("{name}: kind {kind:?} is no MachineConfig"),
        None if document.get("ignition").is_some() => {
            out.push(Source {
                ignition: ignition(name, document)?,
                machine: Machine::default(),
                name: name.to_owned(),
            });
            Ok(())
        }
        None => bail!("{name}: neither an Ignition config (no key \"ignition\") nor a MachineConfig (no key \"kind\")"),
    }
}

fn machine(spec: &Value) -> Machine {
    let mut out = Machine::default();
    for argument in spec.get("kernelArguments").and_then(Value::as_array).into_iter().flatten() {
        out.kernel_arguments.extend(argument.as_str().map(str::to_owned));
    }
    for key in ["extensions", "fips", "kernelType", "osImageURL", "baseOSExtensionsContainerImage"] {
        match spec.get(key) {
            None | Some(Value::Null | Value::Bool(false)) => {}
            Some(Value::String(s)) if s.is_empty() || s == "default" => {}
            Some(Value::Array(a)) if a.is_empty() => {}
            Some(value) => out.unsupported.push(format!("spec.{key}: {value}")),
        }
    }
    out
}

/// All 3.x specs are subsets of the newest, so one type reads them all.
fn ignition(name: &str, value: &Value) -> Result<Config> {
    let version = value.pointer("/ignition/version").and_then(Value::as_str).unwrap_or_default();
    let minor = version.split('-').next().and_then(|v| v.strip_prefix("3.")).and_then(|v| v.split('.').next());
    if minor.and_then(|m| m.parse::<u32>().ok()).is_none_or(|m| m > 6) {
        bail!("{name}: ignition.version {version:?}: only 3.0 to 3.6 are understood");
    }
    let config: Config =
        serde_json::from_value(value.clone()).with_context(|| format!("{name}: not a valid config"))?;
    let mut unknown = BTreeSet::new();
    let known = serde_json::to_value(&config).with_context(|| format!("{name}: writing it back"))?;
    missing("", value, &known, &mut unknown);
    if !unknown.is_empty() {
        let list: Vec<_> = unknown.into_iter().collect();
        bail!("{name}: keys that the spec does not have: {}", list.join(", "));
    }
    Ok(config)
}

/// Keys of `a` that did not come back in `b`.
fn missing(at: &str, a: &Value, b: &Value, out: &mut BTreeSet<String>) {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            for (key, value) in a {
                let path = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
                match b.get(key) {
                    Some(other) => missing(&path, value, other, out),
                    None if value.is_null() => {}
                    None => {
                        out.insert(path);
                    }
                }
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            for (i, (x, y)) in a.iter().zip(b).enumerate() {
                missing(&format!("{at}[{i}]"), x, y, out);
            }
        }
        _ => {}
    }
}

/// The bytes behind a resource: `data:` URLs, gzip, and with `fetch` also what `curl` can get.
///
/// # Errors
/// A source that cannot be decoded or fetched, or whose hash is another one.
pub fn resource(resource: &Resource, fetch: bool) -> Result<Vec<u8>> {
    let source = resource.source.as_deref().unwrap_or_default();
    let mut bytes = if source.is_empty() {
        Vec::new()
    } else if source.starts_with("data:") {
        let url = DataUrl::process(source).map_err(|e| anyhow::anyhow!("source is no data URL: {e:?}"))?;
        url.decode_to_vec().map_err(|e| anyhow::anyhow!("source is no data URL: {e:?}"))?.0
    } else if !fetch {
        bail!("remote source {source}: needs --fetch");
    } else {
        let out = std::process::Command::new("curl")
            .args(["--fail", "--silent", "--show-error", "--location", "--proto", "=https,http,file", "--", source])
            .output()
            .context("running curl")?;
        if !out.status.success() {
            bail!("fetching {source}: {}", String::from_utf8_lossy(&out.stderr).trim());
        }
        out.stdout
    };
    match resource.compression.as_deref() {
        None | Some("") => {}
        Some("gzip") => {
            let mut plain = Vec::new();
            flate2::read::MultiGzDecoder::new(&bytes[..]).read_to_end(&mut plain).context("source is no gzip data")?;
            bytes = plain;
        }
        Some(other) => bail!("compression {other:?} is not known: gzip is"),
    }
    if let Some(hash) = resource.verification.as_ref().and_then(|v| v.hash.as_deref()) {
        verify(hash, &bytes)?;
    }
    Ok(bytes)
}

fn verify(hash: &str, bytes: &[u8]) -> Result<()> {
    use sha2::Digest;
    let actual = match hash.split_once('-').map(|(kind, _)| kind) {
        Some("sha256") => format!("sha256-{}", hex(&sha2::Sha256::digest(bytes))),
        Some("sha512") => format!("sha512-{}", hex(&sha2::Sha512::digest(bytes))),
        _ => bail!("verification.hash {hash:?}: only sha256- and sha512- are known"),
    };
    if actual != hash {
        bail!("verification.hash is {hash}, the content has {actual}");
    }
    Ok(())
}

/// Bytes as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut out, b| {
        let _ = write!(out, "{b:02x}");
        out
    })
}
