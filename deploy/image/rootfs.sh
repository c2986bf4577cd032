#!/bin/sh
# rootfs.sh OUT FILE: the root of the contract image in OUT: busybox, its names, and the static FILE.
# Runs in a Debian with busybox-static, or with a package source to get it from; BUSYBOX names another one than
# the machine's own, for another processor. Trusts all of them.
set -eu
out=$1
file=$2
if [ ! -x /bin/busybox ] && [ "${PACKAGES:-yes}" = yes ]; then
    apt-get update -q && apt-get install -qy --no-install-recommends busybox-static
fi
mkdir -p "$out/bin" "$out/usr/local/bin" "$out/etc" "$out/proc" "$out/sys" "$out/dev" "$out/run"
install -m 0755 "${BUSYBOX:-/bin/busybox}" "$out/bin/busybox"
for name in $(/bin/busybox --list); do
    [ "$name" = busybox ] || ln -sf busybox "$out/bin/$name"
done
mkdir -p "$out/usr/bin"
ln -s ../../bin/env "$out/usr/bin/env"
install -m 0755 "$file" "$out/usr/local/bin/sallyport"
ln -s sallyport "$out/usr/local/bin/sandbox"
printf 'root:x:0:0:root:/:/bin/sh\nsandbox:x:1000:1000:sandbox:/workspace:/bin/sh\n' >"$out/etc/passwd"
printf 'root:x:0:\nsandbox:x:1000:\n' >"$out/etc/group"
install -d -m 1777 "$out/tmp"
install -d -m 0755 -o 1000 -g 1000 "$out/workspace"
