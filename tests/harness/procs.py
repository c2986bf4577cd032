"""procs.py: reads /proc: which processes belong to a daemon, in which role, with what rights.
Everything here is seen from the host's process namespace; nspid is the number inside."""
import dataclasses
import os
import time

WAITS = "sp-spawner"  # the name of a cell's child before exec


@dataclasses.dataclass(frozen=True)
class Proc:
    pid: int
    nspid: int
    ppid: int
    state: str
    cmdline: tuple
    name: str = ""

    @property
    def role(self):
        for arg in self.cmdline:
            if arg.startswith("--role="):
                return arg[len("--role="):]
        return None

    @property
    def held(self):
        """A shell that waits for the next command: traced, as no command can be, or on its way there."""
        if self.cmdline[2:3] and self.cmdline[2].startswith(": held by sallyport"):
            return True
        try:
            return self.status().get("TracerPid", "0") != "0"
        except (FileNotFoundError, ProcessLookupError):
            return False

    def status(self):
        return status(self.pid)

    def fds(self):
        """Descriptor number -> what it is."""
        found = {}
        for name in os.listdir(f"/proc/{self.pid}/fd"):
            try:
                found[int(name)] = os.readlink(f"/proc/{self.pid}/fd/{name}")
            except FileNotFoundError:
                continue
        return found


def status(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as f:
        return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)


def read(pid, level=-1):
    """The process or None once it is gone. level: which of its namespaces nspid is a number of,
    counted from the host's; -1 its own."""
    try:
        st = status(pid)
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            line = f.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    args = tuple(a.decode("utf-8", "replace") for a in line.split(b"\0")[:-1])
    numbers = [int(n) for n in st["NSpid"].split()]
    return Proc(pid, numbers[level] if -1 <= level < len(numbers) else numbers[-1],
                int(st["PPid"]), st["State"][0], args, st["Name"])


def is_child(pid, of):
    try:
        with open(f"/proc/{pid}/stat", "rb") as f:
            return int(f.read().rpartition(b")")[2].split()[1]) == of
    except (FileNotFoundError, ProcessLookupError):
        return False


def children(pid):
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and is_child(name, pid)]


def first_child(pid, fits=lambda child: True):
    """Of the children that fit, one. Those that were started soon after it are asked first: a look at all of /proc costs
    milliseconds."""
    for many in (lambda: (n for n in range(pid + 1, pid + 50) if is_child(n, pid)), lambda: children(pid)):
        for child in many():
            if fits(child):
                return child
    return None


def in_pid_namespace(pid, inode):
    """Surely. Of what is on its way out the kernel may not tell."""
    try:
        return os.stat(f"/proc/{pid}/ns/pid").st_ino == inode
    except OSError:
        return False


def in_namespace(init_pid):
    """All processes, init excluded, of the process namespace that init_pid leads and of those in
    it; zombies too, but not the child that waits before exec below a live cell, whose memory it
    has. An orphan's parent is a process of the namespace again, so all are found by going down from
    the first one."""
    try:
        level = len(status(init_pid)["NSpid"].split()) - 1
    except (FileNotFoundError, ProcessLookupError):
        return []
    below, ours = {}, os.stat("/proc/self/ns/pid").st_ino
    for name in os.listdir("/proc"):
        if name.isdigit() and not in_pid_namespace(name, ours):
            p = read(int(name), level)
            if p is not None:
                below.setdefault(p.ppid, []).append(p)
    found, todo = [], [(init_pid, None)]
    while todo:
        pid, role = todo.pop()
        for p in below.pop(pid, ()):
            if p.name != WAITS or role != "cell":
                found.append(p)
            todo.append((p.pid, p.role))
    return sorted(found, key=lambda p: p.pid)


def wait_for(what, condition, bound=20.0, step=0.01):
    """Polls until condition() is truthy, and returns it: what takes long is asked for less often. The bound is there
    for a hang only."""
    until = time.monotonic() + bound
    longest = 4 * step
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > until:
            raise AssertionError(f"never happened: {what}")
        time.sleep(step)
        step = min(1.1 * step, longest)
