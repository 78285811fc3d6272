#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
## kola:
##   description: The generator crashes midway; the machine boots, kubelet stays off, and the reason is told
##   platforms: qemu
##   tags: quick skip-base-checks
##   timeoutMin: 8
set -euo pipefail
# shellcheck source=tests/kola/data/check.sh
. "$KOLA_EXT_DATA/check.sh"

# config.ign puts a generator of the same name into /etc, which wins; it leaves half a tree and dies by a signal.
[ -e "$generator_dir/kubelet.service.d/10-half.conf" ] || fatal 'the crashing generator did not run'
[ ! -e "$marker" ] || fatal 'there is a marker'
is multi-user.target active "$(systemctl is-active multi-user.target)"
kubelet_is_off
# Asking for it does not help.
! systemctl start kubelet.service || fatal 'kubelet could be started by hand'
[ ! -e /run/kubelet-starts ] || fatal 'kubelet was started'
# Mended, it comes without a reboot.
rm /etc/systemd/system-generators/nodebase-generator
systemctl daemon-reload
systemctl reset-failed kubelet.service nodebase-incomplete.service || true
systemctl start kubelet.service
kubelet_runs
