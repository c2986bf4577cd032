#!/bin/sh
# fresh.sh ROOM: a Debian root with nothing but apt, the committed tree in it, and ./dev run there: how long until it
# serves. As root; the daemon runs in a mount and PID namespace of its own, on a free port of the loopback address.
# Its root goes at the end. Prints the seconds for packages and all, and for the same again with the packages there.
set -eu
cd "$(dirname "$0")/../.."
mkdir -p "$1"
root=$(cd "$1" && pwd)/fresh
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
rm -rf "$root"
mmdebstrap --quiet --variant=apt bookworm "$root"
mkdir "$root/src"
git archive HEAD | tar -x -C "$root/src"
cp /etc/resolv.conf "$root/etc/resolv.conf"

# Until it answers /healthz: seconds.
serve() {
    begun=$(date +%s)
    unshare --mount --pid --fork --kill-child sh -c "
        mount -t proc proc '$root/proc' && mount --rbind /dev '$root/dev'
        exec chroot '$root' env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root SANDBOX_PORT=$port /src/dev run" \
        >"$root.log" 2>&1 &
    daemon=$!
    until curl -sf -o /dev/null "http://127.0.0.1:$port/healthz"; do
        kill -0 $daemon 2>/dev/null || { tail -n 30 "$root.log" >&2; exit 1; }
        sleep 0.2
    done
    echo "$1: $(($(date +%s) - begun)) s until it serves"
    curl -sf "http://127.0.0.1:$port/execute" -H 'Content-Type: application/json' -d '{"command":"id -u; pwd"}'
    echo
    kill -KILL $daemon
    wait $daemon 2>/dev/null || :
}
serve "fresh root"
rm -rf "$root/src/build"
serve "with the packages there"
rm -rf "$root" "$root.log"
