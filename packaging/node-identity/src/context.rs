// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a question to a platform may use.

use crate::afterburn::Attributes;
use crate::attempt::{Attempt, Failure, Patience};
use crate::http::Client;
use std::path::{Path, PathBuf};

/// The root directory, the HTTP client and afterburn's attributes.
#[derive(Debug)]
pub struct Context {
    /// Everything is looked up below this directory.
    pub root: PathBuf,
    /// Asks metadata services.
    pub client: Client,
    /// What afterburn found out.
    pub afterburn: Attributes,
}

impl Context {
    /// Reads afterburn's attributes below `root` and prepares the client.
    pub fn new(root: &Path, patience: Patience) -> Self {
        Self { root: root.to_owned(), client: Client::new(patience.request), afterburn: Attributes::read(root) }
    }

    /// A small text file below the root, for sysfs and the like; blanks at the ends removed.
    ///
    /// # Errors
    /// [`Failure::Never`] when it cannot be read: what is in sysfs is there from the start.
    pub fn small_file(&self, path: &str) -> Attempt<String> {
        let path = self.root.join(path);
        std::fs::read_to_string(&path)
            .map(|text| text.trim().to_owned())
            .map_err(|error| Failure::Never(format!("cannot read {}: {error}", path.display())))
    }
}
