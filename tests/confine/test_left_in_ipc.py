"""System V objects need no process to live, and no limit counts their memory: they end with the command."""
import textwrap

import pytest

from harness import names

MAKE = """
    import ctypes
    l = ctypes.CDLL(None, use_errno=True)
    l.shmat.restype = ctypes.c_void_p
    for mode in (0o1000, 0o1600):  # of the first not even its owner may read anything
        for _ in range(20):
            assert l.shmget(0, 1 << 20, mode) >= 0 and l.semget(0, 8, mode) >= 0 and l.msgget(0, mode) >= 0
    held = l.shmget(0, 1 << 20, 0o1600)
    assert l.shmat(held, None, 0) not in (None, -1)
    print(len(open("/proc/sysvipc/shm").readlines()) - 1)
"""


@pytest.mark.parametrize("seat", list(names.PLANS), indirect=True, scope="module")
def test_nothing_is_left(seat):
    r = seat.run("exec /usr/bin/python3 -I -", stdin=textwrap.dedent(MAKE))
    assert (r["exit_code"], r["stdout"]) == (0, "41\n"), r
    left = seat.run("cat /proc/sysvipc/shm /proc/sysvipc/sem /proc/sysvipc/msg")["stdout"].splitlines()
    assert len(left) == 3 and all("key" in line for line in left), left


def test_it_is_gone_after_a_timeout_too(start):
    d = start()
    r = d.run("/usr/bin/python3 -I -; sleep 1000", stdin=textwrap.dedent(MAKE), timeout=2)
    assert r["timed_out"]
    assert len(d.run("cat /proc/sysvipc/shm /proc/sysvipc/sem /proc/sysvipc/msg")["stdout"].splitlines()) == 3
