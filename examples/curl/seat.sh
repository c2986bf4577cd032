#!/bin/sh
# seat.sh: every route of `sallyport seat`, with curl. It trusts the daemon at SEAT_URL.
set -eu
url=${SEAT_URL:-http://127.0.0.1:8080}
json='Content-Type: application/json'

echo "# is it up?"
curl -fsS "$url/healthz"

echo "# a command, with a time limit and an environment"
curl -fsS "$url/execute" -H "$json" \
    -d '{"command":"echo \"hello $WHO\"; exit 3","timeout":5,"env":{"WHO":"world"}}'

echo "# a command's output while it runs (-N: don't wait for more)"
curl -fsSN "$url/execute" -H "$json" -H 'Accept: text/event-stream' \
    -d '{"command":"for i in 1 2 3; do echo step $i; sleep 0.1; done"}'

echo "# write a file; folders are made"
printf 'some bytes\n' | curl -fsS -T - "$url/files/example/notes/a.txt"

echo "# read it, all and in part"
curl -fsS "$url/files/example/notes/a.txt"
curl -fsS -r 0-3 "$url/files/example/notes/a.txt"
echo

echo "# what is there"
curl -fsS "$url/files/example/notes/"

echo "# an error has a code"
curl -sS "$url/files/example/none"

echo "# remove it all"
curl -fsS -X DELETE "$url/files/example?recursive=true"
echo "done"
