"""Time limits of a connection, set small: the state that follows is waited for, no clock is read."""
import pytest

from harness import names
from harness.http import Closed

SEAT_ENV = {names.HEAD_TIMEOUT: "300ms", names.IDLE_TIMEOUT: "500ms", names.STALL_TIMEOUT: "400ms"}


def timeout_answer(c, may_close=False):
    try:
        a = c.answer()
    except Closed as e:
        assert may_close and e.data == b"", e
        return
    assert (a.status, a.code) == (408, "timeout") and a.closes
    assert c.closed()


@pytest.mark.parametrize("part", [b"G", b"GET /healthz HTTP/1.1\r\n", b"GET /healthz HTTP/1.1\r\nHost: t\r\nX"])
def test_slow_head(seat, part):
    with seat.conn() as c:
        c.send(part)
        timeout_answer(c)


def test_slow_head_after_a_request(seat):
    with seat.conn() as c:
        assert c.request("GET", "/healthz").status == 200
        c.send(b"GET /heal")
        timeout_answer(c)


def test_a_dripping_head_is_timed_as_a_whole(seat):
    """A byte now and then doesn't stretch it."""
    with seat.conn() as c:
        c.send(b"GET /healthz HTTP/1.1\r\nHost: t\r\nX: ")
        c.sock.settimeout(0.05)
        for _ in range(1000):
            try:
                c.send_lenient(b"y")
                if c.sock.recv(1, 2):  # MSG_PEEK
                    break
                return
            except TimeoutError:
                continue
            except ConnectionResetError:
                return
        else:
            raise AssertionError("never timed out")
        c.sock.settimeout(60)
        timeout_answer(c)


def test_idle_is_closed(seat):
    with seat.conn() as c:
        assert c.closed()
    with seat.conn() as c:
        assert c.request("GET", "/healthz").status == 200
        assert c.closed()


def test_half_sent_upload(seat, box):
    with seat.conn() as c:
        c.send(b"PUT /files/%b/f HTTP/1.1\r\nHost: t\r\nContent-Length: 10\r\n\r\nhalf" % box.encode())
        timeout_answer(c, may_close=True)
    assert not (seat.ws / box / "f").exists()


def test_half_sent_chunked_upload(seat, box):
    with seat.conn() as c:
        c.send(b"PUT /files/%b/f HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel"
               % box.encode())
        timeout_answer(c, may_close=True)
    assert not (seat.ws / box / "f").exists()


def test_half_sent_command(seat):
    with seat.conn() as c:
        c.send(b'POST /execute HTTP/1.1\r\nHost: t\r\nContent-Length: 40\r\n\r\n{"command":"')
        timeout_answer(c)


def test_no_body_after_100(seat, box):
    with seat.conn() as c:
        c.send(b"PUT /files/%b/f HTTP/1.1\r\nHost: t\r\nContent-Length: 10\r\n"
               b"Expect: 100-continue\r\n\r\n" % box.encode())
        assert (c.line(), c.line()) == (b"HTTP/1.1 100 Continue", b"")
        timeout_answer(c, may_close=True)
    assert not (seat.ws / box / "f").exists()


def test_a_reader_that_stops_is_cut_off(seat, box):
    with open(seat.ws / box / "f", "wb") as f:
        f.truncate(512 << 20)
    with seat.conn() as c:
        c.sock.setsockopt(1, 8, 4096)  # SO_RCVBUF
        c.send(b"GET /files/%b/f HTTP/1.1\r\nHost: t\r\n\r\n" % box.encode())
        front = seat.role("front").pid
        from harness.procs import wait_for
        import os
        def holds():
            return any(os.path.basename(t.split(" ")[0]) == "f" for t in seat.role("front").fds().values())
        assert front
        wait_for("the front has given the file up", lambda: not holds())
        c.reset()


def test_progress_is_no_stall(seat, box):
    """Slower than the limit in all, but never still."""
    import time
    with seat.conn() as c:
        c.send(b"PUT /files/%b/f HTTP/1.1\r\nHost: t\r\nContent-Length: 40960\r\n\r\n" % box.encode())
        for _ in range(20):
            time.sleep(0.05)
            c.send(b"x" * 2048)  # the front wants 1 KiB in a period
        assert c.answer().status == 201


def test_a_long_command_is_no_stall(seat):
    assert seat.run("sleep 1.5; echo ok")["stdout"] == "ok\n"


def test_others_are_served_meanwhile(seat):
    slow = [seat.conn() for _ in range(20)]
    for c in slow:
        c.send(b"GET /hea")
    assert seat.request("GET", "/healthz").status == 200
    for c in slow:
        timeout_answer(c)
        c.close()


def test_a_blank_line_behind_a_body_is_no_request(seat):
    """Some clients send one. An answer to it would be taken for that to their next request."""
    with seat.conn() as c:
        for _ in range(2):  # nor does it hurt that one
            assert c.request("POST", "/execute", b'{"command":"true"}').status == 200
            c.send(b"\r\n")
        assert c.closed()
    with seat.conn() as c:
        assert c.request("GET", "/healthz").status == 200
        c.send(b"\r")
        assert c.closed()


def test_they_go_by_a_clock_that_nobody_sets(seat):
    """What tests/unit/test_ticks.c holds, in this build of the daemon: it says so where it isn't."""
    assert "wall clock" not in seat.log()
