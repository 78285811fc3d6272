# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Sourced by the tests: . "$KOLA_EXT_DATA/check.sh"
# shellcheck disable=SC2034 # the tests use them
generator_dir=/run/systemd/generator
marker=$generator_dir/nodebase.complete
generator=/usr/lib/systemd/system-generators/nodebase-generator

fatal() {
    echo "fatal: $*" >&2
    exit 1
}

# is WHAT EXPECTED ACTUAL
is() {
    [ "$2" = "$3" ] || fatal "$1: expected '$2', have '$3'"
    echo "ok $1: $2"
}

# has FILE PATTERN: a line of the file matches the whole extended regular expression
has() {
    grep -Exq -e "$2" "$1" || { cat "$1" >&2; fatal "$1 has no line $2"; }
    echo "ok $1: $2"
}

# lacks FILE PATTERN
lacks() {
    ! grep -Exq -e "$2" "$1" || { cat "$1" >&2; fatal "$1 has a line $2"; }
    echo "ok $1 without $2"
}

# state UNIT: its ActiveState, once nothing is queued for it any more
state() {
    local state
    while state=$(systemctl show --property=ActiveState --value "$1") && [ "$state" = activating ]; do sleep 0.5; done
    echo "$state"
}

# facet NAME: its value in the marker's comment line
facet() {
    sed -n "1s/.*[ #,]$1=\([^ ,]*\).*/\1/p" "$marker"
}

# tree: names, targets and contents of the generator's output, as one hash
tree() {
    (cd "$generator_dir" && find . -path './nodebase*' -o -name '*nodebase*' -o -type l -lname '/usr/lib/nodebase/*' | sort |
        while read -r path; do
            printf '%s %s ' "$path" "$(readlink "$path")"
            if [ -f "$path" ] && [ ! -L "$path" ]; then sha256sum <"$path"; else echo; fi
        done) | sha256sum
}

# kubelet_runs: kubelet was started, and its record is there
kubelet_runs() {
    is 'kubelet.service' active "$(state kubelet.service)"
    [ -s /run/kubelet-record ] || fatal 'kubelet left no record'
}

# kubelet_is_off: not started, not once, and the reporter says so
kubelet_is_off() {
    state=$(state kubelet.service)
    [ "$state" != active ] || fatal 'kubelet runs'
    [ ! -e /run/kubelet-starts ] || fatal 'kubelet was started'
    is 'nodebase-incomplete.service' failed "$(state nodebase-incomplete.service)"
    systemctl --failed --plain --no-legend | grep -q '^nodebase-incomplete.service ' ||
        fatal 'systemctl --failed does not show nodebase-incomplete.service'
    journalctl --boot --unit=nodebase-incomplete.service --output=cat --no-pager >/run/incomplete.log
    cat /run/incomplete.log
    grep -q 'kubelet.service stays off' /run/incomplete.log || fatal 'the reporter does not say what is off'
}

# booted_commit: the checksum of the deployment that runs
booted_commit() {
    local link
    link=$(sed -n 's/.*\bostree=\([^ ]*\).*/\1/p' /proc/cmdline)
    link=$(readlink -f "/sysroot$link")
    link=${link##*/}
    echo "${link%.*}"
}

# deploy_variant COMMIT NAME FUNCTION: makes another image of the commit, as a new build would be one, and deploys it for
# the next boot. FUNCTION gets the directory of the tree; files in it are hard links, so it must replace, not edit.
deploy_variant() {
    local commit=$1 name=$2 change=$3
    export -f "${change?}"
    # shellcheck disable=SC2016
    unshare --mount bash -euc '
        commit=$1 name=$2 change=$3
        mount -o remount,rw /sysroot
        # On the same file system as the repository, for hard links.
        tree=/sysroot/ostree/repo/tmp/variant
        rm -rf "$tree"
        ostree --repo=/ostree/repo checkout --require-hardlinks "$commit" "$tree"
        "$change" "$tree"
        policy=
        if [ -e /sys/fs/selinux/enforce ]; then policy=--selinux-policy=$tree; fi
        ostree --repo=/ostree/repo commit --branch="nodebase/$name" --tree=dir="$tree" --link-checkout-speedup \
            --no-bindings --add-metadata-string=version="$name" $policy
        rm -rf "$tree"
        ostree admin deploy "nodebase/$name"' deploy_variant "$commit" "$name" "$change"
}
