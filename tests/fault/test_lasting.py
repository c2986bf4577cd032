"""Calls that fail again and again: no role asks for the same as fast as it can, and once they succeed all is served
again. What a role does meanwhile is counted by its calls. Needs `./dev build --faults`."""
import errno
import threading
import time

import pytest

from harness import faults, procs
from harness.http import Closed
from harness.injection import check

LASTING = 0xffffffff
LOOK_S = 2
MOST = 400  # calls a second; a role that never waits makes some 100,000
SETTLED_S = 61  # a role that lived so long failed for a reason of its own, and is started again at once


def faulty(start, **kw):
    made = []
    d = start(binary=faults.BIN, prepare=lambda d: made.append(faults.Faults(d)), **kw)
    d.run("true")
    d.put("f", b"x")
    return d, made[0]


def calm(f, role, call):
    """How often it called meanwhile is bounded by a pause between."""
    before = f.made().get((role, call), 0)
    time.sleep(LOOK_S)
    n = f.made().get((role, call), 0) - before
    check(n < MOST * LOOK_S, n, f"{role} made {call} so often in {LOOK_S} s")


def ask(d):
    """Requests that nobody answers yet."""
    def one(work):
        try:
            work()
        except (Closed, OSError):
            pass
    threads = [threading.Thread(target=one, args=(w,), daemon=True)
               for w in (lambda: d.get("f"), lambda: d.execute("echo x"), lambda: d.put("g", b"y"))]
    for t in threads:
        t.start()
    return threads


@pytest.mark.slow
@pytest.mark.parametrize("role,call,err", [
    ("broker", "recvmsg", errno.ENOMEM), ("broker", "sendmsg", errno.ENOMEM), ("broker", "sendmsg", errno.ENOBUFS),
    ("front", "recvmsg", errno.ENOMEM), ("front", "sendmsg", errno.ENOMEM), ("cell", "recvmsg", errno.ENOMEM),
    ("cell", "sendmsg", errno.ENOMEM), ("main", "poll", errno.ENOMEM), ("broker", "poll", errno.ENOMEM),
    ("front", "accept4", errno.ENOMEM), ("front", "accept4", errno.EMFILE), ("cell", "pipe2", errno.EMFILE),
    ("cell", "malloc", errno.ENOMEM)])
def test_no_role_spins(start, role, call, err):
    d, f = faulty(start)
    f.arm(role, call, 1, err, LASTING)
    threads = ask(d)
    calm(f, role, call)
    f.disarm()
    d.wait_idle()
    for t in threads:
        t.join(60)
        assert not t.is_alive(), "a request without an end"
    assert d.run("echo y")["stdout"] == "y\n" and d.get("f").body == b"x"


@pytest.mark.slow
@pytest.mark.parametrize("lost,starter,call", [("front", "main", "fork"), ("cell", "broker", "clone")])
def test_who_starts_a_role_again_waits(start, lost, starter, call):
    """Also a role that had lived for long: its next start came at once, again and again."""
    d, f = faulty(start)
    calls = {c for r, c in f.made() if r == starter and c in ("fork", "clone")}
    call = call if call in calls else calls.pop()
    time.sleep(SETTLED_S)
    f.arm(starter, call, 1, errno.EAGAIN, LASTING)
    d.kill(d.role(lost))
    calm(f, starter, call)
    calm(f, starter, "socketpair")
    f.disarm()
    procs.wait_for("it is started again", lambda: d.has_role(lost), 60)
    d.wait_idle()
    assert d.get("f").body == b"x"
