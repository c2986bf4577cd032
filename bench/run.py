#!/usr/bin/python3
"""Measures the daemon beside the machine's limits and prints a table (--write: into docs/performance.md).

Starts build/sallyport on 127.0.0.1 with a workspace in a temporary folder, runs the interleaved
benchmark against it, then eight uploads and downloads of 200 MiB at once while /healthz is
asked, and reads what memory the processes took. Trusts the daemon: it is ours.
"""
import argparse
import os
import pathlib
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BIG = 200 << 20
USER = 64997


def start(workspace):
    env = {"SANDBOX_WORKSPACE": workspace, "SANDBOX_PORT": "0", "SALLYPORT_BIND": "127.0.0.1",
           "PATH": os.environ["PATH"]}
    began = time.monotonic()
    p = subprocess.Popen([ROOT / "build/sallyport", "seat"], env=env, stderr=subprocess.PIPE, text=True)
    for line in p.stderr:
        m = re.search(r"listening on http://127\.0\.0\.1:(\d+)", line)
        if m:
            port = int(m[1])
            break
    else:
        sys.exit("bench: the daemon did not start")
    ask(port, b"GET /healthz HTTP/1.1\r\nHost: b\r\nConnection: close\r\n\r\n")
    ready = (time.monotonic() - began) * 1000
    threading.Thread(target=p.stderr.read, daemon=True).start()
    return p, port, ready


def ask(port, request):
    with socket.create_connection(("127.0.0.1", port)) as s:
        s.sendall(request)
        data = b""
        while chunk := s.recv(65536):
            data += chunk
    return data


def roles(pid):
    """The daemon's processes: main and everything below it, by name."""
    found = {pid: "main"}
    for _ in range(4):
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                ppid = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
                cmd = (entry / "cmdline").read_bytes().split(b"\0")
            except (OSError, IndexError):
                continue
            if ppid in found and int(entry.name) not in found and len(cmd) > 1:
                found[int(entry.name)] = cmd[1].decode().replace("--role=", "")
    return found


def memory(pid):
    out = {}
    for p, name in roles(pid).items():
        pss = re.search(r"^Pss:\s+(\d+)", pathlib.Path(f"/proc/{p}/smaps_rollup").read_text(), re.M)
        hwm = re.search(r"^VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{p}/status").read_text(), re.M)
        out[name] = (int(pss[1]), int(hwm[1]))
    return out


def put_big(port, name):
    with socket.create_connection(("127.0.0.1", port)) as s:
        s.sendall(f"PUT /files/{name} HTTP/1.1\r\nHost: b\r\nContent-Length: {BIG}\r\nConnection: close\r\n\r\n".encode())
        block = b"x" * (1 << 20)
        for _ in range(BIG >> 20):
            s.sendall(block)
        answer = s.recv(65536)
    assert b" 201 " in answer or b" 200 " in answer, answer


def get_big(port, name):
    got, buf = 0, bytearray(1 << 20)
    with socket.create_connection(("127.0.0.1", port)) as s:
        s.sendall(f"GET /files/{name} HTTP/1.1\r\nHost: b\r\nConnection: close\r\n\r\n".encode())
        while n := s.recv_into(buf):
            got += n
    assert got > BIG, got


def together(work, port, count):
    """Runs `count` transfers at once; returns the /healthz times (ms) seen meanwhile."""
    threads = [threading.Thread(target=work, args=(port, f"big{i}")) for i in range(count)]
    times = []
    for t in threads:
        t.start()
    while any(t.is_alive() for t in threads):
        began = time.monotonic()
        assert b" 200 " in ask(port, b"GET /healthz HTTP/1.1\r\nHost: b\r\nConnection: close\r\n\r\n")
        times.append((time.monotonic() - began) * 1000)
        time.sleep(0.01)
    return times


def exec_rate(port, seconds=3):
    body = b'{"command":"true"}'
    req = b"POST /execute HTTP/1.1\r\nHost: b\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    n, end = 0, time.monotonic() + seconds
    with socket.create_connection(("127.0.0.1", port)) as s:
        while time.monotonic() < end:
            s.sendall(req)
            assert b" 200 " in s.recv(65536)
            n += 1
    return n / seconds


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--rounds", type=int, default=400)
    ap.add_argument("--write", action="store_true", help="write docs/performance.md")
    args = ap.parse_args()
    subprocess.run(["ninja", "-C", ROOT / "build", "bench/bench"], check=True, stdout=subprocess.DEVNULL)
    shell = "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"
    tmp = tempfile.mkdtemp(prefix="sallyport-bench-", dir="/var/tmp")
    os.chmod(tmp, 0o755)
    workspace = os.path.join(tmp, "ws")
    os.mkdir(workspace)
    if os.geteuid() == 0:
        os.chown(workspace, USER, USER)
    daemon, port, ready = start(workspace)
    lines = []
    try:
        idle = memory(daemon.pid)
        run = subprocess.run([ROOT / "build/bench/bench", str(port), workspace, shell, str(args.rounds)],
                             check=True, stdout=subprocess.PIPE, text=True)
        rate = exec_rate(port)
        before = memory(daemon.pid)
        health_put = together(put_big, port, 8)
        after_put = memory(daemon.pid)
        health_get = together(get_big, port, 8)
        after = memory(daemon.pid)
    finally:
        daemon.send_signal(signal.SIGTERM)
        daemon.wait(30)
        shutil.rmtree(tmp)
    lines.append("| work | daemon p50 µs | p95 | bare p50 µs | p95 | ratio p50 | ratio p95 |")
    lines.append("|---|---|---|---|---|---|---|")
    for row in run.stdout.splitlines():
        lines.append("| " + " | ".join(row.split()) + " |")
    bare = float(next(r for r in run.stdout.splitlines() if r.startswith("exec-true")).split()[3])
    lines += ["", f"One connection, one after the other: {rate:.0f} commands/s; bare spawn's median allows "
              f"{1e6 / bare:.0f}/s. Start to first answer: {ready:.0f} ms.", "",
              "| process | PSS idle KiB | PSS after all KiB | peak resident KiB |", "|---|---|---|---|"]
    for name, (pss, _) in idle.items():
        lines.append(f"| {name} | {pss} | {after[name][0]} | {after[name][1]} |")
    total = sum(p for p, _ in idle.values())
    lines += [f"| all | {total} | {sum(p for p, _ in after.values())} | |", "",
              f"Eight uploads of 200 MiB at once: PSS of all {sum(p for p, _ in before.values())} KiB before, "
              f"{sum(p for p, _ in after_put.values())} KiB after; `/healthz` meanwhile: "
              f"median {statistics.median(health_put):.1f} ms over {len(health_put)} calls. Eight downloads: "
              f"median {statistics.median(health_get):.1f} ms over {len(health_get)} calls."]
    text = "\n".join(lines)
    print(text)
    if args.write:
        page = ROOT / "docs/performance.md"
        head = page.read_text().split("<!-- figures -->")[0]
        page.write_text(head + "<!-- figures -->\n\n" + text + "\n")


main()
