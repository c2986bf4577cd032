"""HTTP framing: the smuggling table, strict heads, limits of the head, versions, pipelining.
Every refused head must close, and nothing behind it may be taken for a request."""
import json
import os

import pytest

from harness.http import Closed

EVIL = b"PUT /files/smuggled HTTP/1.1\r\nHost: t\r\nContent-Length: 4\r\n\r\nevil"
CHUNK = b"0\r\n\r\n"


def refuse(seat, raw, statuses=(400,), codes=("bad_request",)):
    before = sorted(os.listdir(seat.ws))
    with seat.conn() as c:
        c.send_lenient(raw)
        a = c.answer()
        assert a.status in statuses and a.code in codes, a
        assert a.closes, a
        assert c.closed()
    assert sorted(os.listdir(seat.ws)) == before
    return a


def put(fields, body=b""):
    return b"PUT /files/framed HTTP/1.1\r\nHost: t\r\n" + fields + b"\r\n" + body


SMUGGLING = {
    "CL and TE": b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
    "TE and CL": b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
    "CL 0 and TE": b"Content-Length: 0\r\nTransfer-Encoding: chunked\r\n",
    "two CL": b"Content-Length: 4\r\nContent-Length: 5\r\n",
    "two equal CL": b"Content-Length: 4\r\nContent-Length: 4\r\n",
    "CL list": b"Content-Length: 4, 4\r\n", "CL list differs": b"Content-Length: 4, 5\r\n",
    "CL plus": b"Content-Length: +4\r\n", "CL minus": b"Content-Length: -4\r\n",
    "CL minus zero": b"Content-Length: -0\r\n", "CL hex": b"Content-Length: 0x4\r\n",
    "CL point": b"Content-Length: 4.0\r\n", "CL exponent": b"Content-Length: 4e0\r\n",
    "CL inner space": b"Content-Length: 4 4\r\n", "CL underscore": b"Content-Length: 1_0\r\n",
    "CL empty": b"Content-Length:\r\n", "CL word": b"Content-Length: four\r\n",
    "CL 2^64": b"Content-Length: 18446744073709551616\r\n",
    "CL 2^64 and 4": b"Content-Length: 18446744073709551620\r\n",
    "CL long": b"Content-Length: " + b"9" * 100 + b"\r\n",
    "CL quoted": b'Content-Length: "4"\r\n', "CL arabic": "Content-Length: ٤\r\n".encode(),
    "TE identity": b"Transfer-Encoding: identity\r\n", "TE gzip": b"Transfer-Encoding: gzip\r\n",
    "TE gzip, chunked": b"Transfer-Encoding: gzip, chunked\r\n",
    "TE chunked, gzip": b"Transfer-Encoding: chunked, gzip\r\n",
    "TE chunked, chunked": b"Transfer-Encoding: chunked, chunked\r\n",
    "TE chunked, identity": b"Transfer-Encoding: chunked, identity\r\n",
    "TE twice": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
    "TE twice identity": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
    "TE xchunked": b"Transfer-Encoding: xchunked\r\n", "TE quoted": b'Transfer-Encoding: "chunked"\r\n',
    "TE empty": b"Transfer-Encoding:\r\n", "TE parameter": b"Transfer-Encoding: chunked;q=1\r\n",
    "TE vertical tab": b"Transfer-Encoding: \x0bchunked\r\n", "TE nul": b"Transfer-Encoding: chunked\0\r\n",
    "TE space before colon": b"Transfer-Encoding : chunked\r\n",
    "CL space before colon": b"Content-Length : 4\r\n", "CL tab before colon": b"Content-Length\t: 4\r\n",
    "TE folded": b"Transfer-Encoding:\r\n chunked\r\n", "CL folded": b"Content-Length: 4\r\n 0\r\n",
    "folded": b"X: a\r\n b\r\n", "folded tab": b"X: a\r\n\tb\r\n", "first folded": b" X: a\r\n",
    "bare LF": b"X: a\nY: b\r\n", "LF TE": b"X: a\nTransfer-Encoding: chunked\r\n",
    "bare CR": b"X: a\rY: b\r\n", "CR TE": b"X: a\rTransfer-Encoding: chunked\r\n",
    "nul in value": b"X: a\0b\r\n", "nul in name": b"X\0: a\r\n", "control": b"X: a\x01b\r\n",
    "DEL": b"X: a\x7fb\r\n", "no colon": b"Xa\r\n", "no name": b": a\r\n", "space name": b"X Y: a\r\n",
    "bad name": b"X(Y): a\r\n", "non-ASCII name": b"X\xe9: a\r\n", "quote name": b'"X": a\r\n',
    "two hosts": b"Host: t\r\n", "two hosts differ": b"Host: u\r\n",
}


@pytest.mark.parametrize("name", SMUGGLING)
def test_refused(seat, name):
    refuse(seat, put(SMUGGLING[name], CHUNK + EVIL))


HOSTS = {"missing": b"", "empty value list": b"Host: a, b\r\n", "space": b"Host: a b\r\n",
         "slash": b"Host: a/b\r\n", "at": b"Host: u@a\r\n", "port word": b"Host: a:b\r\n",
         "control": b"Host: a\x01\r\n", "bracket": b"Host: [::1\r\n", "query": b"Host: a?b\r\n",
         "port big": b"Host: a:999999\r\n", "backslash": b"Host: a\\b\r\n"}


@pytest.mark.parametrize("name", HOSTS)
def test_bad_hosts(seat, name):
    refuse(seat, b"GET /healthz HTTP/1.1\r\n" + HOSTS[name] + b"\r\n" + EVIL)


@pytest.mark.parametrize("host", [b"t", b"localhost:8080", b"127.0.0.1", b"[::1]:80", b"a.b-c.example",
                                  b"T:80", b" t ", b"\tt"])
def test_good_hosts(seat, host):
    with seat.conn() as c:
        c.send(b"GET /healthz HTTP/1.1\r\nHost:" + host + b"\r\n\r\n")
        assert c.answer().status == 200


LINES = {
    "LF only": b"GET /healthz HTTP/1.1\nHost: t\n\n", "LF line": b"GET /healthz HTTP/1.1\nHost: t\r\n\r\n",
    "no version": b"GET /healthz\r\nHost: t\r\n\r\n", "two spaces": b"GET  /healthz HTTP/1.1\r\nHost: t\r\n\r\n",
    "two spaces 2": b"GET /healthz  HTTP/1.1\r\nHost: t\r\n\r\n",
    "tab": b"GET\t/healthz HTTP/1.1\r\nHost: t\r\n\r\n", "space first": b" GET /healthz HTTP/1.1\r\nHost: t\r\n\r\n",
    "end space": b"GET /healthz HTTP/1.1 \r\nHost: t\r\n\r\n", "lower": b"GET /healthz http/1.1\r\nHost: t\r\n\r\n",
    "HTTP/1.": b"GET /healthz HTTP/1.\r\nHost: t\r\n\r\n", "HTTP/1.10": b"GET /healthz HTTP/1.10\r\nHost: t\r\n\r\n",
    "HTTP/01.1": b"GET /healthz HTTP/01.1\r\nHost: t\r\n\r\n", "HTTPS": b"GET /healthz HTTPS/1.1\r\nHost: t\r\n\r\n",
    "nul line": b"\0\r\n\r\n", "only CRLFs": b"\r\n\r\n\r\n\r\n\r\n", "no target": b"GET HTTP/1.1\r\nHost: t\r\n\r\n",
    "relative": b"GET healthz HTTP/1.1\r\nHost: t\r\n\r\n", "nul in target": b"GET /a\0b HTTP/1.1\r\nHost: t\r\n\r\n",
    "method char": b"G(T /healthz HTTP/1.1\r\nHost: t\r\n\r\n", "CR in line": b"GET /a\rb HTTP/1.1\r\nHost: t\r\n\r\n",
    "TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\xaa" * 512 + b"\r\n\r\n",
    "binary": bytes(range(128, 256)) + b"\r\n\r\n", "ssh": b"SSH-2.0-OpenSSH_9.2p1\r\n\r\n",
    "proxy v1": b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\nGET /healthz HTTP/1.1\r\nHost: t\r\n\r\n",
    "HTTP/0.9": b"GET /\r\n\r\n",
}


@pytest.mark.parametrize("name", LINES)
def test_bad_request_lines(seat, name):
    with seat.conn() as c:
        c.send_lenient(LINES[name] + EVIL)
        try:
            a = c.answer()
        except Closed as e:
            assert e.data == b""
        else:
            assert a.status in (400, 404, 501, 505) and a.closes, a
            assert a.status == 400 or name in ("HTTP/1.10", "HTTP/01.1", "relative", "ssh"), a
            assert c.closed()
    assert not (seat.ws / "smuggled").exists()


@pytest.mark.parametrize("version", ["2.0", "3.0", "0.9", "9.9", "0.0"])
def test_other_major_version(seat, version):
    refuse(seat, f"GET /healthz HTTP/{version}\r\nHost: t\r\n\r\n".encode() + EVIL, (505,), ("bad_version",))


def test_http2_preface(seat):
    with seat.conn() as c:
        c.send_lenient(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0")
        a = c.answer()
        assert a.status in (400, 501, 505) and a.closes


@pytest.mark.parametrize("upgrade", [b"Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: \r\n",
                                     b"Upgrade: websocket\r\nConnection: Upgrade\r\n"])
def test_upgrades_are_ignored(seat, upgrade):
    with seat.conn() as c:
        c.send(b"GET /healthz HTTP/1.1\r\nHost: t\r\n" + upgrade + b"\r\n")
        assert c.answer().status == 200


def test_minor_versions(seat):
    with seat.conn() as c:
        c.send(b"GET /healthz HTTP/1.9\r\nHost: t\r\n\r\n")
        assert c.answer().status in (200, 505)


def test_chunked_on_http10(seat):
    refuse(seat, b"PUT /files/framed HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNK + EVIL)


def line(n):
    """A request line of n bytes, CRLF included."""
    return b"GET /files/" + b"a" * (n - 11 - 11) + b" HTTP/1.1\r\n"


def test_request_line_limit(seat):
    refuse(seat, line(8195) + b"Host: t\r\n\r\n", (414,), ("uri_too_long",))
    refuse(seat, b"GET /" + b"a" * 100000, (414,), ("uri_too_long",))
    with seat.conn() as c:  # just under: the path's own limit speaks
        c.send(line(8190) + b"Host: t\r\n\r\n")
        assert c.answer().code == "bad_path"


def head(total):
    start = b"GET /healthz HTTP/1.1\r\nHost: t\r\n"
    rest = total - len(start) - 2
    fields = b""
    while rest > 4000:
        fields += b"X: " + b"v" * 1995 + b"\r\n"
        rest -= 2000
    return start + fields + b"Y: " + b"v" * (rest - 5) + b"\r\n\r\n"


def test_head_limit(seat):
    assert len(head(16384)) == 16384
    with seat.conn() as c:
        c.send(head(16384))
        assert c.answer().status == 200
    refuse(seat, head(16385), (431,), ("headers_too_large",))
    refuse(seat, b"GET /healthz HTTP/1.1\r\nHost: t\r\nX: " + b"v" * 100000, (431,), ("headers_too_large",))


def test_field_count(seat):
    with seat.conn() as c:
        c.send(b"GET /healthz HTTP/1.1\r\nHost: t\r\n" + b"X: y\r\n" * 99 + b"\r\n")
        assert c.answer().status == 200
    refuse(seat, b"GET /healthz HTTP/1.1\r\nHost: t\r\n" + b"X: y\r\n" * 100 + b"\r\n", (431,),
           ("headers_too_large",))


def test_head_in_one_line_without_end(seat):
    with seat.conn() as c:
        c.send_lenient(b"A" * 300000)
        a = c.answer()
        assert a.status in (400, 414, 431, 501) and a.closes


@pytest.mark.parametrize("value", [b"", b" ", b"  x  ", b"\tx\t", b"a\tb", b"\xe9\xff", b'"q"', b"x" * 5000])
def test_odd_values_pass(seat, value):
    with seat.conn() as c:
        c.send(b"GET /healthz HTTP/1.1\r\nHost: t\r\nX-Odd:" + value + b"\r\n\r\n")
        assert c.answer().status == 200


def test_names_are_case_insensitive(seat, box):
    with seat.conn() as c:
        c.send(b"PUT /files/%b/f HTTP/1.1\r\nhOsT: t\r\ncONTENT-lENGTH: 3\r\n\r\nabc" % box.encode())
        assert c.answer().status == 201
        c.send(b"PUT /files/%b/g HTTP/1.1\r\nHOST: t\r\ntransfer-ENCODING: Chunked\r\n\r\n" % box.encode()
               + b"3\r\nabc\r\n0\r\n\r\n")
        assert c.answer().status == 201


def test_leading_crlf(seat):
    with seat.conn() as c:
        c.send(b"\r\nGET /healthz HTTP/1.1\r\nHost: t\r\n\r\n")
        assert c.answer().status == 200


def test_zeros_in_a_length(seat, box):
    with seat.conn() as c:
        c.send(b"PUT /files/%b/f HTTP/1.1\r\nHost: t\r\nContent-Length: 0003\r\n\r\nabc" % box.encode())
        assert c.answer().status in (201, 400)


def test_pipelining_50_in_one_packet(seat, box):
    (seat.ws / box / "f").write_text("data")
    one = (b"GET /healthz HTTP/1.1\r\nHost: t\r\n\r\n",
           b"GET /files/%b/f HTTP/1.1\r\nHost: t\r\n\r\n" % box.encode(),
           b"POST /execute HTTP/1.1\r\nHost: t\r\nContent-Length: 20\r\n\r\n" + b'{"command":"echo 7"}',
           b"HEAD /files/%b/f HTTP/1.1\r\nHost: t\r\n\r\n" % box.encode(),
           b"DELETE /files/none HTTP/1.1\r\nHost: t\r\n\r\n")
    with seat.conn() as c:
        c.send(b"".join(one) * 10)
        for _ in range(10):
            assert c.answer().json == {"status": "ok"}
            assert c.answer().body == b"data"
            assert c.answer().json["stdout"] == "7\n"
            assert c.answer(head_only=True).get("content-length") == "4"
            assert c.answer().code == "not_found"


def test_pipelining_stops_at_a_bad_one(seat):
    good = b"GET /healthz HTTP/1.1\r\nHost: t\r\n\r\n"
    with seat.conn() as c:
        c.send(good * 3 + b"GET /healthz HTTP/1.1\r\n\r\n" + EVIL)
        assert [c.answer().status for _ in range(4)] == [200, 200, 200, 400]
        assert c.closed()
    assert not (seat.ws / "smuggled").exists()


def test_refusal_after_head_has_a_body(seat):
    """What couldn't be read is no HEAD, whatever came before it."""
    with seat.conn() as c:
        c.send(b"HEAD /healthz HTTP/1.1\r\nHost: t\r\n\r\nBAD\r\n\r\n")
        assert c.answer(head_only=True).status == 200
        assert c.answer().code == "bad_request"
        assert c.closed()


@pytest.mark.parametrize("coding", ["length", "chunked"])
def test_body_behind_a_full_buffer(seat, box, coding):
    """The rest of a body whose beginning was read ahead, past what is read ahead at most."""
    seat.put(f"{box}/x", b"x")
    body = json.dumps({"command": "wc -c", "stdin": "s" * 90000}).encode()
    cut = 60000
    with seat.conn() as c:
        head = b"POST /execute HTTP/1.1\r\nHost: t\r\n"
        if coding == "length":
            head += b"Content-Length: %d\r\n\r\n" % len(body)
            end = b""
        else:
            head += b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % len(body)
            end = b"\r\n0\r\n\r\n"
        c.send(20 * (f"GET /files/{box}/x HTTP/1.1\r\nHost: t\r\n\r\n".encode()) + head + body[:cut])
        for _ in range(20):
            assert c.answer().body == b"x"
        c.send(body[cut:] + end)
        assert c.answer().json["stdout"].strip() == "90000"


def test_long_pipeline(seat):
    with seat.conn() as c:
        import threading
        t = threading.Thread(target=c.send, args=(b"GET /healthz HTTP/1.1\r\nHost: t\r\n\r\n" * 2000,))
        t.start()
        assert {c.answer().status for _ in range(2000)} == {200}
        t.join()
