# SPDX-License-Identifier: Apache-2.0 OR MIT
# shellcheck shell=bash
# Runs in the container when it is up: writes what boots.rs asks about to /results.
set -u
# Kubelet comes after every unit that gives it a name.
for unit in kubelet.service nodebase-time-source.service; do
    while [ "$(systemctl show -P ActiveState "$unit")" = activating ] &&
        [ "$(systemctl show -P SubState "$unit")" != auto-restart ]; do
        sleep 0.1
    done
done
cp /run/kubelet-record/argv.0 /results/argv 2>/dev/null
cat /proc/sys/kernel/hostname >/results/hostname
cat /etc/hostname >/results/etc-hostname 2>/dev/null
systemctl show --property=Id,ActiveState,Result,ConditionResult,StatusText,ExecMainStatus \
    aws-kubelet-nodename.service aws-kubelet-providerid.service gcp-hostname.service openstack-hostname.service \
    openstack-kubelet-nodename.service powervs-hostname.service vsphere-hostname.service node-valid-hostname.service \
    wait-for-node-ip.service nodebase-provider-id.service nodebase-time-source.service >/results/units
systemctl show --property=Environment NetworkManager.service >/results/networkmanager
journalctl -b --no-pager -o json --output-fields=_SYSTEMD_UNIT,MESSAGE,PLATFORM,FACET,URL >/results/journal.json
journalctl -b --no-pager -o short-monotonic >/results/journal
cp /run/nodebase/node.env /results/node.env 2>/dev/null
cp /run/nodebase/chrony.env /results/chrony.env 2>/dev/null
cp -r /var/lib/nodebase /results/state 2>/dev/null
ls -ld /run/nodebase >/results/run-nodebase
find /etc -xdev -newer /results/script -type f >/results/etc-written
exit 0
