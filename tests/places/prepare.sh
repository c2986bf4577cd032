#!/bin/sh
# prepare.sh ROOM: what the container places and the image tests start from: a Debian root of mmdebstrap's
# in ROOM/rootfs, and the contract image, built on it by buildah. No registry is asked. As root.
set -eu
cd "$(dirname "$0")/../.."
room=$1
mkdir -p "$room"
if [ ! -f "$room/rootfs/.whole" ]; then
    rm -rf "$room/rootfs"
    mmdebstrap --quiet --variant=essential --include=python3-minimal,busybox-static bookworm "$room/rootfs"
    touch "$room/rootfs/.whole"
fi

store="--root $room/storage --runroot /run/sallyport-places"
build() {
    # chroot isolation: RUN needs no network, and no more of the machine than that
    buildah $store bud --quiet --isolation chroot --layers=false --pull-never "$@" .
}
if ! buildah $store inspect --type image localhost/sallyport-base >/dev/null 2>&1; then
    base=$(buildah $store from scratch)
    buildah $store add --quiet "$base" "$room/rootfs" / >/dev/null
    buildah $store commit --quiet --rm "$base" localhost/sallyport-base >/dev/null
fi
build --build-arg BUILD_BASE=localhost/sallyport-base --build-arg BINARY=prebuilt --build-arg PACKAGES=no \
    --target contract --format docker --tag localhost/sallyport-contract >/dev/null
buildah $store inspect --type image --format '{{.OCIv1.Config.Entrypoint}}' localhost/sallyport-contract >/dev/null
