"""Cgroups of the box, in the host's real cgroup2 tree: each cell has one of its own, beside one for its commands,
made with it and gone with it. What needs controllers is in tests/confine/test_cgroup_limits.py."""
import itertools
import os
import signal

import pytest

from harness import cgroup2, names, procs

_count = itertools.count()
COMMANDS = "sallyport-0/commands"


@pytest.fixture
def grouped(start_box):
    """A box in a cgroup that it may write; without a PID namespace, beside which the layer is only on where it
    limits something."""
    made = []

    def make(env=None):
        f = cgroup2.Folder(f"sp-box-{os.getpid()}-{next(_count)}")
        made.append([f])
        b = start_box(cgroup2=f.path, env={names.TEST_DISABLE: "pid-ns", **(env or {})})
        made[-1].append(b)
        assert "layer cgroup: on (commands are ended together" in b.log(), b.log()
        return b, f
    yield make
    left = []
    for f, *boxes in made:
        for b in boxes:
            b.stop()
        left += f.below()
        f.remove()
    assert left == []


def own(b, who):
    """The number of the identity's cgroup, as a command of its sees it."""
    line = next(x for x in b.sh("cat /proc/self/cgroup", who)["stdout"].splitlines() if x.startswith("0::"))
    folder, _, leaf = line.partition(f"/{COMMANDS}/")[2].partition("/")
    assert leaf == "run", line
    return folder


def running(b, who):
    """The connection of a command that has a process in another session."""
    c = b.send_exec("setsid sleep 1000 & echo > up; sleep 1000", (who,))
    procs.wait_for("it runs", lambda: b.download("up", (who,)).status == 200)
    return c


def numbers(f):
    return {p.split("/")[2] for p in f.below() if p.startswith(f"{COMMANDS}/")}


@pytest.mark.parametrize("spares", [0, 2])
def test_each_cell_has_one(grouped, spares):
    b, f = grouped({"RUNBOX_SPARE_CELLS": spares})
    mine = {who: own(b, (who,)) for who in ("a", "b", "c")}
    assert len(set(mine.values())) == 3
    for who in mine:
        cell = f.pids(f"{COMMANDS}/{mine[who]}/cell")
        assert len(cell) == 1 and procs.read(cell[0]).role == "cell"
        assert own(b, (who,)) == mine[who]
    roles = {p.pid for p in b.procs() if p.role in ("broker", "front", "registry")} | {b.main.pid}
    assert roles <= set(f.pids("sallyport-0/daemon"))
    procs.wait_for("the spares are there", lambda: len(numbers(f)) == 3 + spares)


def test_commands_of_two_are_apart(grouped):
    b, f = grouped()
    one, two = own(b, ("a",)), own(b, ("b",))
    c = running(b, "a")
    with running(b, "b"):
        assert len(f.pids(f"{COMMANDS}/{one}/run")) >= 2 and len(f.pids(f"{COMMANDS}/{two}/run")) >= 2
        c.close()
        procs.wait_for("the one's are ended", lambda: f.pids(f"{COMMANDS}/{one}/run") == [])
        assert len(f.pids(f"{COMMANDS}/{two}/run")) >= 2
    procs.wait_for("the other's, too", lambda: f.pids(f"{COMMANDS}/{two}/run") == [])


def test_it_goes_with_its_cell(grouped):
    """A cell that is ended for want of work, one that is killed at work, a workspace that is removed."""
    b, f = grouped({"RUNBOX_SPARE_CELLS": 0, "RUNBOX_CELL_IDLE": "100ms"})
    for who in ("a", "b"):
        own(b, (who,))
    procs.wait_for("all are gone", lambda: numbers(f) == set())
    with running(b, "a"):
        cell = next(p for p in b.procs() if p.role == "cell" and p.state != "Z")
        os.kill(cell.pid, signal.SIGKILL)
        procs.wait_for("it is gone", lambda: numbers(f) == set())
    assert own(b, ("a",)) and b.call("DELETE", "/v1/workspace", who=("a",)).status == 204
    procs.wait_for("nothing is left", lambda: numbers(f) == set())


def works(b):
    try:
        return b.exec("echo on", ("b",)).status == 200
    except (OSError, AssertionError):
        return False


@pytest.mark.parametrize("role", ["broker", "main"])
def test_what_a_killed_one_left_is_cleared(grouped, role):
    b, f = grouped({"RUNBOX_SPARE_CELLS": 0})
    own(b, ("a",))
    if role == "broker":
        os.kill(b.role("broker").pid, signal.SIGKILL)
        procs.wait_for("the cell is gone", lambda: not any(p.role == "cell" for p in b.procs()))
        procs.wait_for("it works again", lambda: works(b))
        assert own(b, ("b",)) == "1" and numbers(f) == {"1"}
        return
    b.kill_everything()
    procs.wait_for("they are dead", lambda: not any(f.pids(p) for p in f.below()))
    assert numbers(f) == {"1"}
    b.again()
    assert own(b, ("b",)) == "1" and numbers(f) == {"1"}
