# SPDX-License-Identifier: Apache-2.0 OR MIT
# node-identity against metadata services in network namespaces, and in containers on three systemd versions; needs root.
CHECKS += identity
.PHONY: check-identity
check-identity: tree
	NODEBASE_TREE=$(TREE) $(CARGO) test --locked --quiet --no-fail-fast -p node-identity
