"""SALLYPORT_ONE_CPU in the box: front and broker share a processor; its cells are many, and aren't bound."""
import os

import pytest

from harness import procs

LIST = "Cpus_allowed_list"
LOOK = f"grep {LIST} /proc/self/status | cut -f2"


def allowed(pid):
    return {procs.status(f"{pid}/task/{tid}")[LIST] for tid in os.listdir(f"/proc/{pid}/task")}


@pytest.mark.parametrize("spares", ["0", "1"])
def test_who_is_bound(start_box, spares):
    b = start_box(env={"SALLYPORT_ONE_CPU": "on", "RUNBOX_SPARE_CELLS": spares})
    everything = allowed(b.main.pid)
    for who in ("alice", "bob"):
        assert {b.sh(LOOK, who=(who,))["stdout"].strip()} == everything
    one = allowed(b.role("front").pid)
    assert len(one) == 1 and allowed(b.role("broker").pid) == one
    assert (one != everything) == (len(os.sched_getaffinity(b.main.pid)) > 1)
    for p in b.procs():
        if p.role == "cell":
            assert allowed(p.pid) == everything
