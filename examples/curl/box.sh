#!/bin/sh
# box.sh: every route of `sallyport box`, with curl. It trusts the daemon at BOX_URL, and has its key.
set -eu
url=${BOX_URL:-http://127.0.0.1:8080}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# From a file: what is in a command line, others can see.
printf 'header = "Authorization: Bearer %s"\n' "$BOX_KEY" >"$dir/key"
printf 'header = "X-Runbox-Tenant: example"\nheader = "X-Runbox-User: alice"\n' >"$dir/alice"
ask() { curl -fsS -K "$dir/key" "$@"; }
alice() { ask -K "$dir/alice" "$@"; }

echo "# can it work? that needs no key; what it offers does, but no identity"
curl -fsS "$url/healthz"
curl -fsS "$url/ready"
ask "$url/v1/capabilities"
ask "$url/metrics" | grep '^sallyport_start_time_seconds'

echo "# a command, for a tenant's user; one name in X-Runbox-Identity is the other form"
alice "$url/v1/exec" -H 'Content-Type: application/json' -d '{"command":"echo hello; exit 3","timeout":5}'

echo "# a command's output while it runs (-N: don't wait for more)"
alice -N "$url/v1/exec" -H 'Content-Type: application/json' -H 'Accept: text/event-stream' \
    -d '{"command":"for i in 1 2 3; do echo step $i; sleep 0.1; done"}'

echo "# a command that its files come with"
printf 'ben\nada\n' >"$dir/names"
alice "$url/v1/exec" -F 'request={"command":"sort in/names"};type=application/json' -F "file=@$dir/names;filename=in/names"

echo "# write a file, in two ways; several at once, all or none"
alice --data-binary "@$dir/names" -H 'Content-Type: application/octet-stream' "$url/v1/files?path=notes/a.txt"
alice -T "$dir/names" "$url/v1/path?path=notes/b.txt"
alice -F "file=@$dir/names;filename=x" -F "file=@$dir/names;filename=y/z" "$url/v1/files/batch?path=many"

echo "# read it, all and in part"
alice "$url/v1/files?path=notes/a.txt"
alice -r 0-2 "$url/v1/files?path=notes/a.txt"
echo

echo "# what is there, as names and as a tar; what it takes"
alice "$url/v1/list?path=notes"
alice "$url/v1/list?recursive=true"
alice "$url/v1/archive?path=many" | tar tf - | sort
alice "$url/v1/usage"

echo "# remove a folder, then all"
alice -X DELETE "$url/v1/path?path=notes&recursive=true"
alice -X DELETE "$url/v1/workspace"
echo "done"
