#!/usr/bin/python3
"""What each layer of confinement costs a command: daemons that differ in one layer, asked in turn.

`./dev bench layers [ROUNDS]`. Each round sends one `exec true` to each daemon, in an order that moves on by one
each round, so that whatever else the machine does meets all alike. Prints the median and the ratio to the
daemon with every layer on, and the cost of starting a cell. Trusts the daemon: it is ours.
"""
import functools
import json
import os
import pathlib
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
USER = 64997
ALL = "no-new-privs,caps,uid,seccomp,landlock,signal-scope,openat2,cgroup,view,pid-ns,ipc-ns,front-root"
VARIANTS = {"all on": "", "without cgroup": "cgroup", "without view, pid-ns, ipc-ns": "view",
            "without pid-ns": "pid-ns", "without front-root": "front-root",
            "without landlock": "landlock,signal-scope", "without seccomp": "seccomp",
            "none": "seccomp,landlock,signal-scope,openat2,cgroup,view,front-root"}
KEY = "bench-key-0123456789"
# Of the daemon, the peer and the bare work alike: with LANG a shell opens thirty files more, and each folder of PATH is a look.
ENV = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
BODY = json.dumps({"command": "true"}).encode()
REQUEST = b"POST /execute HTTP/1.1\r\nHost: b\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY)


class Daemon:
    def __init__(self, base, name, off, mode="seat", env=()):
        self.name, self.times = name, []
        ws = pathlib.Path(base) / (mode + re.sub(r"\W", "_", name))
        ws.mkdir()
        more, env = dict(env), {"SALLYPORT_TEST_DISABLE": off, "SALLYPORT_ACCEPT_MISSING": ALL, **ENV}
        if mode == "seat":
            os.chown(ws, USER, USER)
            env |= {"SANDBOX_WORKSPACE": str(ws), "SANDBOX_PORT": "0", "SALLYPORT_BIND": "127.0.0.1",
                    "SANDBOX_SHELL": "/bin/sh"}
        else:
            ws.chmod(0o711)
            env |= {"RUNBOX_ROOT": str(ws), "RUNBOX_PORT": "0", "RUNBOX_BIND": "127.0.0.1", "RUNBOX_API_KEY": KEY,
                    "RUNBOX_SHELL": "/bin/sh", "RUNBOX_CELL_IDLE": "100ms"}
        # To a file: who reads a pipe would be woken for each line of the box's log, on a processor that is measured.
        log = ws.with_suffix(".log")
        with open(log, "w", encoding="utf-8") as f:
            self.p = subprocess.Popen([ROOT / "build/sallyport", mode], env=env | more, stderr=f)
        while not (m := re.search(r"listening on http://127\.0\.0\.1:(\d+)", log.read_text(encoding="utf-8"))):
            if self.p.poll() is not None:
                sys.exit(f"bench: the daemon {name!r} did not start: {log.read_text(encoding='utf-8')}")
            time.sleep(0.001)
        self.port = int(m[1])
        self.s = socket.create_connection(("127.0.0.1", self.port))
        self.s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, request=REQUEST):
        began = time.perf_counter()
        self.s.sendall(request)
        data = b""
        while b'"exit_code":0' not in data.replace(b" ", b"") or not data.rstrip().endswith(b"}"):
            more = self.s.recv(65536)
            if not more or b" 200 " not in (data + more)[:20]:
                sys.exit(f"bench: {self.name}: {data + more!r}")
            data += more
        return (time.perf_counter() - began) * 1e6

    def stop(self):
        if self.s:
            self.s.close()
        self.p.terminate()
        self.p.wait()


@functools.cache
def spawner(shell):
    subprocess.run(["ninja", "-C", ROOT / "build", "bench/bench-spawn"], check=True, stdout=subprocess.DEVNULL)
    return subprocess.Popen([ROOT / "build/bench/bench-spawn", shell], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, env=ENV, bufsize=0)


def spawn(shell="/bin/sh"):
    """A bare spawn of the shell (bench/bare.c), in microseconds; Python's own takes half as long again."""
    spawner(shell).stdin.write(b"\n")
    return float(spawner(shell).stdout.readline())


def first_calls(base, count=60):
    """A new identity's first command: its user id, its folder, its cell, its view."""
    boxes = []
    try:
        for name in ("all on", "without view, pid-ns, ipc-ns", "none"):
            boxes.append(Daemon(base, name, VARIANTS[name], "box"))
        bare, again = [], []
        for n in range(count):
            head = (b"POST /v1/exec HTTP/1.1\r\nHost: b\r\nAuthorization: Bearer %s\r\nX-Runbox-Identity: new-%d\r\n"
                    b"Content-Length: %d\r\n\r\n%s" % (KEY.encode(), n, len(BODY), BODY))
            for d in boxes:
                d.times.append(d.ask(head))
            again.append(boxes[0].ask(head))
            bare.append(spawn())
        print(f"\nfirst command of a new identity in the box, {count} of them, microseconds")
        for d in boxes:
            print(f"{d.name:32} {statistics.median(d.times):8.0f} {statistics.quantiles(d.times, n=20)[18]:8.0f}")
        print(f"{'its second command, all on':32} {statistics.median(again):8.0f}")
        print(f"{'a bare spawn':32} {statistics.median(bare):8.0f}")
    finally:
        for d in boxes:
            d.stop()


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    base = tempfile.mkdtemp(prefix="sp-bench-", dir="/srv")
    os.chmod(base, 0o755)
    daemons = []
    try:
        for name, off in VARIANTS.items():
            daemons.append(Daemon(base, name, off))
        for n in range(rounds + 20):
            turn = n % len(daemons)
            for d in daemons[turn:] + daemons[:turn]:
                t = d.ask()
                if n >= 20:
                    d.times.append(t)
        full = daemons[0].times
        print(f"{rounds} rounds, `true` by /bin/sh on a kept-alive connection, microseconds")
        print(f"{'layers':32} {'p50':>8} {'p95':>8} {'all on / this, p50':>20}")
        for d in daemons:
            p50, p95 = statistics.median(d.times), statistics.quantiles(d.times, n=20)[18]
            # Of pairs of one round: what the machine did in it, it did to both.
            ratio = statistics.median(a / b for a, b in zip(full, d.times))
            print(f"{d.name:32} {p50:8.0f} {p95:8.0f} {ratio:20.3f}")
        first_calls(base)
    finally:
        for d in daemons:
            d.stop()
        shutil.rmtree(base)


if __name__ == "__main__":
    main()
