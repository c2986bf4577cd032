#!/usr/bin/python3
"""Load on the box at full concurrency, and what grows: `./dev bench soak [SECONDS]` (600 by default), as root.

Sixteen clients, each with four identities in turn: commands, uploads, downloads, lists, archives, removals, and clients
that leave in the middle of a command. Prints the PSS, descriptors and number of the daemon's processes by role, early,
half-way and at the end, each after a pause without load. Trusts the daemon: it is ours.
"""
import json
import os
import random
import shutil
import socket
import sys
import tempfile
import threading
import time

from layers import KEY
from machine import Box, request, roles


def look(pid):
    """{role: (processes, PSS in KiB, descriptors)}"""
    found = {}
    for p, role in roles(pid).items():
        try:
            with open(f"/proc/{p}/smaps_rollup", encoding="ascii") as f:
                pss = next(int(line.split()[1]) for line in f if line.startswith("Pss:"))
            files = len(os.listdir(f"/proc/{p}/fd"))
        except (OSError, StopIteration):
            continue
        n, m, k = found.get(role, (0, 0, 0))
        found[role] = (n + 1, m + pss, k + files)
    return found


def leave(port, identity):
    """A client that doesn't wait for its command."""
    body = b'{"command":"sleep 5"}'
    with socket.create_connection(("127.0.0.1", port)) as s:
        s.sendall(b"POST /v1/exec HTTP/1.1\r\nHost: b\r\nAuthorization: Bearer %s\r\nX-Runbox-Identity: %s\r\n"
                  b"Content-Length: %d\r\n\r\n%s" % (KEY.encode(), identity.encode(), len(body), body))
        time.sleep(0.01)


def client(box, number, until, done):
    rng, port = random.Random(number), box.port
    block = bytes(rng.randrange(256) for _ in range(4096)) * 64
    while time.monotonic() < until:
        who = f"soak-{number}-{rng.randrange(4)}"
        request(port, "PUT", "/v1/path?path=d/f", block, identity=who)
        request(port, "GET", "/v1/files?path=d/f", identity=who, drop=True)
        command = rng.choice(("true", "seq 20000", "sleep 0.01 & true", "cat d/f | wc -c", "exit 3"))
        request(port, "POST", "/v1/exec", json.dumps({"command": command}).encode(), identity=who, drop=True)
        request(port, "GET", "/v1/list?path=.&recursive=true", identity=who, drop=True)
        request(port, "GET", "/v1/archive?path=d", identity=who, drop=True)
        if rng.random() < 0.1:
            leave(port, who)
        request(port, "DELETE", "/v1/path?path=d&recursive=true", identity=who)
        done[number] += 6


def load(box, seconds, done):
    until = time.monotonic() + seconds
    threads = [threading.Thread(target=client, args=(box, n, until, done)) for n in range(16)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    time.sleep(2)  # what clients left behind ends
    return look(box.p.pid)


def main():
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 600
    base, done = tempfile.mkdtemp(prefix="sp-bench-", dir="/srv"), [0] * 16
    os.chmod(base, 0o755)
    box = Box(base, "soak", RUNBOX_CELL_IDLE="600s")
    try:
        looks = [load(box, seconds * part, done) for part in (0.1, 0.4, 0.5)]
    finally:
        box.stop()
        shutil.rmtree(base, ignore_errors=True)
    print(f"{seconds} s, 16 clients, 64 identities, {sum(done)} requests; processes / PSS KiB / descriptors")
    print("| role | early | half-way | end |\n|---|---|---|---|")
    for role in sorted(set().union(*looks)):
        print(f"| {role} | " + " | ".join("{} / {} / {}".format(*at.get(role, (0, 0, 0))) for at in looks) + " |")


main()
