#!/bin/sh
# guest.sh ARCH FILE OUT: a machine for one daemon: OUT/vmlinuz, Debian's cloud kernel for ARCH (amd64 or arm64),
# and OUT/initrd: FILE as /init, busybox, the kernel's drivers for virtio. Nothing of ARCH is run or installed
# here, so either architecture will do. Trusts the archive, which mmdebstrap checks. As root, with busybox.
set -eu
arch=$1
file=$2
mkdir -p "$3"
out=$(cd "$3" && pwd)
debian=$out/debian-$arch
if [ ! -f "$debian/.whole" ]; then
    deploy/clear.sh "$debian"
    mmdebstrap --quiet --variant=extract --architectures="$arch" \
        --include="busybox-static linux-image-cloud-$arch" bookworm "$debian"
    touch "$debian/.whole"
fi
cp "$(ls "$debian"/boot/vmlinuz-* | tail -n 1)" "$out/vmlinuz"

root=$out/root
deploy/clear.sh "$root"
PACKAGES=no BUSYBOX=$debian/bin/busybox deploy/image/rootfs.sh "$root" "$file"
ln -s usr/local/bin/sallyport "$root/init"
mkdir "$root/modules"
n=10
for name in virtio_ring virtio virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci failover net_failover \
    virtio_net virtio_blk virtio_input; do # each behind what it needs
    cp "$(find "$debian/lib/modules" -name "$name.ko")" "$root/modules/$n-$name.ko"
    n=$((n + 1))
done
(cd "$root" && find . | busybox cpio -o -H newc 2>/dev/null) >"$out/initrd"
echo "guest $arch: kernel $(stat -c %s "$out/vmlinuz") bytes, initrd $(stat -c %s "$out/initrd") bytes" >&2
