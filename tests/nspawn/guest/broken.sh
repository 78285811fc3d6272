# SPDX-License-Identifier: Apache-2.0 OR MIT
# shellcheck shell=bash
# Kubelet is off after the boot; it stays off when somebody starts it, and comes once the cause is gone.
# shellcheck source=/dev/null
. /results/collect.sh
settle kubelet.service nodebase-incomplete.service
dump boot
systemctl start kubelet.service >/results/start 2>&1
echo $? >>/results/start
systemctl daemon-reload
systemctl start kubelet.service >>/results/start 2>&1
starts >/results/starts-before
if [ -e /results/mend ]; then
    bash /results/mend
    systemctl daemon-reload
    systemctl reset-failed kubelet.service nodebase-incomplete.service
    systemctl start kubelet.service >/results/mended-start 2>&1
    echo $? >>/results/mended-start
    settle kubelet.service
    dump mended
fi
