# SPDX-License-Identifier: Apache-2.0 OR MIT
# Source tarballs and packages; all of them end up in $(DIST). See CONTRIBUTING.md, "Releases".
#
#   make dist           source tarball with the rendered spec in it; byte-identical for the same commit
#   make vendor         every crate, as a second tarball for builds without a network
#   make srpm rpm deb   packages; the binary ones build from the two tarballs, or from binaries that are there already
#                       with NODEBASE_PREBUILT=DIR, a directory that holds the `target` of a finished `make build`
#   make sbom           CycloneDX bills of materials of the three programs
#   make deny           licences, duplicates and sources of all crates (cargo-deny)

DIST ?= $(CURDIR)/dist
MANDIR ?= $(PREFIX)/share/man

.PHONY: dist vendor srpm rpm deb sbom deny pages install-man install-completions take-prebuilt
.PHONY: check-packages check-docs check-offline-build check-deny

dist vendor srpm rpm deb:
	NODEBASE_DIST=$(DIST) packaging/dist $@

# The pages of the commands and the completions follow from clap; docs/man holds the others as man(1) reads them.
PAGES := target/pages
build: pages
pages: tools
	$(CARGO) build --locked --quiet --release -p nodebase-pages
	target/release/nodebase-pages commands $(PAGES)/man $(PAGES)/completions

# Committed, as it is read where nothing is built; a test says when it is old.
docs/man/nodebase-platforms.7: units/platforms.json packaging/pages/src/platforms.rs
	$(CARGO) run --locked --quiet -p nodebase-pages -- platforms $< $@

install: install-man install-completions
install-man:
	@[ -d $(PAGES)/man ] || { echo "install: $(PAGES)/man is missing: run 'make build' first" >&2; exit 1; }
	for page in docs/man/*.[1-8] $(PAGES)/man/*.[1-8]; do \
	    install -D -m 0644 $$page $(DESTDIR)$(MANDIR)/man$${page##*.}/$${page##*/}; done

install-completions:
	install -D -m 0644 $(PAGES)/completions/nodebase.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/nodebase
	install -D -m 0644 $(PAGES)/completions/nodebase.fish $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/nodebase.fish
	install -D -m 0644 $(PAGES)/completions/_nodebase $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_nodebase

# What a package's build section does instead of building when NODEBASE_PREBUILT is set.
take-prebuilt:
	for f in $(GENERATOR) $(TOOLS); do install -D -m 0755 $(NODEBASE_PREBUILT)/$$f $$f; done
	mkdir -p $(PAGES) && cp -R $(NODEBASE_PREBUILT)/$(PAGES)/. $(PAGES)/

# Tools that no distribution packages; installed once a machine, without optimisation: they run for seconds.
CACHE_BIN := $(or $(NODEBASE_CACHE),/var/cache/nodebase)/bin
$(CACHE_BIN)/cargo-deny $(CACHE_BIN)/cargo-cyclonedx: $(CACHE_BIN)/cargo-%:
	$(CARGO) install --quiet --debug --locked --root $(dir $(CACHE_BIN)) --target-dir $(dir $(CACHE_BIN))cargo-tools cargo-$*
	rm -rf $(dir $(CACHE_BIN))cargo-tools

SBOM_EPOCH = $(or $(SOURCE_DATE_EPOCH),$(shell git log -1 --format=%ct 2>/dev/null),0)
sbom: $(CACHE_BIN)/cargo-cyclonedx
	packaging/sbom $(DIST) $(SBOM_EPOCH)

# Advisories need their database from the network; the workflow in .github asks for them too.
deny check-deny: $(CACHE_BIN)/cargo-deny
	PATH=$(CACHE_BIN):$$PATH $(CARGO) deny --offline --log-level error check bans licenses sources

# Stages of `make check`.
CHECKS += docs packages
check-docs: build
	$(CARGO) test --locked --quiet -p nodebase-packages --test docs

check-packages: build
	$(CARGO) test --locked --quiet -p nodebase-packages --test packages

# Not in `make check`: downloads the crates and compiles them all once more, without a network.
check-offline-build:
	NODEBASE_PACKAGES=offline $(CARGO) test --locked --quiet -p nodebase-packages --test packages
