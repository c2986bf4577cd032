"""docs/openapi.yaml against the code and a live seat: every code is in it, every status below an
operation happens here (or has a reason), and every answer fits its schema."""
import re
import shutil

import pytest

from harness import names
from harness.events import Stream
from harness.http import build
from harness.openapi import BROKEN, Document

DOCUMENT = Document("openapi.yaml")
OPERATIONS, check = DOCUMENT.operations, DOCUMENT.check


# ---- what the seat is like ----
SEAT_ENV = {names.HEAD_TIMEOUT: "300ms", names.STALL_TIMEOUT: "300ms", names.MAX_UPLOAD: "100000",
            "SALLYPORT_METRICS": "true"}


@pytest.fixture(scope="module")
def ready(seat):
    """A workspace with one of everything."""
    seat.run("echo text > file; mkdir -p empty full/below shut; echo x > full/below/f; ln -s /etc out; "
             "ln -s loop loop; mkfifo fifo; echo x > shut/f; chmod 0 shut; touch none; chmod 0 none")
    return seat


def head_etag(seat):
    return seat.head("file").get("etag")


TOO_BIG = b'{"command":"' + b"x" * 200000 + b'"}'
# (path, method, status) -> [(target, body, headers)]; a callable is asked with the seat.
PROBES = {
    ("/healthz", "get", 200): [("/healthz", None, {})],
    ("/healthz", "head", 200): [("/healthz", None, {})],
    ("/metrics", "get", 200): [("/metrics", None, {})],
    ("/metrics", "head", 200): [("/metrics", None, {})],
    ("/metrics", "get", 404): "test_no_metrics",
    ("/metrics", "head", 404): "test_no_metrics",
    ("/execute", "post", 200): [
        ("/execute", b'{"command":"echo x; kill -SEGV $$"}', {}),
        ("/execute", b'{"command":"sleep 60","timeout_ms":1}', {}),
        ("/execute", b'{"command":"echo x"}', {"Accept": "text/event-stream"})],
    ("/execute", "post", 400): [
        ("/execute", b"{", {}), ("/execute", b'{"command":1}', {}), ("/execute?a=1", b'{"command":"x"}', {}),
        ("/execute", b'{"command":"x","cwd":"file"}', {})],
    ("/execute", "post", 403): [("/execute", b'{"command":"x","cwd":"out"}', {})],
    ("/execute", "post", 404): [("/execute", b'{"command":"x","cwd":"missing"}', {})],
    ("/execute", "post", 413): [("/execute", TOO_BIG, {}), ("/execute", b" " * 1100000, {})],
    ("/execute", "post", 415): [("/execute", b'{"command":"x"}', {"Content-Type": "text/plain"})],
    ("/files", "get", 200): [("/files", None, {}), ("/files/", None, {})],
    ("/files/{path}", "get", 200): [("/files/file", None, {}), ("/files/full", None, {}),
                                    ("/files/empty/", None, {})],
    ("/files/{path}", "get", 206): [("/files/file", None, {"Range": "bytes=1-2"})],
    ("/files/{path}", "get", 304): [("/files/file", None, {"If-None-Match": "*"})],
    ("/files/{path}", "get", 400): [("/files/file/", None, {}), ("/files/a/../b", None, {}),
                                    ("/files/loop", None, {}), ("/files/file?x=1", None, {})],
    ("/files/{path}", "get", 403): [("/files/out", None, {}), ("/files/none", None, {})],
    ("/files/{path}", "get", 404): [("/files/missing", None, {}), ("/files/file/x", None, {})],
    ("/files/{path}", "get", 409): [("/files/fifo", None, {})],
    ("/files/{path}", "get", 412): [("/files/file", None, {"If-Match": '"x"'})],
    ("/files/{path}", "get", 416): [("/files/file", None, {"Range": "bytes=100-"})],
    ("/files/{path}", "put", 200): [("/files/file", b"text\n", {}),
                                    lambda s: ("/files/file", b"text\n", {"If-Match": head_etag(s)})],
    ("/files/{path}", "put", 201): [("/files/new/f", b"", {"If-None-Match": "*"})],
    ("/files/{path}", "put", 400): [("/files/x/", b"", {}), ("/files/x", b"", {"Content-Range": "bytes 0-1/2"})],
    ("/files/{path}", "put", 403): [("/files/out/f", b"", {}), ("/files/shut/f", b"", {})],
    ("/files/{path}", "put", 409): [("/files/empty", b"", {}), ("/files/file/x", b"", {})],
    ("/files/{path}", "put", 412): [("/files/file", b"", {"If-None-Match": "*"}),
                                    ("/files/file", b"", {"If-Match": '"x"'})],
    ("/files/{path}", "put", 413): [("/files/x", b"x" * 100001, {})],
    ("/files/{path}", "put", 415): [("/files/x", b"", {"Content-Encoding": "gzip"})],
    ("/files/{path}", "delete", 204): [lambda s: (s.put("gone", b"") and "/files/gone", None, {}),
                                       lambda s: (s.put("gone/f", b"") and "/files/gone?recursive=1", None, {})],
    ("/files/{path}", "delete", 400): [("/files/x?y=1", None, {}), ("/files/", None, {})],
    ("/files/{path}", "delete", 403): [("/files/out/passwd", None, {}), ("/files/shut/f", None, {})],
    ("/files/{path}", "delete", 404): [("/files/missing", None, {})],
    ("/files/{path}", "delete", 409): [("/files/full", None, {})],
    ("/files/{path}", "delete", 412): [("/files/file", None, {"If-Match": '"x"'}),
                                       ("/files/full?recursive=1", None, {"If-None-Match": "*"})],
    ("/files", "get", 403): "test_an_unreadable_workspace",
    ("/files", "head", 200): [("/files", None, {}), ("/files/", None, {})],
    ("/files", "head", 403): "test_an_unreadable_workspace",
    ("/healthz", "get", 503): "test_draining",
    ("/healthz", "head", 503): "test_draining",
    ("/execute", "post", 409): "test_busy",
    ("/execute", "post", 500): "test_shell_gone",
    ("/execute", "post", 503): "test_draining",
    ("/files/{path}", "put", 507): "test_no_space",
}
PROBES |= {("/files/{path}", "head", s): PROBES["/files/{path}", "get", s]
           for s in (200, 304, 400, 403, 404, 409, 412)}
EXAMPLE = {"/healthz": "/healthz", "/metrics": "/metrics", "/execute": "/execute", "/files": "/files", "/files/{path}": "/files/file"}


def test_every_code_is_there():
    """Those of include/sallyport/err.h, as the table behind them spells them."""
    header = (names.ROOT / "include/sallyport/err.h").read_text()
    enum = re.findall(r"SP_E_([A-Z0-9_]+)", re.search(r"SP_OK = 0,(.*)SP_E_COUNT", header, re.S)[1])
    table = dict(re.findall(r'\[SP_E_(\w+)\] = \{"(\w+)"', (names.ROOT / "src/base/err.c").read_text()))
    assert set(table) == set(enum) and set(table.values()) == set(names.CODES)
    box = Document("openapi-box.yaml").codes()
    assert box | DOCUMENT.codes() == names.CODES
    assert set(names.CODES) - set(DOCUMENT.codes()) == {"unauthorized", "bad_identity", "is_directory", "quota_exceeded"}


def test_every_status_is_probed_or_explained():
    assert DOCUMENT.unprobed(PROBES) == (set(), set(), set())
    for probe in PROBES.values():
        assert not isinstance(probe, str) or probe in globals(), probe


@pytest.mark.parametrize("path,method,status", [k for k, v in PROBES.items() if not isinstance(v, str)])
def test_status(ready, path, method, status):
    for probe in PROBES[path, method, status]:
        target, body, headers = probe(ready) if callable(probe) else probe
        a = ready.request(method.upper(), target, body if method in ("put", "post") else None, headers)
        assert a.status == status, f"{target}: {a!r}"
        check(path, method, a)


@pytest.mark.parametrize("status", sorted(BROKEN))
@pytest.mark.parametrize("path,method", OPERATIONS)
def test_broken_around_it(ready, path, method, status):
    with ready.conn() as c:
        c.send(BROKEN[status](method.upper(), EXAMPLE[path]))
        a = c.answer()  # with a body: the request was not understood
        assert a.status == status
        check(path, method, a)


@pytest.mark.parametrize("target,method,body", [("/execute", "POST", b"{"), ("/files/stops", "PUT", b"x")])
def test_a_body_that_stops(ready, target, method, body):
    with ready.conn() as c:
        c.send(build(method, target, body, {"Content-Length": "10"}))
        a = c.answer()
        assert a.status == 408
        check(target.replace("stops", "{path}"), method.lower(), a)


@pytest.mark.parametrize("target", ["/nothing", "/", "/filesx", "/execute/"])
def test_no_route(ready, target):
    a = ready.request("GET", target)
    assert (a.status, a.code) == (404, "no_route")


@pytest.mark.parametrize("path", EXAMPLE)
def test_other_methods(ready, path):
    """405 names what the document has for the path."""
    allowed = {m.upper() for p, m in OPERATIONS if p == path}
    for method in {"GET", "HEAD", "PUT", "POST", "DELETE", "PATCH", "OPTIONS", "TRACE", "QUERY"} - allowed:
        a = ready.request(method, EXAMPLE[path])
        assert a.status == 405
        assert set(a.get("allow").split(", ")) == allowed
    a = ready.request("BREW", EXAMPLE[path])
    assert (a.status, a.code) == (501, "unknown_method")


@pytest.mark.parametrize("target", ["/files", "/files/"])
@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_the_workspace_itself_is_refused(ready, target, method):
    a = ready.request(method, target, b"" if method == "PUT" else None)
    assert (a.status, a.code) == (400, "bad_path")
    check("/files", method.lower(), a)


def test_events_fit_their_schemas(ready):
    kinds = {"stdout": "Output", "stderr": "Output", "exit": "Exit"}
    seen = set()
    with ready.conn() as c:
        for name, data in Stream(c).open("echo x; echo y >&2; kill -9 $$"):
            seen.add(name)
            if name != "start":
                DOCUMENT.fits({"$ref": f"#/components/schemas/{kinds[name]}"}, data)
    assert seen == {"start", *kinds}


def test_busy(ready):
    s = Stream(ready.conn()).open("sleep 600")
    s.next()
    check("/execute", "post", ready.execute("x"))
    s.conn.close()
    ready.wait_idle()


def test_shell_gone(start):
    def prepare(d):
        shutil.copy("/bin/sh", d.ws / "shell")
        d.late_env = {names.SHELL: str(d.ws / "shell")}
    d = start(prepare=prepare)
    (d.ws / "shell").unlink()
    a = d.execute("echo ok")
    assert a.status == 500
    check("/execute", "post", a)


def test_no_space(start):
    d = start(small_folder=("small", "1m"))
    a = d.put("small/f", b"x" * 4000000)
    assert a.status == 507
    check("/files/{path}", "put", a)


def test_an_unreadable_workspace(start):
    d = start()
    d.run("chmod 0300 .")
    for method in ("GET", "HEAD"):
        a = d.request(method, "/files")
        assert a.status == 403
        check("/files", method.lower(), a)


def test_no_metrics(start):
    d = start()
    for method in ("get", "head"):
        a = d.request(method.upper(), "/metrics")
        assert a.status == 404
        check("/metrics", method, a)


def test_draining(start):
    """On connections whose request was in hand when the signal came."""
    d = start(env={names.SHUTDOWN_TIMEOUT: "60s"})
    first = d.send_command("touch up; while [ ! -e go ]; do sleep 0.02; done")
    d.wait_file("up")
    asks = {("/healthz", "get"): build("GET", "/healthz"), ("/healthz", "head"): build("HEAD", "/healthz"),
            ("/execute", "post"): build("POST", "/execute", b'{"command":"x"}')}
    conns = {k: d.conn() for k in asks}
    for k, c in conns.items():
        c.send(asks[k][:10])
    with d.conn() as c:
        assert c.request("GET", "/healthz").status == 200
        d.signal()
        assert c.closed()
    for (path, method), c in conns.items():
        c.send(asks[path, method][10:])
        a = c.answer(head_only=method == "head", target=path)
        assert a.status == 503
        check(path, method, a)
        c.close()
    (d.ws / "go").touch()
    assert first.answer().status == 200
    first.close()
    assert d.wait_exit()["status"] == 0
