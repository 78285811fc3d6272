# SPDX-License-Identifier: Apache-2.0 OR MIT
# shellcheck shell=bash
# What the manager makes of the units in /results/units, and what the files in /results/paths hold. With /results/other
# the facts change to those, and the files are looked at again.
xargs systemctl show </results/units >/results/show

sums() {
    while read -r path; do
        if [ -f "$path" ]; then sha256sum "$path"; fi
    done </results/paths
}
sums >/results/sums
systemctl show -P Result nodebase-files.service >/results/files-unit
journalctl -b --no-pager -o cat >/results/journal 2>&1 || true

if [ -e /results/other ]; then
    rm /etc/kubernetes/manifests/keepalived.yaml
    echo mine >/etc/kubernetes/manifests/keepalived.yaml
    cp /results/other /etc/nodebase/node.json
    systemctl daemon-reload
    systemctl restart nodebase-files.service
    find /etc /run/nodebase -lname '/usr/share/nodebase/variants/*' >/results/links-after
    cat /etc/kubernetes/manifests/keepalived.yaml >/results/mine
fi
