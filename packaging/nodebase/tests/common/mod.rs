// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The repository's unit set laid out as in an image.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// `make install-units` into a new directory.
pub fn image() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let output = Command::new("make")
        .args(["-s", "-C"])
        .arg(repository())
        .arg("install-units")
        .arg(format!("DESTDIR={}", dir.path().display()))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    dir
}
