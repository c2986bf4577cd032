"""TLS on the port: what is negotiated, that HTTP over it is the same HTTP, and every way in which a
client can be slow, wrong or gone."""
import os
import re
import socket
import ssl
import threading
import time

import pytest

from harness import names, procs
from harness.http import Closed, build
from harness.tls import TlsConn, client_context, common_name, make_pair, openssl, raw, tls_daemon

METRICS = {"SALLYPORT_METRICS": "true"}
MIB32 = 32 << 20


@pytest.fixture(name="tls", scope="module")
def fixture_tls():
    from harness.daemon import Daemon
    made = []

    def make(up, **kw):
        made.append(Daemon(**kw))
        return made[-1]
    d = tls_daemon(make, env=METRICS)
    yield d
    d.stop()


# ---- what is negotiated ----

def test_versions(tls):
    with TlsConn(tls) as c:
        assert c.tls.version() == "TLSv1.3"
        assert c.request("GET", "/healthz").json == {"status": "ok"}
    with TlsConn(tls, client_context(maximum_version=ssl.TLSVersion.TLSv1_2)) as c:
        assert c.tls.version() == "TLSv1.2"
        assert c.tls.cipher()[0].startswith("ECDHE-") and c.tls.compression() is None
        assert c.request("GET", "/healthz").status == 200


def test_absolute_form(tls, seat):
    """Of https here, and nowhere else (RFC 9112 3.2.2, RFC 9110 7.4)."""
    with TlsConn(tls) as c:
        for scheme in (b"https", b"HTTPS", b"http"):
            c.send(b"GET %b://t/healthz HTTP/1.1\r\nHost: t\r\n\r\n" % scheme)
            assert c.answer().json == {"status": "ok"}
    with seat.conn() as c:
        c.send(b"GET https://t/healthz HTTP/1.1\r\nHost: t\r\n\r\n")
        assert c.answer().code == "bad_request"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
def test_old_versions(tls, version):
    context = client_context()
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = version
    with pytest.raises(ssl.SSLError, match="protocol version|internal error"):
        TlsConn(tls, context)


@pytest.mark.parametrize("cipher,good", [
    ("ECDHE-RSA-AES128-GCM-SHA256", True), ("ECDHE-RSA-AES256-GCM-SHA384", True),
    ("ECDHE-RSA-CHACHA20-POLY1305", True), ("ECDHE-RSA-AES128-SHA256", False),
    ("ECDHE-RSA-AES128-SHA", False), ("DHE-RSA-AES128-GCM-SHA256", False),
    ("AES128-GCM-SHA256", False), ("AES256-SHA", False), ("NULL-SHA256", False)])
def test_ciphers_of_1_2(tls, cipher, good):
    context = client_context(maximum_version=ssl.TLSVersion.TLSv1_2)
    context.set_ciphers(f"{cipher}:@SECLEVEL=0")
    if not good:
        with pytest.raises(ssl.SSLError, match="handshake failure"):
            TlsConn(tls, context)
        return
    with TlsConn(tls, context) as c:
        assert c.tls.cipher()[0] == cipher


def test_alpn(tls):
    context = client_context()
    context.set_alpn_protocols(["h2", "http/1.1"])
    with TlsConn(tls, context) as c:
        assert c.tls.selected_alpn_protocol() == "http/1.1"
    context.set_alpn_protocols(["h2"])
    with pytest.raises(ssl.SSLError, match="no application protocol"):
        TlsConn(tls, context)


def s_client(d, *args, text):
    return openssl("s_client", "-connect", f"127.0.0.1:{d.port}", *args, input=text, check=False)


def test_s_client(tls):
    r = s_client(tls, "-quiet", "-servername", "x",
                 text=b"GET /healthz HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n")
    assert r.stdout.startswith(b"HTTP/1.1 200 OK\r\n") and r.stdout.endswith(b'{"status":"ok"}\n')


def test_no_renegotiation(tls):
    out = s_client(tls, "-tls1_2", text=b"R\n")
    said = (out.stdout + out.stderr).decode(errors="replace")
    assert "RENEGOTIATING" in said and "no renegotiation" in said, said
    assert tls.request("GET", "/healthz").status == 200


def test_nothing_to_resume(tls):
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context = client_context(minimum_version=version, maximum_version=version)
        with TlsConn(tls, context) as c:
            assert c.request("GET", "/healthz").status == 200
            assert not c.tls.session.has_ticket and c.tls.session.ticket_lifetime_hint == 0
            assert not c.tls.session_reused


def test_elliptic_certificate_and_its_chain(start):
    def prepare(d):
        base = d.base
        root_cert, root_key = make_pair(base, "root", "root", "ec")
        _, key = make_pair(base, "leaf", "leaf", "ec")
        openssl("req", "-new", "-key", str(key), "-subj", "/CN=leaf", "-out", str(base / "csr"))
        openssl("x509", "-req", "-in", str(base / "csr"), "-CA", str(root_cert), "-CAkey",
                str(root_key), "-days", "2", "-out", str(base / "leaf.crt"))
        chain = base / "chain.pem"
        chain.write_bytes((base / "leaf.crt").read_bytes() + root_cert.read_bytes())
        d.late_env.update({"SALLYPORT_TLS_CERT": str(chain), "SALLYPORT_TLS_KEY": str(key)})
        d.root_cert = root_cert
    from harness.tls import LISTENING
    d = start(prepare=prepare, up=False).wait_up(LISTENING)
    d.port = int(LISTENING.search(d.log_path.read_bytes())[1])
    context = ssl.create_default_context(cafile=str(d.root_cert))
    context.check_hostname = False
    with TlsConn(d, context) as c:  # the client verifies it
        assert common_name(c) == "leaf"
        assert c.request("GET", "/healthz").status == 200


# ---- the same HTTP ----

def test_upload_and_download(tls):
    body = os.urandom(1 << 20) * 32
    assert tls.put("big", body).status == 201
    assert (tls.ws / "big").read_bytes() == body
    a = tls.get("big")
    assert a.status == 200 and a.body == body
    part = tls.request("GET", "/files/big", headers={"Range": f"bytes=1000000-{MIB32 - 2}"})
    assert part.status == 206 and part.body == body[1000000:-1]
    with tls.conn() as c:  # chunked, and more requests on the same connection
        c.send(b"PUT /files/chunks HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n")
        for i in range(0, len(body), 3_333_333):
            piece = body[i:i + 3_333_333]
            c.send(b"%x\r\n%s\r\n" % (len(piece), piece))
        c.send(b"0\r\n\r\n")
        assert c.answer().status == 201
        assert c.request("HEAD", "/files/chunks").get("content-length") == str(MIB32)
        assert c.request("PUT", "/files/empty", b"").status == 201
    assert (tls.ws / "chunks").read_bytes() == body
    got = tls.run("cat big | sha256sum; cat chunks | sha256sum")["stdout"].split()
    assert got[0] == got[2]


def test_commands(tls):
    text = "x" * 300_000
    assert tls.run("cat", stdin=text)["stdout"] == text
    assert tls.run("head -c 1000000 /dev/zero | tr '\\0' y")["stdout"] == "y" * 1_000_000


def test_byte_by_byte_records(tls):
    body = b'{"command":"echo hi"}'
    request = build("POST", "/execute", body)
    with tls.conn() as c:
        for i in range(len(request)):
            c.send(request[i:i + 1])
        assert c.answer().json["stdout"] == "hi\n"


def test_records_cut_anywhere_on_the_wire(tls):
    with tls.conn() as c:
        c.tls.write(build("PUT", "/files/cut", b"z" * 20000))
        wire = c.outgoing.read()
        for i in range(0, len(wire), 97):
            c.raw.sendall(wire[i:i + 97])
        assert c.answer().status in (200, 201)
    assert (tls.ws / "cut").read_bytes() == b"z" * 20000


def test_pipelined_more_than_a_buffer(tls):
    """What was decrypted and finds no room must not wait for another packet."""
    one = build("GET", "/healthz", headers={"X-Pad": "p" * 3000})
    with tls.conn() as c:
        c.send(one * 60)
        for _ in range(60):
            assert c.answer().json == {"status": "ok"}
    one = build("PUT", "/files/p", b"q" * 40_000)
    with tls.conn() as c:
        c.send(one * 12)
        for _ in range(12):
            assert c.answer().status in (200, 201)
    mixed = build("POST", "/execute", b'{"command":"echo 1"}') + build("GET", "/files/p")
    with tls.conn() as c:
        c.send(mixed * 5)
        for _ in range(5):
            assert c.answer().json["stdout"] == "1\n"
            assert c.answer().body == b"q" * 40_000


def test_expect_continue(tls):
    with tls.conn() as c:
        c.send(b"PUT /files/e HTTP/1.1\r\nHost: t\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
        assert c.line() == b"HTTP/1.1 100 Continue" and c.line() == b""
        c.send(b"abc")
        assert c.answer().status == 201


def test_refused_bodies_end_well(tls):
    with tls.conn() as c:
        c.send(build("POST", "/execute", b"x" * 500_000, {"Content-Type": "text/plain"}))
        assert c.answer().code == "bad_media_type"
        assert c.ended_well()
    with tls.conn() as c:
        assert c.request("GET", "/healthz", headers={"Connection": "close"}).status == 200
        assert c.ended_well()


def test_many_at_once(tls):
    body = os.urandom(300_000)
    tls.put("many", body)
    errors = []

    def work():
        try:
            for _ in range(5):
                assert tls.get("many").body == body
        except Exception as e:  # told by the main thread
            errors.append(e)
    threads = [threading.Thread(target=work) for _ in range(12)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors, errors[0]


# ---- clients that leave, stop, or aren't ----

def test_close_notify_ends_a_command(tls):
    for half in (True, False):
        name = f"half{half}"
        c = tls.send_command(f"touch {name}; sleep 1000")
        tls.wait_file(name)
        if half:
            c.say_close()  # the socket stays open
        else:
            c.close()
        tls.wait_no_strangers()
        c.close()
        tls.wait_idle()


def test_half_close_behind_a_request(tls):
    tls.put("h", b"h" * 200_000)
    with tls.conn() as c:
        c.tls.write(build("GET", "/files/h"))
        c.say_close()  # in one packet with it
        a = c.answer()
        assert a.body == b"h" * 200_000 and a.closes


def test_a_cut_upload_changes_nothing(tls):
    tls.put("kept", b"old")
    for end in ("reset", "close", "notify"):
        c = tls.conn()
        c.send(b"PUT /files/kept HTTP/1.1\r\nHost: t\r\nContent-Length: 100000\r\n\r\n" + b"n" * 5000)
        if end == "notify":
            c.say_close()
            assert c.rest() == b""
        elif end == "reset":
            c.reset()
        c.close()
    tls.wait_idle()
    assert (tls.ws / "kept").read_bytes() == b"old"
    assert not [p for p in os.listdir(tls.ws) if p.startswith(".sallyport")]


def failures(d):
    return float(re.search(r"^sallyport_tls_failures_total ([0-9]+)$",
                           d.request("GET", "/metrics").body.decode(), re.M)[1])


@pytest.mark.parametrize("what", [b"\0" * 300, b"\xff" * 300, b"\x16\x03\x01\x00\x05hello",
                                  b"\x16\x03\x01\x40\x01" + b"\1" * 20000, os.urandom(3000),
                                  b"SSH-2.0-x\r\n", b"\x80\x2e\x01\x00\x02" + b"\0" * 41],
                         ids=["zeros", "ones", "no-hello", "long-record", "random", "ssh", "ssl2"])
def test_garbage(tls, what):
    before = failures(tls)
    with raw(tls) as s:
        s.sendall(what)
        s.shutdown(socket.SHUT_WR)
        answer = b""
        while more := s.recv(65536):
            answer += more
        assert answer[:1] in (b"", b"\x15")  # at most an alert
    assert failures(tls) == before + 1
    assert tls.request("GET", "/healthz").status == 200


def test_garbage_after_the_handshake(tls):
    with tls.conn() as c:
        c.raw.sendall(b"\x17\x03\x03\x00\x30" + b"\0" * 48)
        with pytest.raises((ssl.SSLError, ConnectionResetError)):
            c.recv(100)
    assert tls.request("GET", "/healthz").status == 200


def test_plain_http(tls):
    for request in (b"GET / HTTP/1.1\r\nHost: t\r\n\r\n", build("PUT", "/files/x", b"x" * 5000),
                    build("POST", "/execute", b"{}")):
        with raw(tls) as s:
            s.sendall(request)
            answer = b""
            while more := s.recv(65536):
                answer += more
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400 ")
        assert int(re.search(rb"Content-Length: ([0-9]+)", head)[1]) == len(body)
        assert b"https" in body and b'"bad_request"' in body
    assert not (tls.ws / "x").exists()


def test_slow_handshakes(start):
    d = tls_daemon(start, env={names.HEAD_TIMEOUT: "300ms", **METRICS})
    hello = None
    with raw(d) as idle, raw(d) as partial:
        c = TlsConn(d, handshake=False)
        try:
            c.tls.do_handshake()
        except ssl.SSLWantReadError:
            hello = c.outgoing.read()
        partial.sendall(hello[:50])
        c.raw.sendall(hello)  # and then nothing: in the middle of the handshake
        for s in (idle, partial, c.raw):
            while s.recv(65536):
                pass
        c.close()
    # A handshake, and then a head that doesn't come.
    with d.conn() as c:
        assert c.ended_well()
    with d.conn() as c:
        c.send(b"GET / HT")
        assert c.answer().status == 408
    assert d.request("GET", "/healthz").status == 200


def test_a_reader_that_stops(start):
    d = tls_daemon(start, env={names.STALL_TIMEOUT: "400ms", **METRICS})
    (d.ws / "big").write_bytes(b"b" * MIB32)
    with d.conn() as c:
        c.send(build("GET", "/files/big"))
        procs.wait_for("the stalled download is given up", lambda: 'wait="stall"} 1' in d.request(
            "GET", "/metrics").body.decode())
        with pytest.raises((Closed, ssl.SSLError, ConnectionResetError)):
            c.answer()
    assert d.get("big").body == b"b" * MIB32


def test_a_slow_reader_gets_all(tls):
    (tls.ws / "slow").write_bytes(bytes(range(256)) * 80_000)
    with tls.conn() as c:
        c.send(build("GET", "/files/slow"))
        time.sleep(0.3)  # so that the socket is full
        assert c.answer().body == bytes(range(256)) * 80_000


def test_nothing_leaks(tls):
    def front():
        return tls.role("front")

    def quiet():
        return len(front().fds())
    tls.request("GET", "/healthz")
    pid, before = front().pid, quiet()
    for i in range(150):
        kind = i % 4
        if kind == 0:
            tls.request("GET", "/healthz")
        elif kind == 1:
            with raw(tls) as s:
                s.sendall(b"\x16\x03\x01")
        elif kind == 2:
            tls.conn().reset()
        else:
            with tls.conn() as c:
                c.send(b"GET ")
    procs.wait_for("all are closed", lambda: quiet() <= before)
    assert front().pid == pid


def test_who_holds_the_files(tls):
    """main alone, for the next front; nothing of them reaches a command."""
    assert any("sallyport-tls" in f for f in tls.main.fds().values())
    for role in ("front", "broker", "cell"):
        assert not any("sallyport-tls" in f for f in tls.role(role).fds().values()), role
    out = tls.run("ls -l /proc/*/fd 2>/dev/null | grep -c sallyport-tls; env | grep -c TLS")["stdout"]
    assert out == "0\n0\n"
