# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
# What the scripts of this directory share; to be sourced.

# Where everything that is made once is kept.
image_cache=${NODEBASE_CACHE:-/var/cache/nodebase}/image
mkdir -p "$image_cache"

# content_key PATH...: sixteen hexadecimal digits that change with names, modes and contents of the files.
content_key() {
    find "$@" -type f -printf '%m %P\n' -exec sha256sum {} + | sed 's| .*/| |' | LC_ALL=C sort | sha256sum | cut -c1-16
}

# container_store ARGS...: buildah on this cache's own store, in a way that works without user namespaces, systemd or
# a raised resource limit.
container_store() {
    BUILDAH_ISOLATION=chroot buildah --storage-driver "${NODEBASE_STORAGE_DRIVER:-overlay}" \
        --root "$image_cache/store" --runroot "$image_cache/store-run" "$@"
}

# image_exists NAME
image_exists() {
    container_store inspect --type image "$1" >/dev/null 2>&1
}

# in_root ROOT COMMAND...: run in ROOT with /proc, /sys and /dev, in a mount namespace of its own: nothing stays mounted
# whatever happens. $IN_ROOT_BIND (a directory) is visible at the same path.
in_root() {
    # shellcheck disable=SC2016
    unshare --mount --propagation private bash -euc '
        root=$1 bind=$2; shift 2
        mount --bind "$root" "$root"
        for dir in proc sys dev; do mkdir -p "$root/$dir"; mount --rbind "/$dir" "$root/$dir"; done
        mount -t tmpfs tmpfs "$root/tmp"
        if [ -n "$bind" ]; then mkdir -p "$root$bind"; mount --rbind "$bind" "$root$bind"; fi
        exec chroot "$root" "$@"' in_root "$1" "${IN_ROOT_BIND:-}" "${@:2}"
}
