# SPDX-License-Identifier: Apache-2.0 OR MIT
# Trees that `nodebase factor` made, on real managers.

CHECKS += factored

.PHONY: check-factored
check-factored: tree
	NODEBASE_TREE=$(TREE) $(CARGO) test --locked --quiet -p nodebase-nspawn --test factored
