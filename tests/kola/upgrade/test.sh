#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
## kola:
##   description: An upgrade keeps the facts and leaves one copy of every unit; a rollback restores the old image
##   platforms: qemu
##   tags: quick
##   timeoutMin: 20
set -euo pipefail
# shellcheck source=tests/kola/data/check.sh
. "$KOLA_EXT_DATA/check.sh"

# What a next release may bring: a new layer, and a unit that has changed.
next_release() {
    local layer=$1/usr/lib/nodebase/layers/platform=qemu/kubelet.service.d
    mkdir -p "$layer"
    printf '# nodebase layer platform=qemu\n[Service]\nEnvironment=NODEBASE_TEST_RELEASE=B\n' >"$layer/10-release.conf"
    local unit=$1/usr/lib/systemd/system/nodebase-incomplete.service
    sed 's/^Description=.*/Description=Of release B/' "$unit" >"$unit.new"
    mv "$unit.new" "$unit"
}

facts_are_kept() {
    has /etc/nodebase/node.json '.*"role": *"master".*'
    is 'facet role' master "$(facet role)"
    kubelet_runs
    has /run/kubelet-record 'argv --register-with-taints=node-role.kubernetes.io/master=:NoSchedule'
}

one_copy_of_every_unit() {
    local unit path
    for unit in /usr/lib/systemd/system/*.{service,target,path}; do
        unit=${unit##*/}
        for path in /etc/systemd/system /run/systemd/system /run/systemd/generator /usr/local/lib/systemd/system; do
            if [ -f "$path/$unit" ] && [ ! -L "$path/$unit" ]; then fatal "a second $unit in $path"; fi
        done
    done
    # The generator made links, and its own few files.
    find "$generator_dir" -type f ! -path "$generator_dir/nodebase*" ! -name 15-nodebase.conf -path '*nodebase*' |
        (! grep .) || fatal 'the generator copied something'
    echo 'ok one copy of every unit'
}

case ${AUTOPKGTEST_REBOOT_MARK:-} in
'')
    facts_are_kept
    one_copy_of_every_unit
    lacks /run/kubelet-record 'env NODEBASE_TEST_RELEASE=.*'
    booted_commit >/var/lib/release-a
    tree >/var/lib/tree-of-release-a
    deploy_variant "$(booted_commit)" b next_release
    /tmp/autopkgtest-reboot upgraded
    ;;
upgraded)
    [ "$(booted_commit)" != "$(cat /var/lib/release-a)" ] || fatal 'the old image was booted'
    facts_are_kept
    one_copy_of_every_unit
    has /run/kubelet-record 'env NODEBASE_TEST_RELEASE=B'
    is 'a changed unit' 'Of release B' "$(systemctl show --property=Description --value nodebase-incomplete.service)"
    ostree admin set-default 1
    /tmp/autopkgtest-reboot rolled-back
    ;;
rolled-back)
    is 'the booted image' "$(cat /var/lib/release-a)" "$(booted_commit)"
    facts_are_kept
    one_copy_of_every_unit
    lacks /run/kubelet-record 'env NODEBASE_TEST_RELEASE=.*'
    is 'the tree of before the upgrade' "$(cat /var/lib/tree-of-release-a)" "$(tree)"
    ;;
*) fatal "unexpected mark $AUTOPKGTEST_REBOOT_MARK" ;;
esac
