"""The child of a cell that waits before exec for the next command: confined as the command that it becomes,
in nobody's sight, and gone with its cell."""
import os
import re

import pytest

from harness import names, procs

ALL_PLANS = pytest.mark.parametrize("plan", list(names.PLANS))
SAME = ("Uid", "Gid", "Groups", "NoNewPrivs", "Seccomp", "Seccomp_filters", "CapInh", "CapPrm", "CapEff",
        "CapBnd", "CapAmb", "SigIgn")


def waiting(d):
    """It, once it waits."""
    def find():
        d.run(":")
        cell = d.role("cell")
        for pid in procs.children(cell.pid):
            p = procs.read(pid)
            if p is not None and p.name == procs.WAITS and p.state == "S":
                return p
        return None
    return procs.wait_for("a child waits", find)


def text(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        return f.read()


@ALL_PLANS
def test_it_is_confined_as_a_command(start, plan):
    d = start(plan=plan, env={"SALLYPORT_MAX_PROCS": "100"})
    p = waiting(d)
    it = p.status()
    limits, group = text(f"/proc/{p.pid}/limits"), text(f"/proc/{p.pid}/cgroup")
    own = {ns: os.readlink(f"/proc/{p.pid}/ns/{ns}") for ns in ("mnt", "pid", "ipc", "net", "user")}
    session = os.getsid(p.pid)
    r = d.run("echo $$; cat /proc/$$/status")["stdout"].split("\n", 1)
    assert r[0] == str(p.nspid)  # it became the command
    command = dict(line.split(":\t", 1) for line in r[1].splitlines() if ":\t" in line)
    for field in SAME:
        assert it.get(field) == command.get(field), field
    assert session == p.pid
    c = d.send_command("touch there; exec sleep 1000")
    d.wait_file("there")
    sleeps = next(q for q in d.strangers() if q.cmdline[:1] == ("sleep",))
    assert text(f"/proc/{sleeps.pid}/limits") == limits
    assert text(f"/proc/{sleeps.pid}/cgroup") == group
    assert {ns: os.readlink(f"/proc/{sleeps.pid}/ns/{ns}") for ns in own} == own
    c.close()
    d.wait_no_strangers()


def test_no_command_meets_it(start):
    d = start()
    waiting(d)
    for _ in range(20):
        r = d.run("cat /proc/[0-9]*/comm; ls /proc/$$/fd; ls /proc | grep -c '^[0-9]'; kill -9 -1")
        assert procs.WAITS not in r["stdout"], r
        assert re.findall(r"^\d+$", r["stdout"], re.M)[:3] == ["0", "1", "2"], r


@pytest.mark.parametrize("number", [9, 15, 11])
def test_the_next_command_can_do_without_it(start, number):
    d = start()
    cell = d.role("cell").pid

    def signalled():
        p = waiting(d)
        try:
            os.kill(p.pid, number)
        except ProcessLookupError:  # it has had its time while this machine was busy
            return None
        return p
    p = procs.wait_for("one is signalled", signalled)
    if number != 9:
        os.kill(p.pid, 9)  # what it blocks it doesn't take
    procs.wait_for("it is gone", lambda: procs.read(p.pid) is None)
    for _ in range(3):
        assert d.run("echo fine; echo $$")["stdout"].split()[0] == "fine"
    waiting(d)
    assert d.role("cell").pid == cell


@pytest.mark.parametrize("role", ["cell", "broker", "main"])
@ALL_PLANS
def test_it_ends_with_the_daemon(start, plan, role):
    d = start(plan=plan)
    p = waiting(d)
    d.kill(d.main if role == "main" else d.role(role))
    if role == "main":
        report = d.wait_exit()
        assert report["left"] == [], report
    procs.wait_for("it is gone", lambda: (q := procs.read(p.pid)) is None or q.state == "Z")
