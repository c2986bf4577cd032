"""POST /execute as events: consumers that stop, are slow or leave; shutdown; lost processes."""
import os
import socket

import pytest

from harness import names, procs
from harness.events import Stream
from harness.http import Closed

FLOOD = "n=0; while :; do head -c 65536 /dev/zero; n=$((n+1)); echo $n > w; mv w wrote; done"


def open_stream(d, command, **members):
    return Stream(d.conn()).open(command, **members)


def blocked_in_a_write(d):
    """The flood's writer sleeps in the kernel, and wrote nothing between two looks."""
    def look():
        heads = [p for p in d.strangers() if p.cmdline and p.cmdline[0] == "head"]
        if len(heads) != 1 or heads[0].state != "S":
            return None
        return heads[0].pid, (d.ws / "wrote").read_bytes()
    seen = []

    def twice():
        seen.append(look())
        return len(seen) > 5 and seen[-1] is not None and len(set(seen[-5:])) == 1
    procs.wait_for("the writer is stopped", twice, 30.0, 0.1)


def test_a_reader_that_stops_stops_the_writer(start):
    d = start()
    s = open_stream(d, FLOOD)
    blocked_in_a_write(d)
    # the daemon goes on, and holds next to nothing
    assert d.request("GET", "/healthz").status == 200
    assert d.put("f", b"x").status == 201
    status = d.role("front").status()
    rss = int(status.get("VmHWM", status["VmRSS"]).split()[0])  # gVisor keeps no high-water mark
    assert rss < (64 << 10 if "ASAN_OPTIONS" in os.environ else 16 << 10), rss
    # and so does the command, once it is read again: 48 MiB, as each NUL is six bytes of JSON, which is more than the
    # front and the sockets can have held
    before = int(procs.wait_for("a count", (d.ws / "wrote").read_text))
    n = 0
    while n < 8 << 20:
        name, data = s.next()
        n += len(data.get("text", ""))
    assert int(procs.wait_for("a count", (d.ws / "wrote").read_text)) > before
    s.conn.close()
    d.wait_no_strangers()


def test_stalled_for_too_long_is_gone(start):
    d = start(env={names.STALL_TIMEOUT: "1s"})
    s = open_stream(d, FLOOD)
    d.wait_no_strangers()
    d.wait_idle()
    with pytest.raises(Closed):
        for _ in s:
            pass
    s.conn.close()


def test_slow_is_not_stalled(start):
    """Reads far less than the socket holds in each stall period, for many of them."""
    d = start(env={names.STALL_TIMEOUT: "1s"})
    s = open_stream(d, FLOOD)
    blocked = procs.wait_for("the flood", lambda: d.strangers())
    assert blocked
    for _ in range(50):
        s.conn.sock.recv(200000)
        procs.wait_for("a moment", lambda state=[0]: state.append(0) or len(state) > 3, 5, 0.05)
    assert d.strangers()
    s.conn.close()
    d.wait_no_strangers()


def test_a_silent_command_is_no_stall(start):
    d = start(env={names.STALL_TIMEOUT: "300ms"})
    s = open_stream(d, "sleep 1.5; echo x")
    assert s.all()[0] == "x\n"
    s.conn.close()


def test_the_timeout_runs_while_the_reader_does_not(start):
    d = start()
    s = open_stream(d, FLOOD, timeout=1)
    d.wait_no_strangers()
    d.wait_idle()
    for name, data in s:
        last = name, data
    assert last[0] == "exit" and last[1]["timed_out"] and last[1]["exit_code"] == 124
    s.conn.close()


def test_a_fast_command_and_a_late_reader_lose_nothing(start):
    """The command is over, the seat free, and what the pipes held still comes."""
    d = start()
    s = open_stream(d, "head -c 150000 /dev/zero | tr '\\0' x; head -c 150000 /dev/zero | tr '\\0' y >&2")
    d.wait_idle()
    out, err, end = s.all()
    assert (out, err, end["exit_code"]) == ("x" * 150000, "y" * 150000, 0)
    s.conn.close()


HANG_UPS = {"close": lambda c: c.close(), "reset": lambda c: c.reset(),
            "half close": lambda c: c.sock.shutdown(socket.SHUT_WR)}


@pytest.mark.parametrize("how", HANG_UPS)
@pytest.mark.parametrize("command", ["sleep 900", "yes", "trap '' TERM HUP INT PIPE; while :; do sleep 1; done",
                                     "while :; do echo x; sleep 0.01; done", "setsid sleep 900 & sleep 901"])
def test_leaving_kills_the_command(seat, how, command):
    s = Stream(seat.conn()).open(command)
    assert s.next() == ("start", {})
    HANG_UPS[how](s.conn)
    seat.wait_no_strangers()
    seat.wait_idle()
    s.conn.close()


def test_leaving_with_the_input_full(seat):
    """Nothing more is read from this client: that it left must be seen all the same."""
    s = Stream(seat.conn()).open("sleep 900")
    assert s.next() == ("start", {})
    s.conn.sock.settimeout(1)
    try:
        while True:
            s.conn.send(b"GET /healthz HTTP/1.1\r\nHost: t\r\n\r\n" * 1000)
    except TimeoutError:
        pass
    s.conn.reset()  # an orderly close would queue behind what is not read
    seat.wait_no_strangers()
    seat.wait_idle()


def test_a_stalled_reader_that_leaves(seat):
    s = Stream(seat.conn()).open("yes")
    procs.wait_for("the flood is stopped", lambda: any(
        p.cmdline and p.cmdline[0] == "yes" and p.state == "S" for p in seat.strangers()))
    s.conn.reset()
    seat.wait_no_strangers()
    seat.wait_idle()


# ---- the end of the daemon and of its parts ----

def begin_drain(d):
    with d.conn() as c:
        assert c.request("GET", "/healthz").status == 200
        d.signal()
        assert c.closed()


def ended(d):
    report = d.wait_exit()
    assert report and report["status"] == 0 and report["left"] == [], f"{report}\n{d.tail()}"


def test_a_stream_in_hand_is_finished(start):
    d = start(env={names.SHUTDOWN_TIMEOUT: "60s"})
    s = open_stream(d, "echo one; while [ ! -e go ]; do sleep 0.02; done; echo two")
    assert s.next() == ("start", {}) and s.next() == ("stdout", {"text": "one\n"})
    begin_drain(d)
    (d.ws / "go").touch()
    assert s.next() == ("stdout", {"text": "two\n"})
    assert s.next()[0] == "exit" and s.next() is None and s.conn.closed()
    ended(d)
    s.conn.close()


def test_a_stream_that_does_not_end_is_ended(start):
    """As a plain answer is: by an exit or an error event, and a proper end."""
    d = start(env={names.SHUTDOWN_TIMEOUT: "500ms"})
    s = open_stream(d, "echo one; trap '' TERM HUP; sleep 1000 & sleep 1001")
    d.signal()
    events = list(s)
    assert events[1] == ("stdout", {"text": "one\n"})
    name, data = events[-1]
    assert (name == "exit" and data["exit_code"] != 0) or (name == "error" and data["code"] == "draining")
    ended(d)
    s.conn.close()


def test_a_stalled_stream_does_not_hold_the_end(start):
    d = start(env={names.SHUTDOWN_TIMEOUT: "500ms"})
    s = open_stream(d, FLOOD)
    procs.wait_for("the flood", lambda: (d.ws / "wrote").exists())
    d.signal()
    ended(d)
    s.conn.close()


@pytest.mark.parametrize("role", ["cell", "broker"])
def test_a_lost_process_is_an_error_event(start, role):
    d = start()
    s = open_stream(d, "echo one; sleep 900")
    assert s.next() == ("start", {}) and s.next() == ("stdout", {"text": "one\n"})
    d.kill(d.role(role))
    name, data = s.next()
    assert name == "error" and set(data) == {"error", "code"} and data["code"] == "cell_lost"
    assert s.next() is None
    s.conn.close()
    d.wait_no_strangers()
    d.wait_idle()


def test_a_lost_front_closes_without_an_end(start):
    """So that a reader can tell it from a stream that is whole."""
    d = start()
    s = open_stream(d, "echo one; sleep 900")
    assert s.next() == ("start", {}) and s.next() == ("stdout", {"text": "one\n"})
    d.kill(d.role("front"))
    with pytest.raises(Closed):
        s.next()
    s.conn.close()
    d.wait_no_strangers()
    d.wait_idle()


def test_many_streams_leave_nothing_open(seat):
    front = seat.role("front")

    def files():
        return len(front.fds())
    seat.wait_idle()
    with seat.conn() as c:
        s = Stream(c).open("echo x")
        s.all()
        before = files()
        for n in range(50):
            assert s.open(f"echo {n}; echo e >&2").all()[:2] == (f"{n}\n", "e\n")
        assert files() == before
    for n in range(20):
        s = Stream(seat.conn()).open("yes")
        s.next()
        s.conn.close()
        seat.wait_idle()
    procs.wait_for("the pipes are closed", lambda: files() <= before)
