#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
## kola:
##   description: Of two platform ids on the kernel command line the last counts, as for Ignition, and a warning tells of it
##   platforms: qemu
##   appendKernelArgs: ignition.platform.id=aws ignition.platform.id=qemu
##   timeoutMin: 8
set -euo pipefail
# shellcheck source=tests/kola/data/check.sh
. "$KOLA_EXT_DATA/check.sh"

[ "$(tr ' ' '\n' </proc/cmdline | grep -c '^ignition.platform.id=')" -ge 2 ] || fatal 'the argument is there only once'
is 'facet platform' qemu "$(facet platform)"
is 'facet clusterPlatform' None "$(facet clusterPlatform)"
kubelet_runs
lacks /run/kubelet-record 'argv --cloud-provider=external'
journalctl --boot --dmesg --output=cat --no-pager | grep -i 'nodebase' >/run/lines || true
cat /run/lines
grep -q 'aws' /run/lines || fatal 'the kernel log has no warning that names the other id'
