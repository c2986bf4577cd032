"""The rows of bench/run.py that Python can time: from a millisecond upwards. Each does the daemon's work, the peer's
where it has the route, and the bare work in turn, and gives (name, {way: [microseconds]})."""
import io
import json
import os
import resource
import shutil
import socket
import statistics
import subprocess
import threading
import time

from layers import ENV, ROOT
from machine import SHELL, Box, get, memory, pss, request

BIG = 200 << 20
MIXED = ROOT / "build/bench/bench-mixed"


def timed(work):
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1e6


def in_turn(name, ways, rounds):
    times = {w: [] for w in ways}
    for n in range(rounds + 1):
        for w, work in ways.items():
            t = timed(work)
            if n > 0:
                times[w].append(t)
    return name, times


def events(seat, peer, rounds):
    """100,000 lines, live. Bare: the same command's pipe, read."""
    body = json.dumps({"command": "seq 100000"}).encode()

    def ask(port):
        return lambda: request(port, "POST", "/execute", body, ["Accept: text/event-stream"], drop=True)

    def bare():
        subprocess.run([SHELL, "-c", "seq 100000"], stdout=subprocess.PIPE, check=True, env=ENV)
    return in_turn("events-100000-lines", {"ours": ask(seat.port), "peer": ask(peer.port), "bare": bare}, rounds)


def lists(seat, peer, sizes, rounds):
    """A folder's list. Bare: `ls -f` and its names as JSON."""
    for n in sizes:
        for folder in (seat.folder, peer.folder):
            os.makedirs(f"{folder}/l{n}")
            for i in range(n):
                open(f"{folder}/l{n}/f{i:06d}", "w").close()

        def bare(n=n):
            names = subprocess.run(["ls", "-f", f"{seat.folder}/l{n}"], stdout=subprocess.PIPE, check=True, text=True)
            json.dumps(names.stdout.splitlines())
        yield in_turn(f"list-{n}", {"ours": lambda n=n: get(seat.port, f"/files/l{n}", drop=True),
                                    "peer": lambda n=n: get(peer.port, f"/files/l{n}", drop=True), "bare": bare},
                      max(9, rounds if n < 1000 else rounds // 4))  # of three the median was as it came
        for folder in (seat.folder, peer.folder):
            shutil.rmtree(f"{folder}/l{n}")


def health(seat, peer, seconds):
    """/healthz while others execute, upload and download without a pause, in turns of a second: bench/mixed.c."""
    times = {"ours": [], "peer": []}
    for _ in range(seconds):
        for way, port in (("ours", seat.port), ("peer", peer.port)):
            run = subprocess.run([MIXED, str(port), "1"], check=True, stdout=subprocess.PIPE, text=True, env=ENV)
            times[way] += [float(us) for us in run.stdout.split()]
    return "healthz-mixed-load", times


def big_transfers(seat):
    """Eight uploads of 200 MiB at once, then downloads: the PSS that they add at most, /healthz meanwhile."""
    def put(name):
        with socket.create_connection(("127.0.0.1", seat.port)) as s:
            s.sendall(f"PUT /files/{name} HTTP/1.1\r\nHost: b\r\nContent-Length: {BIG}\r\nConnection: close\r\n\r\n".encode())
            block = b"x" * (1 << 20)
            for _ in range(BIG >> 20):
                s.sendall(block)
            answer = s.recv(65536)
        assert b" 201 " in answer or b" 200 " in answer, answer

    text = []
    for name, work in (("uploads", put), ("downloads", lambda n: get(seat.port, f"/files/{n}", drop=True))):
        before, peak, times = pss(seat.p.pid), 0, []
        threads = [threading.Thread(target=work, args=(f"big{i}",)) for i in range(8)]
        for t in threads:
            t.start()
        while any(t.is_alive() for t in threads):
            times.append(timed(lambda: get(seat.port, "/healthz")) / 1000)
            peak = max(peak, pss(seat.p.pid))
        text.append(f"Eight {name} of 200 MiB at once: PSS of all {before} KiB before, at most {peak} meanwhile; "
                    f"`/healthz` median {statistics.median(times):.1f} ms over {len(times)} calls.")
    return text


def idle_connections(seat, counts):
    """PSS of all processes with so many idle connections, each of which had one answer."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    before, text, held = pss(seat.p.pid), [], []
    for count in counts:
        while len(held) < count:
            s = socket.create_connection(("127.0.0.1", seat.port))
            s.sendall(b"GET /healthz HTTP/1.1\r\nHost: b\r\n\r\n")
            assert b" 200 " in s.recv(4096)
            held.append(s)
        text.append(f"{count:,} idle connections: {(pss(seat.p.pid) - before) / 1024:.1f} MiB more.")
    for s in held:
        s.close()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return text


# ---- the box ----

def archive(box, base, rounds):
    """A folder of 10,000 files of 1 KiB as a tar. Bare: `bsdtar -c | cat`."""
    request(box.port, "POST", "/v1/exec", json.dumps({"command": "mkdir d; cd d; for i in $(seq 10000); do echo; done | "
            "split -l 1 -a 4 - f; for f in f*; do head -c 1024 /dev/zero > $f; done"}).encode(), identity="archive")
    copy = f"{base}/archive"
    os.mkdir(copy)
    for i in range(10000):
        with open(f"{copy}/f{i:05d}", "wb") as f:
            f.write(b"\0" * 1024)

    def bare():
        subprocess.run(f"bsdtar -c -C {copy} . | cat > /dev/null", shell=True, check=True)
    return in_turn("archive-10000-files", {"ours": lambda: get(box.port, "/v1/archive?path=d", identity="archive", drop=True),
                                           "bare": bare}, rounds)


def multipart(box, base, rounds):
    """100 files of 4 KiB in three requests of at most 48. Bare: written to a folder, each under a name at the end."""
    boundary, data = "b0undary", b"x" * 4096

    def form(first, last):
        out = io.BytesIO()
        for i in range(first, last):
            out.write(f'--{boundary}\r\nContent-Disposition: form-data; name="f"; filename="m{i}"\r\n\r\n'.encode())
            out.write(data + b"\r\n")
        out.write(f"--{boundary}--\r\n".encode())
        return out.getvalue()
    forms = [form(0, 34), form(34, 68), form(68, 100)]
    folder = f"{base}/multipart"
    os.mkdir(folder)

    def ours():
        for f in forms:
            request(box.port, "POST", "/v1/files/batch?path=m", f,
                    [f"Content-Type: multipart/form-data; boundary={boundary}"], identity="multipart")

    def bare():
        for i in range(100):
            with open(f"{folder}/.t", "wb") as f:
                f.write(data)
            os.rename(f"{folder}/.t", f"{folder}/m{i}")
    return in_turn("multipart-100-files", {"ours": ours, "bare": bare}, rounds)


def growth(base, count):
    """From one identity to many: a command of one that is at work, and memory."""
    box = Box(base, "growth")
    try:
        body, text, points = b'{"command":"true"}', [], (1, 10, 100, count)
        request(box.port, "POST", "/v1/exec", body, identity="g0")
        for n in range(1, count + 1):
            if n > 1:
                request(box.port, "POST", "/v1/exec", body, identity=f"g{n}")
            if n in points:
                times = [timed(lambda: request(box.port, "POST", "/v1/exec", body, identity=f"g{n}")) for _ in range(60)]
                procs = memory(box.p.pid)
                cells = sum(1 for m in procs if m[0] == "cell")
                text.append(f"| {n:,} | {statistics.median(times) / 1000:.2f} | {cells} | "
                            f"{sum(m[1] for m in procs if m[0] != 'cell')} | "
                            f"{sum(m[1] for m in procs if m[0] == 'cell') // max(cells, 1)} |")
        return ["| identities | a command, ms | cells | PSS of all but cells, KiB | PSS of a cell, KiB |", "|---|---|---|---|---|", *text]
    finally:
        box.stop()
