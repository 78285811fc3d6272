# SPDX-License-Identifier: Apache-2.0 OR MIT
# shellcheck shell=bash
# Sourced by the scripts that run in the container.

# settle UNIT…: waits until no job is queued for any of the units and none is being started
settle() {
    local unit state
    for unit in "$@"; do
        while state=$(systemctl show -P ActiveState "$unit") && [ "$state" = activating ] &&
            [ "$(systemctl show -P SubState "$unit")" != auto-restart ]; do
            sleep 0.1
        done
    done
}

# dump NAME: everything a test asks the running manager about
dump() {
    local dir=/results/$1
    mkdir -p "$dir"
    systemctl show kubelet.service >"$dir/kubelet.show"
    systemctl list-dependencies --all --plain --no-pager multi-user.target | sed 's/^ *//' | sort -u >"$dir/dependencies"
    systemctl --failed --no-legend --plain --no-pager >"$dir/failed" || true
    systemctl status --no-pager -l kubelet.service nodebase-incomplete.service >"$dir/status" 2>&1 || true
    systemctl list-units --all --no-legend --plain --no-pager >"$dir/units" || true
    journalctl -b --no-pager -o short-monotonic >"$dir/journal" 2>&1 || true
    cp -a /run/systemd/generator "$dir/generator"
    (cd /run/systemd/generator && find . \( -type l -o -type f \) -printf '%P %l\n' | sort) >"$dir/links"
    cp -a /run/kubelet-record "$dir/kubelet" 2>/dev/null || true
    cp /run/podman-record "$dir/podman" 2>/dev/null || true
    find /etc -newer /results/script -type f | sort >"$dir/etc-written"
}

# starts: how often kubelet was started
starts() {
    find /run/kubelet-record -name 'argv.*' 2>/dev/null | wc -l
}
