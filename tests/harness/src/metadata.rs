// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a test says about itself: the `## kola:` YAML header, the one-line `# kola:` JSON, or `kola.json`.

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::path::Path;

/// kola's default for `timeoutMin`, in minutes.
const DEFAULT_TIMEOUT_MIN: u64 = 10;
/// kola's default memory for a QEMU guest, in MiB.
const DEFAULT_MEMORY_MIB: u64 = 1024;

/// The keys of kola's metadata. Keys that ask for hardware which this harness does not provide are known, so that a
/// typo is an error, and make the test a skipped one.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Metadata {
    /// One sentence for people.
    pub description: String,
    /// Platforms that the test runs on, or does not with a leading `!`; kola's word for where the machine is started.
    pub platforms: String,
    /// As `platforms`, for machine architectures (`x86_64`).
    pub architectures: String,
    /// `fcos` or `rhcos`.
    pub distros: String,
    /// Words to select tests by; some have a meaning to kola.
    pub tags: String,
    /// The test runs only when this tag is asked for.
    pub required_tag: String,
    /// Kernel arguments of every boot.
    pub append_kernel_args: String,
    /// Kernel arguments of the first boot only.
    pub append_firstboot_kernel_args: String,
    /// MiB.
    pub min_memory: Option<u64>,
    /// Minutes, for the whole test with all its boots.
    pub timeout_min: Option<u64>,
    /// `false`: the test may share a machine with others of its kind.
    pub exclusive: Option<bool>,
    /// Tests that must not share a machine with this one.
    pub conflicts: Vec<String>,
    /// GiB; not provided here.
    pub min_disk: Option<u64>,
    /// Not provided here.
    pub additional_disks: Vec<String>,
    /// Not provided here.
    pub primary_disk: serde_json::Value,
    /// Not provided here.
    pub additional_nics: Option<u32>,
    /// Not provided here.
    pub inject_container: bool,
    /// Warnings of the config transpiler are no errors.
    pub allow_config_warnings: bool,
    /// Cloud credentials; has no meaning in QEMU.
    pub no_instance_creds: bool,
}

impl Metadata {
    /// Read the metadata of an executable; `kola.json` beside it is the fallback.
    ///
    /// # Errors
    /// When a header is there and is not valid, with the file's name.
    pub fn of_executable(executable: &Path) -> Result<Self> {
        let bytes = std::fs::read(executable).with_context(|| format!("read {}", executable.display()))?;
        let text = String::from_utf8_lossy(&bytes);
        let metadata = if let Some(metadata) =
            Self::of_text(&text).with_context(|| format!("{}: kola metadata", executable.display()))?
        {
            metadata
        } else {
            let json = executable.with_file_name("kola.json");
            if json.exists() {
                let text = std::fs::read_to_string(&json).with_context(|| format!("read {}", json.display()))?;
                serde_json::from_str(&text).with_context(|| format!("{}", json.display()))?
            } else {
                Self::default()
            }
        };
        if metadata.is_exclusive() && !metadata.conflicts.is_empty() {
            bail!("{}: kola metadata: conflicts needs exclusive: false", executable.display());
        }
        Ok(metadata)
    }

    /// The header in the text of a script, if there is one.
    fn of_text(text: &str) -> Result<Option<Self>> {
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if let Some(rest) = line.strip_prefix("## kola:") {
                let mut yaml = String::from(rest);
                yaml.push('\n');
                for line in lines.by_ref().map_while(|line| line.strip_prefix("##")) {
                    yaml.push_str(line);
                    yaml.push('\n');
                }
                return Ok(Some(serde_yaml_ng::from_str::<Option<Self>>(&yaml)?.unwrap_or_default()));
            }
            if let Some(json) = line.strip_prefix("# kola:") {
                return Ok(Some(serde_json::from_str(json)?));
            }
        }
        Ok(None)
    }

    /// Whether the test has the tag.
    pub fn has_tag(&self, tag: &str) -> bool {
        self.tags.split_whitespace().any(|have| have == tag)
    }

    /// kola's default is exclusive.
    pub fn is_exclusive(&self) -> bool {
        self.exclusive.unwrap_or(true)
    }

    /// MiB.
    pub fn memory(&self) -> u64 {
        self.min_memory.unwrap_or(0).max(DEFAULT_MEMORY_MIB)
    }

    /// Minutes.
    pub fn timeout(&self) -> u64 {
        self.timeout_min.unwrap_or(DEFAULT_TIMEOUT_MIN)
    }

    /// Why the test cannot run on this harness, if it cannot.
    pub fn reason_to_skip(&self) -> Option<String> {
        if !admits(&self.platforms, "qemu") {
            return Some(format!("platforms: {}", self.platforms));
        }
        if !admits(&self.architectures, std::env::consts::ARCH) {
            return Some(format!("architectures: {}", self.architectures));
        }
        let absent = [
            ("additionalDisks", !self.additional_disks.is_empty()),
            ("primaryDisk", !self.primary_disk.is_null()),
            ("additionalNics", self.additional_nics.is_some_and(|n| n > 0)),
            ("injectContainer", self.inject_container),
            ("minDisk", self.min_disk.is_some()),
        ];
        absent.iter().find(|(_, wanted)| *wanted).map(|(key, _)| format!("{key} is not provided by this harness"))
    }
}

/// kola's list syntax: empty admits all, words admit those named, a leading `!` excludes them.
fn admits(list: &str, word: &str) -> bool {
    match list.trim().strip_prefix('!') {
        Some(excluded) => !excluded.split_whitespace().any(|have| have == word),
        None => list.trim().is_empty() || list.split_whitespace().any(|have| have == word),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yaml_header_with_comments() {
        let text = "#!/bin/bash\nset -e\n## kola:\n##   platforms: \"aws qemu\"  # more later\n##   timeoutMin: 3\n\
                    ##   exclusive: false\n##   tags: quick selinux\ntrue\n";
        let metadata = Metadata::of_text(text).unwrap().unwrap();
        assert_eq!(metadata.timeout(), 3);
        assert!(!metadata.is_exclusive());
        assert!(metadata.has_tag("selinux") && !metadata.has_tag("se"));
        assert_eq!(metadata.reason_to_skip(), None);
    }

    #[test]
    fn json_header_and_empty_header() {
        let json = Metadata::of_text("# kola: { \"minMemory\": 4096, \"platforms\": \"aws\" }\n").unwrap().unwrap();
        assert_eq!(json.memory(), 4096);
        assert!(json.reason_to_skip().unwrap().contains("aws"));
        assert_eq!(Metadata::of_text("## kola:\ntrue\n").unwrap().unwrap().memory(), DEFAULT_MEMORY_MIB);
        assert!(Metadata::of_text("echo no header\n").unwrap().is_none());
    }

    #[test]
    fn a_misspelt_key_is_an_error() {
        let error = Metadata::of_text("## kola:\n##   timeoutMins: 3\n").unwrap_err().to_string();
        assert!(error.contains("timeoutMins"), "{error}");
    }

    #[test]
    fn exclusions() {
        for (list, word, expected) in
            [("", "qemu", true), ("!qemu", "qemu", false), ("! aws gcp", "qemu", true), ("aws", "qemu", false)]
        {
            assert_eq!(admits(list, word), expected, "{list:?} {word}");
        }
    }
}
