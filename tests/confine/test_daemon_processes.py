"""What a command can do to the daemon's own processes: with a process namespace of its own it sees none of
them; without one it sees their numbers, and every other layer has to hold."""
import textwrap

import pytest

from harness import names
from harness.daemon import Daemon


@pytest.fixture(scope="module", params=list(names.PLANS))
def seat(request):
    """Where commands share the daemon's process namespace."""
    d = Daemon(plan=request.param, env={names.TEST_DISABLE: "pid-ns"})
    try:
        d.wait_up()
    except BaseException:
        d.destroy()
        raise
    yield d
    d.stop()


def python(seat, code, **kw):
    """Runs a probe as a command and gives back what it printed."""
    r = seat.run("exec /usr/bin/python3 -I -", stdin=textwrap.dedent(code), **kw)
    assert r["exit_code"] == 0, r
    return r["stdout"]


@pytest.mark.parametrize("plan", list(names.PLANS))
def test_the_cell_is_all_there_is(start, plan):
    d = start(plan=plan)
    out = d.run("cat /proc/[0-9]*/cmdline | tr '\\0' '\\n'; kill -9 1; echo $?")["stdout"].split("\n")
    assert out[:2] == ["sallyport", "--role=cell"] and out[-2] == "1", out
    assert "--role=broker" not in out and "--role=front" not in out and "seat" not in out
    before = {p.pid for p in d.procs() if p.role}
    assert d.run("kill -9 -1; kill -9 -- -1; echo on")["exit_code"] in (0, 137)
    d.wait_idle()
    assert {p.pid for p in d.procs() if p.role} == before


def daemon_pids(seat):
    return {p.role or "main": p for p in [seat.main, *(p for p in seat.procs() if p.role)]}


@pytest.mark.parametrize("what", ["mem", "environ", "maps", "fd/0", "cwd", "root", "stack", "syscall", "auxv",
                                  "io", "exe"])
def test_proc_of_the_daemon_is_shut(seat, what):
    for role, p in daemon_pids(seat).items():
        path = f"/proc/{p.nspid}/{what}"
        if what in ("cwd", "root", "exe", "fd/0"):
            r = seat.run(f"readlink {path}")
        else:
            r = seat.run(f"head -c 10 {path}")
        assert r["exit_code"] != 0 and r["stdout"] == "", (role, r)


def test_proc_of_the_daemon_is_not_writable(seat):
    for role, p in daemon_pids(seat).items():
        for what in ("mem", "oom_score_adj", "comm", "clear_refs", "coredump_filter", "timerslack_ns"):
            r = seat.run(f"echo 1 > /proc/{p.nspid}/{what}")
            assert r["exit_code"] != 0, (role, what)


def test_signals_to_the_daemon_fail(seat):
    before = {role: p.pid for role, p in daemon_pids(seat).items()}
    for role, p in daemon_pids(seat).items():
        for number in (0, 1, 9, 15, 18, 19):
            out = python(seat, f"""
                import os
                try:
                    os.kill({p.nspid}, {number}); print("sent")
                except OSError as e:
                    print(e.errno)
                """)
            assert out in ("1\n", "3\n"), (role, number, out)
    r = seat.run("kill -9 -1; echo on")
    assert r["exit_code"] in (0, 137)
    seat.wait_idle()
    assert {role: p.pid for role, p in daemon_pids(seat).items()} == before


def test_pidfd_to_the_daemon(seat):
    for role, p in daemon_pids(seat).items():
        out = python(seat, f"""
            import os, signal
            try:
                fd = os.pidfd_open({p.nspid})
                signal.pidfd_send_signal(fd, 9)
                print("sent")
            except OSError as e:
                print("refused")
            """)
        assert out == "refused\n", role
    assert seat.run("echo ok")["stdout"] == "ok\n"


def test_ptrace_and_memory_of_the_daemon(seat):
    for role, p in daemon_pids(seat).items():
        out = python(seat, f"""
            import ctypes
            libc = ctypes.CDLL(None, use_errno=True)
            buf = ctypes.create_string_buffer(8)
            iov = (ctypes.c_size_t * 2)(ctypes.addressof(buf), 8)
            remote = (ctypes.c_size_t * 2)(0x400000, 8)
            print(libc.ptrace(16, {p.nspid}, 0, 0), libc.ptrace(0x4206, {p.nspid}, 0, 0),
                  libc.syscall(310, {p.nspid}, iov, 1, remote, 1, 0),
                  libc.syscall(311, {p.nspid}, iov, 1, remote, 1, 0),
                  libc.syscall(438, libc.syscall(434, {p.nspid}, 0), 0, 0))
            """)
        assert set(out.split()) == {"-1"}, (role, out)


def test_limits_and_priority_of_the_daemon(seat):
    """Set to what they are, so that a success here breaks no later test."""
    for role, p in daemon_pids(seat).items():
        out = python(seat, f"""
            import os, resource
            for n in (resource.RLIMIT_NOFILE, resource.RLIMIT_CPU, resource.RLIMIT_AS):
                try:
                    resource.prlimit({p.nspid}, n, resource.prlimit({p.nspid}, n)); print("limit", n)
                except OSError:
                    pass
            try:
                os.setpriority(os.PRIO_PROCESS, {p.nspid}, os.getpriority(os.PRIO_PROCESS, {p.nspid}))
                print("priority")
            except OSError:
                pass
            """)
        assert out == "", (role, out)
