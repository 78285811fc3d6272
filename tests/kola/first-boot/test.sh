#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
## kola:
##   description: Ignition writes node.json on the first boot, and the node is specialised by it, then and afterwards
##   platforms: qemu
##   tags: quick
##   timeoutMin: 8
set -euo pipefail
# shellcheck source=tests/kola/data/check.sh
. "$KOLA_EXT_DATA/check.sh"

specialised() {
    has /etc/nodebase/node.json '.*"role": *"master".*'
    cat "$marker"
    is 'facet role' master "$(facet role)"
    is 'facet clusterPlatform' VSphere "$(facet clusterPlatform)"
    kubelet_runs
    # The wrapper and its options in front are the image's business; kubelet's own words are what counts.
    has /run/kubelet-record 'argv --cloud-provider=external'
    has /run/kubelet-record 'argv --v=5'
    has /run/kubelet-record 'argv --register-with-taints=node-role.kubernetes.io/master=:NoSchedule'
    has /run/kubelet-record 'env NODEBASE_PLATFORM=qemu'
    # Everything that the generator linked is content of /usr.
    find "$generator_dir" -lname '/usr/lib/nodebase/*' | grep -q . || fatal 'no link into /usr/lib/nodebase'
}

case ${AUTOPKGTEST_REBOOT_MARK:-} in
'')
    grep -q ignition.firstboot /proc/cmdline || fatal 'not a first boot'
    specialised
    tree >/var/lib/tree-of-first-boot
    /tmp/autopkgtest-reboot second
    ;;
second)
    ! grep -q ignition.firstboot /proc/cmdline || fatal 'still a first boot'
    specialised
    # The platform id and the facts are the same, so is the tree.
    is 'the tree of both boots' "$(cat /var/lib/tree-of-first-boot)" "$(tree)"
    ;;
*) fatal "unexpected mark $AUTOPKGTEST_REBOOT_MARK" ;;
esac
