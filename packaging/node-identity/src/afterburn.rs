// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What afterburn wrote: `/run/metadata/afterburn`, lines `AFTERBURN_<PLATFORM>_<ATTRIBUTE>=value`.

use crate::envfile;
use std::collections::BTreeMap;
use std::path::Path;

/// The attributes file, below the root.
pub const FILE: &str = "run/metadata/afterburn";

/// Afterburn's attributes; empty when it did not run.
#[derive(Debug, Default)]
pub struct Attributes(BTreeMap<String, String>);

impl Attributes {
    /// Reads the file below `root`. An absent or unreadable file is an empty set: afterburn is a preferred source,
    /// never a needed one.
    pub fn read(root: &Path) -> Self {
        let path = root.join(FILE);
        match std::fs::read_to_string(&path) {
            Ok(text) => Self(envfile::parse(&text)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Self::default(),
            Err(error) => {
                log::warn!("{}: {error}; going on without afterburn", path.display());
                Self::default()
            }
        }
    }

    /// A non-empty attribute, by its name without the prefix `AFTERBURN_`.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(&format!("AFTERBURN_{name}")).map(String::as_str).filter(|value| !value.is_empty())
    }
}
