# SPDX-License-Identifier: Apache-2.0 OR MIT
# The main targets: `make try PLATFORM=aws`, `make check`, `make install DESTDIR=`.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:

DESTDIR ?=
PREFIX ?= /usr
CARGO ?= cargo
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)

# Where systemd looks; pkg-config knows on the build machine, an image's own layout is the same everywhere.
pkg_config = $(shell pkg-config --variable=$(1) systemd 2>/dev/null || true)
UNITDIR ?= $(or $(call pkg_config,systemdsystemunitdir),$(PREFIX)/lib/systemd/system)
GENERATORDIR ?= $(or $(call pkg_config,systemdsystemgeneratordir),$(PREFIX)/lib/systemd/system-generators)
NODEBASEDIR := $(PREFIX)/lib/nodebase
LIBEXECDIR := $(PREFIX)/libexec/nodebase
# The image is /usr only, whatever a merged-/usr build machine answers.
override UNITDIR := $(patsubst /lib/%,/usr/lib/%,$(UNITDIR))
override GENERATORDIR := $(patsubst /lib/%,/usr/lib/%,$(GENERATORDIR))

TARGET := $(shell rustc -vV | sed -n 's/^host: //p')
# The generator is fully static: half the start-up cost of a dynamic one (`make bench` measures both).
BOOT_FLAGS := -C target-feature=+crt-static -C relocation-model=static
GENERATOR := target/boot-static/$(TARGET)/boot/nodebase-generator
TOOLS := target/release/nodebase target/release/node-identity

.PHONY: all build generator tools install install-bin install-units install-dracut setup try tree clean
.PHONY: check check-format check-lint check-shell check-unit check-cmdline check-verify check-nspawn

all: build
build: generator tools

generator:
	RUSTFLAGS="$(BOOT_FLAGS)" $(CARGO) build --locked --quiet --profile boot --target $(TARGET) \
	    --target-dir target/boot-static -p nodebase-generator

tools:
	$(CARGO) build --locked --quiet --release -p nodebase -p node-identity

# `install` never builds: a package's %install runs after its %build.
install: install-bin install-units install-dracut

install-bin:
	@for f in $(GENERATOR) $(TOOLS); do [ -x $$f ] || { echo "install: $$f is missing: run 'make build' first" >&2; exit 1; }; done
	install -D -m 0755 $(GENERATOR) $(DESTDIR)$(GENERATORDIR)/nodebase-generator
	install -D -m 0755 target/release/nodebase $(DESTDIR)$(PREFIX)/bin/nodebase
	install -D -m 0755 target/release/node-identity $(DESTDIR)$(LIBEXECDIR)/node-identity

install-units:
	mkdir -p $(DESTDIR)$(UNITDIR) $(DESTDIR)$(NODEBASEDIR) $(DESTDIR)$(LIBEXECDIR)
	cp -R --preserve=mode,links units/system/. $(DESTDIR)$(UNITDIR)/
	cp -R --preserve=mode,links units/layers units/credential-providers units/platforms.json units/environment.json \
	    units/kubelet.conf $(DESTDIR)$(NODEBASEDIR)/
	cp -R --preserve=mode,links units/libexec/. $(DESTDIR)$(LIBEXECDIR)/
	for d in units/usr-lib/*; do [ ! -d "$$d" ] || { mkdir -p $(DESTDIR)$(PREFIX)/lib/$${d##*/} && \
	    cp -R --preserve=mode,links $$d/. $(DESTDIR)$(PREFIX)/lib/$${d##*/}/; }; done
	find $(DESTDIR)$(NODEBASEDIR) $(DESTDIR)$(UNITDIR) -type f -exec chmod 0644 {} +
	find $(DESTDIR)$(NODEBASEDIR) $(DESTDIR)$(UNITDIR) -type d -exec chmod 0755 {} +

install-dracut:
	if [ -d dracut/35nodebase ]; then \
	    mkdir -p $(DESTDIR)$(PREFIX)/lib/dracut/modules.d && \
	    cp -R --preserve=mode,links dracut/35nodebase $(DESTDIR)$(PREFIX)/lib/dracut/modules.d/; fi

setup:
	tests/setup check

# The main job on this machine: boots a container as that platform and prints what kubelet became there, and why.
PLATFORM ?= aws
ROLE ?= worker
try:
	tests/setup try
	$(MAKE) --no-print-directory build
	tests/nspawn/try "$(PLATFORM)" "$(ROLE)"

# The installed tree that the boot tests lay over their root file systems.
TREE := $(CURDIR)/target/tree
tree: build
	rm -rf $(TREE)
	$(MAKE) -s install DESTDIR=$(TREE)

# Stages of `make check`; slow ones are targets of their own, in the makefiles included below.
CHECKS := format lint shell unit cmdline verify nspawn
check:
	tests/setup check
	tests/check $(CHECKS)

check-format:
	$(CARGO) fmt --all --check

check-lint:
	$(CARGO) clippy --locked --quiet --workspace --all-targets -- -D warnings

# Every script by its first line, whatever its name.
check-shell:
	git ls-files -s | grep -v ^120000 | cut -f 2 | tr '\n' '\0' | \
	    xargs -0 grep -lE '^(#!/(bin|usr/bin)/(env )?(ba)?sh|# shellcheck shell=)' | xargs shellcheck -x -P SCRIPTDIR

check-unit:
	$(CARGO) test --locked --quiet --no-fail-fast --workspace --exclude nodebase-nspawn --exclude node-identity \
	    --exclude nodebase-packages

# Our reading of the kernel command line against systemd's own.
check-cmdline:
	$(CARGO) test --locked --quiet -p nodebase-nspawn --test cmdline

check-verify: tree
	NODEBASE_TREE=$(TREE) $(CARGO) test --locked --quiet -p nodebase-nspawn --test verify

check-nspawn: tree
	NODEBASE_TREE=$(TREE) $(CARGO) test --locked --quiet -p nodebase-nspawn --test boots

-include tests/*/*.mk packaging/*.mk

clean:
	$(CARGO) clean
