// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The scripts that units run (`units/libexec`), below a root of their own and with recording programs in the PATH.
#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

/// Runs a script; programs in `bin` come before the machine's.
fn run(root: &Path, script: &str, args: &[&str], environment: &[(&str, &str)]) -> Output {
    let bin = root.join("bin");
    fs::create_dir_all(&bin).unwrap();
    let path = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", bin.display());
    Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../units/libexec").join(script))
        .args(args)
        .env_clear()
        .env("PATH", path)
        .env("NODEBASE_ROOT", root)
        .envs(environment.iter().copied())
        .output()
        .unwrap()
}

fn program(root: &Path, name: &str, text: &str) {
    let path = root.join("bin").join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// What runtimecfg is called with, after its image.
fn nodeip(kind: &str, environment: &[(&str, &str)]) -> (Vec<String>, bool, tempfile::TempDir) {
    let root = tempfile::tempdir().unwrap();
    program(root.path(), "podman", "printf '%s\\n' \"$@\" >\"$NODEBASE_ROOT/podman\"");
    let mut all = vec![("NODEBASE_RUNTIMECFG_IMAGE", "example.com/runtimecfg")];
    all.extend(environment);
    let output = run(root.path(), "nodeip-configuration", &[kind], &all);
    assert!(output.status.success(), "{output:?}");
    let words: Vec<String> =
        fs::read_to_string(root.path().join("podman")).unwrap().lines().map(str::to_owned).collect();
    let debug = words.iter().any(|w| w == "ENABLE_NODEIP_DEBUG=true");
    let arguments = words.into_iter().skip_while(|w| w != "example.com/runtimecfg").skip(1).collect();
    (arguments, debug, root)
}

/// Expectations after what the MCO renders for each kind of cluster.
#[test]
fn nodeip_configuration_passes_the_facts() {
    let vips = [
        ("NODEBASE_CLASS", "on-prem"),
        ("NODEBASE_CLUSTER_PLATFORM", "BareMetal"),
        ("NODEBASE_API_VIPS", "192.0.2.5 2001:db8::5"),
        ("NODEBASE_INGRESS_VIPS", "192.0.2.4"),
    ];
    let with = |extra: &[(&'static str, &'static str)]| [&vips[..], extra].concat();
    let on_prem =
        ["node-ip", "set", "--retry-on-failure", "--platform", "BareMetal", "192.0.2.5", "2001:db8::5", "192.0.2.4"];
    assert_eq!(nodeip("cluster", &vips).0, on_prem);
    let managed = |extra| nodeip("cluster", &with(extra)).0.contains(&"--user-managed-lb".to_owned());
    assert!(!managed(&[]));
    assert!(managed(&[("NODEBASE_LOAD_BALANCER_TYPE", "UserManaged")]));
    assert!(managed(&[("NODEBASE_DNS_RECORDS_TYPE", "External")]));
    assert!(!managed(&[
        ("NODEBASE_LOAD_BALANCER_TYPE", "OpenShiftManagedDefault"),
        ("NODEBASE_DNS_RECORDS_TYPE", "Internal")
    ]));
    // On-prem only NODEIP_HINT counts, and it stands before the VIPs; elsewhere there is a second name for it.
    let hinted = nodeip("cluster", &with(&[("NODEIP_HINT", "192.0.2.1"), ("KUBELET_NODEIP_HINT", "198.51.100.1")])).0;
    assert_eq!(hinted[5..7], ["192.0.2.1", "192.0.2.5"]);
    assert!(
        !nodeip("cluster", &with(&[("KUBELET_NODEIP_HINT", "198.51.100.1")])).0.contains(&"198.51.100.1".to_owned())
    );

    let cloud = [("NODEBASE_CLASS", "none"), ("NODEBASE_CLUSTER_PLATFORM", "None"), ("NODEBASE_NETWORK_TYPE", "Other")];
    let (arguments, debug, _) = nodeip("cluster", &cloud);
    assert_eq!(arguments, ["node-ip", "set", "--retry-on-failure", "--network-type", "Other"]);
    assert!(debug);
    let six = [&cloud[..], &[("NODEBASE_PRIMARY_FAMILY", "IPv6"), ("KUBELET_NODEIP_HINT", "2001:db8::1")]].concat();
    assert_eq!(
        nodeip("cluster", &six).0,
        ["node-ip", "set", "--retry-on-failure", "--prefer-ipv6", "--network-type", "Other", "2001:db8::1"]
    );
    assert_eq!(nodeip("upi", &[("NODEBASE_CLUSTER_PLATFORM", "VSphere")]).0, ["node-ip", "set", "--retry-on-failure"]);
    assert!(!nodeip("cluster", &[("NODEBASE_CLUSTER_PLATFORM", "KubeVirt")]).1, "KubeVirt's console is spared");
}

#[test]
fn nodeip_configuration_wakes_the_resolver_on_prem_only_and_needs_no_image() {
    let (_, _, root) = nodeip("cluster", &[("NODEBASE_CLASS", "on-prem"), ("NODEBASE_CLUSTER_PLATFORM", "BareMetal")]);
    assert!(root.path().join("run/resolv-prepender/env").exists());
    let (_, _, root) = nodeip("cluster", &[("NODEBASE_CLASS", "cloud")]);
    assert!(!root.path().join("run/resolv-prepender").exists());

    let root = tempfile::tempdir().unwrap();
    program(root.path(), "podman", "touch \"$NODEBASE_ROOT/called\"");
    let output = run(root.path(), "nodeip-configuration", &["cluster"], &[]);
    assert!(output.status.success() && !root.path().join("called").exists(), "{output:?}");
    let output = run(root.path(), "nodeip-configuration", &["cluster"], &[("NODEBASE_CLASS", "on-prem")]);
    assert_eq!(output.status.code(), Some(1), "next to VIPs there is nothing to guess");
    assert!(String::from_utf8_lossy(&output.stderr).contains("images.baremetalRuntimeCfgImage"));
}

#[test]
fn resolv_prepender_tells_networkmanager_once() {
    let root = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    // Servers of two connections; the first reload fails.
    program(
        root.path(),
        "nmcli",
        "if [ \"$1\" = -g ]; then cat \"$NODEBASE_ROOT/dns\"; exit; fi\n\
         echo \"$*\" >>\"$NODEBASE_ROOT/nmcli\"; [ \"$(wc -l <\"$NODEBASE_ROOT/nmcli\")\" != 1 ]",
    );
    write("dns", "");
    let output = run(root.path(), "resolv-prepender", &[], &[]);
    assert_eq!(output.status.code(), Some(1), "no node IP yet: systemd tries again");
    assert!(!root.path().join("run/resolv-prepender-kni-conf-done").exists());

    write(
        "etc/systemd/system/kubelet.service.d/20-nodenet.conf",
        "[Service]\nEnvironment=\"KUBELET_NODE_IP=192.0.2.9\" \"KUBELET_NODE_IPS=192.0.2.9\"\n",
    );
    write(
        "run/NetworkManager/resolv.conf",
        "# x\nsearch a.example b.example\nnameserver 192.0.2.1\nnameserver 192.0.2.9\n",
    );
    let output = run(root.path(), "resolv-prepender", &[], &[]);
    assert_eq!(output.status.code(), Some(1), "no server yet: {output:?}");
    write("dns", "192.0.2.1 | 192.0.2.9\n2001\\:db8\\:\\:1\n");
    let done = || root.path().join("run/resolv-prepender-kni-conf-done").exists();
    assert!(!run(root.path(), "resolv-prepender", &[], &[]).status.success() && !done(), "the reload failed");
    for _ in 0..2 {
        assert!(run(root.path(), "resolv-prepender", &[], &[]).status.success() && done());
    }
    let conf = fs::read_to_string(root.path().join("run/NetworkManager/conf.d/90-nodebase-resolv.conf")).unwrap();
    assert!(conf.contains("servers=192.0.2.9,192.0.2.1,2001:db8::1\n"), "{conf}");
    assert!(conf.contains("searches=a.example,b.example\n"), "{conf}");
    // A reload makes NetworkManager write resolv.conf, which starts us again: the same answer must end that.
    assert_eq!(fs::read_to_string(root.path().join("nmcli")).unwrap().lines().count(), 3);
    assert!(root.path().join("run/resolv-prepender-kni-conf-done").exists());
    assert!(run(root.path(), "resolv-wait", &[], &[]).status.success());
}

#[test]
fn kubelet_config_prefers_the_cluster_unless_sealed() {
    let root = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let link = |path: &str| fs::read_link(root.path().join(path)).ok().map(|p| p.display().to_string());
    let ours = "run/nodebase/kubelet.conf";
    write("usr/lib/nodebase/kubelet.conf.d/10-image.conf", "x");
    write("run/nodebase/kubelet.conf.d/20-auto-sizing.conf", "x");
    assert!(run(root.path(), "kubelet-config", &[], &[]).status.success());
    assert_eq!(link(ours).unwrap(), "/usr/lib/nodebase/kubelet.conf");
    assert_eq!(
        link("run/nodebase/kubelet.conf.d/10-image.conf").unwrap(),
        "/usr/lib/nodebase/kubelet.conf.d/10-image.conf"
    );

    write("etc/kubernetes/kubelet.conf", "x");
    write("etc/openshift/kubelet.conf.d/10-image.conf", "x");
    write("etc/openshift/kubelet.conf.d/30-cluster.conf", "x");
    assert!(run(root.path(), "kubelet-config", &[], &[]).status.success());
    assert_eq!(link(ours).unwrap(), "/etc/kubernetes/kubelet.conf");
    assert_eq!(
        link("run/nodebase/kubelet.conf.d/10-image.conf").unwrap(),
        "/etc/openshift/kubelet.conf.d/10-image.conf"
    );
    assert!(root.path().join("run/nodebase/kubelet.conf.d/20-auto-sizing.conf").is_file());

    fs::remove_file(root.path().join("etc/openshift/kubelet.conf.d/30-cluster.conf")).unwrap();
    assert!(run(root.path(), "kubelet-config", &[], &[]).status.success());
    assert_eq!(link("run/nodebase/kubelet.conf.d/30-cluster.conf"), None, "gone from /etc, gone here");

    write("usr/lib/nodebase/sealed", "");
    assert!(run(root.path(), "kubelet-config", &[], &[]).status.success());
    assert_eq!(link(ours).unwrap(), "/usr/lib/nodebase/kubelet.conf");
    assert_eq!(
        link("run/nodebase/kubelet.conf.d/10-image.conf").unwrap(),
        "/usr/lib/nodebase/kubelet.conf.d/10-image.conf"
    );
}

#[test]
fn auto_node_size_reserves_in_steps() {
    // 16 GiB, 4 cores: 25% of 4 GiB + 20% of 4 + 10% of 8 = 2662 MiB; 60 + 10 + 5 + 5 = 80 thousandths, at least 500.
    for (kib, cores, environment, want) in [
        (16 << 20, 4, &[][..], ["\"500m\"", "\"2662Mi\"", "\"1Gi\""]),
        (1 << 20, 1, &[], ["\"500m\"", "\"256Mi\"", "\"1Gi\""]),
        (256 << 20, 256, &[], ["\"710m\"", "\"12165Mi\"", "\"1Gi\""]),
        (
            16 << 20,
            4,
            &[
                ("NODE_SIZING_ENABLED", "false"),
                ("SYSTEM_RESERVED_MEMORY", "3Gi"),
                ("SYSTEM_RESERVED_CPU", "1000m"),
                ("SYSTEM_RESERVED_ES", "2Gi"),
            ],
            ["\"1000m\"", "\"3Gi\"", "\"2Gi\""],
        ),
    ] {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("proc")).unwrap();
        fs::write(root.path().join("proc/meminfo"), format!("MemTotal: {kib} kB\nMemFree: 1 kB\n")).unwrap();
        fs::write(root.path().join("proc/cpuinfo"), "processor\t: 0\n".repeat(cores)).unwrap();
        let output = run(root.path(), "auto-node-size", &[], environment);
        assert!(output.status.success(), "{output:?}");
        let text = fs::read_to_string(root.path().join("run/nodebase/kubelet.conf.d/20-auto-sizing.conf")).unwrap();
        for word in want {
            assert!(text.contains(word), "{kib} KiB, {cores} cores: no {word} in\n{text}");
        }
    }
}

#[test]
fn kubenswrapper_enters_the_namespace_only_where_there_is_one() {
    let root = tempfile::tempdir().unwrap();
    program(root.path(), "nsenter", "echo nsenter \"$@\"");
    let said = |environment: &[(&str, &str)]| {
        String::from_utf8(run(root.path(), "kubenswrapper", &["/bin/echo", "a b"], environment).stdout).unwrap()
    };
    assert_eq!(said(&[]), "a b\n");
    assert_eq!(said(&[("KUBENSMNT", "/run/kubens/mnt")]), "nsenter --mount=/run/kubens/mnt /bin/echo a b\n");
}

#[test]
fn report_incomplete_says_what_it_found() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("run/systemd/generator/nodebase");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("problems"), "# header\n/etc/nodebase/node.json: key \"role\": x\n").unwrap();
    let output = run(root.path(), "report-incomplete", &[], &[]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text.contains("  /etc/nodebase/node.json: key \"role\": x\n") && !text.contains("# header"), "{text}");
}
