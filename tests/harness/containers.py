"""containers.py: a daemon in a podman container or inside gVisor, for the places that are one.
The container has the daemon's folder at its own path and all else read-only, from a root file
system that `./dev places` made. It is the fence: what leaves it is podman's or gVisor's fault, and
shows. Trusts podman, runc and runsc."""
import ast
import dataclasses
import json
import os
import pathlib
import subprocess

from . import names, places, procs
from .daemon import Daemon

ROOM = pathlib.Path(os.environ.get("SALLYPORT_PLACES", "/var/tmp/sallyport-places"))
ROOTFS = ROOM / "rootfs"


def run(*args, bound=60):
    return subprocess.run([str(a) for a in args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=bound, check=False)


class Container(Daemon):
    """The daemon is its container's first process. What it leaves behind dies with it, so of that there is
    nothing to report."""

    def _start(self, uid, args, listen, tmpfs, nofile):
        assert not listen, "a container is handed no sockets: mark the test with host"
        assert names.STATIC.exists(), f"no static file at {names.STATIC}: ./dev build --static"
        if self.cgroup:
            self.cgroup.rmdir()
            self.cgroup = None
        self.name = self.base.name
        self.binary.write_bytes(names.STATIC.read_bytes())
        self.binary.chmod(0o755)
        command = self.command(uid, [str(self.binary), *args], tmpfs, nofile)
        with open(self.log_path, "wb") as log, open(self.base / "stdout", "wb") as out:
            self.outer = subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL,
                                          stdout=out, stderr=log, cwd="/", start_new_session=True)

    def wait_exit(self, bound=60.0):
        if self.exit is None:
            try:
                code = self.outer.wait(max(bound, 0.001))
            except subprocess.TimeoutExpired:
                return None
            self.exit = {"status": 128 - code if code > 128 else code, "left": [], "orphans": 0}
        return self.exit

    def strangers(self):
        main = self.main.pid
        return [p for p in self.procs() if p.pid != main and p.role is None and p.state != "Z" and not p.held]


class Podman(Container):
    def podman(self):
        return ["podman", "--root", ROOM / "storage", "--runroot", "/run/sallyport-places", "--runtime", "runc",
                "--cgroup-manager", "cgroupfs"]

    def command(self, uid, argv, tmpfs, nofile):
        self.pid_file = self.base / "pid"
        user = f"{uid}:{uid}"
        command = [*self.podman(), "run", "--rm", "--name", self.name, "--pidfile", self.pid_file,
                   "--network", "host", "--read-only", "--cap-drop", "ALL", "--user", user,
                   "--log-driver", "none", "--volume", f"{self.base}:{self.base}",
                   "--ulimit", f"nofile={nofile}:{nofile}", "--ulimit", "nproc=4096:4096"]
        for cap in places.HERE.caps:
            command += ["--cap-add", cap]
        for path, options in tmpfs:
            command += ["--tmpfs", f"{path}:{options}"]
        for name, value in self.env.items():
            command += ["--env", f"{name}={value}"]
        return [*command, "--rootfs", ROOTFS, *argv]

    @property
    def main(self):
        text = procs.wait_for("podman's pid file", lambda: self.pid_file.exists() and self.pid_file.read_text())
        found = procs.read(int(text))
        assert found, "the container ended"
        return found

    def procs(self):
        main = self.main
        return [main, *procs.in_namespace(main.pid)]

    def destroy(self):
        self.stopped = True
        if self.outer.poll() is None:
            run(*self.podman(), "rm", "--force", "--time", "0", "--ignore", self.name)
        self.outer.wait()
        self.remove()


# What gVisor's own /proc says, from inside: all of Proc's fields, and status and descriptors with them.
LOOK = """
import os
found = []
for name in filter(str.isdigit, os.listdir("/proc")):
    try:
        with open(f"/proc/{name}/status") as f:
            status = dict(l.rstrip("\\n").split(":\\t", 1) for l in f if ":\\t" in l)
        with open(f"/proc/{name}/cmdline", "rb") as f:
            line = [a.decode("utf-8", "replace") for a in f.read().split(b"\\0")[:-1]]
        fds = {}
        for fd in os.listdir(f"/proc/{name}/fd"):
            try:
                fds[fd] = os.readlink(f"/proc/{name}/fd/{fd}")
            except OSError:
                pass
    except OSError:
        continue
    if int(name) != os.getpid():
        found.append({"pid": int(name), "status": status, "line": line, "fds": fds})
print(ascii(found))
"""


@dataclasses.dataclass(frozen=True)
class InsideProc(procs.Proc):
    """A process of gVisor's, which the host has no number for: a snapshot."""
    at: dict = None

    def status(self):
        return self.at["status"]

    def fds(self):
        return {int(n): t for n, t in self.at["fds"].items()}


class Gvisor(Container):
    def runsc(self):
        return ["runsc", "--root", "/run/sallyport-gvisor", "--platform", "ptrace", "--network", "host",
                "--ignore-cgroups", "--host-uds", "all", "--host-fifo", "open"]

    def command(self, uid, argv, tmpfs, nofile):
        bundle = self.base / "bundle"
        bundle.mkdir()
        caps = [f"CAP_{c}" for c in places.HERE.caps]
        mounts = [{"destination": "/proc", "type": "proc", "source": "proc"},
                  {"destination": "/dev", "type": "tmpfs", "source": "tmpfs"},
                  {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"},
                  {"destination": "/dev/shm", "type": "tmpfs", "source": "tmpfs"},
                  {"destination": str(self.base), "type": "bind", "source": str(self.base),
                   "options": ["rbind", "rw"]}]
        mounts += [{"destination": str(p), "type": "tmpfs", "source": "tmpfs", "options": o.split(",")}
                   for p, o in tmpfs]
        spec = {"ociVersion": "1.0.2", "root": {"path": str(ROOTFS), "readonly": True}, "mounts": mounts,
                "process": {"user": {"uid": uid, "gid": uid}, "args": argv, "cwd": "/",
                            "env": [f"{n}={v}" for n, v in self.env.items()],
                            "rlimits": [{"type": "RLIMIT_NOFILE", "hard": nofile, "soft": nofile}],
                            "capabilities": {"bounding": caps, "effective": caps, "permitted": caps}},
                "linux": {"namespaces": [{"type": t} for t in ("pid", "mount", "ipc", "uts")]}}
        (bundle / "config.json").write_text(json.dumps(spec))
        return [*self.runsc(), "run", "--bundle", bundle, self.name]

    def inside(self, *argv):
        return run(*self.runsc(), "exec", "--cap", "CAP_SYS_PTRACE", "--cap", "CAP_DAC_OVERRIDE", self.name, *argv)

    def procs(self):
        done = self.inside("/usr/bin/python3", "-I", "-c", LOOK)
        assert done.returncode == 0, done.stderr.decode("utf-8", "replace")
        return [InsideProc(p["pid"], p["pid"], int(p["status"]["PPid"]), p["status"]["State"][0],
                           tuple(p["line"]), p) for p in ast.literal_eval(done.stdout.decode())]

    @property
    def main(self):
        return procs.wait_for("the daemon", lambda: next(
            (p for p in self.procs() if p.pid == 1), None))

    def kill(self, proc, number=9):
        done = run(*self.runsc(), "kill", "--pid", proc.pid, self.name, int(number))
        assert done.returncode == 0, done.stderr.decode("utf-8", "replace")

    def destroy(self):
        self.stopped = True
        if self.outer.poll() is None:
            run(*self.runsc(), "kill", self.name, "KILL")
        self.outer.wait()
        run(*self.runsc(), "delete", "--force", self.name)
        self.remove()


BOXES = {"podman": Podman, "gvisor": Gvisor}
