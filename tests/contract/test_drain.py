"""Signals: an orderly end with and without work in hand, a second signal, SIGINT, SIGHUP."""
import os
import signal
import socket

import pytest

from harness import names, places
from harness.http import Closed


def drained(d, status=0):
    report = d.wait_exit()
    assert report and report["status"] == status, f"{report}\n{d.tail()}"
    assert report["left"] == [] and report["orphans"] == 0, report


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("plan", places.HERE.plans)
def test_idle(start, number, plan):
    d = start(plan=plan)
    assert d.run("echo ok")["stdout"] == "ok\n"
    d.signal(number)
    drained(d)


def test_idle_connections_are_closed(start):
    d = start(env={names.SHUTDOWN_TIMEOUT: "120s", names.HEAD_TIMEOUT: "120s"})
    idle = [d.conn() for _ in range(20)]
    used = d.conn()
    assert used.request("GET", "/healthz").status == 200
    used.send(b"\r\n")  # as some clients do behind a body
    d.run(":")
    d.signal()
    drained(d)
    for c in idle + [used]:
        assert c.closed()
        c.close()


def test_at_once_after_the_start(start):
    d = start()
    d.signal()
    drained(d)


def begin_drain(d):
    """SIGTERM, and until the front has heard of it: it closes an idle connection then."""
    with d.conn() as c:
        assert c.request("GET", "/healthz").status == 200
        d.signal()
        assert c.closed()


def test_a_command_that_finishes_gets_its_answer(start):
    d = start(env={names.SHUTDOWN_TIMEOUT: "60s"})
    c = d.send_command("echo start; touch up; while [ ! -e go ]; do sleep 0.02; done; echo end")
    d.wait_file("up")
    begin_drain(d)
    (d.ws / "go").touch()
    a = c.answer()
    assert a.status == 200 and a.json["stdout"] == "start\nend\n" and a.json["exit_code"] == 0
    drained(d)
    c.close()


def test_a_command_that_does_not_is_killed_and_answered(start):
    d = start(env={names.SHUTDOWN_TIMEOUT: "500ms"})
    c = d.send_command("echo start; touch up; trap '' TERM HUP; sleep 1000 & sleep 1001; sleep 1002")
    d.wait_file("up")
    d.signal()
    a = c.answer()
    assert a.status in (200, 503), a
    if a.status == 200:
        assert a.json["stdout"] == "start\n" and a.json["exit_code"] != 0
    else:
        assert a.code in ("draining", "cell_lost")
    drained(d)
    c.close()


def test_an_upload_in_hand_is_finished(start):
    d = start(env={names.SHUTDOWN_TIMEOUT: "60s"})
    c = d.conn()
    c.send(b"PUT /files/f HTTP/1.1\r\nHost: t\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n")
    assert (c.line(), c.line()) == (b"HTTP/1.1 100 Continue", b"")
    c.send(b"hello")
    begin_drain(d)
    c.send(b"world")
    assert c.answer().status == 201
    drained(d)
    assert (d.ws / "f").read_bytes() == b"helloworld"
    c.close()


def test_a_download_in_hand_is_finished(start):
    d = start(env={names.SHUTDOWN_TIMEOUT: "60s"})
    with open(d.ws / "f", "wb") as f:
        f.truncate(64 << 20)
    c = d.conn()
    c.send(b"GET /files/f HTTP/1.1\r\nHost: t\r\n\r\n")
    c.fill()
    begin_drain(d)
    assert len(c.answer().body) == 64 << 20
    drained(d)
    c.close()


def test_a_request_behind_does_not_cost_the_answer_in_hand(start):
    """The head was out, and didn't say that the connection would end: the client had sent on."""
    d = start(env={names.SHUTDOWN_TIMEOUT: "60s"})
    with open(d.ws / "f", "wb") as f:
        f.truncate(8 << 20)
    c = d.conn()
    c.send(b"GET /files/f HTTP/1.1\r\nHost: t\r\n\r\nPUT /files/g HTTP/1.1\r\nHost: t\r\nContent-Length: 100000\r\n\r\n" +
           b"y" * 100000)
    c.fill()
    begin_drain(d)
    assert len(c.answer().body) == 8 << 20
    drained(d)
    assert os.listdir(d.ws) == ["f"]
    c.close()


def test_an_upload_that_stops_does_not_hold_the_end(start):
    d = start(env={names.SHUTDOWN_TIMEOUT: "500ms"})
    c = d.conn()
    c.send(b"PUT /files/f HTTP/1.1\r\nHost: t\r\nContent-Length: 10\r\n\r\nhalf")
    d.run(":")
    d.signal()
    drained(d)
    assert os.listdir(d.ws) == []
    c.close()


def test_healthz_while_draining(start):
    """On a connection that was already there."""
    d = start(env={names.SHUTDOWN_TIMEOUT: "60s"})
    busy = d.conn()
    c = d.send_command("touch up; while [ ! -e go ]; do sleep 0.02; done")
    d.wait_file("up")
    busy.send(b"GET /health")  # a request in hand isn't idle
    assert d.request("GET", "/healthz").status == 200
    begin_drain(d)
    try:
        busy.send(b"z HTTP/1.1\r\nHost: t\r\n\r\n")
        a = busy.answer(target="/healthz")
        assert a.status == 503 and a.json == {"status": "draining"}
    except (Closed, BrokenPipeError):
        pass
    (d.ws / "go").touch()
    assert c.answer().status == 200
    drained(d)
    busy.close()
    c.close()


def test_second_signal_ends_at_once(start):
    d = start(env={names.SHUTDOWN_TIMEOUT: "1h"})
    c = d.send_command("touch up; sleep 1000")
    d.wait_file("up")
    begin_drain(d)
    d.signal()
    report = d.wait_exit()
    assert report is not None and report["left"] == [] and report["status"] is not None
    try:
        assert c.answer().status in (200, 503)
    except Closed:
        pass
    c.close()


def test_hang_up_while_draining(start):
    d = start(env={names.SHUTDOWN_TIMEOUT: "1h"})
    c = d.send_command("touch up; sleep 1000")
    d.wait_file("up")
    begin_drain(d)
    c.close()
    drained(d)


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGUSR1, signal.SIGPIPE, signal.SIGCHLD])
def test_other_signals_lose_nothing(start, number):
    """Either ignored or an orderly end."""
    d = start()
    d.signal(number)
    if d.wait_exit(1) is None:
        assert d.run("echo ok")["stdout"] == "ok\n"
    else:
        assert d.exit["left"] == []


def test_the_port_is_free_afterwards(start):
    d = start()
    d.signal()
    drained(d)
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(("127.0.0.1", d.port))


def test_sigkill_of_main_leaves_nothing(start):
    d = start()
    c = d.send_command("touch up; setsid sleep 1000 & sleep 1001")
    d.wait_file("up")
    d.signal(signal.SIGKILL)
    report = d.wait_exit()
    assert report["status"] == -9 and report["left"] == [], report
    try:
        c.answer()
    except Closed:
        pass
    c.close()


def test_stopped_and_continued(start):
    d = start()
    d.signal(signal.SIGSTOP)
    d.signal(signal.SIGCONT)
    assert d.run("echo ok")["stdout"] == "ok\n"
