# SPDX-License-Identifier: Apache-2.0 OR MIT
# shellcheck shell=bash
# A good boot; then the cause appears, systemd reloads, and kubelet dies by itself.
# shellcheck source=/dev/null
. /results/collect.sh
settle kubelet.service
dump boot
bash /results/break
for _ in 1 2 3 4 5; do systemctl daemon-reload; done
dump reloaded
starts >/results/starts-before
systemctl kill -s KILL --kill-whom=main kubelet.service 2>/dev/null || systemctl kill -s KILL kubelet.service
# Restart=always with a tenth of a second in between: until systemd has tried at least twice, or given up.
for _ in $(seq 300); do
    tries=$(systemctl show -P NRestarts kubelet.service)
    state=$(systemctl show -P ActiveState kubelet.service)
    { [ "$tries" -ge 2 ] || [ "$state" = failed ] || [ "$state" = inactive ]; } && break
    sleep 0.1
done
dump killed
systemctl restart kubelet.service >/results/restart 2>&1
echo $? >>/results/restart
dump restarted
starts >/results/starts-after
