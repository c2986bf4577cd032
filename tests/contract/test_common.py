"""docs/api.md "Common" and "GET /healthz": routes, methods, queries, error form, the code table."""
import re

import pytest

from harness import names
from harness.http import build


def test_code_table_is_the_documents():
    text = (names.ROOT / "docs" / "api.md").read_text().partition("## All codes")[2]
    rows = re.findall(r"^\| ([0-9]{3}) \| ([^|]+) \|", text, re.M)
    found = {code: int(status) for status, codes in rows for code in re.findall(r"`([a-z_]+)`", codes)}
    assert found == names.CODES


def test_healthz(seat):
    a = seat.request("GET", "/healthz")
    assert a.status == 200 and a.json == {"status": "ok"}
    assert not a.closes


def test_healthz_head(seat):
    get = seat.request("GET", "/healthz")
    head = seat.request("HEAD", "/healthz")
    assert head.status == 200 and head.body == b""
    assert head.get("content-length") == get.get("content-length")
    assert head.get("content-type") == get.get("content-type")


def test_healthz_does_not_wait_for_a_command(seat):
    c = seat.send_command("touch hz; sleep 60")
    seat.wait_file("hz")
    assert seat.request("GET", "/healthz").json == {"status": "ok"}
    c.close()
    seat.wait_idle()


@pytest.mark.parametrize("target", ["/", "/nothing", "/healthz/", "/Healthz", "/execute/", "/file",
                                    "/filesx", "/%66iles", "/healthz%00", "/execute.json"])
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
def test_unknown_route(seat, method, target):
    a = seat.request(method, target, b"{}" if method in ("POST", "PUT") else None)
    assert (a.status, a.code) == (404, "no_route")


def allowed(a):
    return {m.strip() for m in a.get("allow").split(",")}


@pytest.mark.parametrize("target,methods", [("/healthz", {"GET", "HEAD"}), ("/execute", {"POST"}),
                                            ("/files/x", {"GET", "HEAD", "PUT", "DELETE"}),
                                            ("/files", {"GET", "HEAD", "PUT", "DELETE"})])
def test_wrong_method(seat, target, methods):
    for method in {"GET", "HEAD", "PUT", "DELETE", "POST", "OPTIONS", "PATCH", "TRACE"} - methods:
        a = seat.request(method, target)
        assert a.status == 405, (method, a)
        assert allowed(a) - {"OPTIONS"} >= methods - {"PUT", "DELETE"}, a
        assert allowed(a) <= methods | {"OPTIONS"}, a
        if method != "HEAD":
            assert a.code == "bad_method"


@pytest.mark.parametrize("method", ["BREW", "get", "Post", "PROPFIND", "FOO-BAR", "X" * 40])
@pytest.mark.parametrize("target", ["/healthz", "/execute", "/files/x"])
def test_unknown_method(seat, method, target):
    a = seat.request(method, target)
    assert (a.status, a.code) == (501, "unknown_method")


def test_connect_is_not_served(seat):
    with seat.conn() as c:
        c.send(b"CONNECT example.test:443 HTTP/1.1\r\nHost: example.test:443\r\n\r\n")
        assert c.answer().status in (400, 404, 405, 501)
    assert seat.request("GET", "/healthz").status == 200


def test_options_asterisk(seat):
    a = seat.request("OPTIONS", "*")
    assert a.status in (200, 204, 404, 405)


@pytest.mark.parametrize("method,target", [
    ("GET", "/healthz?x=1"), ("GET", "/healthz?"), ("HEAD", "/healthz?a"), ("POST", "/execute?x"),
    ("GET", "/files/x?recursive=true"), ("PUT", "/files/x?recursive=true"), ("GET", "/files?y=2"),
    ("DELETE", "/files/x?recursive=maybe"), ("DELETE", "/files/x?recursive"),
    ("DELETE", "/files/x?recursive=true&recursive=true"), ("DELETE", "/files/x?force=1"),
    ("DELETE", "/files/x?recursive=true&x=1"), ("DELETE", "/files/x?Recursive=true"),
    ("DELETE", "/files/x?recursive=%74rue%00")])
def test_queries_are_refused(seat, method, target):
    body = b'{"command":"touch query-ran"}' if method == "POST" else None
    a = seat.request(method, target, b"x" if method == "PUT" else body)
    assert a.status == 400
    if method != "HEAD":
        assert a.code == "bad_query"
    assert not (seat.ws / "query-ran").exists() and not (seat.ws / "x").exists()


def test_fragment_is_refused(seat):
    a = seat.request("GET", "/healthz#x")
    assert a.status in (400, 404)


def test_unread_body_closes(seat):
    with seat.conn() as c:
        a = c.request("PUT", "/nothing", headers=[("Content-Length", "100000")])
        assert a.status == 404 and a.closes
        assert c.closed()


def test_error_without_a_body_keeps_the_connection(seat):
    with seat.conn() as c:
        for _ in range(3):
            assert c.request("GET", "/nothing").status == 404
            assert c.request("GET", "/files/none").status == 404
            assert c.request("GET", "/healthz").status == 200


def test_get_with_a_body_stays_in_step(seat):
    """A body where none is expected is read or ends the connection; it is never a request."""
    with seat.conn() as c:
        smuggled = b"GET /files/smuggled HTTP/1.1\r\nHost: t\r\n\r\n"
        a = c.request("GET", "/healthz", smuggled)
        assert a.status in (200, 400)
        if a.closes:
            assert c.closed()
        else:
            assert c.request("GET", "/healthz").status == 200


def test_date_and_names_leak_nothing(seat):
    a = seat.request("GET", "/healthz")
    assert "h2o" not in a.get("server", "").lower()


@pytest.mark.parametrize("value", ["200-ok", "100-continue, x", "nonsense", ""])
def test_other_expectations(seat, value):
    with seat.conn() as c:
        c.send(build("PUT", "/files/expect", b"x", [("Expect", value)]))
        a = c.answer()
        assert (a.status, a.code) == (417, "bad_expectation")
    assert not (seat.ws / "expect").exists()


@pytest.mark.parametrize("value", ["100-continue", "100-Continue"])
def test_expect_is_case_insensitive(seat, value):
    with seat.conn() as c:
        c.send(b"PUT /files/exp HTTP/1.1\r\nHost: t\r\nContent-Length: 2\r\nExpect: "
               + value.encode() + b"\r\n\r\n")
        assert c.line() == b"HTTP/1.1 100 Continue"
        assert c.line() == b""
        c.send(b"ok")
        assert c.answer().status in (200, 201)


def test_expect_on_http10_is_ignored(seat):
    with seat.conn() as c:
        c.send(b"PUT /files/exp10 HTTP/1.0\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\nok")
        a = c.answer()
        assert a.status in (200, 201) and a.interim == []
