#!/usr/bin/python3
"""A new identity's first command in the box, beside its second and a bare spawn of the same shell, in turn.

`./dev bench identity [COUNT [PAUSE_MS [FOLDER]]]`, as root. Each round asks for one identity that the box
has never seen: its user id, its folder, its cell, its view and `true`. PAUSE_MS lets the box get a spare cell ready
between rounds; without a pause the requests come faster than that. FOLDER: where the box's files are; a new user id
is written to that disk before its cell has it. On a busy machine `chrt -r 20` gives the whole of it precedence. Prints the medians and the median over the
rounds of the ratio to that round's bare spawn. Trusts the daemon: it is ours.
"""
import os
import shutil
import statistics
import sys
import tempfile
import time

from layers import BODY, KEY, Daemon, spawn


def request(name):
    return (b"POST /v1/exec HTTP/1.1\r\nHost: b\r\nAuthorization: Bearer %s\r\nX-Runbox-Identity: %s\r\n"
            b"Content-Length: %d\r\n\r\n%s" % (KEY.encode(), name.encode(), len(BODY), BODY))


def measure(box, count, pause, shell="/bin/sh"):
    first, second, bare = [], [], []
    for n in range(count + 3):
        time.sleep(pause)
        row = (box.ask(request(f"p{pause}-{n}")), box.ask(request(f"p{pause}-{n}")), spawn(shell))
        if n >= 3:
            for times, t in zip((first, second, bare), row):
                times.append(t)
    return first, second, bare


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    pause = int(sys.argv[2]) / 1000 if len(sys.argv) > 2 else 0.05
    base = tempfile.mkdtemp(prefix="sp-bench-", dir=sys.argv[3] if len(sys.argv) > 3 else "/srv")
    os.chmod(base, 0o755)
    # Ids that no other box on this machine is likely to use meanwhile.
    box = Daemon(base, "box", "", "box",
                 {"RUNBOX_UID_MIN": "1900000000", "RUNBOX_UID_MAX": "1900999999"})
    try:
        print(f"{count} new identities, {pause * 1000:.0f} ms apart, `true` by /bin/sh, microseconds")
        print(f"{'':28} {'p50':>8} {'p95':>8} {'/ bare spawn':>14}")
        first, second, bare = measure(box, count, pause)
        for name, times in (("first command", first), ("second command", second), ("bare spawn", bare)):
            p95 = statistics.quantiles(times, n=20)[18]
            ratio = statistics.median(t / b for t, b in zip(times, bare))
            print(f"{name:28} {statistics.median(times):8.0f} {p95:8.0f} {ratio:14.2f}")
    finally:
        box.stop()
        shutil.rmtree(base)


if __name__ == "__main__":
    main()
