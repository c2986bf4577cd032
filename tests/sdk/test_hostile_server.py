"""Each client at a server that breaks its word: whatever comes, there is one clear error, no hang, and
no second request. The bytes are ours, since no daemon of ours would send them."""
import pytest

from clients import LANGUAGES, Driver
from hostile import EXIT, OUT, RESULT, START, Server, asking, events, plain


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
