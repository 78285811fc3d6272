#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
## kola:
##   description: Images without the generator, and with an empty /usr/lib/nodebase, boot with kubelet off and say so
##   platforms: qemu
##   tags: skip-base-checks
##   timeoutMin: 20
set -euo pipefail
# shellcheck source=tests/kola/data/check.sh
. "$KOLA_EXT_DATA/check.sh"

without_generator() { rm "$1/usr/lib/systemd/system-generators/nodebase-generator"; }
with_empty_directory() { rm -r "$1"/usr/lib/nodebase/*; }

case ${AUTOPKGTEST_REBOOT_MARK:-} in
'')
    kubelet_runs
    booted_commit >/var/lib/good
    deploy_variant "$(booted_commit)" missing without_generator
    /tmp/autopkgtest-reboot missing
    ;;
missing)
    [ ! -e "$generator" ] || fatal 'the generator is there'
    kubelet_is_off
    grep -q 'is missing' /run/incomplete.log || fatal 'the reporter does not say that the generator is missing'
    deploy_variant "$(cat /var/lib/good)" empty with_empty_directory
    /tmp/autopkgtest-reboot empty
    ;;
empty)
    is 'files in /usr/lib/nodebase' '' "$(ls -A /usr/lib/nodebase)"
    [ ! -e "$marker" ] || fatal 'there is a marker'
    kubelet_is_off
    grep -q platforms.json /run/incomplete.log || fatal 'the reporter does not name the missing table'
    ;;
*) fatal "unexpected mark $AUTOPKGTEST_REBOOT_MARK" ;;
esac
