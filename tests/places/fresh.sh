#!/bin/sh
# fresh.sh ROOM [PYTEST ARGS]: a Debian root with nothing but apt, a clone of the committed tree in it, ./dev run there
# until it serves, and ./dev test. As root. What runs there has mount, PID and IPC namespaces of its own and that root by
# pivot_root, as a machine has it: in a plain chroot the kernel refuses user namespaces. The network is this machine's,
# and so are authorities that it trusts beyond Debian's, which fetches may need. Prints the seconds until it serves, for
# packages and all and for the same again with the packages there. The root goes at the end, and stays if something failed.
set -eu
cd "$(dirname "$0")/../.."
mkdir -p "$1"
root=$(cd "$1" && pwd)/fresh
shift
deploy/clear.sh "$root"
mmdebstrap --quiet --variant=apt bookworm "$root"
git clone --quiet --no-local . "$root/src"
cp /etc/resolv.conf "$root/etc/resolv.conf"
mkdir -p "$root/usr/local/share/ca-certificates" "$root/old"
find /usr/local/share/ca-certificates -name '*.crt' -exec cp {} "$root/usr/local/share/ca-certificates" \;
# Programs that carry authorities of their own are told of Debian's file by variables.
authorities=$(env | grep -E '^[A-Z0-9_]*(CERT|CERTS|CA_BUNDLE|CAINFO|SSL_CERT_FILE)=/etc/ssl/certs/ca-certificates.crt$' || :)

# COMMAND...: this process becomes it, in the root, as on a machine of its own.
inside() {
    # shellcheck disable=SC2016,SC2086 # the inner shell's; a variable to a word
    exec unshare --mount --pid --ipc --fork --kill-child sh -c '
        root=$1 && shift
        mount --bind "$root" "$root" && cd "$root" && mount -t proc proc proc && mount --rbind /dev dev &&
            mount --rbind /sys sys && mount -t tmpfs tmpfs dev/shm && mount -t tmpfs tmpfs run &&
            pivot_root . old && chroot old umount -l / && cd /src && exec "$@"
        ' sh "$root" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root CI=true \
        $authorities "$@"
}

# Until it answers /healthz: seconds.
serve() {
    begun=$(date +%s)
    inside SANDBOX_PORT=0 ./dev run >"$root.log" 2>&1 &
    daemon=$!
    trap 'kill -KILL $daemon 2>/dev/null' EXIT
    url=""
    until [ -n "$url" ] && curl -sf -o /dev/null "$url/healthz"; do
        kill -0 $daemon 2>/dev/null || { tail -n 30 "$root.log" >&2; exit 1; }
        sleep 0.2
        url=$(sed -n 's/.* listening on \(http:.*\)/\1/p' "$root.log")
    done
    echo "$1: $(($(date +%s) - begun)) s until it serves"
    curl -sf "$url/execute" -H 'Content-Type: application/json' -d '{"command":"id -u; pwd"}'
    echo
    kill -KILL $daemon
    wait $daemon 2>/dev/null || :
    trap - EXIT
}
serve "fresh root"
rm -rf "$root/src/build"
serve "with the packages there"
(inside ./dev test "$@")
deploy/clear.sh "$root"
rm "$root.log"
