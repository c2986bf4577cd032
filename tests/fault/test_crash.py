"""kill -9 of each role in the middle of work: the service comes back, and nothing is left over."""
import os
import signal

import pytest

from harness import names, procs
from harness.http import Closed

ROLES = ("front", "broker", "cell")


def kill(d, role):
    p = d.role(role)
    os.kill(p.pid, signal.SIGKILL)
    procs.wait_for(f"{role} is gone", lambda: (q := procs.read(p.pid)) is None or q.state in "ZX")
    return p.pid


def outcome(c):
    """(status, code) of the answer, or None for a close without a whole answer."""
    try:
        a = c.answer()
    except Closed:
        return None
    return a.status, (a.code if a.status >= 400 else None)


def check_sound(d):
    """Answers again: commands, files, no stale 409, no stray process."""
    d.wait_idle()
    assert d.run("echo ok")["stdout"] == "ok\n"
    assert d.put("after", b"x").status in (200, 201)
    assert d.get("after").body == b"x"
    d.wait_no_strangers()
    procs.wait_for("one of each role", lambda: sorted(
        p.role for p in d.procs() if p.role and p.state != "Z") == ["broker", "cell", "front"])


SEEN = {"front": {None}, "broker": {None, (503, "cell_lost"), (503, "overloaded"), (503, "draining")},
        "cell": {(503, "cell_lost")}}


@pytest.mark.parametrize("plan", list(names.PLANS))
@pytest.mark.parametrize("role", ROLES)
def test_during_a_command(start, role, plan):
    d = start(plan=plan)
    c = d.send_command("touch up; (setsid sleep 1000 &) ; trap '' TERM HUP; sleep 1001; sleep 1002")
    d.wait_file("up")
    kill(d, role)
    seen = outcome(c)
    assert seen in SEEN[role], seen
    c.close()
    check_sound(d)
    if role != "front":  # healthz never depended on it
        assert d.request("GET", "/healthz").status == 200


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("existing", [False, True])
def test_during_an_upload(start, role, existing):
    d = start()
    if existing:
        assert d.put("f", b"old").status == 201
    c = d.conn()
    c.send(b"PUT /files/f HTTP/1.1\r\nHost: t\r\nContent-Length: 100000\r\nExpect: 100-continue\r\n\r\n")
    assert (c.line(), c.line()) == (b"HTTP/1.1 100 Continue", b"")
    c.send(b"x" * 50000)
    kill(d, role)
    c.send_lenient(b"x" * 50000)
    seen = outcome(c)
    assert seen is None or seen[0] == 503, seen
    c.close()
    check_sound(d)
    assert sorted(os.listdir(d.ws)) == ["after"] + (["f"] if existing else [])
    if existing:
        assert d.get("f").body == b"old"


@pytest.mark.parametrize("role", ROLES)
def test_during_a_download(start, role):
    """What the front already holds it can go on with, or close: never wrong bytes."""
    d = start()
    with open(d.ws / "f", "wb") as f:
        f.truncate(128 << 20)
    c = d.conn()
    c.send(b"GET /files/f HTTP/1.1\r\nHost: t\r\n\r\n")
    c.fill()
    kill(d, role)
    try:
        assert c.answer().body == b"\0" * (128 << 20)
        assert role != "front"
    except Closed:
        pass
    c.close()
    (d.ws / "f").unlink()
    check_sound(d)


@pytest.mark.parametrize("role", ROLES)
def test_idle(start, role):
    d = start()
    d.run(":")
    kill(d, role)
    check_sound(d)


@pytest.mark.parametrize("role", ("broker", "cell"))
def test_connections_survive(start, role):
    """An idle client doesn't notice that something behind the front was replaced."""
    d = start()
    with d.conn() as c:
        assert c.request("GET", "/healthz").status == 200
        kill(d, role)
        d.wait_idle()
        try:
            assert c.request("GET", "/healthz").status == 200
        except (Closed, BrokenPipeError):
            assert role == "broker"


def test_twenty_in_a_row(start):
    d = start()
    for n in range(20):
        kill(d, ROLES[n % 3])
        d.wait_idle()
    check_sound(d)


def test_all_three_at_once(start):
    d = start()
    c = d.send_command("touch up; sleep 1000")
    d.wait_file("up")
    for role in ROLES:
        p = next((p for p in d.procs() if p.role == role), None)
        if p:
            os.kill(p.pid, signal.SIGKILL)
    outcome(c)
    c.close()
    check_sound(d)


def test_the_cell_is_killed_by_memory_or_hand_while_many_wait(start):
    """Uploads and downloads of many clients end or go on; each gets one whole answer or a close."""
    d = start()
    conns = []
    for n in range(10):
        c = d.conn()
        c.send(b"PUT /files/u%d HTTP/1.1\r\nHost: t\r\nContent-Length: 10\r\n\r\nhalf" % n)
        conns.append(c)
    assert d.run("echo ok")["stdout"] == "ok\n"
    kill(d, "cell")
    for c in conns:
        c.send_lenient(b"wholes")
        seen = outcome(c)
        assert seen is None or seen[0] in (201, 503), seen
        c.close()
    check_sound(d)
    for name in os.listdir(d.ws):
        assert name == "after" or (d.ws / name).read_bytes() == b"halfwholes", name


@pytest.mark.parametrize("role", ROLES)
def test_stopped_role_and_drain(start, role):
    """A role that hangs doesn't hold the end."""
    d = start(env={names.SHUTDOWN_TIMEOUT: "500ms"})
    d.run(":")
    os.kill(d.role(role).pid, signal.SIGSTOP)
    d.signal()
    report = d.wait_exit()
    assert report is not None and report["left"] == [], report


def test_a_command_cannot_make_the_cell_die(start):
    d = start()
    cell = d.role("cell").pid
    r = d.run("kill -9 $PPID; kill -9 1; kill -9 -1; echo alive")
    assert r["exit_code"] == 137 or "alive" in r["stdout"]
    assert d.role("cell").pid == cell
    check_sound(d)


@pytest.mark.parametrize("plan", list(names.PLANS))
def test_cell_whose_end_and_death_are_seen_at_once(start, plan):
    """A busy broker learns in one turn that the cell's socket is closed and that it is dead."""
    d = start(plan=plan)
    c = d.send_command("touch up; (setsid sleep 1000 &) ; sleep 1001")
    d.wait_file("up")
    broker = d.role("broker").pid
    os.kill(broker, signal.SIGSTOP)
    procs.wait_for("the broker stands", lambda: procs.read(broker).state == "T")
    kill(d, "cell")
    os.kill(broker, signal.SIGCONT)
    assert outcome(c) == (503, "cell_lost")
    c.close()
    check_sound(d)
