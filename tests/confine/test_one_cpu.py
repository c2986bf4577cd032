"""SALLYPORT_ONE_CPU: who shares a processor, and that commands and file threads have all of them."""
import os

import pytest

from harness import procs

LIST = "Cpus_allowed_list"
LOOK = f"grep {LIST} /proc/self/status | cut -f2; nproc; (grep {LIST} /proc/self/status | cut -f2) & wait"
ON = {"SALLYPORT_ONE_CPU": "on"}


def allowed(pid):
    """Of each thread, by its name."""
    threads = [procs.status(f"{pid}/task/{tid}") for tid in os.listdir(f"/proc/{pid}/task")]
    return [(t["Name"], t[LIST]) for t in threads]


def all_processors(d):
    return dict(allowed(d.main.pid))["sallyport"]


@pytest.mark.parametrize("env", [ON, {}])
def test_seat(start, env):
    d = start(env=env)
    assert d.put("big", b"x" * 100000).status == 201  # brings the file threads
    assert d.get("big").status == 200
    out = d.run(LOOK)["stdout"].split()
    everything = all_processors(d)
    assert out == [everything, str(len(os.sched_getaffinity(d.main.pid))), everything]
    one = {dict(allowed(d.role(r).pid))[f"sp-{r}"] for r in ("front", "broker")}
    threads = allowed(d.role("cell").pid)
    first = [cpus for name, cpus in threads if name == "sp-cell" and cpus != everything]
    many = len(os.sched_getaffinity(d.main.pid)) > 1
    if env and many:
        assert len(one) == 1 and first == [*one], "the cell's main thread, and no other of its"
        assert one <= {str(cpu) for cpu in os.sched_getaffinity(d.main.pid)}
    else:
        assert one == {everything} and first == []
    assert ("sp-spawner", everything) in threads and len(threads) >= 4


def test_a_role_that_comes_again(start):
    """A front and a cell that are started anew share it again."""
    d = start(env=ON)
    before = dict(allowed(d.role("broker").pid))["sp-broker"]
    for role in ("front", "cell"):
        old = d.role(role)
        d.kill(old)
        procs.wait_for("another", lambda: d.has_role(role) and d.role(role).pid != old.pid)
    d.wait_idle()
    assert dict(allowed(d.role("front").pid))["sp-front"] == before
    assert ("sp-cell", before) in allowed(d.role("cell").pid)
