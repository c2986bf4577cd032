#!/bin/sh
# build.sh ROOM IMAGE...: builds images by buildah into the store in ROOM, on bases that mmdebstrap makes: no
# registry is asked. IMAGE: contract, minimal, toolbox, full, or python, node: the language image on a base that has
# that. Prints each one's size. The static file has to be there (./dev build --static). As root.
set -eu
cd "$(dirname "$0")/../.."
room=$1
shift
store="--root $room/storage --runroot /run/$(basename "$room")"

has() {
    buildah $store inspect --type image "localhost/sallyport-$1" >/dev/null 2>&1
}

# NAME PACKAGES: an image of Debian's essential packages, apt and those.
base() {
    ! has "$1" || return 0
    deploy/clear.sh "$room/$1"
    mmdebstrap --quiet --variant=apt --include="$2" bookworm "$room/$1"
    rm -rf "$room/$1"/var/cache/apt/archives/*.deb "$room/$1"/var/lib/apt/lists/*
    from=$(buildah $store from scratch)
    buildah $store add --quiet "$from" "$room/$1" / >/dev/null
    buildah $store commit --quiet --rm "$from" "localhost/sallyport-$1" >/dev/null
    deploy/clear.sh "$room/$1"
}

for image in "$@"; do
    case $image in
    contract) # on the root that tests/places/prepare.sh made
        how="--layers=false --build-arg BUILD_BASE=localhost/sallyport-base --build-arg PACKAGES=no
            --build-arg BINARY=prebuilt --target contract" ;;
    minimal | toolbox | full)
        base debian busybox-static,ca-certificates
        how="--layers=true --build-arg BASE=localhost/sallyport-debian
            --build-arg BUILD_BASE=localhost/sallyport-debian --build-arg PACKAGES=no --build-arg BINARY=prebuilt
            --build-arg APT_MIRROR=${APT_MIRROR:-} --target $image" ;;
    python)
        base base-python python3
        how="--layers=false -f deploy/image/language.Dockerfile --build-arg BASE=localhost/sallyport-base-python" ;;
    node)
        base base-node nodejs
        how="--layers=false -f deploy/image/language.Dockerfile --build-arg BASE=localhost/sallyport-base-node" ;;
    *) echo "build.sh: no image $image" >&2; exit 2 ;;
    esac
    # chroot isolation: RUN gets no more of the machine than a network for apt.
    buildah $store bud --quiet --isolation chroot --pull-never --format docker \
        --tag "localhost/sallyport-$image" $how . >/dev/null
    size=$(podman $store --runtime runc image inspect --format '{{.Size}}' "localhost/sallyport-$image")
    echo "image $image: $size bytes"
done
