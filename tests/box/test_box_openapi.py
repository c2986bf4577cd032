"""docs/openapi-box.yaml against the code and a live box: every status below an operation happens here (or has a
reason), every answer fits its schema, and what both documents have is the same in both."""
import re

import pytest

from harness import names, procs
from harness.box import KEY, identity
from harness.events import Stream
from harness.http import build
from harness.openapi import BROKEN, Document

DOCUMENT = Document("openapi-box.yaml")
OPERATIONS, check = DOCUMENT.operations, DOCUMENT.check
OPEN = {"/healthz", "/ready"}
BOX_ENV = {names.HEAD_TIMEOUT: "300ms", names.STALL_TIMEOUT: "300ms", "RUNBOX_MAX_UPLOAD": "100000",
           "RUNBOX_QUOTA": "2MiB"}
WHO = ("alice",)
JSON = ("Content-Type", "application/json")
B = "bOuNdArY"
FORM = ("Content-Type", f"multipart/form-data; boundary={B}")
AUTH = [("Authorization", f"Bearer {KEY}")]


def part(name, data, filename=None):
    d = f'form-data; name="{name}"' + (f'; filename="{filename}"' if filename is not None else "")
    return f"--{B}\r\nContent-Disposition: {d}\r\n\r\n".encode() + data + b"\r\n"


def body(*parts):
    return b"".join(parts) + f"--{B}--\r\n".encode()


def command(text='{"command":"true"}'):
    return part("request", text.encode())


@pytest.fixture(scope="module")
def ready(box):
    """A workspace with one of everything, and a full one."""
    box.sh("echo text > file; mkdir -p empty full/below shut; echo x > full/below/f; ln -s /etc out; "
           "ln -s loop loop; mkfifo fifo; echo x > shut/f; chmod 0 shut; touch none; chmod 0 none", WHO)
    for i in range(20):
        box.upload(f"big{i}", b"x" * 100000, ("full",))
    assert box.upload("more", b"x" * 100000, ("full",)).status == 507
    return box


def etag(box):
    return box.call("HEAD", "/v1/files?path=file", None, WHO).get("etag")


CMD = b'{"command":"true"}'
# (path, method, status) -> [(query, body, headers[, who])], or a function of the box, or the test that does it.
EXEC, FILES, BATCH, PATH = "/v1/exec", "/v1/files", "/v1/files/batch", "/v1/path"
PROBES = {
    (EXEC, "post", 200): [("", b'{"command":"echo x; kill -SEGV $$"}', [JSON]),
                          ("", b'{"command":"sleep 60","timeout_ms":1}', []),
                          ("", CMD, [("Accept", "text/event-stream")]),
                          ("", body(command(), part("f", b"", "n")), [FORM])],
    (EXEC, "post", 403): [("", b'{"command":"x","cwd":"out"}', []),
                          ("", body(command(), part("f", b"", "out/f")), [FORM])],
    (EXEC, "post", 404): [("", b'{"command":"x","cwd":"missing"}', [])],
    (EXEC, "post", 409): "test_busy",
    (EXEC, "post", 413): [("", b'{"command":"' + b"x" * 200000 + b'"}', []), ("", b" " * 1100000, []),
                          ("", body(command(), part("f", b"x" * 100001, "n")), [FORM])],
    (EXEC, "post", 415): [("", CMD, [("Content-Type", "text/plain")]), ("", CMD, [("Content-Type", "multipart/x")])],
    (EXEC, "post", 503): "test_draining",
    (EXEC, "post", 507): [("", body(command(), part("f", b"x" * 100000, "n")), [FORM], ("full",))],
    (FILES, "get", 200): [("path=file", None, [])],
    (FILES, "get", 206): [("path=file", None, [("Range", "bytes=1-2")])],
    (FILES, "get", 304): [("path=file", None, [("If-None-Match", "*")])],
    (FILES, "get", 403): [("path=out", None, []), ("path=none", None, [])],
    (FILES, "get", 404): [("path=missing", None, [])], (FILES, "get", 409): [("path=fifo", None, [])],
    (FILES, "get", 412): [("path=file", None, [("If-Match", '"x"')])],
    (FILES, "get", 416): [("path=file", None, [("Range", "bytes=100-")])],
    (FILES, "post", 200): [("path=file", b"text\n", []), ("", body(part("f", b"text\n", "file")), [FORM]),
                           lambda b: ("path=file", b"text\n", [("If-Match", etag(b))])],
    (FILES, "post", 201): [("path=new/f", b"", [("If-None-Match", "*")]),
                           ("path=new", body(part("f", b"", "g")), [FORM])],
    (FILES, "post", 403): [("path=out/f", b"", []), ("path=shut/f", b"", [])],
    (FILES, "post", 409): [("path=empty", b"", []), ("path=file/x", b"", [])],
    (FILES, "post", 412): [("path=file", b"", [("If-None-Match", "*")]), ("path=file", b"", [("If-Match", '"x"')])],
    (FILES, "post", 413): [("path=x", b"x" * 100001, [])],
    (FILES, "post", 415): [("path=x", b"", [("Content-Encoding", "gzip")]),
                           ("path=x", b"", [("Content-Type", "multipart/x")])],
    (FILES, "post", 507): [("path=x", b"x" * 100000, [], ("full",))],
    (BATCH, "post", 200): [("", body(part("f", b"1", "p/q"), part("f", b"", "r")), [FORM]),
                           ("path=b", body(part("f", b"1", "p")), [FORM])],
    (BATCH, "post", 403): [("", body(part("f", b"", "out/f")), [FORM])],
    (BATCH, "post", 409): [("", body(part("f", b"", "empty")), [FORM]),
                           ("path=file", body(part("f", b"", "x")), [FORM])],
    (BATCH, "post", 413): [("", body(part("f", b"x" * 100001, "x")), [FORM])],
    (BATCH, "post", 415): [("", b"x", [JSON]), ("", body(part("f", b"", "x")), [FORM, ("Content-Encoding", "gzip")])],
    (BATCH, "post", 507): [("", body(part("f", b"x" * 100000, "x")), [FORM], ("full",))],
    ("/v1/list", "get", 200): [("", None, []), ("path=full&recursive=true", None, []), ("path=.", None, [])],
    ("/v1/list", "get", 403): [("path=out", None, []), ("path=shut", None, [])],
    ("/v1/list", "get", 404): [("path=missing", None, [])],
    ("/v1/archive", "get", 200): [("", None, []), ("path=full", None, [])],
    ("/v1/archive", "get", 403): [("path=out", None, []), ("path=shut", None, [])],
    ("/v1/archive", "get", 404): [("path=missing", None, [])],
    (PATH, "delete", 204): [lambda b: (b.upload("gone", b"", WHO) and "path=gone", None, []),
                            lambda b: (b.upload("gone/f", b"", WHO) and "path=gone&recursive=1", None, [])],
    (PATH, "delete", 403): [("path=out/passwd", None, []), ("path=shut/f", None, [])],
    (PATH, "delete", 404): [("path=missing", None, [])], (PATH, "delete", 409): [("path=full", None, [])],
    (PATH, "delete", 412): [("path=file", None, [("If-Match", '"x"')])],
    ("/v1/usage", "get", 200): [("", None, [])],
    ("/v1/workspace", "delete", 204): [lambda b: (b.upload("f", b"", ("gone",)) and "", None, [], ("gone",))],
    ("/v1/workspace", "delete", 404): [("", None, [], ("never", "there"))],
}
PROBES |= {(FILES, "head", s): PROBES[FILES, "get", s] for s in (200, 304, 403, 404, 409, 412)}
PROBES |= {(PATH, "put", s): [p for p in PROBES[FILES, "post", s] if callable(p) or FORM not in p[2]]
           for s in (200, 201, 403, 409, 412, 413, 507)}
PROBES |= {(PATH, "put", 201): [("path=new/h", b"", [("If-None-Match", "*")])]}
PROBES |= {(PATH, "put", 415): PROBES[FILES, "post", 415][:1]}
PROBES |= {("/v1/list", "head", s): PROBES["/v1/list", "get", s] for s in (200, 403, 404)}
for p in ("/v1/capabilities", "/metrics", "/healthz", "/ready"):
    PROBES |= {(p, m, 200): [("", None, [])] for m in ("get", "head")}
PROBES |= {(p, m, 503): "test_draining" for p in OPEN for m in ("get", "head")}
# What is malformed in the request itself, beside what is around it.
BAD = {EXEC: [("", b"{", []), ("", b'{"command":1}', []), ("a=1", CMD, []), ("", body(part("f", b"", "n")), [FORM])],
       FILES: [("", None, []), ("path=a/../b", None, []), ("path=empty", None, []),
               ("path=loop", None, []), ("x=1", None, [])],
       BATCH: [("", b"x", [FORM]), ("", body(part("f", b"", "../x")), [FORM]),
               ("path=..", body(part("f", b"", "x")), [FORM])],
       "/v1/list": [("path=file", None, []), ("recursive=maybe", None, []), ("path=a&path=b", None, [])],
       "/v1/archive": [("path=file", None, []), ("x=1", None, [])], PATH: [("path=", None, []), ("x=1", None, [])],
       "/v1/usage": [("x=1", None, [])], "/v1/workspace": [("x=1", None, [])], "/v1/capabilities": [("x", None, [])],
       "/metrics": [("x", None, [])], "/healthz": [("x", None, [])], "/ready": [("x", None, [])]}


def test_every_status_is_probed_or_explained():
    unkeyed = {(p, m, 401) for p, m in OPERATIONS if p not in OPEN}
    assert DOCUMENT.unprobed(PROBES, unkeyed) == (set(), set(), set())
    for probe in PROBES.values():
        assert not isinstance(probe, str) or probe in globals(), probe


def test_every_route_and_method():
    """Those of the table in the front."""
    names_of = dict(re.findall(r'#define (BOX_\w+) "(/[\w/]*)"', (names.ROOT / "include/sallyport/box.h").read_text()))
    text = (names.ROOT / "src/front/boxroute.c").read_text()
    rows = re.findall(r"\{(BOX_\w+), ([A-Z_| \n]+), (true|false),", text)
    table = {(names_of[n], m.lower()): o == "true" for n, methods, o in rows
             for m in re.findall(r"ROUTE_(\w+)", methods)}
    assert set(table) == set(OPERATIONS) and len(rows) == 12
    assert {k: OPERATIONS[k].get("security") == [] for k in table} == table


def ask(box, path, method, probe):
    probe = probe(box) if callable(probe) else probe
    query, data, headers, who = (*probe, WHO)[:4]
    if method not in ("put", "post"):
        data = None
    a = box.call(method.upper(), path + ("?" + query if query else ""), data, who, headers)
    return a, f"{method} {path}?{query}: {a!r}"


@pytest.mark.parametrize("path,method,status", [k for k, v in PROBES.items() if not isinstance(v, str)])
def test_status(ready, path, method, status):
    for probe in PROBES[path, method, status]:
        a, said = ask(ready, path, method, probe)
        assert a.status == status, said
        check(path, method, a)


@pytest.mark.parametrize("path,method", OPERATIONS)
def test_bad(ready, path, method):
    for probe in BAD[path]:
        if path == FILES and method == "post" and probe[0] in ("path=empty", "path=loop"):
            continue  # another status, or none: it is replaced
        a, said = ask(ready, path, method, (probe[0], probe[1] or b"", probe[2]))
        assert a.status == 400, said
        check(path, method, a)
    if OPERATIONS[path, method].get("parameters"):
        for who in (None, ("",), ("a b",), ("a", "")):
            a = ready.call(method.upper(), path, b"" if method in ("put", "post") else None, who)
            assert a.status == 400
            assert method == "head" or a.code == "bad_identity"
            check(path, method, a)


@pytest.mark.parametrize("path,method", [k for k in OPERATIONS if k[0] not in OPEN])
def test_unauthorized(ready, path, method):
    for key in (None, "x" * 20):
        a = ready.call(method.upper(), path, b"" if method in ("put", "post") else None, WHO, key=key)
        assert a.status == 401
        check(path, method, a)


@pytest.mark.parametrize("status", sorted(BROKEN))
@pytest.mark.parametrize("path,method", OPERATIONS)
def test_broken_around_it(ready, path, method, status):
    with ready.conn() as c:
        c.send(BROKEN[status](method.upper(), path))
        a = c.answer()  # with a body: the request was not understood
        if a.status == 401:  # of 417: the key comes first
            assert status == 417 and path not in OPEN
        else:
            assert a.status == status
        check(path, method, a)


@pytest.mark.parametrize("path,query", [(EXEC, ""), (FILES, "?path=x"), (BATCH, "")])
def test_a_body_that_stops(ready, path, query):
    with ready.conn() as c:
        kind = [FORM] if path == BATCH else []
        c.send(build("POST", path + query, b"--", [*AUTH, *identity(*WHO), *kind, ("Content-Length", "10")]))
        a = c.answer()
        assert a.status == 408
        check(path, "post", a)


def test_events_fit_their_schemas(ready):
    kinds = {"stdout": "Output", "stderr": "Output", "exit": "Exit"}
    seen = set()
    with ready.conn() as c:
        c.send(build("POST", EXEC, b'{"command":"echo x; echo y >&2; kill -9 $$"}',
                     [*AUTH, *identity(*WHO), ("Accept", "text/event-stream")]))
        stream = Stream(c)
        stream.head()
        for name, data in stream:
            seen.add(name)
            if name != "start":
                DOCUMENT.fits({"$ref": f"#/components/schemas/{kinds[name]}"}, data)
    assert seen == {"start", *kinds}


def test_busy(start_box):
    b = start_box(env={"RUNBOX_QUEUE": "0"})
    first = b.send_exec("touch up; sleep 600", WHO)
    procs.wait_for("it runs", (b.workspace(*WHO) / "up").exists)
    a = b.exec("true", WHO)
    assert (a.status, a.code) == (409, "busy")
    check(EXEC, "post", a)
    first.close()


def test_shell_gone(start_box):
    """Nobody's process can be started then. A spare one would have its own mount of the shell already."""
    def prepare(d):
        (d.base / "shell").symlink_to("/bin/sh")
        d.late_env["RUNBOX_SHELL"] = str(d.base / "shell")
    b = start_box(env={"RUNBOX_SPARE_CELLS": "0"}, prepare=prepare)
    assert b.exec("echo ok", ("early",)).status == 200
    (b.base / "shell").unlink()
    a = b.exec("echo ok", WHO)
    assert (a.status, a.code) == (503, "cell_lost"), repr(a)
    check(EXEC, "post", a)
    a = b.request("GET", "/ready")
    assert (a.status, a.json["status"]) == (503, "failing")
    check("/ready", "get", a)


def test_draining(start_box):
    """On connections whose request was in hand when the signal came."""
    b = start_box(env={"RUNBOX_SHUTDOWN_TIMEOUT": "60s"})
    first = b.send_exec("touch up; while [ ! -e go ]; do sleep 0.02; done", WHO)
    procs.wait_for("it runs", (b.workspace(*WHO) / "up").exists)
    asks = {(p, m): build(m.upper(), p) for p in OPEN for m in ("get", "head")}
    asks[EXEC, "post"] = build("POST", EXEC, CMD, [*AUTH, *identity("bob")])
    conns = {k: b.conn() for k in asks}
    for k, c in conns.items():
        c.send(asks[k][:10])
    with b.conn() as c:
        assert c.request("GET", "/healthz").status == 200
        b.signal()
        assert c.closed()
    for (path, method), c in conns.items():
        c.send(asks[path, method][10:])
        a = c.answer(head_only=method == "head", target=path)
        assert a.status == 503
        check(path, method, a)
        c.close()
    (b.workspace(*WHO) / "go").touch()
    assert first.answer().status == 200
    first.close()
    assert b.wait_exit()["status"] == 0


# ---- the two documents ----
OTHER = {"schemas": {"Exit", "Result", "Command"}, "responses": {"E400", "E409", "E409Busy", "E507"}}


@pytest.mark.parametrize("kind", ["parameters", "headers", "schemas", "responses"])
def test_what_both_have_is_the_same(kind):
    seat, box = (Document(n).doc["components"][kind] for n in ("openapi.yaml", "openapi-box.yaml"))
    both = set(seat) & set(box)
    assert len(both) >= 5 and {n for n in both if seat[n] != box[n]} == OTHER.get(kind, set())
