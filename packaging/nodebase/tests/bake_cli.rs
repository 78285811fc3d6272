// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `nodebase bake` as a person calls it.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output};

const MACHINE_CONFIG: &str = r#"
apiVersion: machineconfiguration.openshift.io/v1
kind: MachineConfig
metadata: {name: 99-a}
spec:
  kernelArguments: [nosmt]
  config:
    ignition: {version: 3.4.0}
    storage:
      files:
      - {path: /usr/local/bin/a, mode: 493, contents: {source: "data:,%23%21%2Fbin%2Fsh%0Aexec%20%2Fusr%2Flocal%2Fbin%2Fa%20x%0A"}}
      - {path: /etc/sysctl.d/a.conf, contents: {source: "data:;base64,YT0xCg=="}}
      - {path: /var/lib/a/state, mode: 384, contents: {source: "data:,s"}}
      - {path: /etc/kubernetes/a.conf, contents: {compression: gzip, source: "data:;base64,H4sIAAAAAAAAA0vkAgAHoerdAgAAAA=="}}
    systemd:
      units:
      - name: a.service
        enabled: true
        contents: |
          [Service]
          ExecStart=/bin/bash -c "until /usr/local/bin/a; do sleep 1; done"
          [Install]
          WantedBy=multi-user.target
        dropins:
        - {name: 10-empty.conf, contents: ""}
        - {name: 20-full.conf, contents: "[Service]\nNice=1\n"}
      - {name: b.service, enabled: false}
      - {name: c.service, mask: true}
"#;

fn bake(root: &Path, args: &[&str], input: &str) -> Output {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), input).unwrap();
    Command::new(env!("CARGO_BIN_EXE_nodebase"))
        .args(["bake", "--root"])
        .arg(root)
        .args(args)
        .arg(file.path())
        .env("SOURCE_DATE_EPOCH", "1700000000")
        .output()
        .unwrap()
}

fn listing(root: &Path) -> String {
    let out = Command::new("find").arg(root).args(["-mindepth", "1", "-printf", "%P %y %m %T@ %l\n"]).output().unwrap();
    let mut lines: Vec<_> = std::str::from_utf8(&out.stdout).unwrap().lines().map(str::to_owned).collect();
    lines.sort();
    lines.join("\n")
}

#[test]
fn moves_rewrites_enables() {
    let root = tempfile::tempdir().unwrap();
    let out = bake(root.path(), &[], MACHINE_CONFIG);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let read = |p: &str| fs::read_to_string(root.path().join(p)).unwrap();
    assert!(read("usr/lib/systemd/system/a.service").contains("until /usr/bin/a;"));
    assert_eq!(read("usr/bin/a"), "#!/bin/sh\nexec /usr/bin/a x\n");
    assert_eq!(fs::metadata(root.path().join("usr/bin/a")).unwrap().permissions().mode() & 0o7777, 0o755);
    assert_eq!(fs::metadata(root.path().join("usr/bin/a")).unwrap().mtime(), 1_700_000_000);
    assert_eq!(read("usr/lib/sysctl.d/a.conf"), "a=1\n");
    assert_eq!(read("etc/kubernetes/a.conf"), "a\n");
    assert_eq!(read("usr/share/factory/var/lib/a/state"), "s");
    assert!(
        read("usr/lib/tmpfiles.d/nodebase-bake.conf")
            .contains("C /var/lib/a/state 0600 root root - /usr/share/factory/var/lib/a/state")
    );
    assert!(read("usr/lib/bootc/kargs.d/10-nodebase-bake.toml").contains("kargs = [\"nosmt\"]"));
    assert!(read("usr/lib/systemd/system-preset/10-nodebase-bake.preset").contains("disable b.service"));
    let link = |p: &str| fs::read_link(root.path().join(p)).unwrap();
    assert_eq!(link("usr/lib/systemd/system/multi-user.target.wants/a.service"), Path::new("../a.service"));
    assert_eq!(link("usr/lib/systemd/system/c.service"), Path::new("/dev/null"));
    assert!(!root.path().join("usr/lib/systemd/system/a.service.d/10-empty.conf").exists());
    assert!(!root.path().join("var").exists() && !root.path().join("usr/local").exists());
}

#[test]
fn same_input_same_tree_and_again() {
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for root in [a.path(), b.path(), b.path()] {
        assert!(bake(root, &[], MACHINE_CONFIG).status.success());
    }
    assert_eq!(listing(a.path()), listing(b.path()));
}

#[test]
fn all_reasons_at_once_and_nothing_written() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir_all(root.path().join("usr/bin")).unwrap();
    fs::write(root.path().join("usr/bin/a"), "the image's").unwrap();
    let before = listing(root.path());
    let input = r#"{"ignition":{"version":"3.5.0"},"storage":{"disks":[{"device":"/dev/vda"}],"luks":[{"name":"x"}],"files":[
        {"path":"/run/x"},{"path":"/usr/local/bin/a","contents":{"source":"data:,b"}},
        {"path":"/etc/key","contents":{"source":"data:,-----BEGIN%20PRIVATE%20KEY-----%0A"}},
        {"path":"/etc/remote","contents":{"source":"https://example.com/x"}}]}}"#;
    let out = bake(root.path(), &[], input);
    assert_eq!(out.status.code(), Some(2));
    let err = String::from_utf8_lossy(&out.stderr);
    for part in ["storage.disks", "storage.luks", "/run/x", "usr/bin/a) both have it", "a private key", "--fetch"] {
        assert!(err.contains(part), "{part} in {err}");
    }
    assert_eq!(listing(root.path()), before);
    let only = r#"{"ignition":{"version":"3.5.0"},"storage":{"files":[{"path":"/usr/local/bin/a","contents":{"source":"data:,b"}}]}}"#;
    assert!(bake(root.path(), &["--replace"], only).status.success());
    assert_eq!(fs::read_to_string(root.path().join("usr/bin/a")).unwrap(), "b");
}

#[test]
fn usr_local_in_all_its_forms() {
    let input = r#"{"ignition":{"version":"3.0.0"},"storage":{"files":[{"path":"/usr/local/etc/x","contents":{"source":"data:,x"}}]}}"#;
    for form in ["link", "directory", "missing"] {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("usr")).unwrap();
        match form {
            "link" => symlink("../var/usrlocal", root.path().join("usr/local")).unwrap(),
            "directory" => fs::create_dir(root.path().join("usr/local")).unwrap(),
            _ => {}
        }
        assert!(bake(root.path(), &[], input).status.success());
        let want = if form == "link" { "usr/share/factory/var/usrlocal/etc/x" } else { "usr/local/etc/x" };
        assert!(root.path().join(want).exists(), "{form}");
    }
}

#[test]
fn versions_and_unknown_keys() {
    let root = tempfile::tempdir().unwrap();
    for (input, part) in [
        (r#"{"ignition":{"version":"2.2.0"}}"#, "only 3.0 to 3.6"),
        (r#"{"ignition":{"version":"3.4.0"},"storage":{"fiels":[]}}"#, "storage.fiels"),
        ("kind: Pod\n", "is no MachineConfig"),
    ] {
        let out = bake(root.path(), &[], input);
        assert_eq!(out.status.code(), Some(2));
        assert!(
            String::from_utf8_lossy(&out.stderr).contains(part),
            "{part}: {}",
            String::from_utf8_lossy(&out.stderr)
        );
    }
}

/// A second bake with other input adds to the lists that all bakes share.
#[test]
fn a_second_bake_adds() {
    let root = tempfile::tempdir().unwrap();
    assert!(bake(root.path(), &[], MACHINE_CONFIG).status.success());
    let second = r#"
apiVersion: v1
kind: List
items:
- kind: MachineConfig
  metadata: {name: b}
  spec:
    kernelArguments: [nosmt, "console=ttyS0"]
    config:
      ignition: {version: 3.2.0}
      storage: {files: [{path: /var/lib/b, contents: {source: "data:,b"}}]}
      passwd: {users: [{name: core, sshAuthorizedKeys: ["ssh-ed25519 AAAA me"], groups: [wheel]}]}
---
kind: MachineConfig
metadata: {name: c}
spec:
  config:
    ignition: {version: 3.2.0}
    systemd:
      units:
      - {name: d.service, enabled: false}
      - name: up.service
        enabled: true
        contents: "[Service]\nExecStart=/bin/true\n[Install]\nUpheldBy=a.service\nAlso=other.service\n"
      - {name: other.service, contents: "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n"}
"#;
    let out = bake(root.path(), &[], second);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    assert!(String::from_utf8_lossy(&out.stdout).contains("UpheldBy= needs systemd 254"));
    let read = |p: &str| fs::read_to_string(root.path().join(p)).unwrap();
    assert!(read("usr/lib/bootc/kargs.d/10-nodebase-bake.toml").contains("kargs = [\"nosmt\", \"console=ttyS0\"]"));
    let preset = read("usr/lib/systemd/system-preset/10-nodebase-bake.preset");
    assert!(preset.contains("disable b.service\ndisable d.service\n"), "{preset}");
    let tmpfiles = read("usr/lib/tmpfiles.d/nodebase-bake.conf");
    assert!(tmpfiles.contains("C /var/lib/a/state") && tmpfiles.contains("C /var/lib/b"), "{tmpfiles}");
    assert!(read("usr/lib/sysusers.d/nodebase-bake.conf").contains("u core - - /var/home/core /bin/bash\n"));
    let units = root.path().join("usr/lib/systemd/system");
    assert!(units.join("a.service.upholds/up.service").is_symlink());
    assert!(units.join("multi-user.target.wants/other.service").is_symlink(), "Also= enables it too");
    let before = listing(root.path());
    assert!(bake(root.path(), &[], MACHINE_CONFIG).status.success());
    assert_eq!(listing(root.path()), before, "the first one again changes nothing");

    let other = r#"{"ignition":{"version":"3.2.0"},"storage":{"files":[{"path":"/var/lib/b","mode":384,"contents":{"source":"data:,b"}}]}}"#;
    let out = bake(root.path(), &[], other);
    assert!(String::from_utf8_lossy(&out.stderr).contains("an earlier bake wrote"));
    assert_eq!(listing(root.path()), before);
    assert!(bake(root.path(), &["--replace"], other).status.success());
    assert!(read("usr/lib/tmpfiles.d/nodebase-bake.conf").contains("C /var/lib/b 0600"));
}

#[test]
fn what_an_image_cannot_hold_is_named() {
    let root = tempfile::tempdir().unwrap();
    let input = r#"{"ignition":{"version":"3.4.0"},"passwd":{"users":[{"name":"core","passwordHash":"x"}]},"storage":{
        "links":[{"path":"/etc/hard","target":"/etc/x","hard":true}],
        "files":[{"path":"/etc/more","append":[{"source":"data:,x"}]}]}}"#;
    let out = bake(root.path(), &[], input);
    assert_eq!(out.status.code(), Some(2));
    let err = String::from_utf8_lossy(&out.stderr);
    for part in ["core: sysusers.d knows no passwordHash", "/etc/hard: hard links", "/etc/more: append"] {
        assert!(err.contains(part), "{part} in {err}");
    }
}

/// A remote source, over a server of this process.
#[test]
fn fetches_what_is_remote_and_checks_it() {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // Ends with the test's process.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 4096];
            let read = stream.read(&mut request).unwrap();
            let good = request[..read].starts_with(b"GET /good ");
            let answer =
                if good { "200 OK\r\nContent-Length: 2\r\n\r\nhi" } else { "404 No\r\nContent-Length: 0\r\n\r\n" };
            stream.write_all(format!("HTTP/1.1 {answer}").as_bytes()).unwrap();
        }
    });
    let config = |path: &str, hash: &str| {
        format!(
            r#"{{"ignition":{{"version":"3.4.0"}},"storage":{{"files":[{{"path":"/etc/remote","contents":{{
            "source":"http://{address}/{path}","verification":{{"hash":"sha256-{hash}"}}}}}}]}}}}"#
        )
    };
    let hi = "8f434346648f6b96df89dda901c5176b10a6d83961dd3c1ac88b59b2dc327aa4";
    let root = tempfile::tempdir().unwrap();
    for (args, path, hash, says) in [
        (&[][..], "good", hi, "needs --fetch"),
        (&["--fetch"], "bad", hi, "404"),
        (&["--fetch"], "good", &hi.replace('8', "9"), "the content has sha256-8f43"),
    ] {
        let out = bake(root.path(), args, &config(path, hash));
        assert_eq!(out.status.code(), Some(2));
        let err = String::from_utf8_lossy(&out.stderr);
        assert!(err.contains(says), "{says}: {err}");
        assert!(!root.path().join("etc/remote").exists());
    }
    assert!(bake(root.path(), &["--fetch"], &config("good", hi)).status.success());
    assert_eq!(fs::read_to_string(root.path().join("etc/remote")).unwrap(), "hi");
}
