#!/bin/sh
# prepare.sh ROOM: what the container places and the image tests start from: a Debian root of mmdebstrap's
# in ROOM/rootfs, and the images `contract` and `minimal`. No registry is asked. As root.
set -eu
cd "$(dirname "$0")/../.."
room=$1
mkdir -p "$room"
if [ ! -f "$room/rootfs/.whole" ]; then
    deploy/clear.sh "$room/rootfs"
    mmdebstrap --quiet --variant=essential --include=python3-minimal,busybox-static bookworm "$room/rootfs"
    touch "$room/rootfs/.whole"
fi

store="--root $room/storage --runroot /run/$(basename "$room")"
if ! buildah $store inspect --type image localhost/sallyport-base >/dev/null 2>&1; then
    base=$(buildah $store from scratch)
    buildah $store add --quiet "$base" "$room/rootfs" / >/dev/null
    buildah $store commit --quiet --rm "$base" localhost/sallyport-base >/dev/null
fi
deploy/image/build.sh "$room" contract minimal >&2
