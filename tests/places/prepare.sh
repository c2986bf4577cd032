#!/bin/sh
# prepare.sh ROOM: what the container places and the image tests start from: a Debian root of mmdebstrap's
# in ROOM/rootfs, and the images `contract` and `minimal`. No registry is asked. As root.
set -eu
cd "$(dirname "$0")/../.."
room=$1
mkdir -p "$room"
if [ ! -f "$room/rootfs/.whole" ]; then
    # An earlier one that was cut off may have left mounts below it, of the host's own /dev too.
    for mount in $(awk -v at="$(realpath "$room")/rootfs/" 'index($2, at) == 1 { print $2 }' /proc/self/mounts | sort -r); do
        umount "$mount"
    done
    rm -rf --one-file-system "$room/rootfs"
    mmdebstrap --quiet --variant=essential --include=python3-minimal,busybox-static bookworm "$room/rootfs"
    touch "$room/rootfs/.whole"
fi

store="--root $room/storage --runroot /run/sallyport-places"
if ! buildah $store inspect --type image localhost/sallyport-base >/dev/null 2>&1; then
    base=$(buildah $store from scratch)
    buildah $store add --quiet "$base" "$room/rootfs" / >/dev/null
    buildah $store commit --quiet --rm "$base" localhost/sallyport-base >/dev/null
fi
deploy/image/build.sh "$room" contract minimal >&2
