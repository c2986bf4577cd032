"""Cells come and go, calls wait their turn, workspaces end; and nothing of it is left behind."""
import fcntl
import json
import os
import pathlib
import shutil
import signal
import sqlite3

import pytest

from harness import names, procs
from harness.box import KEY, KINDS, UID_MIN, canonical, identity, unnamed
from harness.http import Closed


def cells(b):
    return [p for p in b.procs() if p.role == "cell" and p.state != "Z"]


def test_an_idle_cell_ends_and_comes_back(start_box):
    b = start_box(env={"RUNBOX_CELL_IDLE": "300ms"})
    b.sh("echo kept > f")
    procs.wait_for("the cell ended", lambda: not cells(b))
    assert b.sh("cat f")["stdout"] == "kept\n"
    for _ in range(20):  # while it may be ending, too
        assert b.sh("cat f")["stdout"] == "kept\n"
        procs.wait_for("about its end", lambda: not cells(b), step=0.05)
    assert len(b.table()) == 1


def test_calls_of_one_wait_in_order(box, who):
    first = box.send_exec("touch up; while [ ! -e go ]; do sleep 0.01; done; echo 0 >> log", who)
    procs.wait_for("it runs", (box.workspace(*who) / "up").exists)
    waiting = []
    for i in range(1, 9):
        waiting.append(box.send_exec(f"echo {i} >> log", who))
        assert box.call("GET", "/v1/usage", who=who).status == 200  # it was queued by now
    a = box.exec("true", who)
    assert (a.status, a.code, a.get("retry-after")) == (409, "busy", "1")
    waiting.pop(3).close()  # who left isn't served
    box.call("GET", "/v1/usage", who=who)
    box.upload("go", b"", who)
    for c in (first, *waiting):
        assert c.answer().status == 200
        c.close()
    assert box.sh("cat log", who)["stdout"].split() == list("01235678")


def test_no_more_than_so_many_at_once(start_box):
    b = start_box(env={"RUNBOX_MAX_CONCURRENCY": "2"})
    held = [b.send_exec("touch up; sleep 1000", (f"c{i}",)) for i in range(2)]
    for i in range(2):
        procs.wait_for("it runs", (b.workspace(f"c{i}") / "up").exists)
    a = b.exec("true", ("c9",))
    assert (a.status, a.code, a.get("retry-after")) == (409, "busy", "1")
    assert b.upload("f", b"x", ("c9",)).status == 201  # files don't wait
    assert b.request("GET", "/ready").status == 200  # full is not failing
    held[0].close()
    procs.wait_for("a place is free", lambda: b.exec("true", ("c9",)).status == 200)
    held[1].close()


def test_more_identities_than_may_have_a_process(start_box):
    """Idle ones make room in advance, so that nobody who comes is refused."""
    b = start_box()
    for i in range(140):
        a = b.exec("echo $((1 + 1))", who=(f"i{i}",))
        assert a.status == 200 and a.json["stdout"] == "2\n", (i, a.status, a.body)
    procs.wait_for("room for eight", lambda: len(cells(b)) <= 120)
    assert len(b.table()) == 140


def test_stopping(start_box):
    """A running command may finish; asked again, it is killed; who waits is told."""
    b = start_box(env={"RUNBOX_SHUTDOWN_TIMEOUT": "60s"})
    c = b.send_exec("touch up; while [ ! -e go ]; do sleep 0.01; done; echo done")
    procs.wait_for("it runs", (b.workspace("alice") / "up").exists)
    b.signal()
    procs.wait_for("it stops", lambda: "stopping" in b.log())
    (b.workspace("alice") / "go").touch()
    assert c.answer().json["stdout"] == "done\n"
    assert b.wait_exit() == {"status": 0, "left": [], "orphans": 0}
    b.again()
    c = b.send_exec("touch up2; sleep 1000")
    procs.wait_for("it runs", (b.workspace("alice") / "up2").exists)
    b.signal()
    procs.wait_for("it stops", lambda: "stopping" in b.log())
    b.signal()
    a = c.answer()
    assert a.status == 200 and a.json["signal"] == "SIGKILL"
    assert b.wait_exit() == {"status": 0, "left": [], "orphans": 0}


def test_who_leaves_is_killed(box, who):
    c = box.send_exec("touch up; sleep 4242", who)
    procs.wait_for("it runs", (box.workspace(*who) / "up").exists)
    c.close()
    box.sh("true", who)
    assert not [p for p in box.procs() if "4242" in p.cmdline]


# ---- removal ----

def test_removal(box, who):
    box.sh("mkdir -p a/b; echo x > a/b/c; ln -s / root; mkfifo p; chmod 0 a", who)
    uid = int(box.sh("id -u; ", who)["stdout"])
    assert box.table()[uid] == (canonical(*who), 0)
    assert box.call("DELETE", "/v1/workspace", who=who).status == 204
    assert not box.workspace(*who).exists()
    assert box.table()[uid] == (None, 2)
    a = box.call("DELETE", "/v1/workspace", who=who)
    assert (a.status, a.code) == (404, "not_found")
    assert box.sh("ls -A; id -u", who)["stdout"].split() != [str(uid)]  # a new one, empty
    assert box.sh("ls -A", who)["stdout"] == ""


@pytest.mark.parametrize("mode", ["0", "500", "600"])
def test_a_home_that_was_shut(start_box, mode):
    """By the identity's own command: it can be used again, and removed."""
    b = start_box(env={"RUNBOX_CELL_IDLE": "100ms"})
    b.sh(f"echo kept > f; chmod {mode} .")
    assert b.call("DELETE", "/v1/workspace").status == 204  # the cell that has it ends first
    b.sh(f"echo kept > f; chmod {mode} .")
    procs.wait_for("the cell ended", lambda: not cells(b))
    assert b.sh("cat f; echo more > g; ls")["stdout"] == "kept\nf\ng\n"
    b.sh(f"chmod {mode} .")
    procs.wait_for("the cell ended", lambda: not cells(b))
    assert b.call("DELETE", "/v1/workspace").status == 204


def test_removal_while_in_use(box, who):
    c = box.send_exec("touch up; sleep 1000", who)
    procs.wait_for("it runs", (box.workspace(*who) / "up").exists)
    a = box.call("DELETE", "/v1/workspace", who=who)
    assert (a.status, a.code, a.get("retry-after")) == (409, "busy", "1")
    c.close()
    procs.wait_for("it is free", lambda: box.call("DELETE", "/v1/workspace",
                                                  who=who).status == 204)


@pytest.mark.parametrize("kind", KINDS)
def test_a_given_again_id_finds_nothing(start_box, kind):
    """A pool of one: the second identity gets it once the first is gone and the rest is over."""
    plan = KINDS[kind]
    b = start_box(**{**plan, "env": {**plan.get("env", {}), "RUNBOX_UID_MAX": str(UID_MIN)}})
    b.sh("echo secret > f; echo secret > /tmp/left; echo secret > /dev/shm/left; ipcmk -M 4096;"
         "ipcmk -Q; ipcmk -S 2; (setsid sleep 4243 &)", ("first",))
    a = b.exec("true", ("second",))
    assert (a.status, a.code) == (503, "overloaded")
    assert b.call("DELETE", "/v1/workspace", who=("first",)).status == 204
    assert b.exec("true", ("second",)).code == "overloaded"  # it rests
    b.end()
    db = sqlite3.connect(b.root / "state" / "registry.db")
    with db:
        assert db.execute("UPDATE workspace SET used = 0").rowcount == 1
    db.close()
    b.again()
    r = b.sh("ls -A; find /tmp /var/tmp /dev/shm -mindepth 1 -user $(id -u); pgrep -u $(id -u) sleep; id -u",
             ("second",))
    assert r["stdout"].split() == [str(UID_MIN)]
    assert "secret" not in b.sh("ipcs -m -q -s | grep $(id -u); cat f /tmp/left", ("second",))["stdout"]
    assert b.table() == {UID_MIN: (canonical("second"), 0)}


def test_retention(start_box):
    b = start_box(env={"RUNBOX_RETENTION": "2s", "RUNBOX_SWEEP_INTERVAL": "200ms",
                       "RUNBOX_CELL_IDLE": "100ms"})
    b.sh("echo x > f", ("old",))
    c = b.send_exec("touch up; sleep 6; cat f; echo alive", ("busy",))
    procs.wait_for("the old one goes", lambda: not b.workspace("old").exists())
    assert b.workspace("busy").exists()
    a = c.answer().json  # in use all the time: never swept
    assert a["stdout"] == "alive\n"
    procs.wait_for("the other goes", lambda: not b.workspace("busy").exists())
    procs.wait_for("both ids rest", lambda: {state for _, state in b.table().values()} == {2})


def test_a_workspace_that_cannot_be_emptied(start_box):
    """Something of root's is in it: it is tried again now and then, and holds up no other."""
    b = start_box(env={"RUNBOX_RETENTION": "3s", "RUNBOX_SWEEP_INTERVAL": "500ms",
                       "RUNBOX_CELL_IDLE": "100ms"})
    b.sh("echo x > f", ("stuck",))
    (b.workspace("stuck") / "d").mkdir()
    (b.workspace("stuck") / "d" / "f").touch()
    a = b.call("DELETE", "/v1/workspace", who=("stuck",))
    assert (a.status, a.code) == (500, "internal")
    assert b.exec("true", ("stuck",)).code == "busy"
    for i in range(3):
        b.sh("true", (f"other{i}",))
    procs.wait_for("the others go", lambda: not any(b.workspace(f"other{i}").exists()
                                                    for i in range(3)))
    assert b.log().count("isn't empty yet") < 40  # not again and again without a pause
    (b.workspace("stuck") / "d" / "f").unlink()
    (b.workspace("stuck") / "d").rmdir()
    procs.wait_for("it goes, too", lambda: not b.workspace("stuck").exists())
    procs.wait_for("it may be used again", lambda: b.exec("true", ("stuck",)).status == 200)


# ---- ends of all kinds ----

@pytest.mark.parametrize("kind", ["root", "pid1"])
def test_signals_while_it_starts(start_box, kind):
    """A first process has no default to end by: one that didn't care would be killed in the end, or start after all.
    Here it waits for the lock on its folder. A reload that comes so early is none of an end."""
    held = []

    def prepare(d):
        folder = d.root / "workspaces"
        folder.mkdir(parents=True)
        for path in (d.root, folder):
            path.chmod(0o711)
        held.append(os.open(folder, os.O_RDONLY))
        fcntl.flock(held[0], fcntl.LOCK_EX)
    b = start_box(up=False, prepare=prepare, **KINDS[kind])

    def has_folder():
        main = pathlib.Path(f"/proc/{b.main.pid}/fd")
        return str(b.root / "workspaces") in [os.readlink(fd) for fd in main.iterdir()]
    try:
        procs.wait_for("it waits for the lock", has_folder)
        b.signal(signal.SIGHUP)
        b.signal()
        assert b.wait_exit()["status"] == 0, b.log()
    finally:
        os.close(held[0])
    assert b.log() == ""


@pytest.mark.parametrize("role", ["registry", "front", "broker", "cell"])
def test_a_role_is_killed(start_box, role):
    b = start_box()
    b.sh("echo kept > f")
    b.sh("echo kept > f", ("other",))
    victim = b.role(role).pid
    os.kill(victim, signal.SIGKILL)

    def back():
        try:
            return b.exec("cat f").status == 200 and b.exec("cat f", ("fresh",)).status == 200
        except (OSError, Closed):
            return False
    procs.wait_for("it is back", back)
    assert b.sh("cat f")["stdout"] == "kept\n"
    assert b.sh("cat f", ("other",))["stdout"] == "kept\n"
    ids = [b.sh("id -u", w)["stdout"] for w in (("alice",), ("other",), ("fresh",))]
    assert len(set(ids)) == 3
    b.wait_no_strangers()


def test_the_registry_fails_when_all_are_started_anew(start_box):
    """It is replaced by itself then; the front of that start must not wait for a word for ever."""
    b = start_box()
    b.sh("echo kept > f")
    table = b.root / "state" / "registry.db"
    files = [p for p in table.parent.iterdir() if p.name.startswith(table.name)]
    for p in files:
        p.rename(b.base / p.name)
    table.mkdir()
    os.kill(b.role("broker").pid, signal.SIGKILL)
    procs.wait_for("it can't start", lambda: "the registry ended with status" in b.log())
    table.rmdir()
    for p in files:
        (b.base / p.name).rename(p)
    procs.wait_for("there is one", lambda: "a new registry is up" in b.log())
    with b.conn() as c:
        assert c.request("GET", "/healthz").status == 200
    assert b.sh("cat f")["stdout"] == "kept\n"
    assert b.exec("true", ("fresh",)).status == 200


def mixed(b, i):
    """One call of some kind, whose answer may never be read."""
    who = (f"m{i % 12}",)
    body = json.dumps({"command": f"echo {i} >> log; (setsid sleep 50 &); sleep 0.0{i % 7}"}).encode()
    c = b.conn()
    head = [f"Authorization: Bearer {KEY}", *(f"{k}: {v}" for k, v in identity(*who)), "Host: t"]
    if i % 3 == 0:
        line, body = f"POST /v1/files?path=d/f{i} HTTP/1.1", b"x" * 50000
        head.append("Content-Length: 60000")  # never whole
    else:
        line = "POST /v1/exec HTTP/1.1"
        head.append(f"Content-Length: {len(body)}")
    c.send_lenient("\r\n".join([line, *head]).encode() + b"\r\n\r\n" + body)
    return c


def test_killed_whole_and_started_again(start_box):
    """kill -9 of every process of the daemon at some instant, several times, on one root folder."""
    b = start_box()
    for turn in range(4):
        conns = [mixed(b, i) for i in range(40)]
        for c in conns[:turn * 10]:
            c.close()
        b.call("DELETE", "/v1/workspace", who=(f"m{turn}",))
        b.kill_everything()
        for c in conns:
            c.close()
        assert b.integrity() == ["ok"]
        table = b.table()
        keys = [k for k, _ in table.values() if k]
        assert len(keys) == len(set(keys))
        for name in os.listdir(b.root / "workspaces"):
            owner = (b.root / "workspaces" / name).stat().st_uid
            # The second: of an id that might have been given when the registry was killed, and is cleared away.
            assert owner == 0 or name == unnamed(owner) or table[owner][0] == name, "a folder of an id that isn't its own"
        b.again()
    procs.wait_for("what was being removed is gone",
                   lambda: all(state != 1 for _, state in b.table().values()))
    for i in range(12):
        assert b.exec("cat log | wc -l; ls -A d", (f"m{i}",)).status in (200, 409)
    b.wait_no_strangers()
    assert [p for p in (b.root / "workspaces").rglob(".sallyport-put-*")] == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_that_a_loss_of_power_took(start_box, kind):
    """What the disk has of an identity then is its folder, and that its user id is held for nobody. The id is cleared
    of all it has before it may be another's; the identity begins anew."""
    b = start_box(**KINDS[kind])
    b.sh("echo secret > f; echo secret > /tmp/left; mkdir -m 0 d", ("lost",))
    uid = int(b.sh("id -u", ("lost",))["stdout"])
    b.sh("echo kept > f", ("other",))
    b.kill_everything()
    db = sqlite3.connect(b.root / "state" / "registry.db")
    with db:
        assert db.execute("UPDATE workspace SET key = ?, state = 1 WHERE uid = ?",
                          (bytes.fromhex(unnamed(uid)), uid)).rowcount == 1
    db.close()
    b.again()
    procs.wait_for("the id rests", lambda: b.table().get(uid) == (None, 2))
    assert not (b.root / "workspaces" / unnamed(uid)).exists()
    r = b.sh("ls -A; id -u; cat f /tmp/left", ("lost",))
    assert r["stdout"].split() != [str(uid)] and len(r["stdout"].split()) == 1 and "secret" not in r["stdout"]
    assert b.sh("cat f", ("other",))["stdout"] == "kept\n"
    owners = [p.stat().st_uid for p in (b.root / "workspaces").iterdir()]
    assert uid not in owners and len(owners) == len(set(owners))


def test_ids_that_were_held_are_free_again(start_box):
    """An orderly end leaves none; after any other, those that nobody had are cleared away, and serve again later."""
    b = start_box()  # the next sweep is ten minutes away
    rows = lambda: sqlite3.connect(b.root / "state" / "registry.db").execute("SELECT count(*) FROM workspace").fetchone()[0]
    b.sh("true")
    procs.wait_for("some are held", lambda: rows() > 1)
    b.end()
    assert rows() == 1
    b.again()
    procs.wait_for("some are held", lambda: rows() > 1)
    os.kill(b.role("registry").pid, signal.SIGKILL)
    procs.wait_for("they rest", lambda: sum(state == 2 for _, state in b.table().values()) == 8)
    assert len({b.sh("id -u", (f"n{i}",))["stdout"] for i in range(12)}) == 12
    b.wait_no_strangers()


@pytest.mark.parametrize("stranger", [False, True])
def test_what_an_earlier_daemon_left(start_box, stranger):
    """A process under the owner of a workspace is ended at the start; one under another id of the pool
    is somebody's, and the start is refused."""
    b = start_box()
    b.sh("true")
    b.end()
    uid = UID_MIN + 500 if stranger else UID_MIN
    script, real = b.base / "start.sh", b.base / "real"
    shutil.copy(names.BIN, real)
    script.write_text(f"#!/bin/sh\nsetpriv --reuid={uid} --clear-groups sleep 5151 &\nsleep 0.2\n"
                      f'exec {real} "$@"\n')
    script.chmod(0o755)
    b.source = script
    b.again(up=not stranger)
    if stranger:
        assert b.wait_exit()["status"] == 2
        assert "RUNBOX_UID_MIN" in b.log() and str(uid) in b.log()
        return
    assert "an earlier start left" in b.log()
    assert not [p for p in b.procs() if "5151" in p.cmdline and p.state != "Z"]
    assert b.sh("echo ok")["stdout"] == "ok\n"
