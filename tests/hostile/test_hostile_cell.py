"""A cell that was taken over, and what it may still do to the pipes that it handed to the front: both have them open,
so it can take their flag off again that they don't block, and their bytes away before the front reads them."""
import ctypes
import fcntl
import os
import threading

import pytest

from harness import procs

PIDFD_OPEN, PIDFD_GETFD = 434, 438
LIBC = ctypes.CDLL(None, use_errno=True)


def taken(pid, fd):
    """Another descriptor of what that process has open, as the cell has one of each pipe that it made."""
    pidfd = LIBC.syscall(PIDFD_OPEN, pid, 0)
    got = LIBC.syscall(PIDFD_GETFD, pidfd, fd, 0)
    assert got >= 0, os.strerror(ctypes.get_errno())
    os.close(pidfd)
    return got


def new_pipes(front, before):
    now = {}
    for n in os.listdir(f"/proc/{front}/fd"):
        try:
            now[int(n)] = os.readlink(f"/proc/{front}/fd/{n}")
        except FileNotFoundError:
            pass
    return sorted(n for n, what in now.items() if what.startswith("pipe:") and before.get(n) != what)


@pytest.mark.host("takes descriptors out of the daemon's processes")
@pytest.mark.parametrize("live", [False, True], ids=["plain", "events"])
def test_a_pipe_that_blocks_after_all(start, live):
    d = start()
    front = d.role("front").pid
    before = {int(n): os.readlink(f"/proc/{front}/fd/{n}") for n in os.listdir(f"/proc/{front}/fd")}
    command = "touch up; while [ ! -e go ]; do sleep 0.1; done; for i in $(seq 3000); do echo; done; sleep 1000"
    with d.conn() as c:
        accept = b"Accept: text/event-stream\r\n" if live else b""
        body = b'{"command":"%s"}' % command.encode()
        c.send(b"POST /execute HTTP/1.1\r\nHost: t\r\n" + accept + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        d.wait_file("up")
        pipes = procs.wait_for("the front has both pipes", lambda: (p := new_pipes(front, before)) and len(p) == 2 and p)
        mine = [taken(front, fd) for fd in pipes]
        for fd in mine:  # of the open pipe, so of the front's, too
            fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) & ~os.O_NONBLOCK)
        done = threading.Event()

        def steal():
            piece = [bytearray(65536)]
            while not done.is_set():
                try:
                    os.preadv(mine[0], piece, -1, os.RWF_NOWAIT)
                except BlockingIOError:
                    pass
        thief = threading.Thread(target=steal)
        thief.start()
        try:
            (d.ws / "go").touch()
            for _ in range(200):
                assert d.request("GET", "/healthz").status == 200
        finally:
            done.set()
            thief.join()
            for fd in mine:
                os.close(fd)
    d.wait_idle()
