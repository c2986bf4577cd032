"""Cells that wait for an identity: each serves one, and what an identity sees doesn't tell whether its cell waited."""
import os
import re
import signal

import pytest

from harness import procs
from harness.box import canonical

LOOK = """id; pwd; env | sort; ls -la / /dev /tmp /var "$(dirname "$PWD")"; umask; ulimit -a
sed -E 's/^[0-9]+ [0-9]+ [0-9]+:[0-9]+ //' /proc/self/mountinfo | sort
grep -E '^(Uid|Gid|Groups|Cap|NoNewPrivs|Seccomp|NSpid|Shd|Sig)' /proc/self/status
ls -l /proc/self/fd | cut -d' ' -f9-; tr '\\0' ' ' < /proc/1/cmdline; cat /proc/1/comm
touch /x /dev/x /usr/x; ls /proc | grep -v '^[0-9]'; ls -la ."""


def idle(b):
    return [p for p in b.procs() if p.role == "idle" and p.state != "Z"]


def cells(b):
    return [p for p in b.procs() if p.role == "cell" and p.state != "Z"]


def wait_idle_cells(b, n=1):
    procs.wait_for("the spares are there", lambda: len(idle(b)) == n)
    return idle(b)


def settled(b):
    """One that has built its view: it then waits on its socket."""
    spare = wait_idle_cells(b)[0]
    procs.wait_for("it waits", lambda: procs.read(spare.pid).state == "S" and
                   not os.path.ismount(f"/proc/{spare.pid}/root/boot"))
    return spare


def threads(pid):
    return [procs.status(f"{pid}/task/{tid}") for tid in os.listdir(f"/proc/{pid}/task")]


def test_a_spare_becomes_the_cell_of_one(start_box):
    b = start_box()
    seen = set()
    for i in range(5):
        spare = wait_idle_cells(b)[0]
        assert spare.pid not in seen
        seen.add(spare.pid)
        assert b.sh("echo on", (f"one{i}",))["stdout"] == "on\n"
        assert spare.pid in [p.pid for p in cells(b)]
        st = procs.status(spare.pid)
        ids = {int(n) for n in st["Uid"].split()} | {int(n) for n in st["Gid"].split()}
        assert [b.table()[uid][0] for uid in ids] == [canonical(f"one{i}")]
        for t in threads(spare.pid):
            assert t["NoNewPrivs"] == "1" and t["Seccomp"] == "2" and len(set(t["Uid"].split())) == 1
            assert all(int(t[c], 16) == 0 for c in ("CapInh", "CapPrm", "CapEff", "CapAmb")), t
    assert len({procs.status(pid)["Uid"] for pid in seen}) == 5


def test_what_waits_has_nobodys_workspace(start_box):
    b = start_box()
    b.sh("echo secret > f")
    spare = settled(b)
    held = " ".join(spare.fds().values())
    assert str(b.root) not in held, held
    with open(f"/proc/{spare.pid}/mountinfo", encoding="utf-8") as f:
        assert str(b.root / "workspaces") + "/" not in f.read()
    st = procs.status(spare.pid)
    assert st["NoNewPrivs"] == "1" and st["NSpid"].split()[-1] == "1"
    # Nor does a command see it, though both are the broker's.
    assert set(b.sh("cat /proc/[0-9]*/comm")["stdout"].split()) <= {"sp-cell", "bash", "cat"}


def test_an_identity_cannot_tell(start_box):
    looks = []
    for spares in ("0", "1"):
        b = start_box(env={"RUNBOX_SPARE_CELLS": spares})
        if spares == "1":
            settled(b)
        a = b.sh(LOOK)
        text = a["stdout"] + a["stderr"]
        text = re.sub(r"(?m)( +)?[A-Z][a-z]{2} +\d+ +\d\d:\d\d ", " TIME ", text.replace(b.base.name, "BASE"))
        text = re.sub(r"(master|shared):\d+|(pipe|/fd):?\S+", r"\1\2:N", text)
        looks.append(re.sub(r"(?m)^(d\S+|total)( +\d+)* ", r"\1 ", text))
        assert len(idle(b)) <= int(spares)
        b.stop()
    assert looks[0].splitlines() == looks[1].splitlines()
    assert "--role=cell" in looks[1] and "sp-cell" in looks[1]


@pytest.mark.parametrize("number", ["0", "3"])
def test_how_many(start_box, number):
    b = start_box(env={"RUNBOX_SPARE_CELLS": number})
    b.sh("true")
    wait_idle_cells(b, int(number))


def test_a_killed_spare_is_nothing_to_anyone(start_box):
    b = start_box()
    spare = wait_idle_cells(b)[0]
    os.kill(spare.pid, signal.SIGKILL)
    procs.wait_for("the broker knows", lambda: procs.read(spare.pid) is None)  # given away before, it is a cell's end
    for i in range(3):
        assert b.sh("echo on", (f"k{i}",))["stdout"] == "on\n"
    assert wait_idle_cells(b)[0].pid != spare.pid
    assert b.sh("echo on", ("later",))["stdout"] == "on\n"


def test_a_stopped_spare_is_given_up(start_box):
    """It never says that it is up: its identity is told so, and has another at the next call."""
    b = start_box()
    spare = settled(b)
    os.kill(spare.pid, signal.SIGSTOP)
    a = b.exec("echo on", ("held",))
    assert (a.status, a.code) == (503, "cell_lost")
    assert b.sh("echo on", ("held",))["stdout"] == "on\n"
    procs.wait_for("it is gone", lambda: procs.read(spare.pid) is None)


def test_the_broker_is_killed(start_box):
    b = start_box()
    spare = settled(b)
    os.kill(b.role("broker").pid, signal.SIGKILL)
    procs.wait_for("its spare is gone", lambda: procs.read(spare.pid) is None)
    procs.wait_for("it is back", lambda: b.has_role("broker") and b.request("GET", "/ready").status == 200)
    wait_idle_cells(b)
    assert b.sh("echo on", ("new",))["stdout"] == "on\n"


def test_new_identities_all_at_once(start_box):
    b = start_box(env={"RUNBOX_SPARE_CELLS": "2"})
    wait_idle_cells(b, 2)
    held = [b.send_exec("id -u", (f"all{i}",)) for i in range(12)]
    got = [c.answer().json["stdout"] for c in held]
    assert len(set(got)) == 12
    wait_idle_cells(b, 2)


def test_none_waits_where_a_user_id_is_mapped(start_box):
    """Through a user namespace, which maps one id, known when it is made."""
    b = start_box(env={"SALLYPORT_TEST_DISABLE": "view"})
    assert b.sh("echo on")["stdout"] == "on\n"
    assert not idle(b)
