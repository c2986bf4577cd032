"""Shells held in the box: one for each identity that pauses between commands, under its own user id, and
gone with its cell or its workspace."""
from harness import held, procs


def holding(b):
    """user id -> the shells held under it."""
    found = {}
    for p in b.procs():
        if p.state == "t" and p.status().get("TracerPid", "0") != "0":
            found.setdefault(p.status()["Uid"].split()[0], []).append(p)
    return found


def hold(b, who):
    uid = b.sh("id -u", who)["stdout"].strip()

    def again():
        b.sh(":", who)
        try:
            return procs.wait_for("", lambda: holding(b).get(uid), 0.5)
        except AssertionError:
            return None
    return uid, procs.wait_for("a shell is held", again)


def test_one_for_an_identity_and_under_its_own_id(start_box):
    b = start_box(env=held.ENV)
    uids = set()
    for n in range(3):
        uid, shells = hold(b, (f"held-{n}",))
        assert len(shells) == 1 and shells[0].ppid in [p.pid for p in b.procs() if p.role == "cell"]
        uids.add(uid)
        b.sh("echo secret > f; chmod 600 f", (f"held-{n}",))
    assert len(uids) == 3
    uid, _ = hold(b, ("held-0",))
    used = b.log().count(held.USED)
    assert b.sh("id -u; cat f; ls ../ | wc -l", ("held-0",))["stdout"].split() == [uid, "secret", "1"]
    assert b.log().count(held.USED) == used + 1


def test_it_goes_with_its_workspace(start_box):
    b = start_box(env=held.ENV)
    uid, _ = hold(b, ("gone",))
    assert b.call("DELETE", "/v1/workspace", who=("gone",)).status == 204
    assert uid not in holding(b) and not b.workspace("gone").exists()
    assert b.sh("ls | wc -l", ("gone",))["stdout"].strip() == "0"


def test_it_goes_with_an_idle_cell(start_box):
    b = start_box(env={**held.ENV, "RUNBOX_CELL_IDLE": "700ms"})
    hold(b, ("idle",))
    procs.wait_for("the cell ended", lambda: not b.has_role("cell"))
    assert holding(b) == {}
