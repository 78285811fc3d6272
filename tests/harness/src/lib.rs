// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs kola external tests in QEMU, on the disk that `tests/image/make-disk` makes of a container image.
//!
//! The tests are kola's, unchanged (<https://coreos.github.io/coreos-assembler/kola/external-tests/>); what kola does over
//! SSH is done here by a small runner that Ignition puts into the guest and that talks over virtio-serial. The harness
//! takes the boot loader's place: before each boot it reads the boot entries from the disk, so that an upgrade or a
//! rollback made in the guest decides what boots next.

pub mod disk;
pub mod ignition;
pub mod kernel;
pub mod machine;
pub mod metadata;
pub mod plan;
pub mod protocol;
pub mod qemu;
pub mod report;
pub mod suite;
pub mod verdict;
