# SPDX-License-Identifier: Apache-2.0 OR MIT
# The image, and its boots in QEMU; included by the main Makefile. See docs/testing.md.

.PHONY: image check-image check-qemu check-all-qemu

# `make image BASE=… [TAG=] [BUILDER=] [MCO=] [CONFIG=]`: podman or buildah, whichever is there.
BASE ?= quay.io/fedora/fedora-coreos:stable
BUILDER ?= docker.io/library/rust:1-bookworm
MCO ?= $(BUILDER)
CONFIG ?= packaging/image/config
TAG ?= localhost/nodebase:$(VERSION)
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
CONTAINER_BUILD ?= $(or $(shell command -v podman),$(shell command -v buildah),podman) build

image:
	$(CONTAINER_BUILD) --timestamp $(SOURCE_DATE_EPOCH) --file Containerfile --tag $(TAG) \
	    --build-arg BASE=$(BASE) --build-arg BUILDER=$(BUILDER) --build-arg MCO=$(MCO) --build-arg CONFIG=$(CONFIG) \
	    --build-arg VERSION=$(VERSION) --build-arg REVISION=$$(git rev-parse HEAD 2>/dev/null || echo unknown) .

# The same Containerfile on a stand-in base, twice without any cached layer: identical, and no more than 3 MiB of ours.
check-image:
	tests/image/check-image 262

# A few boots that show that the image works: at most twelve.
QUICK_PLATFORMS := aws,gcp,metal
check-qemu:
	tests/image/run 262 --tag quick --platform-id $(QUICK_PLATFORMS)

# Everything: both systemd versions, every platform id of the dispatch test's table.
EIGHT_PLATFORMS := aws,azure,gcp,ibmcloud,metal,nutanix,openstack,vmware
check-all-qemu: check-image
	tests/image/run 262 --platform-id $(EIGHT_PLATFORMS)
	tests/image/run 257 --platform-id $(EIGHT_PLATFORMS)
