#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
## kola:
##   description: The platform id of the boot decides what kubelet is told and which units run, and nothing else does
##   platforms: qemu
##   tags: quick platform-id
##   timeoutMin: 8
set -euo pipefail
# shellcheck source=tests/kola/data/check.sh
. "$KOLA_EXT_DATA/check.sh"

# By Ignition's rule: the last one counts.
id=$(tr ' ' '\n' </proc/cmdline | sed -n 's/^ignition.platform.id=//p' | tail -n 1)
line=$(grep -E "^$id " "$KOLA_EXT_DATA/platforms") || fatal "the table has no line for $id"
read -r _ cluster provider units <<<"$line"
cat "$marker"

is 'facet platform' "$id" "$(facet platform)"
is 'facet clusterPlatform' "$cluster" "$(facet clusterPlatform)"
is 'facet role' worker "$(facet role)"
kubelet_runs
has /run/kubelet-record "env NODEBASE_PLATFORM=$id"
case $provider in
external) has /run/kubelet-record 'argv --cloud-provider=external' ;;
none) lacks /run/kubelet-record 'argv --cloud-provider=.*' ;;
esac
# Units of a platform: those of this one were started (or found by their own condition that there is nothing to do), all
# others were never looked at.
for unit in $(sed -n '/^#/!p' "$KOLA_EXT_DATA/platforms" | cut -d ' ' -f 4- | tr ' ' '\n' | sort -u); do
    [ "$unit" != - ] || continue
    wanted=no
    for one in $units; do [ "$one" != "$unit" ] || wanted=yes; done
    considered=no
    if [ -n "$(systemctl show --property=WantedBy,RequiredBy --value "$unit" | tr -d '\n ')" ]; then considered=yes; fi
    is "$unit is wanted by something" "$wanted" "$considered"
    if [ "$wanted" = no ]; then is "$unit" inactive "$(state "$unit")"; fi
    [ "$(state "$unit")" != failed ] || fatal "$unit has failed"
done
