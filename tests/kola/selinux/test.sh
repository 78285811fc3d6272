#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
## kola:
##   description: With SELinux enforcing the node comes up, and no denial names the generator or one of our units
##   platforms: qemu
##   tags: quick selinux skip-base-checks
##   appendKernelArgs: audit=1 lsm=selinux,integrity selinux=1 enforcing=1
##   timeoutMin: 15
set -euo pipefail
# shellcheck source=tests/kola/data/check.sh
. "$KOLA_EXT_DATA/check.sh"

is enforcing 1 "$(cat /sys/fs/selinux/enforce)"
kubelet_runs
[ -s "$marker" ] || fatal 'no marker'
# The reload runs the generator once more, with the policy long loaded.
systemctl daemon-reload
kubelet_runs
journalctl --boot --output=cat --no-pager >/run/journal.txt
dmesg >>/run/journal.txt
grep -E 'avc: +denied' /run/journal.txt | sort -u >/run/denials || true
echo "denials of any kind: $(wc -l </run/denials)"
cut -c 1-250 /run/denials | head -n 20
# Ours: the generator by its name and its output, our programs and directories, kubelet-dependencies' helpers.
ours='nodebase|node-identity|kubelet-config|auto-node-size|report-incomplete|nodeip-configuration|resolv-prepender'
if grep -E "$ours" /run/denials; then fatal 'SELinux denies something to us'; fi
for unit in /usr/lib/systemd/system-generators/nodebase-generator /usr/libexec/nodebase/node-identity; do
    [ ! -e "$unit" ] || stat --format='%C %n' "$unit"
done
