"""Each call that a role makes for a request fails once, in turn: the client is told, nothing dies that must
not, nothing is left over, and the next request is served. Needs `./dev build --faults`."""
import collections
import errno
import json
import os
import time

import pytest

from harness import faults, procs
from harness.http import Closed, chunked

MANY = 12  # of one call in one role: a loop is the same after that
ERRORS = {
    errno.EMFILE: "open64 openat64 fopen64 fdopendir opendir pipe2 socketpair accept4 dup dup2 dup3 fcntl64 eventfd "
                  "signalfd memfd_create",
    errno.ENOMEM: "malloc calloc realloc reallocarray strdup strndup mmap64 mprotect sendmsg recvmsg poll epoll_ctl "
                  " fstat64 fstatat64 statx execve prctl",
    errno.EAGAIN: "clone fork pthread_create",
    errno.EIO: "pread64 readlinkat sendfile64 syscall",
    errno.ENOSPC: "splice mkdirat linkat renameat renameat2 unlinkat",
    errno.EPERM: "kill fchmod fchdir prlimit64 setrlimit64 getrandom mount",
    errno.EINTR: "read write epoll_wait waitpid",  # what else they give for these descriptors and children is a bug
    errno.EPIPE: "send recv",
}
# No memory for a connection, or for more of an answer that has begun; or the connection itself fails.
CLOSES = {("front", call) for call in ("malloc", "calloc", "realloc", "send", "recv", "sendfile64")}
ERROR = {call: err for err, calls in ERRORS.items() for call in calls.split()}


def post(d, **members):
    return d.request("POST", "/execute", json.dumps(members).encode())


def unknown(a):
    """Whoever did it was lost: it may have been done."""
    return a.status == 503 and a.code == "cell_lost"


def put_new(d):
    a = d.put("new", b"n" * 3000)
    there = (d.ws / "new").exists()
    assert not there or (d.ws / "new").read_bytes() == b"n" * 3000
    assert there == (a.status == 201) or unknown(a), a
    return a


def put_old(d):
    a = d.put("old", b"n" * 3000)
    body = (d.ws / "old").read_bytes()
    assert body == (b"n" * 3000 if a.status == 200 else b"o" * 100000) or body == b"n" * 3000 and unknown(a), a
    return a


def put_chunked(d):
    a = d.request("PUT", "/files/a/b/c", chunked(b"x" * 100, b"y" * 100), {"Transfer-Encoding": "chunked"})
    assert (a.status < 300) == (d.ws / "a/b/c").exists() or unknown(a), a
    return a


def get(d):
    a = d.get("old")
    assert a.status != 200 or a.body == b"o" * 100000
    return a


def listing(d):
    a = d.request("GET", "/files/")
    assert a.status != 200 or "old" in a.body.decode()
    return a


def execute(d):
    a = post(d, command="echo out; echo err >&2; exit 3")
    if a.status == 200:
        r = a.json
        assert r["exit_code"] == 3, r
        for name, text in (("stdout", "out\n"), ("stderr", "err\n")):
            assert r[name] == text or r[name + "_truncated"] and text.startswith(r[name]), r
    return a


def execute_stdin(d):
    a = post(d, command="cat; (sleep 1000 &)", stdin="x" * 5000, env={"A": "b"}, cwd="dir")
    if a.status == 200:
        r = a.json
        assert r["stdout"] == "x" * 5000 or r["stdout_truncated"] and ("x" * 5000).startswith(r["stdout"]), r
    return a


def execute_events(d):
    return d.request("POST", "/execute", json.dumps({"command": "echo out; exit 3"}).encode(),
                     {"Accept": "text/event-stream"})


def delete(d):
    a = d.delete("old")
    assert (a.status == 204) != (d.ws / "old").exists() or unknown(a), a
    return a


def delete_tree(d):
    a = d.delete("dir", "?recursive=true")
    assert a.status >= 400 or not (d.ws / "dir").exists(), a
    return a


WORK = {f.__name__: f for f in (put_new, put_old, put_chunked, get, listing, execute, execute_stdin, execute_events,
                                delete, delete_tree)}


def prepare(d):
    """The same workspace for each."""
    for top, dirs, files in os.walk(d.ws, topdown=False):
        for name in files:
            os.unlink(os.path.join(top, name))
        for name in dirs:
            os.rmdir(os.path.join(top, name))
    (d.ws / "old").write_bytes(b"o" * 100000)
    (d.ws / "dir").mkdir()
    (d.ws / "dir" / "in").write_bytes(b"in")
    for name in ("old", "dir", "dir/in"):
        os.chown(d.ws / name, d.owner, d.owner)


def pids(d):
    return {p.role or "main": p.pid for p in [d.main, *d.procs()] if p.state != "Z" and (p.role or p.pid == d.main.pid)}


def descriptors(d, who):
    return {role: sorted(t.split(":")[0] for t in procs.read(pid).fds().values()) for role, pid in who.items()}


class Run:
    """One daemon after the other: a new one where a role was lost, as a lost one's next start waits."""

    def __init__(self, start):
        self.start, self.d = start, None
        self.seen = collections.Counter()

    def fresh(self):
        if self.d:
            self.d.stop()
        made = []
        self.d = self.start(binary=faults.BIN, prepare=lambda d: made.append(faults.Faults(d)))
        self.faults = made[0]
        for work in WORK.values():
            prepare(self.d)
            assert work(self.d).status < 300
        self.d.wait_no_strangers()
        self.who = pids(self.d)
        assert sorted(self.who) == ["broker", "cell", "front", "main"]
        self.fds = descriptors(self.d, self.who)

    def one(self, work, role, call, nth):
        """What was wrong, or None."""
        d, err = self.d, ERROR[call]
        prepare(d)
        self.faults.arm(role, call, nth, err)
        try:
            a = work(d)
            told = f"{a.status} {a.code}" if a.status >= 400 else str(a.status)
        except Closed:
            told = "closed"
        except AssertionError as e:
            return f"wrong answer: {e}"
        if not self.faults.disarm():
            return None
        self.seen[role, call, told] += 1
        try:
            d.wait_idle()
            prepare(d)
            for after in (put_new, get, execute, delete_tree):
                assert after(d).status < 300, after.__name__
            d.wait_no_strangers()
        except (AssertionError, Closed, OSError) as e:
            return f"{told}, then no service: {e}"
        now = pids(d)
        lost = [r for r in self.who if self.who[r] != now.get(r)]
        if not lost:
            try:
                procs.wait_for("descriptors", lambda: descriptors(d, now) == self.fds, bound=3)
            except AssertionError:
                return f"{told}, {role}'s descriptors {self.fds[role]} became {descriptors(d, now)[role]}"
            return f"{told} by no lost role" if told == "closed" and (role, call) not in CLOSES else None
        try:
            d.check_log()
        finally:
            log = d.tail()
            self.fresh()
        if lost != ["cell"] or not told.startswith(("503 cell_lost", "2")):
            return f"{told}, lost {lost}\n{log}"
        return None


@pytest.mark.slow
@pytest.mark.parametrize("name", WORK)
def test_each_call_fails_once(start, name):
    run = Run(start)
    run.fresh()
    prepare(run.d)
    run.faults.count()
    assert WORK[name](run.d).status < 300
    time.sleep(0.05)  # what a role does after its answer
    made = {pair: n for pair, n in run.faults.made().items() if pair[1] in ERROR and pair != ("cell", "write")}  # to its eventfd
    assert {role for role, _ in made} >= {"front", "broker", "cell"}, made
    wrong = []
    for (role, call), n in sorted(made.items()):
        for nth in range(1, min(n, MANY) + 1):
            found = run.one(WORK[name], role, call, nth)
            if found:
                wrong.append(f"{role} {call} {nth} of {n}: {found}")
                run.fresh()
    assert run.seen, "nothing failed at all"
    for (role, call, told), n in sorted(run.seen.items()):  # with pytest -s
        print(f"{name}: {role} {call}: {told} ({n})")
    assert not wrong, "\n".join(wrong)
