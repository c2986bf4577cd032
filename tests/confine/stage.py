"""stage.py: what the probes attack: files, sockets and kernel objects outside, all owned by the user of
commands, so that nothing but the daemon's confinement keeps a command from them. And the probes' table."""
import ctypes
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import sys

from harness import names, procs
from harness.daemon import Daemon

BUILD = names.BIN.parent
PROBE = BUILD / "tests" / "confine" / "probe"
HOSTILE = BUILD / "tests" / "hostile" / "sallyport-hostile"
TABLE = pathlib.Path(__file__).with_name("verdicts.txt")
SANITIZED = b"__asan_init" in names.BIN.read_bytes()
SANITIZER_MAY = ("daemon-affinity-get", "daemon-limit", "daemon-seen", "front-", "huge-map", "merge-pages", "name-",
                 "personality-", "prctl-mm", "readlink-", "stat-")
LINE = re.compile(r"probe (\S+) (\S+)$", re.M)
IPC_CREAT, IPC_RMID = 0o1000, 0
ADD_KEY, KEYCTL, KEYCTL_SET_TIMEOUT, KEY_SPEC_USER_KEYRING = 248, 250, 15, -4  # of x86-64
KEY = 0x53500001
OTHER = 2000  # a user that is neither root nor the user of commands

libc = ctypes.CDLL(None, use_errno=True)


def nodes():
    """Devices that a host has and a command should not reach; readable and writable by everybody."""
    found = [("kmsg", "c", 1, 11), ("mem", "c", 1, 1), ("port", "c", 1, 4), ("fuse", "c", 10, 229),
             ("net/tun", "c", 10, 200), ("kvm", "c", 10, 232), ("loop-control", "c", 10, 237)]
    if os.path.exists("/dev/userfaultfd"):
        dev = os.stat("/dev/userfaultfd").st_rdev
        found.append(("userfaultfd", "c", os.major(dev), os.minor(dev)))
    return [*found, ("sp-disk", "b", 7, 0)]


def as_user(uid, work):
    """work() in a child with that user id; its result must be true."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            status = 0 if work() else 1
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, "the stage can't be set"


class Objects:
    """System V and POSIX objects and sockets of the host, owned by uid."""

    def __init__(self, uid):
        self.name = f"sp-probe-{os.getpid()}-{uid}"
        self.remove()
        as_user(uid, self._make)
        self.sockets = []
        for kind, suffix in ((socket.SOCK_STREAM, ""), (socket.SOCK_DGRAM, "-dgram")):
            s = socket.socket(socket.AF_UNIX, kind)
            s.bind(f"\0{self.name}{suffix}")
            self.sockets.append(s)
        self.sockets[0].listen(8)

    def _make(self):
        libc.mq_open.restype = ctypes.c_int
        # So that /proc/keys isn't empty, whatever else this user does on this machine; for ten minutes.
        key = libc.syscall(ADD_KEY, b"user", b"sp-probe", b"x", 1, KEY_SPEC_USER_KEYRING)
        if key < 0 or libc.syscall(KEYCTL, KEYCTL_SET_TIMEOUT, key, 600) != 0:
            return False
        return libc.shmget(KEY, 4096, IPC_CREAT | 0o600) >= 0 and libc.semget(KEY, 1, IPC_CREAT | 0o600) >= 0 and \
            libc.msgget(KEY, IPC_CREAT | 0o600) >= 0 and \
            libc.mq_open(f"/{self.name}".encode(), os.O_CREAT | os.O_RDWR, 0o600, None) >= 0

    def remove(self):
        for get, args, drop in ((libc.shmget, (KEY, 0, 0), lambda i: libc.shmctl(i, IPC_RMID, None)),
                                (libc.semget, (KEY, 0, 0), lambda i: libc.semctl(i, 0, IPC_RMID)),
                                (libc.msgget, (KEY, 0), lambda i: libc.msgctl(i, IPC_RMID, None))):
            number = get(*args)
            if number >= 0:
                drop(number)
        libc.mq_unlink(f"/{self.name}".encode())

    def close(self):
        for s in self.sockets:
            s.close()
        self.remove()


def lay_out(d):
    """The workspace's programs, and the folder outside. Before the daemon starts."""
    uid = d.owner
    for folder, program in ((d.ws, "probe"), (d.outside, "tool")):
        shutil.copy(PROBE, folder / program)
        os.chown(folder / program, uid, uid)
        os.chmod(folder / program, 0o755)
    for program, owner, group, mode in (("suid-root", 0, 0, 0o4755), ("suid-other", OTHER, OTHER, 0o4755),
                                        ("sgid-other", uid, OTHER, 0o2755), ("filecap", 0, 0, 0o755)):
        shutil.copy(PROBE, d.ws / program)
        os.chown(d.ws / program, owner, group)
        os.chmod(d.ws / program, mode)
    os.setxattr(d.ws / "filecap", "security.capability", struct.pack("<5I", 0x02000001, 1 << 21, 0, 0, 0))
    for name in ("victim", "attr", "unlink-me", "rename-me", "exchange-me"):
        (d.outside / name).write_text("secret")
    (d.outside / "rmdir-me").mkdir()
    (d.outside / "a-link").symlink_to("secret")
    for name in ("given", "remove", "remove2", "remove3"):
        os.setxattr(d.outside / "attr", f"user.{name}", b"x")
    d.sockets = []
    for name, kind in (("sock", socket.SOCK_STREAM), ("dgram", socket.SOCK_DGRAM)):
        s = socket.socket(socket.AF_UNIX, kind)
        s.bind(str(d.outside / name))
        d.sockets.append(s)
        os.chmod(d.outside / name, 0o777)
    d.sockets[0].listen(8)
    for path in d.outside.iterdir():
        os.chown(path, uid, uid, follow_symlinks=False)
    os.chmod(d.outside / "tool", 0o755)


def arguments(d, name, pids=(), port=0):
    return [f"--ws={d.ws}", f"--out={d.outside}", f"--name={name}", f"--key={KEY}",
            f"--pids={','.join(map(str, pids))}", f"--port={port}"]


def make(objects, prepare=lay_out, **kw):
    files = [f"{folder}/{objects.name}" for folder in ("/tmp", "/var/tmp", "/dev/shm")]
    return Daemon(prepare=prepare, nodes=nodes(), proc_open=True, files=files, **kw)


def verdicts(text):
    found = dict(LINE.findall(text))
    assert found.pop("end", None) == "did", f"the probes didn't reach their end:\n{text[-2000:]}"
    return found


def close(d):
    for s in d.sockets:
        s.close()
    d.stop()


def as_control(plan):
    """The same without the daemon, as the same user."""
    objects = Objects(names.PLANS[plan]["owner"])
    try:
        d = make(objects, plan=plan, binary=PROBE, args=lambda d: [*arguments(d, objects.name), "--control", "--front"])
        try:
            report = d.wait_exit(120)
            assert report and report["status"] == 0, f"{report}\n{d.tail()}"
            return verdicts((d.base / "stdout").read_text())
        finally:
            for s in d.sockets:
                s.close()
            d.destroy()
    finally:
        objects.close()


def as_command(plan, off="", env=None, before=None, after=None):
    """Through POST /execute, as a client would have it run. before(daemon), after(daemon): what to do right then."""
    objects = Objects(names.PLANS[plan]["owner"])
    try:
        extra = {names.TEST_DISABLE: off, names.ACCEPT_MISSING: off} if off else {}
        d = make(objects, plan=plan, env={**extra, **(env or {})})
        try:
            d.wait_up()
            d.run(":")
            pids = [procs.read(p.pid).nspid for p in (d.main, d.role("front"), d.role("broker"), d.role("cell"))]
            if len(d.role("cell").status()["NSpid"].split()) > len(d.main.status()["NSpid"].split()):
                pids = [1]  # in its own namespace a command meets no other; other numbers are its own processes'
            own = [d.main.pid, *(d.role(r).pid for r in ("front", "broker", "cell"))]
            if before:
                before(d)
            r = d.run("exec ./probe " + " ".join(arguments(d, objects.name, pids, d.port)), timeout=120)
            if after:
                after(d)
            assert r["exit_code"] == 0 and not r["stdout_truncated"], r
            assert [d.main.pid, *(d.role(r).pid for r in ("front", "broker", "cell"))] == own, d.tail()
            return verdicts(r["stdout"])
        finally:
            close(d)
    finally:
        objects.close()


def as_front(plan, off="", env=None):
    """In processes that confine themselves by the front's own code, where a front would be. With a layer off
    without those of probe_front.c, some of which would leave the listening socket deaf for the real front."""
    objects = Objects(names.PLANS[plan]["owner"])
    try:
        extra = {names.TEST_DISABLE: off, names.ACCEPT_MISSING: off} if off else {}

        def prepare(d):
            lay_out(d)
            d.late_env.update({"HOSTILE": " ".join(["probe", *(() if off else ["--front"]), *arguments(d, objects.name)]),
                               names.ENV_PASS: "HOSTILE"})
        d = make(objects, prepare, plan=plan, binary=HOSTILE, env={**extra, **(env or {})})
        try:
            d.wait_up()
            os.kill(d.role("front").pid, signal.SIGKILL)  # the second is the one that probes
            procs.wait_for("the probes' end", lambda: "probe end did" in d.log(), 60)
            d.wait_idle()
            return verdicts(d.log())
        finally:
            close(d)
    finally:
        objects.close()


SCOPES = "landlock,signal-scope"
NAMESPACES = "view,pid-ns,ipc-ns,front-root"
SITUATIONS = {
    "free": lambda: as_control("user"),
    "free-root": lambda: as_control("root-root"),
    "command": lambda: as_command("root-uid1000"),
    "user": lambda: as_command("user"),
    "root": lambda: as_command("root-root"),
    "no-net": lambda: as_command("root-uid1000", env={names.NETWORK: "none"}),
    "basic": lambda: as_command("root-uid1000", env={names.ISOLATION: "basic"}),
    "no-pid-ns": lambda: as_command("root-uid1000", "pid-ns"),
    "no-landlock": lambda: as_command("root-uid1000", SCOPES),
    "no-walls": lambda: as_command("root-uid1000", f"{SCOPES},{NAMESPACES}"),
    "no-seccomp": lambda: as_command("root-uid1000", "seccomp"),
    "front": lambda: as_front("root-uid1000"),
    "front-user": lambda: as_front("user"),
    "front-basic": lambda: as_front("root-uid1000", env={names.ISOLATION: "basic"}),
    "front-no-seccomp": lambda: as_front("root-uid1000", "seccomp"),
}
CONTROLS = ("free", "free-root")
# Nothing switched off.
WHOLE = ("command", "user", "root", "no-net", "front", "front-user")


def read_table():
    """Rows by name: {column: verdicts}, and the remark. A cell is alternatives with `|`; `.` is the column
    `command`'s; `-` is not asked."""
    rows, columns = {}, None
    for number, line in enumerate(TABLE.read_text().splitlines(), 1):
        body, _, remark = line.partition("#")
        words = body.split()
        if not words:
            continue
        if columns is None:
            columns = words[1:]
            continue
        assert len(words) == len(columns) + 1, f"{TABLE.name}:{number}: {len(words)} words"
        assert words[0] not in rows, f"{TABLE.name}:{number}: twice"
        cells = dict(zip(columns, words[1:]))
        rows[words[0]] = ({c: cells["command"] if v == "." else v for c, v in cells.items()}, remark.strip())
    return columns, rows


if __name__ == "__main__":  # prints what a situation gives: PYTHONPATH=tests python3 tests/confine/stage.py NAME
    for probe, verdict in SITUATIONS[sys.argv[1]]().items():
        print(probe, verdict)
