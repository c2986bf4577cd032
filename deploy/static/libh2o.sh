#!/bin/sh
# libh2o.sh OUT: libh2o's event loop as OUT/libh2o-evloop.a with OUT/include, from Debian's source
# package, which apt checks against the archive's key. Debian ships the shared library alone. Only
# what the front's objects ask for ends up in the daemon: sockets, timers, memory. CC and AR: a cross compiler's. Trusts the archive.
set -eu
out=$1
mkdir -p "$out/apt/lists/partial" "$out/apt/cache/archives/partial"
out=$(cd "$out" && pwd)
[ ! -f "$out/done" ] || exit 0

# A source list of our own, of the archives that this machine takes its packages from: the machine's
# is left alone, and needs no deb-src line.
key=/usr/share/keyrings/debian-archive-keyring.gpg
apt-get indextargets --format '$(REPO_URI) $(CODENAME) $(COMPONENT)' 'Created-By: Packages' | sort -u |
    sed -n "s|^\([^ ]*\) \(bookworm[^ ]*\) main\$|deb-src [signed-by=$key] \1 \2 main|p" \
        >"$out/apt/sources.list"
apt() {
    apt-get -qq -o Dir::Etc::SourceList="$out/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null \
        -o Dir::State::Lists="$out/apt/lists" -o Dir::Cache="$out/apt/cache" \
        -o APT::Sandbox::User=root "$@"
}
apt update
rm -rf "$out"/h2o-* "$out"/h2o_*
(cd "$out" && apt source h2o) >"$out/source.log"
src=$(echo "$out"/h2o-*/)

# The processor's own marks for where a jump may land.
case $(${CC:-gcc} -dumpmachine) in
x86_64*) landing=-fcf-protection=full ;;
aarch64*) landing=-mbranch-protection=standard ;;
*) landing="" ;;
esac
hardening="-fPIE -fstack-protector-strong -fstack-clash-protection $landing
-ftrivial-auto-var-init=zero -fno-delete-null-pointer-checks -fno-strict-overflow -fno-strict-aliasing
-fvisibility=hidden -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3 -ffunction-sections -fdata-sections"
cd "$out"
for name in common/memory common/socket common/string common/time common/timeout common/multithread; do
    object=$(basename "$name").o
    # Their warnings are theirs; the struct layouts must be those of the headers that we hand out.
    ${CC:-gcc} -c -w -O2 -g -D_GNU_SOURCE -DH2O_USE_LIBUV=0 $hardening -I"$src/include" \
        -I"$src/deps/cloexec" -I"$src/deps/klib" -I"$src/deps/libgkc" -I"$src/deps/yoml" \
        -I"$src/deps/golombset" -I"$src/deps/picohttpparser" -o "$object" "$src/lib/$name.c"
done
${CC:-gcc} -c -w -O2 -g -D_GNU_SOURCE $hardening -o cloexec.o "$src/deps/cloexec/cloexec.c"
rm -f libh2o-evloop.a
${AR:-ar} rcs libh2o-evloop.a memory.o socket.o string.o time.o timeout.o multithread.o cloexec.o
rm -rf include
cp -r "$src/include" include
touch done
