"""cgroup2.py: folders in the host's cgroup2 tree for one test, and a look at what lives in them."""
import os
import pathlib
import signal

from . import procs


def mounted():
    """Where the host has its cgroup2 tree. Linux has one wherever this daemon runs; without it tests fail."""
    with open("/proc/self/mountinfo", encoding="utf-8") as f:
        for line in f:
            fields, _, rest = line.partition(" - ")
            if rest.startswith("cgroup2 ") and fields.split()[3] == "/":
                return pathlib.Path(fields.split()[4])
    raise AssertionError("no cgroup2 is mounted: mount -t cgroup2 none /sys/fs/cgroup/unified")


class Folder:
    """A cgroup of the test's own, delegated to a user as systemd does it."""

    def __init__(self, name, owner=0):
        self.path = mounted() / name
        self.path.mkdir()
        for p in (self.path, *(self.path / n for n in ("cgroup.procs", "cgroup.threads", "cgroup.subtree_control"))):
            os.chown(p, owner, owner)

    def below(self):
        """What vanishes meanwhile isn't there."""
        return sorted(os.path.relpath(os.path.join(d, n), self.path) for d, found, _ in os.walk(self.path) for n in found)

    def pids(self, name):
        """Who is in it, but for a shell that is held for the next command."""
        found = [int(n) for n in (self.path / name / "cgroup.procs").read_text().split()]
        # Until it executes the shell, the child for the next command looks like the cell that made it.
        return [n for n in found if (p := procs.read(n)) is None
                or not (p.held or (p.role == "cell" and name.endswith(("commands", "/run"))))]

    def remove(self):
        for p in sorted(self.path.rglob("*"), reverse=True):
            if p.is_dir():
                for pid in map(int, (p / "cgroup.procs").read_text().split()):
                    os.kill(pid, signal.SIGKILL)
                procs.wait_for(f"{p} is empty", lambda p=p: not (p / "cgroup.procs").read_text())
                p.rmdir()
        procs.wait_for("the test's cgroup is empty", lambda: not self.pids("."))
        self.path.rmdir()
