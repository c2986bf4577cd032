"""PUT /files, the body: chunked, Expect, limits, broken uploads, concurrent readers, 4 at once."""
import os
import socket
import threading

import pytest

from harness import names
from harness.http import Conn, chunked, quote
from harness.procs import wait_for

SEAT_ENV = {names.MAX_UPLOAD: "2MiB"}
LIMIT = 2 << 20


def nothing_left(seat, box, but=()):
    """A file system without unnamed files shows the new one until the cell has heard of the end."""
    wait_for("the new file is gone", lambda: os.listdir(seat.ws / box) == [*but])


def start_put(c, path, *fields):
    c.send(f"PUT {quote(path)} HTTP/1.1\r\nHost: t\r\n".encode() + b"".join(f + b"\r\n" for f in fields)
           + b"\r\n")


CHUNKED = b"Transfer-Encoding: chunked"


@pytest.mark.parametrize("parts", [[b"a"], [b"abc", b"de"], [b"x"] * 500, [b"x" * 65536] * 8, []])
def test_chunked(seat, box, parts):
    with seat.conn() as c:
        start_put(c, f"{box}/f", CHUNKED)
        c.send(chunked(*parts))
        a = c.answer()
        assert a.status == 201 and a.json["size"] == sum(map(len, parts))
        assert c.request("GET", quote(f"{box}/f")).body == b"".join(parts)


@pytest.mark.parametrize("body,data", [
    (b"5;ext=1\r\nhello\r\n0\r\n\r\n", b"hello"), (b'5;a="b;c"\r\nhello\r\n0;x\r\n\r\n', b"hello"),
    (b"005\r\nhello\r\n000\r\n\r\n", b"hello"), (b"A\r\n0123456789\r\n0\r\n\r\n", b"0123456789"),
    (b"a\r\n0123456789\r\n0\r\n\r\n", b"0123456789"),
    (b"5\r\nhello\r\n0\r\nTrailer: x\r\nOther: y\r\n\r\n", b"hello")])
def test_chunk_forms(seat, box, body, data):
    with seat.conn() as c:
        start_put(c, f"{box}/f", CHUNKED)
        c.send(body)
        assert c.answer().status == 201
        assert c.request("GET", quote(f"{box}/f")).body == data


def test_chunked_byte_by_byte(seat, box):
    with seat.conn() as c:
        start_put(c, f"{box}/f", CHUNKED)
        for b in chunked(b"hello", b" ", b"world" * 5, last=b"0\r\nX: y\r\n\r\n"):
            c.send(bytes([b]))
        assert c.answer().status == 201
    assert (seat.ws / box / "f").read_bytes() == b"hello " + b"world" * 5


@pytest.mark.parametrize("bad", [
    b"g\r\nx\r\n0\r\n\r\n", b"-1\r\nx\r\n", b"+1\r\nx\r\n0\r\n\r\n", b"0x1\r\nx\r\n0\r\n\r\n",
    b"1\nx\n0\n\n", b"1\r\nxy\r\n0\r\n\r\n", b"2\r\nx\r\n0\r\n\r\n", b" 1\r\nx\r\n0\r\n\r\n",
    b"\r\n1\r\nx\r\n0\r\n\r\n", b"ffffffffffffffff\r\nx", b"10000000000000000\r\nx", b";x\r\n",
    b"1;\0\r\nx\r\n0\r\n\r\n", b"1\r\nx0\r\n\r\n", b"1" * 300 + b"\r\n", b"1;" + b"e" * 100000,
    b"0\r\nbad trailer\r\n\r\n", b"0\r\n: x\r\n\r\n", b"0\r\nA: b\n\n",
    b"1 \r\nx\r\n0\r\n\r\n", b"1\rx\r\n0\r\n\r\n",
    b"0\r\n" + b"T: v\r\n" * 20000 + b"\r\n", b"80000000000000001\r\nx\r\n0\r\n\r\n"])
def test_chunk_tricks(seat, box, bad):
    """Refused and closed; the file isn't made; what follows is never a request."""
    with seat.conn() as c:
        start_put(c, f"{box}/f", CHUNKED)
        c.send_lenient(bad + b"DELETE /files/%b HTTP/1.1\r\nHost: t\r\n\r\n" % box.encode())
        data = c.rest()
        assert data == b"" or data.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 413 ")), data[:100]
        assert data.count(b"HTTP/1.1 ") <= 1
    nothing_left(seat, box)


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_expect_accepted(seat, box, framing):
    with seat.conn() as c:
        start_put(c, f"{box}/f", b"Expect: 100-continue",
                  CHUNKED if framing == "chunked" else b"Content-Length: 5")
        assert (c.line(), c.line()) == (b"HTTP/1.1 100 Continue", b"")
        c.send(chunked(b"hello") if framing == "chunked" else b"hello")
        assert c.answer().status == 201
    assert (seat.ws / box / "f").read_bytes() == b"hello"


def test_expect_with_the_body_already_there(seat, box):
    with seat.conn() as c:
        c.send(f"PUT {quote(box + '/f')} HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\n"
               "Expect: 100-continue\r\n\r\nhello".encode())
        assert c.answer().status == 201


@pytest.mark.parametrize("fields,path,status", [
    ([b"Content-Length: 99999999"], "f", 413), ([b"Content-Length: 5", b"Content-Range: bytes 0-4/5"], "f", 400),
    ([b"Content-Length: 5", b"Content-Encoding: gzip"], "f", 415), ([b"Content-Length: 5"], "dir", 409),
    ([b"Content-Length: 5"], "file/x", 409), ([b"Content-Length: 5"], "out/x", 403),
    ([b"Content-Length: 5"], "dir/", 400), ([b"Content-Length: 5", b"If-None-Match: *"], "file", 412),
    ([b"Content-Length: 5", b'If-Match: "nope"'], "file", 412), ([b"Content-Length: 5"], "a//b", 400)])
def test_expect_refused_before_the_body(seat, box, fields, path, status):
    top = seat.ws / box
    (top / "dir").mkdir()
    (top / "file").write_text("x")
    (top / "out").symlink_to("../../outside")
    with seat.conn() as c:
        start_put(c, f"{box}/{path}", b"Expect: 100-continue", *fields)
        a = c.answer()
        assert a.status == status and a.interim == [] and a.closes, a
        assert c.closed()
    assert (top / "file").read_text() == "x"


def test_too_large_by_its_length(seat, box):
    with seat.conn() as c:
        start_put(c, f"{box}/f", b"Content-Length: %d" % (LIMIT + 1))
        a = c.answer()
        assert (a.status, a.code) == (413, "body_too_large") and a.closes
    nothing_left(seat, box)


@pytest.mark.parametrize("length", [b"18446744073709551615", b"9223372036854775808"])
def test_huge_lengths(seat, box, length):
    with seat.conn() as c:
        start_put(c, f"{box}/f", b"Content-Length: " + length)
        assert c.answer().status in (400, 413)


def test_exactly_the_limit(seat, box):
    assert seat.put(f"{box}/f", b"x" * LIMIT).status == 201
    with seat.conn() as c:
        start_put(c, f"{box}/g", CHUNKED)
        c.send(chunked(b"x" * LIMIT))
        assert c.answer().status == 201


def test_too_large_in_the_middle(seat, box):
    (seat.ws / box / "f").write_text("old")
    with seat.conn() as c:
        start_put(c, f"{box}/f", CHUNKED)
        c.send_lenient(chunked(*[b"x" * 65536] * 33))
        a = c.answer()
        assert (a.status, a.code) == (413, "body_too_large") and a.closes
    nothing_left(seat, box, ["f"])
    assert (seat.ws / box / "f").read_text() == "old"


@pytest.mark.parametrize("how", ["close", "reset", "half"])
@pytest.mark.parametrize("framing", [b"Content-Length: 100000", CHUNKED])
@pytest.mark.parametrize("existing", [True, False])
def test_a_broken_upload_changes_nothing(seat, box, how, framing, existing):
    top = seat.ws / box
    if existing:
        (top / "f").write_text("old")
    c = seat.conn()
    start_put(c, f"{box}/f", framing)
    c.send(b"x" * 50000 if framing != CHUNKED else b"c350\r\n" + b"x" * 50000 + b"\r\n")
    if how == "close":
        c.close()
    elif how == "reset":
        c.reset()
    else:
        c.sock.shutdown(socket.SHUT_WR)
        data = c.rest()
        assert b" 200 " not in data and b" 201 " not in data
        c.close()
    for _ in range(20):
        assert seat.request("GET", "/healthz").status == 200
    # the next upload on the same name shows that the broken one is over
    nothing_left(seat, box, ["f"] if existing else [])
    if existing:
        assert (top / "f").read_text() == "old"


def test_one_byte_short_and_one_byte_over(seat, box):
    with seat.conn() as c:
        start_put(c, f"{box}/f", b"Content-Length: 6")
        c.send(b"short")
        c.sock.shutdown(socket.SHUT_WR)
        data = c.rest()
        assert b" 20" not in data.split(b"\r\n")[0]
    nothing_left(seat, box)
    with seat.conn() as c:
        start_put(c, f"{box}/f", b"Content-Length: 4")
        c.send(b"12345")  # the 5 begins a request that never ends
        assert c.answer().status == 201
    assert (seat.ws / box / "f").read_bytes() == b"1234"


def test_a_reader_sees_old_or_new(seat, box):
    """Eight rewrites under readers: every read is one whole version."""
    versions = {bytes([65 + n]) * (300000 + n) for n in range(8)}
    seat.put(f"{box}/f", b"A" * 300000)
    stop, bad, reads = threading.Event(), [], []

    def read_http():
        with Conn(("127.0.0.1", seat.port)) as c:
            while not stop.is_set():
                body = c.request("GET", quote(f"{box}/f")).body
                reads.append(1)
                if body not in versions:
                    bad.append(body[:20])

    def read_disk():
        while not stop.is_set():
            body = (seat.ws / box / "f").read_bytes()
            if body not in versions:
                bad.append(body[:20])
    threads = [threading.Thread(target=t) for t in (read_http, read_http, read_disk)]
    for t in threads:
        t.start()
    try:
        for _ in range(5):
            for v in sorted(versions):
                assert seat.put(f"{box}/f", v).status == 200
    finally:
        stop.set()
        for t in threads:
            t.join()
    assert not bad and reads


def test_last_of_many_writers_is_whole(seat, box):
    datas = [bytes([97 + n]) * 500000 for n in range(8)]
    threads = [threading.Thread(target=lambda d=d: seat.put(f"{box}/f", d)) for d in datas]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert (seat.ws / box / "f").read_bytes() in datas
    nothing_left(seat, box, ["f"])


def test_slow_uploads_do_not_hold_others(seat, box):
    conns = []
    for n in range(30):
        c = seat.conn()
        start_put(c, f"{box}/slow{n}", b"Content-Length: 10")
        c.send(b"12345")
        conns.append(c)
    assert seat.put(f"{box}/quick", b"x").status == 201
    assert seat.run("echo ok")["stdout"] == "ok\n"
    for c in conns:
        c.send(b"67890")
    assert {c.answer().status for c in conns} == {201}
    for c in conns:
        c.close()
    assert len(os.listdir(seat.ws / box)) == 31


def test_target_folder_goes_away_during_the_upload(seat, box):
    with seat.conn() as c:
        start_put(c, f"{box}/d/f", b"Content-Length: 4")
        c.send(b"ab")
        assert seat.request("GET", "/healthz").status == 200
        seat.delete(f"{box}/d", "?recursive=true")
        c.send(b"cd")
        assert c.answer().status in (201, 404)


def test_target_folder_goes_away_as_the_upload_begins(seat, box):
    """Either may come first; a folder that is gone is missing, not forbidden."""
    with seat.conn() as other:
        for _ in range(300):
            with seat.conn() as up:
                start_put(up, f"{box}/d/f", b"Content-Length: 4")
                assert other.request("DELETE", f"/files/{box}/d?recursive=true").status in (204, 404)
                up.send_lenient(b"abcd")
                assert up.answer().status in (201, 404)


def test_target_becomes_a_folder_during_the_upload(seat, box):
    with seat.conn() as c:
        start_put(c, f"{box}/f", b"Content-Length: 4", b"Expect: 100-continue")
        assert (c.line(), c.line()) == (b"HTTP/1.1 100 Continue", b"")
        (seat.ws / box / "f").mkdir()
        c.send(b"abcd")
        a = c.answer()
        assert (a.status, a.code) == (409, "is_a_directory")
    nothing_left(seat, box, ["f"])


def test_put_pipelined(seat, box):
    with seat.conn() as c:
        c.send(b"".join(f"PUT {quote(f'{box}/p{n}')} HTTP/1.1\r\nHost: t\r\nContent-Length: 3\r\n\r\np{n:02d}"
                        .encode() for n in range(20)))
        assert [c.answer().status for _ in range(20)] == [201] * 20
    assert (seat.ws / box / "p7").read_bytes() == b"p07"
