#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Stand-in for what Fedora CoreOS does between ostree and Ignition: /var is there when Ignition writes files.

check() { return 255; }

depends() { echo ostree ignition; }

# moddir, systemdsystemunitdir and initdir are dracut's.
# shellcheck disable=SC2154
install() {
    inst_multiple mount umount
    inst_script "$moddir/base-mount-var" /usr/sbin/base-mount-var
    inst_simple "$moddir/base-mount-var.service" "$systemdsystemunitdir/base-mount-var.service"
    mkdir -p "$initdir$systemdsystemunitdir/ignition-complete.target.requires"
    ln -s ../base-mount-var.service "$initdir$systemdsystemunitdir/ignition-complete.target.requires/"
}
