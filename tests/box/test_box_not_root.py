"""A box that a service manager starts as a user of its own with root's capabilities: deploy/systemd does."""
import os
import shutil

import pytest

from harness import names, procs
from harness.http import Closed

OWN = 64990
CAPS = ("chown", "kill", "setgid", "setuid", "sys_admin")
FIVE = sum(1 << n for n in (0, 5, 6, 7, 21))


def script(b, caps=CAPS, uid=OWN):
    """Makes the daemon be started as uid with caps, its data folder its own."""
    real, start = b.base / "real", b.base / "start.sh"
    shutil.copy(names.BIN, real)
    some = "".join(f",+{c}" for c in caps)
    start.write_text(f'#!/bin/sh\nmkdir -p "$RUNBOX_ROOT"; chown {uid}:{uid} "$RUNBOX_ROOT"\n'
                     f"exec setpriv --reuid {uid} --regid {uid} --clear-groups --inh-caps=-all{some} "
                     f'--ambient-caps=-all{some} {real} "$@"\n')
    start.chmod(0o755)
    b.source = start


def caps(p):
    """Held, or to be had by an exec."""
    status = p.status()
    return int(status["CapPrm"], 16) | int(status["CapAmb"], 16)


def test_who_has_what(start_box):
    b = start_box(prepare=script)
    assert b.sh("true")["exit_code"] == 0
    roles = {p.role: p for p in b.procs() if p.cmdline and p.state != "Z"}
    for role, uid, held in ((None, OWN, FIVE), ("broker", OWN, FIVE), ("registry", 64996, 0),
                            ("front", 64998, 0), ("cell", names.UID_MIN, 0)):
        status = roles[role].status()
        assert status["Uid"].split() == [str(uid)] * 4 and status["Gid"].split() == [str(uid)] * 4, (role, status)
        assert caps(roles[role]) == held, (role, status)
        assert int(status["CapInh"], 16) == held and status["NoNewPrivs"] == "1", (role, status)
    on = b.log()
    for layer in ("uid", "view", "pid-ns", "ipc-ns", "front-root", "seccomp", "landlock", "signal-scope"):
        assert f"layer {layer}: on" in on, on
    assert "user namespace" not in on
    r = b.sh("id -u; grep -E '^Cap' /proc/self/status | tr -d '\\n'; kill -9 -1; echo still here")
    assert r["stdout"].startswith(f"{names.UID_MIN}\nCapInh:\t0000000000000000CapPrm:\t0000000000000000"), r
    assert b.request("GET", "/ready").status == 200


def test_an_id_is_ended_and_nobody_else(start_box):
    """kill(-1) of one who kept KILL would reach everybody."""
    b = start_box(prepare=script)
    for who in ("one", "two"):
        b.sh("echo x > f; (setsid sleep 1000 &)", (who,))
    before = {p.pid for p in b.procs() if p.role in ("broker", "front", "registry")} | {b.main.pid}
    assert b.call("DELETE", "/v1/workspace", who=("one",)).status == 204
    assert not b.workspace("one").exists() and b.workspace("two").exists()
    assert b.sh("cat f", ("two",))["stdout"] == "x\n"
    assert before <= {p.pid for p in b.procs()}
    # A broker that died leaves ids to be ended by the next, by kill(-1) alone.
    main = b.main.pid
    os.kill(next(p for p in b.procs() if p.role == "broker").pid, 9)

    def serves():
        try:
            a = b.exec("cat f", ("two",))
        except Closed:  # the front went with its broker
            return False
        return a.status == 200 and a.json["stdout"] == "x\n"
    procs.wait_for("another broker serves", serves)
    assert b.main.pid == main


def test_what_root_left_is_taken(start_box):
    b = start_box()
    b.sh("echo kept > f", ("one",))
    b.end()
    script(b)
    b.again()
    assert b.sh("cat f; stat -c %u .", ("one",))["stdout"] == f"kept\n{names.UID_MIN}\n"
    assert b.sh("echo new", ("two",))["stdout"] == "new\n"
    assert (b.root / "workspaces").stat().st_uid == OWN and (b.root / "state").stat().st_uid == 64996


def test_back_to_root(start_box):
    """As docs/deployment.md has it: one folder changes hands."""
    b = start_box(prepare=script)
    b.sh("echo kept > f", ("one",))
    b.end()
    b.source = names.BIN
    assert b.again(up=False).wait_exit()["status"] == 2
    assert b.log().splitlines()[-1] == f"sallyport: RUNBOX_ROOT: {b.root}/workspaces belongs to a user that it shouldn't."
    os.chown(b.root / "workspaces", 0, 0)
    b.again()
    assert b.sh("cat f; stat -c %u .", ("one",))["stdout"] == f"kept\n{names.UID_MIN}\n"
    assert (b.root / "workspaces").stat().st_uid == 0 and (b.root / "state/registry.db").stat().st_uid == 64996


def test_back_to_fewer_ids(start_box):
    """Not while a workspace has one of the others."""
    b = start_box()
    b.sh("true", ("one",))
    b.end()
    b.env["RUNBOX_UID_MIN"] = str(names.UID_MIN + 10)
    assert b.again(up=False).wait_exit()["status"] == 2, "systemd doesn't try again"
    assert "there are workspaces of user ids outside RUNBOX_UID_MIN to RUNBOX_UID_MAX" in b.log()
    b.env["RUNBOX_UID_MIN"] = str(names.UID_MIN)
    b.again()
    assert b.call("DELETE", "/v1/workspace", who=("one",)).status == 204
    b.end()
    b.env["RUNBOX_UID_MIN"] = str(names.UID_MIN + 10)
    b.again()
    assert b.sh("id -u", ("one",))["stdout"] == f"{names.UID_MIN + 10}\n"


def test_an_earlier_start_is_ended(start_box):
    """What it left in the pool: ended by kill(-1) at the start."""
    b = start_box(prepare=script)
    b.sh("true", ("one",))
    b.end()
    text = b.source.read_text()
    b.source.write_text(text.replace("exec ", f"setpriv --reuid={names.UID_MIN} --clear-groups sleep 5151 &\nsleep 0.2\nexec "))
    b.again()
    assert "ending 1 processes" in b.log()
    assert not [p for p in b.procs() if "5151" in p.cmdline and p.state != "Z"]
    assert b.sh("echo x", ("one",))["stdout"] == "x\n"


@pytest.mark.parametrize("without", ["setuid", "kill", "chown"])
def test_not_without(start_box, without):
    b = start_box(up=False, prepare=lambda d: script(d, [c for c in CAPS if c != without]))
    assert b.wait_exit()["status"] == 2
    said = "must be started as root, or with" if without == "setuid" else f"needs the capability {without.upper()}."
    assert said in b.log()


@pytest.mark.parametrize("whose, says", [("registry", "SALLYPORT_REGISTRY_USER must be"),
                                         ("front", "SALLYPORT_FRONT_USER must be"), ("pool", "holds our own uid")])
def test_not_as_somebody_else(start_box, whose, says):
    uid = {"registry": 64996, "front": 64998, "pool": names.UID_MIN + 5}[whose]
    b = start_box(up=False, prepare=lambda d: script(d, uid=uid))
    assert b.wait_exit()["status"] == 2 and says in b.log()
