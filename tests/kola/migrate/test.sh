#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
## kola:
##   description: A node that comes from the MCO, with its kubelet.service and node IP in /etc, and moves to the image's
##   platforms: qemu
##   timeoutMin: 12
set -euo pipefail
# shellcheck source=tests/kola/data/check.sh
. "$KOLA_EXT_DATA/check.sh"

case ${AUTOPKGTEST_REBOOT_MARK:-} in
'')
    # The unit in /etc shadows the image's; drop-ins still apply on top of it, but none that replaces its ExecStart=.
    kubelet_runs
    has /run/kubelet-record 'argv --stale'
    has /run/kubelet-record 'argv --node-ip=192.0.2.7'
    has /run/kubelet-record 'argv --register-with-taints=node-role.kubernetes.io/master=:NoSchedule'
    is 'drop-ins that replace ExecStart=' '' "$(find "$generator_dir/kubelet.service.d" -name '*-exec.conf')"
    if nodebase --help 2>/dev/null | grep -Eq '^ +status( |$)'; then
        nodebase status >/run/status || true
        cat /run/status
        grep -q '/etc/systemd/system/kubelet.service' /run/status || fatal 'nodebase status does not tell of the shadow'
    fi
    # The migration: what the image has now goes from /etc; what the node has found out stays.
    rm /etc/systemd/system/kubelet.service /etc/systemd/system/multi-user.target.wants/kubelet.service
    /tmp/autopkgtest-reboot migrated
    ;;
migrated)
    is 'the unit' /usr/lib/systemd/system/kubelet.service "$(systemctl show --property=FragmentPath --value kubelet.service)"
    kubelet_runs
    lacks /run/kubelet-record 'argv --stale'
    # 20-nodenet.conf wins over the image's default and over our layers.
    has /run/kubelet-record 'argv --node-ip=192.0.2.7'
    has /run/kubelet-record 'argv --register-with-taints=node-role.kubernetes.io/master=:NoSchedule'
    ;;
*) fatal "unexpected mark $AUTOPKGTEST_REBOOT_MARK" ;;
esac
