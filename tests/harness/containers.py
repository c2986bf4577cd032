"""containers.py: a daemon in a podman container or inside gVisor, for the places that are one.
podman's has the daemon's folder at its own path and all else read-only, from a root file system that
`./dev places` made. It is the fence: what leaves it is podman's fault, and shows. gVisor runs in the
fence. Trusts podman, runc and runsc."""
import ast
import dataclasses
import os
import pathlib
import resource
import signal
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
        return ["podman", "--root", ROOM / "storage", "--runroot", f"/run/{ROOM.name}", "--runtime", "runc",
                "--cgroup-manager", "cgroupfs"]

    def command(self, uid, argv, tmpfs, nofile):
        self.pid_file = self.base / "pid"
        user = f"{uid}:{uid}"
        command = [*self.podman(), "run", "--rm", "--name", self.name, "--pidfile", self.pid_file,
                   "--network", "host", "--read-only", "--cap-drop", "ALL", "--user", user,
                   "--log-driver", "none", "--pids-limit", self.pids, "--volume", f"{self.base}:{self.base}",
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


class Gvisor(Daemon):
    """Inside `runsc do`, which has the host's own root: so in the fence, where of that only the test's folder can be
    written. No network of gVisor's: clients come through the host's."""

    def _start(self, uid, args, listen, tmpfs, nofile):
        assert not listen, "gVisor is handed no sockets: mark the test with host"
        assert names.STATIC.exists(), f"no static file at {names.STATIC}: ./dev build --static"
        if self.cgroup:  # of the host's processes, of which gVisor has more than are in it
            self.cgroup.rmdir()
            self.cgroup = None
        self.state = self.name = None
        inner, self.source = self.base / "inner", self.base / "start.sh"
        inner.write_bytes(names.STATIC.read_bytes())
        inner.chmod(0o755)
        # Mounts of the host's would look like plain folders: gVisor makes its own. The limit is the daemon's, not
        # runsc's. With shared access each finds what the other made.
        mounts = "".join(f"busybox mount -t tmpfs -o {options} tmpfs {path} && " for path, options in tmpfs)
        self.source.write_text(
            "#!/bin/sh\nexec runsc --rootless --platform ptrace --network host --ignore-cgroups --host-uds all"
            " --host-fifo open --file-access shared do -quiet -force-overlay=false -- "
            f"/bin/sh -c '{mounts}ulimit -n {nofile} && exec \"$0\" \"$@\"' {inner} \"$@\"\n")
        self.source.chmod(0o755)
        super()._start(uid, args, listen, [], resource.getrlimit(resource.RLIMIT_NOFILE)[1])

    def wait_exit(self, bound=60.0):
        """runsc tells of a signal as a shell does, and leaves its own helpers to the fence: only what is left is ours."""
        if self.exit is None and super().wait_exit(bound):
            code = self.exit["status"]
            self.exit.update(status=128 - code if code and code > 128 else code, orphans=0)
        return self.exit

    def container(self):
        """Its name, and the folder of state that `runsc do` made in the fence's /tmp: a file there is called after it."""
        if self.name is None:
            tmp = f"/proc/{self.init_pid}/root/tmp"
            self.state, self.name = procs.wait_for("the container", lambda: next(
                ((folder, file.partition("_sandbox:")[0]) for folder in os.listdir(tmp) if folder.startswith("runsc-do")
                 for file in os.listdir(f"{tmp}/{folder}") if file.endswith(".state")), None))
        return self.name

    def runsc(self, *argv):
        """As `runsc do` in the fence itself."""
        self.container()
        return run("nsenter", "--target", self.init_pid, "--pid", "--mount", "runsc", "--rootless", "--root",
                   f"/tmp/{self.state}", *argv)

    def procs(self):
        done = self.runsc("exec", "--cap", "CAP_SYS_PTRACE", "--cap", "CAP_DAC_OVERRIDE", self.container(),
                          "/usr/bin/python3", "-I", "-S", "-c", LOOK)
        assert done.returncode == 0, done.stderr.decode("utf-8", "replace")
        return [InsideProc(p["pid"], p["pid"], int(p["status"]["PPid"]), p["status"]["State"][0],
                           tuple(p["line"]), p["status"]["Name"], p) for p in ast.literal_eval(done.stdout.decode())]

    @property
    def main(self):
        return procs.wait_for("the daemon", lambda: next(
            (p for p in self.procs() if p.pid == 1), None))

    def strangers(self):
        """As elsewhere, by one look: main is the first process."""
        return [p for p in self.procs() if p.pid != 1 and p.role is None and p.state != "Z" and not p.held]

    def signal(self, number=signal.SIGTERM):
        """To the first process, without a look at all of them."""
        procs.wait_for("the daemon", lambda: self.runsc("kill", "--pid", 1, self.container(), int(number)).returncode == 0)

    def kill(self, proc, number=9):
        done = self.runsc("kill", "--pid", proc.pid, self.container(), int(number))
        assert done.returncode == 0, done.stderr.decode("utf-8", "replace")


BOXES = {"podman": Podman, "gvisor": Gvisor}
