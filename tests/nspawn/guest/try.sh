# SPDX-License-Identifier: Apache-2.0 OR MIT
# shellcheck shell=bash
# What `make try` prints.
# shellcheck source=/dev/null
. /results/collect.sh
settle kubelet.service
cmdline=$(tr '\0' ' ' </proc/1/cmdline)

echo
echo "== What the generator made in this boot (/run/systemd/generator)"
(cd /run/systemd/generator && find . -type l -printf '%P -> %l\n' | grep nodebase | sort)
sed -n 's/^# nodebase-generator: /facets: /p' /run/systemd/generator/nodebase.complete
echo
echo "== Why (nodebase explain)"
nodebase explain --cmdline "$cmdline" | sed -n '1,/^kubelet.service/p' | sed '$d'
echo "== What the running manager started (systemctl status kubelet.service)"
systemctl --no-pager --full status kubelet.service | sed -n '1,/^$/p'
echo "== The command line that kubelet was started with"
sed 's/^/  /' /run/kubelet-record/argv.0
