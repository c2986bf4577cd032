#!/usr/bin/python3
"""What each layer of confinement costs a command: daemons that differ in one layer, asked in turn.

`./dev bench layers [ROUNDS]`. Each round sends one `exec true` to each daemon, in an order that moves on by one
each round, so that whatever else the machine does meets all alike. Prints the median and the ratio to the
daemon with every layer on, and the cost of starting a cell. Trusts the daemon: it is ours.
"""
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
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
USER = 64997
ALL = "no-new-privs,caps,uid,seccomp,landlock,signal-scope,openat2,cgroup,view,pid-ns,ipc-ns,front-root"
VARIANTS = {"all on": "", "without cgroup": "cgroup", "without view, pid-ns, ipc-ns": "view",
            "without pid-ns": "pid-ns", "without front-root": "front-root",
            "without landlock": "landlock,signal-scope", "without seccomp": "seccomp",
            "none": "seccomp,landlock,signal-scope,openat2,cgroup,view,front-root"}
BODY = json.dumps({"command": "true"}).encode()
REQUEST = b"POST /execute HTTP/1.1\r\nHost: b\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY)


class Daemon:
    def __init__(self, base, name, off):
        self.name, self.times = name, []
        ws = pathlib.Path(base) / re.sub(r"\W", "_", name)
        ws.mkdir()
        os.chown(ws, USER, USER)
        env = {"SANDBOX_WORKSPACE": str(ws), "SANDBOX_PORT": "0", "SALLYPORT_BIND": "127.0.0.1",
               "SALLYPORT_TEST_DISABLE": off, "SALLYPORT_ACCEPT_MISSING": ALL, "SANDBOX_SHELL": "/bin/sh",
               "PATH": os.environ["PATH"]}
        self.p = subprocess.Popen([ROOT / "build/sallyport", "seat"], env=env, stderr=subprocess.PIPE, text=True)
        for line in self.p.stderr:
            m = re.search(r"listening on http://127\.0\.0\.1:(\d+)", line)
            if m:
                break
        else:
            sys.exit(f"bench: the daemon {name!r} didn't start")
        threading.Thread(target=self.p.stderr.read, daemon=True).start()
        self.s = socket.create_connection(("127.0.0.1", int(m[1])))
        self.s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self):
        began = time.perf_counter()
        self.s.sendall(REQUEST)
        data = b""
        while b'"exit_code":0' not in data.replace(b" ", b"") or not data.rstrip().endswith(b"}"):
            more = self.s.recv(65536)
            if not more or b" 200 " not in (data + more)[:20]:
                sys.exit(f"bench: {self.name}: {data + more!r}")
            data += more
        return (time.perf_counter() - began) * 1e6

    def stop(self):
        self.s.close()
        self.p.terminate()
        self.p.wait()


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
    finally:
        for d in daemons:
            d.stop()
        shutil.rmtree(base)


if __name__ == "__main__":
    main()
