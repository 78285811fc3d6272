// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names: what is kept, what wins, what is set. Config drives as real volumes, vmtoolsd as a program.
#![allow(clippy::unwrap_used)] // in functions that tests call, too

mod support;

use std::fs;
use std::process::{Command, Output};
use support::services::{self, AWS};
use support::{Net, Root, impatient, stderr, well};

/// Runs `node-identity hostname` where the host name is "localhost" and may be changed; returns what it is after.
fn set_hostname(net: &Net, root: &Root, arguments: &[&str]) -> (Output, String) {
    let inner = net.command(root.path());
    let script = "echo localhost > /proc/sys/kernel/hostname; \"$@\"; rc=$?; cat /proc/sys/kernel/hostname; exit $rc";
    let mut command = Command::new("unshare");
    command.args(["--uts", "sh", "-c", script, "sh", "ip"]).args(inner.get_args());
    impatient(&mut command);
    let output = command.args(["hostname", "--set-with", "kernel"]).args(arguments).output().unwrap();
    let name = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (output, name)
}

fn make(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output();
    let output =
        output.unwrap_or_else(|error| panic!("cannot run {program}: {error} (apt: xorriso dosfstools mtools)"));
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A config drive of one kind below `root`: its files, and its label as udev would link it.
fn drive(root: &Root, kind: &str, label: &str, files: &[(&str, &str)]) {
    let tree = root.join("tree");
    for (path, text) in files {
        root.write(&format!("tree/{path}"), text);
    }
    let image = root.join("drive.img");
    let (tree_s, image_s) = (tree.to_str().unwrap(), image.to_str().unwrap());
    if kind == "fat" {
        fs::write(&image, vec![0; 2 * 1024 * 1024]).unwrap();
        make("mkfs.vfat", &["-n", label, image_s]);
        for entry in fs::read_dir(&tree).unwrap() {
            make("mcopy", &["-s", "-i", image_s, entry.unwrap().path().to_str().unwrap(), "::"]);
        }
    } else {
        let mut arguments = vec!["-as", "mkisofs", "-quiet", "-V", label, "-o", image_s];
        arguments.extend(match kind {
            // As Nova does, and each of the name extensions alone.
            "nova" => &["-J", "-r"][..],
            "rock ridge" => &["-r"],
            "joliet" => &["--norock", "-J"],
            "plain" => &["--norock"],
            other => panic!("{other}"),
        });
        arguments.push(tree_s);
        make("xorriso", &arguments);
    }
    fs::create_dir_all(root.join("dev/disk/by-label")).unwrap();
    let link = root.join("dev/disk/by-label").join(label);
    let _ = fs::remove_file(&link);
    std::os::unix::fs::symlink(&image, link).unwrap();
}

const META_DATA: &str = "openstack/2012-08-10/meta_data.json";

#[test]
fn config_drives_of_every_kind() {
    let net = Net::new();
    // Bigger than a sector, so that a reader of first sectors fails.
    let mut document = services::meta_data("worker-0");
    document["random_seed"] = "x".repeat(9000).into();
    let document = document.to_string();
    // More entries than one directory sector holds, before and after the wanted one.
    let names: Vec<String> =
        (0..60).map(|n| format!("openstack/{}{n:02}-filler-directory/f", if n % 2 == 0 { "1" } else { "9" })).collect();
    for (kind, label) in [
        ("nova", "config-2"),
        ("rock ridge", "config-2"),
        ("joliet", "config-2"),
        ("fat", "CONFIG-2"),
        ("nova", "CONFIG-2"),
    ] {
        let root = Root::new();
        let mut files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
        files.push((META_DATA, &document));
        drive(&root, kind, label, &files);
        let mut command = net.command(root.path());
        well(&command.args(["node-name", "--provider", "openstack", "--deadline-ms", "0"]).output().unwrap());
        assert_eq!(root.env("KUBELET_NODE_NAME").unwrap(), "worker-0", "{kind} {label}");
    }
}

/// A volume is the platform's, but it may be damaged or crafted: any answer is fine, a crash or an endless loop is not.
#[test]
fn damaged_volumes_do_not_crash_the_reader() {
    let root = Root::bare();
    drive(&root, "nova", "config-2", &[(META_DATA, "{\"name\": \"worker-0\"}"), ("openstack/latest/f", "x")]);
    let image = fs::read(root.join("drive.img")).unwrap();
    let path: Vec<&str> = META_DATA.split('/').collect();
    let read = |image: Vec<u8>| node_identity::iso9660::read_file(&mut std::io::Cursor::new(image), &path);
    assert!(read(image.clone()).unwrap().unwrap().starts_with(b"{\"name\""));
    // A fixed sequence (the minimal standard generator), so that a failure can be repeated.
    let mut seed = 1_u64;
    let mut random = move |below: usize| {
        seed = seed * 48_271 % 2_147_483_647;
        usize::try_from(seed).unwrap() % below
    };
    for _ in 0..3000 {
        let mut damaged = image.clone();
        for _ in 0..8 {
            // Descriptors, path tables and directories are in the first part.
            let at = 16 * 2048 + random(64 * 2048);
            if let Some(byte) = damaged.get_mut(at) {
                *byte = u8::try_from(random(256)).unwrap();
            }
        }
        let _ = read(damaged);
    }
    for length in (0..image.len()).step_by(509) {
        let _ = read(image[..length].to_vec());
    }
}

#[test]
fn a_broken_drive_is_said_and_the_service_is_asked() {
    let (net, root) = (Net::with(&[AWS]), Root::new());
    drive(&root, "nova", "config-2", &[(META_DATA, "{\"name\": \"cut")]);
    net.serve(AWS, services::openstack("from-the-service"));
    well(&net.command(root.path()).args(["node-name", "--provider", "openstack"]).output().unwrap());
    assert_eq!(root.env("KUBELET_NODE_NAME").unwrap(), "from-the-service");

    // Nothing at all answers: every source stands in the message.
    let (net, root) = (Net::new(), Root::new());
    root.write("drive", "neither ISO nor FAT");
    fs::create_dir_all(root.join("dev/disk/by-label")).unwrap();
    std::os::unix::fs::symlink(root.join("drive"), root.join("dev/disk/by-label/config-2")).unwrap();
    let mut command = net.command(root.path());
    command.args(["node-name", "--provider", "openstack", "--deadline-ms", "0", "--request-ms", "300"]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    for says in [
        "by-label/config-2: ",
        "no volume labelled CONFIG-2",
        "http://169.254.169.254/openstack",
        "on eth0: http://[fe80::a9fe:a9fe]/",
    ] {
        assert!(stderr(&output).contains(says), "{says}: {}", stderr(&output));
    }
}

#[test]
fn the_openstack_name_is_kept_and_others_are_not() {
    let (net, root) = (Net::with(&[AWS]), Root::new());
    let mut name = "first";
    net.serve(AWS, move |request| {
        let act = services::openstack(name)(request);
        name = "renamed";
        act
    });
    let node_name =
        || net.command(root.path()).args(["node-name", "--provider", "openstack", "--keep"]).output().unwrap();
    well(&node_name());
    assert_eq!(root.env("KUBELET_NODE_NAME").unwrap(), "first");
    // A reboot: /run is gone.
    fs::remove_dir_all(root.join("run")).unwrap();
    well(&node_name());
    assert_eq!(root.env("KUBELET_NODE_NAME").unwrap(), "first");
    assert!(!root.join("etc").exists());

    let (net, root) = (Net::with(&[AWS]), Root::new());
    net.serve(AWS, services::aws(true, false));
    well(&net.command(root.path()).args(["node-name", "--provider", "aws"]).output().unwrap());
    assert!(!root.join("var").exists());
}

#[test]
fn a_name_written_by_openshifts_unit_is_adopted() {
    // Nobody answers in this namespace.
    let (net, root) = (Net::new(), Root::new());
    root.write("etc/kubernetes/node.env", "KUBELET_NODE_NAME=old-name\nKUBELET_PROVIDERID=x\n");
    for (provider, keep) in [("openstack", &["--keep"][..]), ("aws", &[])] {
        well(&net.command(root.path()).args(["node-name", "--provider", provider]).args(keep).output().unwrap());
        assert_eq!(root.env("KUBELET_NODE_NAME").unwrap(), "old-name");
    }
    assert!(root.read("var/lib/nodebase/node.env").contains("KUBELET_NODE_NAME=old-name\n"));
    assert!(root.env("KUBELET_PROVIDERID").is_none(), "only the name is adopted");
}

#[test]
fn a_kept_name_that_is_none_is_not_believed() {
    let (net, root) = (Net::with(&[AWS]), Root::new());
    root.write("var/lib/nodebase/node.env", "KUBELET_NODE_NAME=localhost\n");
    net.serve(AWS, services::openstack("real"));
    well(&net.command(root.path()).args(["node-name", "--provider", "openstack", "--keep"]).output().unwrap());
    assert_eq!(root.env("KUBELET_NODE_NAME").unwrap(), "real");
    assert!(root.read("var/lib/nodebase/node.env").contains("KUBELET_NODE_NAME=real"));
}

#[test]
fn concurrent_units_share_node_env() {
    let (net, root) = (Net::with(&[AWS]), Root::new());
    net.serve(AWS, services::aws(true, false));
    let children: Vec<_> = ["node-name", "provider-id"]
        .map(|verb| net.command(root.path()).args([verb, "--provider", "aws"]).spawn().unwrap())
        .into();
    for child in children {
        well(&child.wait_with_output().unwrap());
    }
    assert!(root.env("KUBELET_NODE_NAME").is_some() && root.env("KUBELET_PROVIDERID").is_some());
}

#[test]
fn an_unwritable_directory_is_exit_code_2() {
    let (net, root) = (Net::with(&[AWS]), Root::new());
    net.serve(AWS, services::aws(true, false));
    root.write("run/nodebase", "a file where the directory should be");
    let output = net.command(root.path()).args(["node-name", "--provider", "aws"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("run/nodebase"), "{}", stderr(&output));
}

#[test]
fn gcp_host_name() {
    let long = format!("{}.c.my-project.internal", "w".repeat(50));
    for (answer, want) in
        [("worker-a.c.my-project.internal", "worker-a.c.my-project.internal"), (&long, &"w".repeat(50))]
    {
        let (net, root) = (Net::with(&[AWS]), Root::new());
        net.serve(AWS, services::gcp(answer));
        let (output, name) = set_hostname(&net, &root, &["--provider", "gcp"]);
        well(&output);
        assert_eq!(name, want);
        assert!(!root.join("etc").exists() && !root.join("var").exists(), "a transient name");
    }
}

#[test]
fn etc_hostname_wins() {
    let (net, root) = (Net::with(&[AWS]), Root::new());
    let log = net.serve(AWS, services::gcp("from-the-platform"));
    root.write("etc/hostname", "chosen\n");
    let (output, name) = set_hostname(&net, &root, &["--provider", "gcp"]);
    well(&output);
    assert_eq!(name, "localhost", "left to systemd, which has read /etc/hostname");
    assert!(log.all().is_empty(), "nobody is asked");
    // But what stands for no name does not win.
    for text in ["", "\n", "localhost\n", "# comment\nlocalhost.localdomain\n"] {
        root.write("etc/hostname", text);
        let (output, name) = set_hostname(&net, &root, &["--provider", "gcp"]);
        well(&output);
        assert_eq!(name, "from-the-platform", "{text:?}");
    }
}

#[test]
fn other_host_names() {
    let (net, root) = (Net::with(&[AWS]), Root::new());
    net.serve(AWS, services::azure());
    for (provider, want) in [("azure", "worker-0"), ("azurestack", "stackvm-1")] {
        let (output, name) = set_hostname(&net, &root, &["--provider", provider]);
        well(&output);
        assert_eq!(name, want);
    }
    // PowerVS: afterburn's, else the drive.
    let (net, root) = (Net::new(), Root::new());
    drive(
        &root,
        "nova",
        "config-2",
        &[("openstack/latest/meta_data.json", "{\"hostname\": \"pvs-1.\", \"name\": \"x\"}")],
    );
    let (output, name) = set_hostname(&net, &root, &["--provider", "powervs"]);
    well(&output);
    assert_eq!(name, "pvs-1");
    root.write("run/metadata/afterburn", "AFTERBURN_POWERVS_LOCAL_HOSTNAME=pvs-2\n");
    assert_eq!(set_hostname(&net, &root, &["--provider", "powervs"]).1, "pvs-2");
    // IBM Cloud: a cidata volume.
    let root = Root::new();
    drive(&root, "fat", "cidata", &[("meta-data", "instance-id: 0717_1-2\nlocal-hostname: vpc-1\n")]);
    let (output, name) = set_hostname(&net, &root, &["--provider", "ibmcloud"]);
    well(&output);
    assert_eq!(name, "vpc-1");
}

#[test]
fn the_openstack_host_name_is_kept() {
    let (net, root) = (Net::with(&[AWS]), Root::new());
    net.serve(AWS, services::openstack("worker-0"));
    let (output, name) = set_hostname(&net, &root, &["--provider", "openstack", "--keep"]);
    well(&output);
    assert_eq!(name, "worker-0.novalocal");
    root.write("run/metadata/afterburn", "AFTERBURN_OPENSTACK_HOSTNAME=renamed\n");
    assert_eq!(set_hostname(&net, &root, &["--provider", "openstack", "--keep"]).1, "worker-0.novalocal");
    assert!(root.env("NODEBASE_HOSTNAME").is_none(), "not in kubelet's environment");
}

/// vmtoolsd as far as `--cmd "info-get KEY"` goes.
fn vmtoolsd(root: &Root, properties: &[(&str, &str)]) {
    let mut script = "#!/bin/sh\n[ \"$1\" = --cmd ] || exit 9\ncase $2 in\n".to_owned();
    for (key, value) in properties {
        script.extend(["'info-get ", key, "') echo '", value, "';;\n"]);
    }
    script.push_str("'info-get '*) echo 'No value found' >&2; exit 1;;\n*) exit 9;;\nesac\n");
    root.script("usr/bin/vmtoolsd", &script);
}

#[test]
fn vmware_host_names() {
    let net = Net::new();
    let yaml = "bG9jYWwtaG9zdG5hbWU6IGZyb20teWFtbAppbnN0YW5jZS1pZDogaWQtMQo=";
    let json = "eyJsb2NhbC1ob3N0bmFtZSI6ICJmcm9tLWpzb24iLCAiaW5zdGFuY2UtaWQiOiAiMSJ9";
    // printf 'local-hostname: from-gzip\n' | gzip -n | base64
    let zipped = "H4sIAAAAAAAAA8vJT07M0c3ILy7JS8xNtVJIK8rP1U2vyizgAgDRoM0XGgAAAA==";
    for (properties, want) in [
        (&[("guestinfo.hostname", "direct.example.com"), ("guestinfo.metadata", yaml)][..], "direct.example.com"),
        (&[("guestinfo.metadata", yaml)], "from-yaml"),
        (&[("guestinfo.metadata", json), ("guestinfo.metadata.encoding", "base64")], "from-json"),
        (&[("guestinfo.metadata", zipped), ("guestinfo.metadata.encoding", "gzip+base64")], "from-gzip"),
        (&[("guestinfo.metadata", "local-hostname: plain")], "plain"),
    ] {
        let root = Root::new();
        vmtoolsd(&root, properties);
        let (output, name) = set_hostname(&net, &root, &["--provider", "vmware", "--optional", "--hold"]);
        well(&output);
        assert_eq!(name, want, "{}", stderr(&output));
        assert!(root.read("run/NetworkManager/conf.d/20-nodebase-hostname.conf").contains("hostname-mode=none"));
    }
    // Nothing set: DHCP's turn, and NetworkManager is not held back.
    for properties in [&[][..], &[("guestinfo.metadata", "!!! no base64, no name")]] {
        let root = Root::new();
        vmtoolsd(&root, properties);
        let (output, name) = set_hostname(&net, &root, &["--provider", "vmware", "--optional", "--hold"]);
        well(&output);
        assert_eq!(name, "localhost");
        assert!(!root.join("run/NetworkManager").exists());
    }
    let root = Root::new();
    let (output, _) = set_hostname(&net, &root, &["--provider", "vmware"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("usr/bin/vmtoolsd is not there"), "{}", stderr(&output));
}
