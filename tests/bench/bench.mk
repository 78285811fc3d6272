# SPDX-License-Identifier: Apache-2.0 OR MIT
# What the generator costs and what it is made of. `bench` only prints and needs root; the checks are of `make check`.
CHECKS += deps
.PHONY: bench check-deps check-failure

bench: generator
	tests/bench/run

check-deps:
	diff -u tests/bench/allowed-crates \
	    <($(CARGO) tree --locked -p nodebase-generator -e normal --prefix none | sed 's/ .*//' | LC_ALL=C sort -u)

# Part of check-unit; on its own it prints how many faults were injected.
check-failure:
	$(CARGO) test --locked -p nodebase-generator --test failure -- --nocapture
