"""The daemon and its peer as processes, and what they take of the machine. Trusts both: they are ours."""
import os
import pathlib
import re
import socket
import subprocess
import sys
import time

from layers import ENV, KEY, ROOT, Daemon

PEER = ROOT / "build/bench-peer"
SHELL = "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"


class Seat(Daemon):
    """The seat with its defaults; `ready` is the milliseconds from its start to its first answer."""

    def __init__(self, base, name="seat", **env):
        began = time.monotonic()
        super().__init__(base, name, "", "seat", {"SANDBOX_SHELL": SHELL, "SALLYPORT_ACCEPT_MISSING": "cgroup", **env})
        self.folder = f"{base}/seat{name}"
        get(self.port, "/healthz")
        self.ready = (time.monotonic() - began) * 1000


class Box(Daemon):
    """The box; user ids that no other box on this machine is likely to use meanwhile."""

    def __init__(self, base, name, **env):
        super().__init__(base, name, "", "box", {
            "RUNBOX_SHELL": SHELL, "RUNBOX_UID_MIN": "1900000000", "RUNBOX_UID_MAX": "1900999999",
            "RUNBOX_MAX_CONCURRENCY": "64", "RUNBOX_CELL_IDLE": "60s", "SALLYPORT_ACCEPT_MISSING": "cgroup", **env})


class Peer:
    """bench/peer-go. Its commands run as we do, in a folder of its own."""

    def __init__(self, base):
        subprocess.run(["go", "build", "-o", PEER, "."], cwd=ROOT / "bench/peer-go", check=True)
        self.folder = f"{base}/peer"
        os.mkdir(self.folder)
        self.p = subprocess.Popen([PEER, self.folder, SHELL], stdout=subprocess.PIPE, text=True, env=ENV)
        self.port = int(self.p.stdout.readline())

    def stop(self):
        self.p.terminate()
        self.p.wait()


def request(port, method, path, body=b"", headers=(), identity=None, drop=False):
    """One request on a connection of its own; the status and the bytes of the body, or their count."""
    lines = [f"{method} {path} HTTP/1.1", "Host: b", "Connection: close", f"Content-Length: {len(body)}", *headers]
    if identity:
        lines += [f"Authorization: Bearer {KEY}", f"X-Runbox-Identity: {identity}"]
    with socket.create_connection(("127.0.0.1", port)) as s:
        s.sendall("\r\n".join(lines).encode() + b"\r\n\r\n")
        s.sendall(body)
        data, count, buf = bytearray(), 0, bytearray(1 << 20)
        while n := s.recv_into(buf):
            count += n
            if not drop or len(data) < 4096:
                data += buf[:n]
    head, _, rest = bytes(data).partition(b"\r\n\r\n")
    status = int(head.split()[1])
    if not 200 <= status < 300:
        sys.exit(f"bench: {method} {path}: {head[:200]!r} {rest[:300]!r}")
    return count if drop else rest


def get(port, path, **how):
    return request(port, "GET", path, **how)


def roles(pid):
    """The daemon's processes: main and everything below it, by id."""
    found = {pid: "main"}
    for _ in range(4):
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                ppid = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
                cmd = (entry / "cmdline").read_bytes().split(b"\0")
                if (entry / "comm").read_text() == "sp-spawner\n":
                    continue  # a child before exec: it has its cell's memory, which is counted
            except (OSError, IndexError):
                continue
            if ppid in found and int(entry.name) not in found and len(cmd) > 1:
                found[int(entry.name)] = cmd[1].decode(errors="replace").replace("--role=", "")
    return found


def memory(pid):
    """[(role, PSS in KiB, peak resident in KiB)] of each process."""
    out = []
    for p, name in roles(pid).items():
        try:
            pss = re.search(r"^Pss:\s+(\d+)", pathlib.Path(f"/proc/{p}/smaps_rollup").read_text(), re.M)
            hwm = re.search(r"^VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{p}/status").read_text(), re.M)
        except OSError:
            continue
        out.append((name, int(pss[1]), int(hwm[1])))
    return out


def pss(pid):
    return sum(m[1] for m in memory(pid))
