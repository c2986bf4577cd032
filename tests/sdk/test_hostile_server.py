"""Each client at a server that breaks its word: whatever comes, there is one clear error, no hang, and
no second request. The bytes are ours, since no daemon of ours would send them."""
import socket
import threading

import pytest

from clients import LANGUAGES, Driver


class Server:
    """Answers each connection with the bytes in reply, then closes it. Counts requests."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.reply, self.split, self.requests = b"", False, 0
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while True:
            try:
                conn, _ = self.listener.accept()
            except OSError:
                return
            with conn:
                conn.settimeout(30)
                conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if self.request(conn):
                    self.requests += 1
                    self.answer(conn)

    def request(self, conn):
        data = b""
        while b"\r\n\r\n" not in data:
            more = conn.recv(65536)
            if not more:
                return False
            data += more
        head, _, body = data.partition(b"\r\n\r\n")
        length = next((int(line.split(b":")[1]) for line in head.lower().split(b"\r\n")
                       if line.startswith(b"content-length:")), 0)
        while len(body) < length:
            body += conn.recv(65536)
        return True

    def answer(self, conn):
        try:
            if self.split:
                for at in range(len(self.reply)):
                    conn.sendall(self.reply[at:at + 1])
            else:
                conn.sendall(self.reply)
            conn.shutdown(socket.SHUT_WR)
            conn.recv(1)
        except OSError:
            pass  # it had read enough

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(30)


@pytest.fixture(scope="module")
def server():
    s = Server()
    yield s
    s.close()


@pytest.fixture(scope="module", params=LANGUAGES)
def at(request, server):
    """at(reply, op, ...) is what the client makes of it."""
    d = Driver(request.param, server.url)
    yield from asking(d, server)


@pytest.fixture(scope="module", params=LANGUAGES)
def box_at(request, server):
    """The same of a box's client."""
    yield from asking(Driver(request.param, server.url, key="k", who=["a"]), server)


def asking(d, server):
    def ask(reply, op, split=False, **args):
        server.reply, server.split, before = reply, split, server.requests
        got = d.ask(op, **args)
        assert server.requests == before + 1, "asked again"
        return got
    yield ask
    d.close()


def plain(body, status="200 OK", kind="application/json", more=""):
    return (f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{more}"
            "Connection: close\r\n\r\n").encode() + body


def events(*texts, end=True):
    """A chunked stream, each text a chunk."""
    body = b"".join(b"%x\r\n%s\r\n" % (len(t), t) for t in texts)
    return (b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
            + body + (b"0\r\n\r\n" if end else b""))


START = b"event: start\ndata: {}\n\n"
EXIT = (b'event: exit\ndata: {"exit_code":0,"signal":null,"timed_out":false,"duration_ms":3,'
        b'"stdout_bytes":6,"stderr_bytes":0}\n\n')
OUT = 'event: stdout\ndata: {"text":"é€\\n"}\n\n'.encode()
RESULT = (b'{"stdout":"o","stderr":"","exit_code":0,"signal":null,"timed_out":false,"duration_ms":3,'
          b'"stdout_truncated":false,"stderr_truncated":false,"something_new":[1]}')

TRANSPORT = {
    "nothing": b"", "no HTTP": b"hello\r\n\r\n", "half a head": b"HTTP/1.1 200 OK\r\nContent-",
    "no JSON": plain(b"<html>"), "no object": plain(b"[]"), "null": plain(b"null"),
    "no members": plain(b"{}"), "a wrong type": plain(RESULT.replace(b'"o"', b"1")),
    "a member missing": plain(RESULT.replace(b'"exit_code":0,', b"")),
    "half a body": plain(RESULT)[:-5], "two values": plain(RESULT + RESULT),
    "bad chunks": b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "a redirect": plain(b"", "302 Found", more="Location: /elsewhere\r\n"),
}


@pytest.mark.parametrize("what", TRANSPORT)
def test_execute(at, what):
    assert at(TRANSPORT[what], "execute", command="x")["error"] == "transport"


def test_what_is_new_is_ignored(at):
    assert at(plain(RESULT), "execute", command="x")["stdout"] == "o"
    got = at(events(START + OUT + b"event: new\ndata: {\"a\":1}\n\nid: 1\nretry: 5\n\n:\n\n" + EXIT),
             "stream", command="x")
    assert (got["stdout"], got["exit_code"]) == ("é€\n", 0)


def test_an_error_that_is_not_ours(at):
    got = at(plain(b"<html>bad gateway</html>", "502 Bad Gateway", "text/html"), "execute", command="x")
    assert (got["error"], got["code"], got["status"], got["retry_after"]) == ("api", "unknown", 502, None)
    got = at(plain(b'{"error":1,"code":[]}', "500 X", more="Retry-After: soon\r\n"), "execute", command="x")
    assert (got["error"], got["code"], got["status"], got["retry_after"]) == ("api", "unknown", 500, None)
    got = at(plain(b"x" * 10_000_000, "503 X", more="Retry-After: 7\r\n"), "stream", command="x")
    assert (got["error"], got["code"], got["status"], got["retry_after"]) == ("api", "unknown", 503, 7)


def test_a_stream_in_single_bytes(at):
    got = at(events(START, OUT, b":\n\n", OUT, EXIT), "stream", split=True, command="x")
    assert (got["stdout"], got["exit_code"]) == ("é€\né€\n", 0)
    chunks = [bytes([b]) for b in START + OUT + EXIT]
    assert at(events(*chunks), "stream", command="x")["stdout"] == "é€\n"


STREAMS = {
    "no exit": events(START, OUT), "cut off": events(START, OUT, end=False), "empty": events(),
    "half a line": events(START, OUT[:-8]), "half a character": events(START, OUT[:30]),
    "no JSON": events(START, b"event: stdout\ndata: x\n\n", EXIT),
    "no text": events(START, b"event: stdout\ndata: {}\n\n", EXIT),
    "a wrong type": events(START, b'event: stdout\ndata: {"text":1}\n\n', EXIT),
    "an empty exit": events(START, b"event: exit\ndata: {}\n\n"),
    "no data": events(START, b"event: stdout\n\n", EXIT),
    "an endless line": events(START, b"event: stdout\ndata: " + b"x" * 3_000_000),
    "plain JSON": plain(RESULT), "no answer": b"",
}


@pytest.mark.parametrize("what", STREAMS)
def test_stream(at, what):
    assert at(STREAMS[what], "stream", command="x")["error"] == "transport"


def test_an_error_inside_a_stream(at):
    got = at(events(START, OUT, b'event: error\ndata: {"error":"Gone.","code":"cell_lost"}\n\n'), "stream",
             command="x")
    assert (got["error"], got["code"], got["status"], got["message"]) == ("api", "cell_lost", 200, "Gone.")


@pytest.mark.parametrize("op,args,reply", [
    ("download", {}, plain(b"x" * 100, kind="application/octet-stream")[:-1]),
    ("read", {}, plain(b"x" * 100, kind="application/octet-stream")[:-1]),
    ("read", {"start": 5}, plain(b"x" * 100, kind="application/octet-stream")),
    ("list", {}, plain(b'{"path":"","truncated":false}')),
    ("list", {}, plain(b'{"path":"","truncated":false,"entries":[{"name":1}]}')),
    ("write", {"text": "x"}, plain(b'{"path":"x"}', "201 Created")),
    ("health", {}, plain(b"{}")), ("health", {}, plain(b'"ok"')), ("head", {}, b""), ("delete_path", {}, b"")])
def test_files(at, op, args, reply):
    assert at(reply, op, path="x", **args)["error"] == "transport"


TAR = plain(b"x" * 100, kind="application/x-tar")
PIECES = (b"HTTP/1.1 200 OK\r\nContent-Type: application/x-tar\r\nTransfer-Encoding: chunked\r\n\r\n"
          b"5\r\nabcde\r\n")


@pytest.mark.parametrize("op,args,reply", [
    ("archive", {"path": ""}, TAR[:-1]), ("archive", {"path": ""}, PIECES), ("archive", {"path": ""}, plain(b"{}")),
    ("archive", {"path": ""}, PIECES + b"5\r\nab"), ("sink", {"path": "x"}, plain(b"<html>", kind="text/html")),
    ("sink", {"path": "x"}, plain(b"x" * 9, kind="application/octet-stream")[:-1]),
    ("write_batch", {"files": {"a": "x"}}, plain(b"{}")),
    ("write_batch", {"files": {"a": "x"}}, plain(b'{"files":[1]}')),
    ("usage", {}, plain(b'{"bytes":1,"entries":2}')), ("usage", {}, plain(b'{"bytes":"1","entries":2,"quota":3}')),
    ("capabilities", {}, plain(b'{"name":"x","version":"1","mode":"box","limits":{}}')),
    ("capabilities", {}, plain(b'{"name":"x","version":"1","mode":"box","limits":{"a":"1"},"layers":[],"routes":[]}')),
    ("metrics", {}, plain(b"{}")), ("ready", {}, plain(b"{}")), ("put_path", {"path": "x", "text": "x"}, plain(b"{}")),
    ("delete_workspace", {}, b""), ("execute", {"command": "x", "files": {"a": "x"}}, plain(b"{}"))])
def test_box(box_at, op, args, reply):
    assert box_at(reply, op, **args)["error"] == "transport"


def test_box_busy_is_not_asked_again(box_at):
    busy = plain(b'{"error":"Busy.","code":"busy"}', "409 Conflict", more="Retry-After: 0\r\n")
    for op, args in (("execute", {}), ("stream", {}), ("execute", {"files": {"a": "x"}})):
        assert box_at(busy, op, command="x", **args)["code"] == "busy"  # box_at counts
