#!/bin/sh
# arm64.sh OUT: what a build of the static file for arm64 needs beside Debian's cross compiler: OUT/sysroot with
# arm64's own -dev packages, unpacked and nothing of them run or installed, and OUT/cross.ini for meson. The
# machine's package database learns of no other architecture. Trusts the archive, which mmdebstrap checks.
set -eu
mkdir -p "$1"
out=$(cd "$1" && pwd)
[ ! -f "$out/done" ] || exit 0
deploy/clear.sh "$out/sysroot"
mmdebstrap --quiet --variant=extract --architectures=arm64 --include="libc6-dev libssl-dev libjansson-dev
    libseccomp-dev libcap-ng-dev libsqlite3-dev zlib1g-dev libarchive-dev" bookworm "$out/sysroot"

# -B and -L: else the cross compiler's own libc comes first, which has none of the archive's security updates.
lib=$out/sysroot/usr/lib/aarch64-linux-gnu
cat >"$out/cross.ini" <<END
[binaries]
c = ['aarch64-linux-gnu-gcc', '--sysroot=$out/sysroot', '-B$lib', '-L$lib']
ar = 'aarch64-linux-gnu-gcc-ar'
strip = 'aarch64-linux-gnu-strip'
pkgconfig = 'pkg-config'
[properties]
sys_root = '$out/sysroot'
pkg_config_libdir = '$out/sysroot/usr/lib/aarch64-linux-gnu/pkgconfig'
[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'aarch64'
endian = 'little'
END
touch "$out/done"
