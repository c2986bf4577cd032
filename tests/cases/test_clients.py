"""Faults that clients of services of this kind have had, against our three: what a proxy puts in between, statuses that
are no success, lengths and deadlines that are no numbers. tests/cases/index.tsv has the list."""
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "sdk"))

from clients import LANGUAGES, Driver  # noqa: E402
from hostile import EXIT, OUT, RESULT, START, Server, asking, events, plain  # noqa: E402

BYTES = "application/octet-stream"
STORED = b'{"path":"x","size":1}'


@pytest.fixture(scope="module")
def server():
    s = Server()
    yield s
    s.close()


@pytest.fixture(scope="module", params=LANGUAGES)
def driver(request, server):
    """A box's client, which has all that a seat's has; at(...) closes it."""
    return Driver(request.param, server.url, key="k", who=["a"])


@pytest.fixture(scope="module")
def at(driver, server):
    """at(reply, op, ...) is what it makes of that."""
    yield from asking(driver, server)


OPS = {
    "delete_path": {"path": "x"}, "delete_workspace": {}, "head": {"path": "x"}, "read": {"path": "x"},
    "sink": {"path": "x"}, "archive": {"path": ""}, "pull": {"path": ""}, "write": {"path": "x", "text": "x"},
    "put_path": {"path": "x", "text": "x"}, "write_batch": {"files": {"a": "x"}}, "list": {"path": ""},
    "execute": {"command": "x"}, "stream": {"command": "x"}, "usage": {}, "capabilities": {}, "metrics": {},
    "health": {}, "ready": {}}
# What is the daemon's answer but for its status.
GOOD = {
    "read": (b"x", BYTES), "sink": (b"x", BYTES), "head": (b"", BYTES), "archive": (b"x" * 1024, "application/x-tar"),
    "pull": (b"x" * 1024, "application/x-tar"), "write": (STORED, "application/json"), "put_path": (STORED, "application/json"),
    "write_batch": (b'{"files":[{"path":"a","size":1,"created":true}]}', "application/json"),
    "list": (b'{"path":"","truncated":false,"entries":[]}', "application/json"), "execute": (RESULT, "application/json"),
    "stream": (START + EXIT, "text/event-stream"), "usage": (b'{"bytes":1,"entries":1,"quota":1}', "application/json"),
    "capabilities": (b'{"name":"x","version":"1","mode":"box","limits":{"a":1},"layers":[],"routes":[]}', "application/json"),
    "metrics": (b"x 1\n", "text/plain"), "health": (b'{"status":"ok"}', "application/json"),
    "ready": (b'{"status":"ready"}', "application/json")}


@pytest.mark.parametrize("op", OPS)
def test_a_status_that_is_no_success(server, at, op):
    """A portal's redirect, which isn't followed, or an answer that something will be done: not done."""
    body, kind = GOOD.get(op, (b"", "text/html"))
    for status in ("302 Found", "307 Temporary Redirect", "304 Not Modified", "202 Accepted", "300 Multiple Choices"):
        bare = status[:3] == "304" or op == "head"
        reply = plain(b"" if bare else body, status, kind, f"Location: {server.url}/x\r\n")
        assert at(reply, op, **OPS[op]).get("error") == "transport", (status, op)


@pytest.mark.parametrize("op", ["delete_path", "delete_workspace", "head"])
def test_a_page_in_the_place_of_an_answer(at, op):
    """With 200, as a login page or a wrong address has it: nothing is removed, and no folder is there."""
    reply = plain(b"" if op == "head" else b"<html>", "200 OK", "text/html")
    assert at(reply, op, **OPS[op]).get("error") == "transport"


def ranged(body, field):
    return plain(body, "206 Partial Content", BYTES, f"Content-Range: {field}\r\n" if field else "")


def test_a_part_that_is_another_than_was_asked_for(at):
    """A cache's, a proxy's, or all of a file's beginning where the whole was asked for: bytes at a wrong place."""
    assert at(ranged(b"xyz", "bytes 5-7/10"), "read", path="x", start=5, end=8)["text"] == "xyz"
    assert at(ranged(b"xyz", "bytes 5-7/8"), "read", path="x", start=5)["text"] == "xyz"
    assert at(ranged(b"xy", "bytes 5-6/7"), "read", path="x", start=5, end=100)["text"] == "xy"
    for field in ("bytes 0-2/10", "bytes 6-8/10", "bytes 5-9/10", "bytes */10", "lines 5-7/10", None):
        assert at(ranged(b"xyz", field), "read", path="x", start=5, end=8)["error"] == "transport", field
    assert at(ranged(b"xyz", "bytes 0-2/10"), "read", path="x")["error"] == "transport"


@pytest.mark.parametrize("length", ["abc", "-5", "1e1", "5, 6", "18446744073709551616", "0x5"])
@pytest.mark.parametrize("op", ["execute", "read", "head"])
def test_a_length_that_is_none(at, op, length):
    body, kind = GOOD[op]
    reply = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n".encode() + body
    assert at(reply, op, **OPS[op]).get("error") == "transport"


@pytest.mark.parametrize("status", ["100 Continue", "102 Processing", "103 Early Hints"])
@pytest.mark.parametrize("op", ["execute", "stream", "read", "write"])
def test_interim_answers(at, op, status):
    """Whoever sends them: the answer is the one behind."""
    body, kind = GOOD[op]
    interim = f"HTTP/1.1 {status}\r\nLink: </a>; rel=preload\r\n\r\n".encode()
    got = at(interim * 3 + plain(body, kind=kind), op, **OPS[op])
    assert "error" not in got, got


@pytest.mark.parametrize("op", ["read", "pull"])
def test_bytes_that_were_packed_on_the_way(at, op):
    """Nobody asked for gzip. Who unpacks it, or hands it on as it is, is wrong half of the time."""
    body, kind = GOOD[op]
    got = at(plain(body, kind=kind, more="Content-Encoding: gzip\r\n"), op, **OPS[op])
    assert got.get("error") == "transport"
    assert "error" not in at(plain(body, kind=kind, more="Content-Encoding: identity\r\n"), op, **OPS[op])


@pytest.mark.parametrize("status,error", [("200 OK", "transport"), ("500 X", "api")])
def test_json_without_a_bottom(at, status, error):
    for text in (b"[" * 60_000, b'{"a":' * 12_000):
        got = at(plain(text, status), "execute", command="x")
        assert got["error"] == error and got.get("code", "unknown") == "unknown"
    deep = b'event: stdout\ndata: ' + b"[" * 60_000 + b"\n\n"
    assert at(events(START, OUT, deep, EXIT), "stream", command="x")["error"] == "transport"


@pytest.mark.parametrize("op,args", [("write", {"path": "x", "text": "x"}), ("delete_path", {"path": "x"})])
@pytest.mark.parametrize("tag", ['"a"\r\nX-Evil: 1', '"a"\n', '"\0"'])
def test_a_tag_that_is_two_headers(server, driver, at, op, args, tag):
    """Refused by the client, told as its errors are, and nothing is asked."""
    before = server.requests
    assert driver.ask(op, if_match=tag, **args)["error"] in ("refused", "transport")
    assert server.requests == before


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_pause_of_no_seconds(language, server):
    """Retry-After: 0 doesn't make a hot loop of waiting while the daemon is busy."""
    d = Driver(language, server.url)
    server.reply, before = plain(b'{"error":"Busy.","code":"busy"}', "409 Conflict", more="Retry-After: 0\r\n"), server.requests
    try:
        assert d.ask("execute", command="x", busy_wait=1.5)["code"] == "busy"
    finally:
        d.close()
    assert 2 <= server.requests - before <= 4


@pytest.mark.parametrize("deadline", [3e6, 1e10, 1e300])
def test_a_deadline_beyond_what_a_socket_takes(server, deadline):
    """25 days are 2^31 ms: nobody waits so long, and many say so."""
    d = Driver("python", server.url)
    server.reply = plain(RESULT)
    try:
        assert d.ask("execute", command="x", deadline=deadline).get("stdout") == "o"
    finally:
        d.close()


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_head_byte_by_byte_within_no_deadline(server, language):
    """Each byte comes in good time, and all of them long after: what would come in the end is an answer."""
    d = Driver(language, server.url)
    server.reply = b"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n"
    server.split, server.pause = True, 0.1
    try:
        assert d.ask("delete_path", path="x", deadline=0.5).get("error") == "deadline"
    finally:
        server.split, server.pause = False, 0
        d.close()


@pytest.mark.parametrize("language", LANGUAGES)
def test_proxies_of_the_environment_are_not_asked(monkeypatch, server, language):
    """They would see the key, and each command."""
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.setenv("NODE_USE_ENV_PROXY", "1")
    monkeypatch.setenv("REQUEST_METHOD", "")
    d = Driver(language, server.url.replace("127.0.0.1", "localhost"), key="k", who=["a"])
    server.reply = plain(RESULT)
    try:
        assert d.ask("execute", command="x").get("stdout") == "o"
    finally:
        d.close()


@pytest.mark.parametrize("path", ["..", "a/../b", "./a", "a//b", "a/.", "/etc/passwd", "a/..%2fb"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_path_is_asked_for_as_it_is(seat, language, path):
    """No client makes another, allowed one of it: the file beside it would be removed."""
    d = Driver(language, f"http://127.0.0.1:{seat.port}")
    (seat.ws / "b").write_text("kept")
    try:
        got = d.ask("delete_path", path=path)
    finally:
        d.close()
    assert got["error"] == "api" and got["code"] in ("bad_path", "not_found"), got
    assert (seat.ws / "b").exists()
