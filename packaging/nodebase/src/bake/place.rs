// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where a path of a running machine goes in an image.

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The image holds it, at this path.
    At(String),
    /// State: systemd-tmpfiles puts it in place, at this path, from /usr/share/factory.
    Factory(String),
    /// Nowhere, and why.
    Nowhere(&'static str),
}

/// Directories whose consumers read a twin below /usr as well: from, to.
const MOVES: &[(&str, &str)] = &[
    ("/etc/systemd/system", "/usr/lib/systemd/system"),
    ("/etc/systemd/user", "/usr/lib/systemd/user"),
    ("/etc/systemd/network", "/usr/lib/systemd/network"),
    ("/etc/systemd/system-preset", "/usr/lib/systemd/system-preset"),
    ("/etc/systemd/system.conf.d", "/usr/lib/systemd/system.conf.d"),
    ("/etc/systemd/journald.conf.d", "/usr/lib/systemd/journald.conf.d"),
    ("/etc/systemd/logind.conf.d", "/usr/lib/systemd/logind.conf.d"),
    ("/etc/systemd/coredump.conf.d", "/usr/lib/systemd/coredump.conf.d"),
    ("/etc/sysctl.d", "/usr/lib/sysctl.d"),
    ("/etc/modules-load.d", "/usr/lib/modules-load.d"),
    ("/etc/modprobe.d", "/usr/lib/modprobe.d"),
    ("/etc/tmpfiles.d", "/usr/lib/tmpfiles.d"),
    ("/etc/sysusers.d", "/usr/lib/sysusers.d"),
    ("/etc/binfmt.d", "/usr/lib/binfmt.d"),
    ("/etc/environment.d", "/usr/lib/environment.d"),
    ("/etc/udev/rules.d", "/usr/lib/udev/rules.d"),
    ("/etc/udev/hwdb.d", "/usr/lib/udev/hwdb.d"),
    ("/etc/NetworkManager/conf.d", "/usr/lib/NetworkManager/conf.d"),
    ("/etc/NetworkManager/dispatcher.d", "/usr/lib/NetworkManager/dispatcher.d"),
    ("/etc/NetworkManager/system-connections", "/usr/lib/NetworkManager/system-connections"),
    ("/etc/dracut.conf.d", "/usr/lib/dracut/dracut.conf.d"),
    ("/usr/local/bin", "/usr/bin"),
    ("/usr/local/sbin", "/usr/sbin"),
    ("/usr/local/lib", "/usr/lib"),
    ("/usr/local/libexec", "/usr/libexec"),
    ("/usr/local/share", "/usr/share"),
    ("/opt/libexec", "/usr/libexec"),
];

/// Directories of which ostree systems hold a link into /var.
const STATE: &[(&str, &str)] = &[
    ("/var", "/var"),
    ("/opt", "/var/opt"),
    ("/home", "/var/home"),
    ("/root", "/var/roothome"),
    ("/srv", "/var/srv"),
    ("/mnt", "/var/mnt"),
];

/// What is made anew at every boot or is no part of the tree.
const NOWHERE: &[(&str, &str)] = &[
    ("/run", "/run is empty at every boot: write it from a unit or tmpfiles.d"),
    ("/var/run", "/var/run is /run, empty at every boot: write it from a unit or tmpfiles.d"),
    ("/tmp", "/tmp is emptied: write it from a unit or tmpfiles.d"),
    ("/proc", "/proc is no part of an image"),
    ("/sys", "/sys is no part of an image"),
    ("/dev", "/dev is no part of an image"),
    ("/boot", "/boot belongs to the boot loader, not to the image"),
    ("/sysroot", "/sysroot belongs to ostree"),
    ("/ostree", "/ostree belongs to ostree"),
];

/// Is `path` the directory or below it? The rest, if so.
fn below<'a>(path: &'a str, directory: &str) -> Option<&'a str> {
    path.strip_prefix(directory).filter(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Where `path` goes. `local_is_state`: /usr/local is a link to /var/usrlocal, as on ostree systems.
pub fn place(path: &str, local_is_state: bool) -> Place {
    if !path.starts_with('/') || path.split('/').any(|part| part == ".." || part == ".") || path.contains("//") {
        return Place::Nowhere("not an absolute path without . and ..");
    }
    if let Some((_, why)) = NOWHERE.iter().find(|(d, _)| below(path, d).is_some()) {
        return Place::Nowhere(why);
    }
    if let Some(to) = MOVES.iter().find_map(|(from, to)| below(path, from).map(|rest| format!("{to}{rest}"))) {
        return Place::At(to);
    }
    if local_is_state && let Some(rest) = below(path, "/usr/local") {
        return Place::Factory(format!("/var/usrlocal{rest}"));
    }
    if let Some(to) = STATE.iter().find_map(|(from, to)| below(path, from).map(|rest| format!("{to}{rest}"))) {
        return Place::Factory(to);
    }
    Place::At(path.to_owned())
}

/// The directories that move, for warnings about references that name no file exactly.
pub fn moved_directories() -> impl Iterator<Item = &'static str> {
    MOVES.iter().map(|(from, _)| *from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        for (path, want) in [
            ("/etc/systemd/system/a.service.d/x.conf", "/usr/lib/systemd/system/a.service.d/x.conf"),
            ("/usr/local/bin/x", "/usr/bin/x"),
            ("/usr/local/binary", "/usr/local/binary"),
            ("/opt/libexec/x.sh", "/usr/libexec/x.sh"),
            ("/etc/NetworkManager/dispatcher.d/pre-up.d/x", "/usr/lib/NetworkManager/dispatcher.d/pre-up.d/x"),
            ("/etc/kubernetes/kubelet.conf", "/etc/kubernetes/kubelet.conf"),
        ] {
            assert_eq!(place(path, false), Place::At(want.into()), "{path}");
        }
        for (path, want) in
            [("/var/lib/x", "/var/lib/x"), ("/root/.bashrc", "/var/roothome/.bashrc"), ("/opt/a", "/var/opt/a")]
        {
            assert_eq!(place(path, false), Place::Factory(want.into()));
        }
        assert_eq!(place("/usr/local/etc/x", true), Place::Factory("/var/usrlocal/etc/x".into()));
        for path in ["/run/x", "/var/run/x", "relative", "/etc/../x", "/boot/grub"] {
            assert!(matches!(place(path, false), Place::Nowhere(_)), "{path}");
        }
    }
}
