// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Boots the installed tree as a container on real systemd, with the platform's metadata service at its address, and
//! looks at how kubelet was started and what the machine is called. The units run with their whole sandbox.
#![allow(clippy::unwrap_used)] // in functions that tests call, too

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use support::services::{self, AWS, TOKEN};
use support::{Act, Net, Request, Root};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// The installed tree: `NODEBASE_TREE`, else made here.
fn tree() -> &'static Path {
    static TREE: OnceLock<(Option<tempfile::TempDir>, PathBuf)> = OnceLock::new();
    &TREE
        .get_or_init(|| {
            if let Some(tree) = std::env::var_os("NODEBASE_TREE") {
                return (None, tree.into());
            }
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().to_owned();
            let mut make = Command::new("make");
            make.current_dir(repository()).args(["generator", "install-units"]);
            run(make.arg(format!("DESTDIR={}", path.display())));
            let machine = run(Command::new("sh").args(["-c", "rustc -vV | sed -n 's/^host: //p'"]));
            let generator = repository().join(format!("target/boot-static/{machine}/boot/nodebase-generator"));
            let to = path.join("usr/lib/systemd/system-generators/nodebase-generator");
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(generator, to).unwrap();
            (Some(directory), path)
        })
        .1
}

/// A boot to be.
struct Boot {
    net: Net,
    overlay: Root,
    arguments: Vec<String>,
}

/// What a boot left.
struct Booted(Root);

impl Boot {
    fn new(addresses: &[&str], arguments: &str) -> Self {
        let overlay = Root::bare();
        for source in [tree(), &repository().join("tests/nspawn/standins")] {
            run(Command::new("cp").arg("-a").arg(source.join(".")).arg(overlay.path()));
        }
        let identity = overlay.join("usr/libexec/nodebase/node-identity");
        fs::copy(env!("CARGO_BIN_EXE_node-identity"), &identity).unwrap();
        fs::set_permissions(identity, fs::Permissions::from_mode(0o755)).unwrap();
        // mkdtemp's 0700 would become the container's root directory.
        fs::set_permissions(overlay.path(), fs::Permissions::from_mode(0o755)).unwrap();
        // The root file systems have the building machine's name in it.
        overlay.write("etc/hostname", "");
        Self { net: Net::with(addresses), overlay, arguments: arguments.split(' ').map(str::to_owned).collect() }
    }

    fn serve(self, address: &str, service: impl FnMut(&Request) -> Act + Send + 'static) -> Self {
        self.net.serve(address, service);
        self
    }

    fn file(self, path: &str, text: &str) -> Self {
        self.overlay.write(path, text);
        self
    }

    fn run(self, version: &str) -> Booted {
        let results = Root::bare();
        let root = run(Command::new(repository().join("tests/roots/make-root")).arg(version));
        // nsenter and not `ip netns exec`, which hides the cgroup hierarchies below a fresh /sys.
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{}", self.net.name())).arg(repository().join("tests/nspawn/boot"));
        command.arg(root).arg(self.overlay.path());
        command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/boot-guest.sh")).arg(results.path());
        run(command.args(&self.arguments));
        Booted(results)
    }
}

impl Booted {
    /// What kubelet got for a flag; empty without one (on-prem kubelets have no `--provider-id`).
    #[track_caller]
    fn flag(&self, name: &str) -> String {
        let argv = fs::read_to_string(self.0.join("argv"));
        let argv = argv.unwrap_or_else(|_| panic!("kubelet was not started:\n{}", self.0.read("journal")));
        let prefix = format!("--{name}=");
        argv.lines().find_map(|line| line.strip_prefix(&prefix)).unwrap_or_default().to_owned()
    }

    fn hostname(&self) -> String {
        self.0.read("hostname").trim().to_owned()
    }

    /// A property of a unit.
    #[track_caller]
    fn unit(&self, unit: &str, property: &str) -> String {
        let text = self.0.read("units");
        let block = text
            .split("\n\n")
            .find(|block| block.contains(&format!("Id={unit}\n")) || block.ends_with(&format!("Id={unit}")));
        let block = block.unwrap_or_else(|| panic!("{unit} is not in {text}"));
        let prefix = format!("{property}=");
        block.lines().find_map(|line| line.strip_prefix(&prefix)).unwrap_or_default().to_owned()
    }

    /// The unit ran and did well.
    #[track_caller]
    fn ran(&self, unit: &str) {
        let (state, result) = (self.unit(unit, "ActiveState"), self.unit(unit, "Result"));
        assert!(state == "active" && result == "success", "{unit}: {state} {result}\n{}", self.0.read("journal"));
    }

    /// chronyd is not told anything.
    #[track_caller]
    fn has_no_time_source(&self) {
        assert_eq!(self.unit("nodebase-time-source.service", "ActiveState"), "inactive");
        assert!(!self.0.join("chrony.env").exists());
    }

    /// None of our units wrote to /etc (systemd itself may write machine-id and the like).
    #[track_caller]
    fn left_etc_alone(&self) {
        let written = self.0.read("etc-written");
        let foreign: Vec<_> = written
            .lines()
            .filter(|line| line.contains("kubernetes") || line.contains("nodebase") || line.contains("hostname"))
            .collect();
        assert!(foreign.is_empty(), "{foreign:?}");
        assert_eq!(self.0.read("etc-hostname"), "");
    }

    /// A journal record of a unit with this field.
    #[track_caller]
    fn journal_field(&self, unit: &str, field: &str, value: &str) {
        let found = self.0.read("journal.json").lines().any(|line| {
            let record: serde_json::Value = serde_json::from_str(line).unwrap();
            record["_SYSTEMD_UNIT"] == unit && record[field] == value
        });
        assert!(found, "no record of {unit} with {field}={value}");
    }
}

const VERSIONS: [&str; 3] = ["252", "257", "262"];

#[test]
fn aws() {
    for version in VERSIONS {
        let boot = Boot::new(&[AWS], "ignition.platform.id=aws").serve(AWS, services::aws(true, false));
        let booted = boot.run(version);
        assert_eq!(booted.flag("hostname-override"), "ip-10-0-12-34.eu-central-1.compute.internal");
        assert_eq!(booted.flag("provider-id"), "aws:///eu-central-1b/i-0123456789abcdef0");
        for unit in [
            "aws-kubelet-nodename.service",
            "aws-kubelet-providerid.service",
            "node-valid-hostname.service",
            "wait-for-node-ip.service",
        ] {
            booted.ran(unit);
        }
        booted.left_etc_alone();
        let unit = "aws-kubelet-nodename.service";
        booted.journal_field(unit, "PLATFORM", "aws");
        booted.journal_field(unit, "FACET", "clusterPlatform=AWS");
        booted.journal_field(unit, "URL", "http://169.254.169.254/2022-09-24/meta-data/local-hostname");
        assert!(booted.unit(unit, "StatusText").contains("KUBELET_NODE_NAME=ip-10"), "{}", booted.0.read("units"));
        for file in ["journal", "journal.json", "argv", "node.env"] {
            assert!(!booted.0.read(file).contains(TOKEN), "{version}: a token in {file}");
        }
    }
}

#[test]
fn gcp() {
    let long = format!("{}.c.my-project.internal", "w".repeat(50));
    for version in VERSIONS {
        let boot = Boot::new(&[AWS], "ignition.platform.id=gcp").serve(AWS, services::gcp(&long));
        let booted = boot.run(version);
        booted.ran("gcp-hostname.service");
        booted.ran("node-valid-hostname.service");
        assert_eq!(booted.hostname(), "w".repeat(50), "{version}: {}", booted.0.read("journal"));
        assert_eq!(booted.flag("hostname-override"), "");
        assert_eq!(booted.flag("provider-id"), "");
        booted.left_etc_alone();
    }
}

#[test]
fn openstack() {
    for version in VERSIONS {
        let boot = Boot::new(&[AWS], "ignition.platform.id=openstack").serve(AWS, services::openstack("worker-0"));
        let booted = boot.run(version);
        booted.ran("openstack-kubelet-nodename.service");
        booted.ran("openstack-hostname.service");
        assert_eq!(booted.flag("hostname-override"), "worker-0");
        assert_eq!(booted.flag("provider-id"), "");
        assert_eq!(booted.hostname(), "worker-0.novalocal");
        assert!(booted.0.read("state/node.env").contains("KUBELET_NODE_NAME=worker-0\n"));
        booted.has_no_time_source();
        booted.left_etc_alone();
    }
}

/// The openstack id on another cluster: nobody asks for anything.
#[test]
fn openstack_id_on_another_cluster() {
    let arguments = "ignition.platform.id=openstack nodebase.clusterPlatform=BareMetal";
    let booted = Boot::new(&[], arguments).run("257");
    assert_eq!(booted.flag("hostname-override"), "");
    assert_eq!(booted.unit("openstack-kubelet-nodename.service", "ActiveState"), "inactive");
    assert_eq!(booted.unit("openstack-hostname.service", "ActiveState"), "inactive");
}

#[test]
fn powervs() {
    for version in VERSIONS {
        let link = "[Unit]\nDefaultDependencies=no\nBefore=sysinit.target\n[Service]\nType=oneshot\n\
                    ExecStart=mkdir -p /run/metadata\n\
                    ExecStart=sh -c 'echo AFTERBURN_POWERVS_LOCAL_HOSTNAME=pvs-1.example >/run/metadata/afterburn'\n";
        let boot =
            Boot::new(&[], "ignition.platform.id=powervs").file("usr/lib/systemd/system/afterburn.service", link);
        let booted = boot.run(version);
        booted.ran("powervs-hostname.service");
        assert_eq!(booted.hostname(), "pvs-1.example");
        booted.has_no_time_source();
        booted.left_etc_alone();
    }
}

#[test]
fn vmware() {
    for version in VERSIONS {
        // A container is no VMware machine; everything else of the unit is as shipped.
        let boot = Boot::new(&[], "ignition.platform.id=vmware")
            .file("etc/systemd/system/vsphere-hostname.service.d/90-test.conf", "[Unit]\nConditionVirtualization=\n");
        boot.overlay.script(
            "usr/bin/vmtoolsd",
            "#!/bin/sh\n[ \"$2\" = 'info-get guestinfo.hostname' ] && echo vm-1.example || { echo 'No value found' >&2; exit 1; }\n",
        );
        let booted = boot.run(version);
        booted.ran("vsphere-hostname.service");
        assert_eq!(booted.hostname(), "vm-1.example");
        booted.has_no_time_source();
        booted.left_etc_alone();
        // As shipped: not started anywhere else.
        let booted = Boot::new(&[], "ignition.platform.id=vmware").run(version);
        assert_eq!(booted.unit("vsphere-hostname.service", "ConditionResult"), "no");
    }
}

/// Everywhere else nobody asks, and kubelet takes the host name.
#[test]
fn other_machines() {
    let asked = ["aws", "gcp", "openstack", "powervs", "vmware"];
    let table: serde_json::Value =
        serde_json::from_slice(&fs::read(repository().join("units/platforms.json")).unwrap()).unwrap();
    let rows = table["platforms"].as_object().unwrap().iter().filter(|(id, _)| !asked.contains(&id.as_str()));
    for (id, row) in rows {
        let booted = Boot::new(&[], &format!("ignition.platform.id={id}")).run("257");
        assert_eq!((booted.flag("hostname-override"), booted.flag("provider-id")), (String::new(), String::new()));
        for unit in ["aws-kubelet-nodename.service", "nodebase-provider-id.service", "gcp-hostname.service"] {
            assert_eq!(booted.unit(unit, "ActiveState"), "inactive", "{id}");
        }
        booted.ran("node-valid-hostname.service");
        booted.ran("wait-for-node-ip.service");
        if row["timeSource"] == "none" {
            booted.has_no_time_source();
        }
    }
}

/// Units that ask for metadata give up at once.
fn impatient(boot: Boot) -> Boot {
    let units = ["aws-kubelet-nodename", "aws-kubelet-providerid", "gcp-hostname", "powervs-hostname"];
    units.iter().fold(boot, |boot, unit| {
        let path = format!("etc/systemd/system/{unit}.service.d/90-test.conf");
        boot.file(&path, "[Service]\nEnvironment=NODEBASE_DEADLINE_MS=1 NODEBASE_REQUEST_MS=300\n")
    })
}

/// Kubelet does not start under a wrong name, and the failed unit says what it tried.
#[test]
fn aws_without_an_answer() {
    for version in VERSIONS {
        let booted = impatient(Boot::new(&[AWS], "ignition.platform.id=aws")).run(version);
        assert!(!booted.0.join("argv").exists(), "{version}: kubelet was started");
        // The unit is being started again and again, so its state is anything; the journal has all of it.
        let journal = booted.0.read("journal");
        for says in [
            "the node name from aws: no answer after",
            "http://169.254.169.254/latest/api/token: nobody listens there",
            "aws-kubelet-nodename.service: Main process exited, code=exited, status=1/FAILURE",
        ] {
            assert!(journal.contains(says), "{version}: {says}: {journal}");
        }
    }
}

/// As Fedora ships it, but it only says how it was started.
const CHRONYD: &str = "[Unit]\nDescription=stand-in\n[Service]\nType=oneshot\nRemainAfterExit=yes\n\
                       EnvironmentFile=-/etc/sysconfig/chronyd\nExecStart=/bin/echo started: chronyd $OPTIONS\n";

fn with_chronyd(platform: &str) -> Boot {
    let mut boot = impatient(Boot::new(&[], &format!("ignition.platform.id={platform}")))
        .file("usr/lib/systemd/system/chronyd.service", CHRONYD)
        .file("usr/lib/systemd/system/multi-user.target.wants/x", "");
    for etc in ["etc", "usr/etc"] {
        boot = boot.file(&format!("{etc}/chrony.conf"), "pool x\n");
        boot = boot.file(&format!("{etc}/sysconfig/chronyd"), "OPTIONS=\"-F 2\"\n");
    }
    let wants = boot.overlay.join("usr/lib/systemd/system/multi-user.target.wants");
    fs::remove_file(wants.join("x")).unwrap();
    std::os::unix::fs::symlink("../chronyd.service", wants.join("chronyd.service")).unwrap();
    boot
}

#[test]
fn time_source() {
    let plain = "started: chronyd -F 2\n";
    for (platform, source) in [("aws", "aws"), ("azure", "hyperv"), ("azurestack", "hyperv"), ("gcp", "gcp")] {
        let booted = with_chronyd(platform).run("257");
        booted.ran("nodebase-time-source.service");
        let want = format!("started: chronyd -F 2 -f /usr/lib/nodebase/chrony/{source}.conf\n");
        assert!(booted.0.read("journal").contains(&want), "{}", booted.0.read("journal"));
    }
    for version in VERSIONS {
        // The guest has no ptp_kvm; metal has no time source of its own.
        assert!(with_chronyd("qemu").run(version).0.read("journal").contains(plain));
        let booted = with_chronyd("metal").run(version);
        assert!(booted.0.read("journal").contains(plain));
        assert_eq!(booted.unit("nodebase-time-source.service", "ActiveState"), "inactive");
        // An administrator's configuration.
        let booted = with_chronyd("aws").file("etc/chrony.conf", "server ntp.example\n").run(version);
        booted.ran("nodebase-time-source.service");
        assert!(booted.0.read("journal").contains(plain));
        // An image that brings Fedora CoreOS' own.
        let own = "usr/lib/systemd/system/coreos-platform-chrony-config.service";
        let booted = with_chronyd("aws").file(own, "[Service]\nExecStart=/bin/true\n").run(version);
        assert_eq!(booted.unit("nodebase-time-source.service", "ConditionResult"), "no");
        assert!(booted.0.read("journal").contains(plain));
    }
}

/// Where the platform gives the name, NetworkManager is told to leave it.
#[test]
fn networkmanager_leaves_the_platforms_name() {
    let unit = "[Service]\nType=oneshot\nExecStart=/bin/true\n";
    for (arguments, told) in [("ignition.platform.id=powervs", true), ("ignition.platform.id=metal", false)] {
        let boot = impatient(Boot::new(&[], arguments)).file("usr/lib/systemd/system/NetworkManager.service", unit);
        let booted = boot.run("257");
        assert_eq!(
            booted.0.read("networkmanager").contains("NM_CONFIG_ENABLE_TAG=nodebase-hostname"),
            told,
            "{arguments}"
        );
    }
}

type Service = Box<dyn FnMut(&Request) -> Act + Send>;

#[test]
fn external_clusters() {
    let oracle = Some(("Authorization", "Bearer Oracle"));
    let scaleway = "{\"id\":\"1111\",\"zone\":\"fr-par-2\"}";
    let clouds: Vec<(&str, &str, Service, &str)> = vec![
        ("aws", AWS, Box::new(services::aws(true, false)), "aws:///eu-central-1b/i-0123456789abcdef0"),
        (
            "azure",
            AWS,
            Box::new(services::azure()),
            "azure:///subscriptions/aaaaaaaa-0000-1111-2222-333333333333/resourceGroups/my-rg/providers/\
             Microsoft.Compute/virtualMachines/worker_0",
        ),
        ("gcp", AWS, Box::new(services::gcp("w.example")), "gce://my-project/europe-west3-c/worker-a"),
        ("aliyun", "100.100.100.200", Box::new(services::alibaba()), "cn-hangzhou.i-bp15zckdt37pq72z"),
        ("digitalocean", AWS, Box::new(services::plain("/metadata/v1/id", None, "2756294")), "digitalocean://2756294"),
        ("hetzner", AWS, Box::new(services::plain("/hetzner/v1/metadata/instance-id", None, "4711")), "hcloud://4711"),
        ("vultr", AWS, Box::new(services::plain("/v1/instance-v2-id", None, "cb67-46")), "vultr://cb67-46"),
        (
            "scaleway",
            "169.254.42.42",
            Box::new(services::plain("/conf?format=json", None, scaleway)),
            "scaleway://instance/fr-par-2/1111",
        ),
        (
            "oraclecloud",
            AWS,
            Box::new(services::plain("/opc/v2/instance/id", oracle, "ocid1.instance.oc1.x")),
            "oci://ocid1.instance.oc1.x",
        ),
        ("openstack", AWS, Box::new(services::openstack("w")), "openstack:///d8e02d56-2648-49a3-bf97-6be8f1204f38"),
    ];
    for (id, address, service, want) in clouds {
        let arguments = format!("ignition.platform.id={id} nodebase.clusterPlatform=External");
        let booted = Boot::new(&[address], &arguments).serve(address, service).run("257");
        booted.ran("nodebase-provider-id.service");
        assert_eq!(booted.flag("provider-id"), want);
        assert_eq!(booted.flag("hostname-override"), "", "{id}: the controller finds the node by its provider id");
        booted.journal_field("nodebase-provider-id.service", "PLATFORM", id);
    }
}

#[test]
fn ibmcloud_external() {
    // Nobody told account and cluster: kubelet starts, the cloud controller will find the node.
    let arguments = "ignition.platform.id=ibmcloud nodebase.clusterPlatform=External";
    let booted = Boot::new(&[], arguments).run("257");
    assert_eq!(booted.flag("provider-id"), "");
    booted.ran("nodebase-provider-id.service");
    let arguments = format!("{arguments} nodebase.facets.ibmAccountID=acc nodebase.facets.ibmClusterID=clu");
    let afterburn = "[Service]\nType=oneshot\nExecStart=mkdir -p /run/metadata\n\
                     ExecStart=sh -c 'echo AFTERBURN_IBMCLOUD_INSTANCE_ID=0717_1 >/run/metadata/afterburn'\n";
    let boot = Boot::new(&[], &arguments).file("usr/lib/systemd/system/afterburn.service", afterburn);
    assert_eq!(boot.run("257").flag("provider-id"), "ibm://acc///clu/0717_1");
}
