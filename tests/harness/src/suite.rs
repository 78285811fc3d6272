// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the tests below a `tests/kola` directory, by kola's rules.

use crate::metadata::Metadata;
use anyhow::{Context, Result, bail};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// One external test.
#[derive(Debug, Clone)]
pub struct Test {
    /// `ext.<project>.<directories>.<executable>`; a sole `test.sh` is left out.
    pub name: String,
    /// The program that is the test.
    pub executable: PathBuf,
    /// `config.ign` or `config.bu` beside it.
    pub config: Option<PathBuf>,
    /// The `data` directory beside it, or what a link of that name leads to.
    pub data: Option<PathBuf>,
    /// The test's header.
    pub metadata: Metadata,
}

/// All tests below `root`, sorted by name.
///
/// # Errors
/// When a directory cannot be read, a header is wrong, or a directory has both kinds of config.
pub fn discover(root: &Path, project: &str) -> Result<Vec<Test>> {
    let mut tests = Vec::new();
    walk(root, &format!("ext.{project}"), &mut tests)?;
    tests.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(tests)
}

fn walk(directory: &Path, name: &str, tests: &mut Vec<Test>) -> Result<()> {
    let mut executables = Vec::new();
    let mut directories = Vec::new();
    let (mut ignition, mut butane, mut data) = (None, None, None);
    let read = || format!("read directory {}", directory.display());
    for entry in fs::read_dir(directory).with_context(read)? {
        let entry = entry.with_context(read)?;
        let path = entry.path();
        let file_name = entry.file_name().to_string_lossy().into_owned();
        // A link to a directory of data is kola's way to share it.
        let status = fs::metadata(&path).with_context(|| format!("stat {}", path.display()))?;
        match file_name.as_str() {
            _ if file_name.starts_with('.') => {}
            "data" if status.is_dir() => data = Some(path),
            "config.ign" => ignition = Some(path),
            "config.bu" => butane = Some(path),
            _ if status.is_dir() => directories.push((file_name, path)),
            _ if status.permissions().mode() & 0o100 != 0 => executables.push((file_name, path)),
            _ => {}
        }
    }
    if ignition.is_some() && butane.is_some() {
        bail!("{}: config.ign and config.bu exclude each other", directory.display());
    }
    let config = ignition.or(butane);
    let sole = executables.len() == 1;
    for (file_name, executable) in executables {
        let name = if sole && file_name == "test.sh" { name.to_owned() } else { format!("{name}.{file_name}") };
        let metadata = Metadata::of_executable(&executable)?;
        if config.is_some() && !metadata.is_exclusive() {
            bail!("{}: a test with a config of its own cannot be exclusive: false", executable.display());
        }
        tests.push(Test { name, executable, config: config.clone(), data: data.clone(), metadata });
    }
    for (file_name, path) in directories {
        walk(&path, &format!("{name}.{file_name}"), tests)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn names_configs_and_data_follow_kola() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        script(&root.join("one/test.sh"), "## kola:\n##   tags: a\n");
        fs::write(root.join("one/config.ign"), "{}").unwrap();
        script(&root.join("many/alpha"), "");
        script(&root.join("many/test.sh"), "");
        fs::create_dir_all(root.join("many/data")).unwrap();
        script(&root.join("many/deeper/beta"), "");
        script(&root.join("many/linked/gamma"), "");
        std::os::unix::fs::symlink("../data", root.join("many/linked/data")).unwrap();
        fs::write(root.join("many/README"), "no test").unwrap();
        let tests = discover(root, "p").unwrap();
        let names: Vec<_> = tests.iter().map(|test| test.name.as_str()).collect();
        let expected = [
            "ext.p.many.alpha",
            "ext.p.many.deeper.beta",
            "ext.p.many.linked.gamma",
            "ext.p.many.test.sh",
            "ext.p.one",
        ];
        assert_eq!(names, expected);
        assert!(tests[4].config.as_ref().unwrap().ends_with("one/config.ign"));
        assert!(tests[0].data.as_ref().unwrap().ends_with("many/data"));
        assert!(tests[1].data.is_none(), "not inherited: kola does not either");
        assert!(tests[2].data.as_ref().unwrap().ends_with("linked/data"));
        assert!(tests[0].config.is_none());
    }

    #[test]
    fn a_shared_machine_has_no_config() {
        let root = tempfile::tempdir().unwrap();
        script(&root.path().join("x/test.sh"), "## kola:\n##   exclusive: false\n");
        fs::write(root.path().join("x/config.ign"), "{}").unwrap();
        assert!(discover(root.path(), "p").unwrap_err().to_string().contains("exclusive"));
    }
}
