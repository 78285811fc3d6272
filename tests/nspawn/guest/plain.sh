# SPDX-License-Identifier: Apache-2.0 OR MIT
# shellcheck shell=bash
# The state after a boot, and after two reloads.
# shellcheck source=/dev/null
. /results/collect.sh
settle kubelet.service nodebase-incomplete.service
dump boot
systemctl daemon-reload
systemctl daemon-reload
dump reloaded
