"""Many connections, the maximum, unix sockets, sockets handed in, other addresses."""
import os
import re
import socket

import pytest

from harness import names, places, procs
from harness.http import Closed, Conn


def test_200_idle_ones(seat):
    idle = [seat.conn() for _ in range(200)]
    for _ in range(20):
        assert seat.request("GET", "/healthz").status == 200
    assert seat.run("echo ok")["stdout"] == "ok\n"
    for c in idle:
        assert c.request("GET", "/healthz").status == 200
    for c in idle:
        c.close()


def test_maximum(start):
    """Over the maximum a client waits, is told, or is closed; it isn't served, and a place that comes
    free is used again."""
    d = start(env={names.MAX_CONNECTIONS: "8"})
    held = [d.conn() for _ in range(8)]
    for n, c in enumerate(held):  # at work: an idle one would be closed to make room
        c.send(b"PUT /files/f%d HTTP/1.1\r\nHost: t\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n" % n)
        assert (c.line(), c.line()) == (b"HTTP/1.1 100 Continue", b"")
    extra = d.conn(timeout=1)
    try:
        extra.send_lenient(b"GET /healthz HTTP/1.1\r\nHost: t\r\n\r\n")
        a = extra.answer()
        assert (a.status, a.code) == (503, "overloaded")
    except (Closed, TimeoutError):
        pass
    for c in held:
        c.send(b"data")
        assert c.answer().status == 201
        c.close()
    extra.close()

    def served():
        try:
            return d.request("GET", "/healthz").status == 200
        except (Closed, OSError):
            return False
    procs.wait_for("places are free again", served)
    assert d.run("echo ok")["stdout"] == "ok\n"


def test_more_connections_than_files(start):
    """The limit of open files bounds connections: each can have its file, and the log stays short."""
    d = start(nofile=256)
    d.put("x", b"hello" * 1000)
    front = d.role("front").pid
    some = [d.conn() for _ in range(300)]
    for c in some:
        c.send(b"GET /files/x HTTP/1.1\r\nHost: t\r\n")
    procs.wait_for("new ones wait", lambda: "new ones wait" in d.log())
    some[0].send(b"\r\n")
    assert some[0].answer().status == 200
    for c in some:
        c.close()
    procs.wait_for("room", lambda: d.request("GET", "/healthz").status == 200)
    assert d.role("front").pid == front
    assert len(d.log()) < 100000


def test_an_idle_one_makes_room(start):
    d = start(env={names.MAX_CONNECTIONS: "8"})
    held = [d.conn() for _ in range(8)]
    for c in held:
        assert c.request("GET", "/healthz").status == 200
    assert d.request("GET", "/healthz").status == 200
    for c in held:
        c.close()


def test_maximum_recovers_many_times(start):
    d = start(env={names.MAX_CONNECTIONS: "4"})
    for _ in range(10):
        held = [d.conn() for _ in range(12)]
        for c in held:
            c.close()
    d.wait_idle()


def unix_path(d):
    return str(d.base / "run" / "s.sock")


def prepare_unix(d):
    (d.base / "run").mkdir()
    os.chown(d.base / "run", names.PLANS[d.plan]["daemon"], names.PLANS[d.plan]["daemon"])
    d.late_env = {names.SOCKET: unix_path(d), names.PORT: None, names.BIND: None}


UNIX_LINE = re.compile(rb"listening on [^\n]*s\.sock")


@pytest.mark.parametrize("plan", places.HERE.plans)
def test_unix_socket(start, plan):
    d = start(up=False, plan=plan, prepare=prepare_unix)
    d.wait_up(UNIX_LINE)
    with Conn(unix_path(d)) as c:
        assert c.request("GET", "/healthz").json == {"status": "ok"}
        a = c.request("POST", "/execute", b'{"command":"echo hi"}')
        assert a.json["stdout"] == "hi\n"
    path = unix_path(d)
    assert os.stat(path).st_mode & 0o007 == 0, oct(os.stat(path).st_mode)
    d.signal()
    assert d.wait_exit()["status"] == 0
    assert not os.path.exists(path)


def test_unix_socket_stale_file(start):
    """A socket nobody listens on is replaced; a file is not."""
    def stale(d):
        prepare_unix(d)
        s = socket.socket(socket.AF_UNIX)
        s.bind(unix_path(d))
        s.close()
        daemon = names.PLANS[d.plan]["daemon"]
        os.chown(unix_path(d), daemon, daemon)
    d = start(up=False, prepare=stale)
    d.wait_up(UNIX_LINE)
    with Conn(unix_path(d)) as c:
        assert c.request("GET", "/healthz").status == 200


def test_unix_socket_is_no_reason_to_remove_a_file(start):
    def file(d):
        prepare_unix(d)
        with open(unix_path(d), "w", encoding="ascii") as f:
            f.write("precious")
    d = start(up=False, prepare=file)
    assert d.wait_exit()["status"] not in (0, None)
    with open(unix_path(d), encoding="ascii") as f:
        assert f.read() == "precious"


def test_front_restarts_share_the_listener(seat):
    port = seat.port
    seat.kill(seat.role("front"))
    seat.wait_idle()
    assert seat.port == port and seat.request("GET", "/healthz").status == 200


def test_one_makes_room_for_one(start):
    """A new connection at the limit costs the longest idle one its place, and no other."""
    d = start(env={names.MAX_CONNECTIONS: "8"})
    idle = [d.conn() for _ in range(8)]
    for c in idle:
        assert c.request("GET", "/healthz").status == 200
    with d.conn() as c:
        assert c.request("GET", "/healthz").status == 200
    assert idle[0].closed()
    for c in idle[1:]:
        assert c.request("GET", "/healthz").status == 200
    for c in idle:
        c.close()
