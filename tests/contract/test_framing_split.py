"""Requests cut at every byte, keep-alive and close, absolute form, half-closed clients."""
import socket

import pytest

from harness.http import Closed

REQUEST = (b"PUT /files/split HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\nX: y\r\n\r\n"
           b"5;e=1\r\nhello\r\n6\r\n world\r\n0\r\nT: v\r\n\r\n")


def test_split_at_every_byte(seat):
    with seat.conn() as c:
        for n in range(1, len(REQUEST)):
            c.send(REQUEST[:n])
            if n % 8 == 0:  # let the first part be read alone, now and then
                assert seat.request("GET", "/healthz").status == 200
            c.send(REQUEST[n:])
            assert c.answer().status in (200, 201), n
    assert (seat.ws / "split").read_bytes() == b"hello world"


def test_byte_by_byte(seat):
    with seat.conn() as c:
        for b in REQUEST:
            c.send(bytes([b]))
        assert c.answer().status in (200, 201)
        for b in b"POST /execute HTTP/1.1\r\nHost: t\r\nContent-Length: 20\r\n\r\n" + b'{"command":"echo 7"}':
            c.send(bytes([b]))
        assert c.answer().json["stdout"] == "7\n"


def test_bad_head_split_at_every_byte(seat):
    bad = b"GET /healthz HTTP/1.1\r\nHost: t\r\nX : y\r\n\r\n"
    for n in range(1, len(bad)):
        with seat.conn() as c:
            c.send(bad[:n])
            c.send_lenient(bad[n:])
            a = c.answer()
            assert a.status == 400 and a.closes, n


def test_two_requests_cut_anywhere(seat):
    two = b"GET /healthz HTTP/1.1\r\nHost: t\r\n\r\n" * 2
    with seat.conn() as c:
        for n in range(1, len(two)):
            c.send(two[:n])
            c.send(two[n:])
            assert (c.answer().status, c.answer().status) == (200, 200)


def test_keep_alive_11(seat):
    with seat.conn() as c:
        for _ in range(200):
            a = c.request("GET", "/healthz")
            assert a.status == 200 and not a.closes


@pytest.mark.parametrize("value", ["close", "Close", "keep-alive, close", "close, x", "x ,close"])
def test_connection_close(seat, value):
    with seat.conn() as c:
        a = c.request("GET", "/healthz", headers={"Connection": value})
        assert a.status == 200 and a.closes
        assert c.closed()


def test_close_ends_the_pipeline(seat):
    with seat.conn() as c:
        c.send(b"GET /healthz HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n"
               b"PUT /files/after-close HTTP/1.1\r\nHost: t\r\nContent-Length: 1\r\n\r\nx")
        assert c.answer().status == 200
        assert c.closed()
    assert not (seat.ws / "after-close").exists()


def test_http10_closes(seat):
    for host in (b"", b"Host: t\r\n"):
        with seat.conn() as c:
            c.send(b"GET /healthz HTTP/1.0\r\n" + host + b"\r\n")
            a = c.answer()
            assert a.status == 200 and a.get("transfer-encoding") is None
            assert c.closed()


def test_http10_keep_alive(seat):
    with seat.conn() as c:
        for _ in range(3):
            c.send(b"GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            a = c.answer()
            assert a.status == 200 and a.get("connection", "").lower() == "keep-alive"
        c.send(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert c.answer().status == 200
        assert c.closed()


def test_http10_put_and_execute(seat, box):
    with seat.conn() as c:
        c.send(b"PUT /files/%b/f HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc" % box.encode())
        assert c.answer().status == 201
    with seat.conn() as c:
        c.send(b'POST /execute HTTP/1.0\r\nContent-Length: 20\r\n\r\n{"command":"echo 7"}')
        assert c.answer().json["stdout"] == "7\n"
        assert c.closed()


def test_errors_in_the_middle_keep_the_order(seat):
    with seat.conn() as c:
        c.send(b"GET /healthz HTTP/1.1\r\nHost: t\r\n\r\n"
               b"BREW /healthz HTTP/1.1\r\nHost: t\r\n\r\n"
               b"GET /files/none HTTP/1.1\r\nHost: t\r\n\r\n"
               b"GET /healthz HTTP/1.1\r\nHost: t\r\n\r\n")
        assert c.answer().status == 200
        a = c.answer()
        assert a.status == 501
        if not a.closes:
            assert c.answer().status == 404
            assert c.answer().status == 200


def test_half_closed_client_gets_its_file(seat, box):
    """Only a running command dies with the client's half: a GET that was sent is answered."""
    (seat.ws / box / "f").write_bytes(b"x" * 100000)
    with seat.conn() as c:
        c.send(b"GET /files/%b/f HTTP/1.1\r\nHost: t\r\n\r\n" % box.encode())
        c.sock.shutdown(socket.SHUT_WR)
        try:
            assert len(c.answer().body) == 100000
            assert c.closed()
        except Closed as e:
            assert e.data == b"" or len(e.data) < 100000


def test_half_closed_behind_several_requests(seat, box):
    """All of them were whole: the answer to one isn't the connection's end for the others."""
    (seat.ws / box / "f").write_bytes(b"x" * 100000)
    get = b"GET /files/%b/f HTTP/1.1\r\nHost: t\r\n\r\n" % box.encode()
    put = b"PUT /files/%b/g HTTP/1.1\r\nHost: t\r\nContent-Length: 3\r\n\r\nabc" % box.encode()
    for _ in range(10):
        with seat.conn() as c:
            c.send(get + put + get)
            c.sock.shutdown(socket.SHUT_WR)
            answers = [c.answer() for _ in range(3)]
            assert [a.status for a in answers] in ([200, 201, 200], [200, 200, 200])
            assert [len(a.body) for a in answers[::2]] == [100000, 100000]
            assert c.closed()
        assert (seat.ws / box / "g").read_bytes() == b"abc"


def test_half_closed_before_a_command(seat, box):
    """Nobody waits for its answer: it isn't begun."""
    body = b'{"command": "touch %b/ran"}' % box.encode()
    (seat.ws / box / "f").write_bytes(b"x" * (8 << 20))
    with seat.conn() as c:
        c.send(b"GET /files/%b/f HTTP/1.1\r\nHost: t\r\n\r\n" % box.encode() + b"POST /execute HTTP/1.1\r\nHost: t\r\n"
               b"Content-Length: %d\r\n\r\n" % len(body) + body)
        c.sock.shutdown(socket.SHUT_WR)
        c.fill()
        seat.run(":")  # the first answer is too large to be out: the end of input is seen before it is
        assert len(c.answer().body) == 8 << 20
        assert c.closed()
    seat.wait_idle()
    assert not (seat.ws / box / "ran").exists()


@pytest.mark.parametrize("behind", [1, 200000])
def test_input_behind_the_last_request_costs_no_answer(seat, box, behind):
    """To close over unread bytes resets the connection, and what of the answer is still on its way is lost."""
    (seat.ws / box / "f").write_bytes(b"x" * (3 << 20))
    with seat.conn() as c:
        c.send(b"GET /files/%b/f HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n" % box.encode() + b"y" * behind)
        c.fill()
        seat.run(":")  # so that all is in the sockets
        assert len(c.answer().body) == 3 << 20
        assert c.closed()


def test_connect_and_leave(seat):
    for _ in range(200):
        c = seat.conn()
        c.close()
    for _ in range(50):
        c = seat.conn()
        c.send(b"GET /hea")
        c.reset()
    assert seat.request("GET", "/healthz").status == 200


def test_eof_in_a_head(seat):
    with seat.conn() as c:
        c.send(b"GET /healthz HTTP/1.1\r\nHost: t\r\n")
        c.sock.shutdown(socket.SHUT_WR)
        data = c.rest()
        assert data == b"" or data.startswith(b"HTTP/1.1 400")


def test_a_reader_that_leaves_in_the_middle(seat, box):
    with open(seat.ws / box / "f", "wb") as f:
        f.truncate(64 << 20)
    for _ in range(10):
        c = seat.conn()
        c.send(b"GET /files/%b/f HTTP/1.1\r\nHost: t\r\n\r\n" % box.encode())
        c.fill()
        c.reset()
    assert seat.request("GET", "/healthz").status == 200
