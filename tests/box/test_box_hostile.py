"""What a client of the box can do that nobody asked for: conditions where they were not looked for, clients
that leave at the wrong moment, workspaces made to cost memory or to slip past the quota. Each was a finding."""
import json
import os
import socket

import pytest

from harness import procs
from harness.box import KEY, identity
from harness.http import build

MB = 1 << 20
BOX_ENV = {"RUNBOX_QUOTA": "0"}
FORM = [("Content-Type", "multipart/form-data; boundary=B")]
FILES_MAX = 48


def form(files, request=None):
    parts = [b'Content-Disposition: form-data; name="f"; filename="%b"\r\n\r\n%b\r\n' % f for f in files]
    if request is not None:
        parts.insert(0, b'Content-Disposition: form-data; name="request"\r\n\r\n%b\r\n'
                     % json.dumps({"command": request}).encode())
    return b"".join(b"--B\r\n" + p for p in parts) + b"--B--\r\n"


def many(n, data=b"x"):
    return [(b"m/%d" % i, data) for i in range(n)]


def whole(method, target, who, body, headers=()):
    return build(method, target, body, [("Authorization", f"Bearer {KEY}"), *identity(*who), *headers])


def names_in(box, who, path):
    try:
        return sorted(os.listdir(box.workspace(*who) / path))
    except FileNotFoundError:
        return []


# ---- conditions and codings ----

@pytest.mark.parametrize("tag", ["a" * 62, "a" * 63, "a" * 64, "a" * 65, "a" * 4000, "\xe9", "!", "A-B-C", ""], ids=lambda t: f"{len(t)}-{t[:1]!r}")
def test_tags_of_nobody(box, who, tag):
    """Of whatever length and bytes: the condition doesn't hold, and nothing is written."""
    assert box.upload("f", b"old", who).status == 201
    a = box.call("PUT", "/v1/path", b"new", who, [("If-Match", f'"{tag}"')], path="f")
    assert (a.status, a.code) == (412, "precondition_failed")
    assert box.download("f", who).body == b"old"


def test_conditions_hold_for_a_form_too(box, who):
    tag = box.upload("g", b"old", who).get("etag")

    def put(*headers):
        return box.call("POST", "/v1/files", form([(b"g", b"new")]), who, [*FORM, *headers])
    for header in (("If-None-Match", "*"), ("If-Match", '"1-2-3"')):
        assert put(header).code == "precondition_failed"
        assert box.download("g", who).body == b"old"
    assert put(("If-None-Match", tag)).code == "precondition_failed"
    assert put(("If-None-Match", "x")).code == "bad_request"
    assert put(("If-Match", tag)).status == 200
    assert put(("If-Match", tag)).code == "precondition_failed"  # it has another by now
    assert box.download("g", who).body == b"new"


@pytest.mark.parametrize("path", ["/v1/files/batch", "/v1/exec"])
@pytest.mark.parametrize("header", [("If-None-Match", "*"), ("If-Match", "*"), ("If-Match", '"1-2-3"')])
def test_conditions_of_no_one_file(box, who, path, header):
    """Of which of the files would it be? Refused, not forgotten."""
    a = box.call("POST", path, form([(b"g", b"new")], ":" if path == "/v1/exec" else None), who, [*FORM, header])
    assert (a.status, a.code) == (400, "bad_request")
    assert names_in(box, who, ".") == []


@pytest.mark.parametrize("coding,ok", [("identity", True), ("IDENTITY", True), ("Identity", True), ("gzip", False),
                                       ("identity, gzip", False), ("identity, identity", False), ("", False)])
def test_codings(box, who, coding, ok):
    """The same wherever there is a body."""
    header = ("Content-Encoding", coding)
    for a in (box.call("POST", "/v1/exec", b'{"command":":"}', who, [header]),
              box.call("PUT", "/v1/path", b"x", who, [header], path="f"),
              box.call("POST", "/v1/files", b"x", who, [header], path="f"),
              box.call("POST", "/v1/files", form([(b"f", b"x")]), who, [*FORM, header]),
              box.call("POST", "/v1/files/batch", form([(b"f", b"x")]), who, [*FORM, header]),
              box.call("POST", "/v1/exec", form([], ":"), who, [*FORM, header])):
        assert a.status in (200, 201) if ok else a.code == "bad_media_type", a


def test_a_command_and_as_many_files_as_may_be(box, who):
    a = box.call("POST", "/v1/exec", form(many(FILES_MAX), "ls m | wc -l"), who, FORM)
    assert a.status == 200 and a.json["stdout"].strip() == str(FILES_MAX)
    a = box.call("POST", "/v1/exec", form(many(FILES_MAX + 1), "touch ran"), who, FORM)
    assert a.status == 400 and names_in(box, who, ".") == ["m"]
    a = box.call("POST", "/v1/files/batch", form(many(FILES_MAX + 1)), who, FORM)
    assert a.status == 400


# ---- pieces ----

def writes(role_pid):
    with open(f"/proc/{role_pid}/io", encoding="ascii") as f:
        return int(next(line for line in f if line.startswith("syscw")).split()[1])


@pytest.mark.parametrize("piece", [b"\r", b"\r\n", b"\r\n-", b"\r\n--", b"\r\n--C"], ids=repr)
def test_a_body_of_delimiters_begun_costs_no_call_a_byte(box, who, piece):
    """The front has one thread: what it does for each byte of one client, all others wait for."""
    data = piece * (65536 // len(piece))
    front = box.role("front").pid
    before = writes(front)
    assert box.call("POST", "/v1/files", form([(b"f", data)]), who, FORM).status == 201
    assert writes(front) - before < 200
    assert box.download("f", who).body == data


@pytest.mark.parametrize("n", [1, 3, 17])
def test_a_body_of_tiny_chunks_costs_no_call_a_chunk(box, who, n):
    data = os.urandom(60000)
    pieces = [data[i:i + n] for i in range(0, len(data), n)]
    body = b"".join(b"%x;e=\"v\"\r\n%b\r\n" % (len(p), p) for p in pieces) + b"0\r\nT: v\r\n\r\n"
    front = box.role("front").pid
    before = writes(front)
    a = box.call("PUT", "/v1/path", body, who, [("Transfer-Encoding", "chunked")], path="f")
    assert a.status == 201 and a.json["size"] == len(data)
    assert writes(front) - before < 200
    assert box.download("f", who).body == data


def test_a_command_in_tiny_chunks_with_long_extensions(box, who):
    text = json.dumps({"command": "echo here"}).encode()
    body = b"".join(b"1;%b\r\n%c\r\n" % (b"e" * 200, ch) for ch in text) + b"0\r\n\r\n"
    a = box.call("POST", "/v1/exec", body, who, [("Transfer-Encoding", "chunked")])
    assert a.json["stdout"] == "here\n"


# ---- who leaves ----

def test_a_client_that_leaves_while_its_files_are_placed_leaves_no_command(box, who):
    """docs/api.md: a client that closes has its command killed. Or it never began."""
    for _ in range(5):
        with box.conn() as c:
            c.send(whole("POST", "/v1/exec", who, form(many(FILES_MAX), "sleep 1000"), FORM))
            c.sock.shutdown(socket.SHUT_WR)
        assert box.sh("echo free", who)["stdout"] == "free\n"


def test_a_batch_whose_client_leaves_is_whole_or_not_there(box, who):
    n = 15  # so that several fit among the 64 uploads of a workspace
    for k in range(12):
        c = box.conn()
        c.send(whole("POST", f"/v1/files/batch?path=b{k}", who, form(many(n)), FORM))
        if k % 3 == 1:
            procs.wait_for("it has begun", lambda: names_in(box, who, f"b{k}/m"))
        c.reset() if k % 3 < 2 else c.close()
        procs.wait_for("all or none", lambda: len(names_in(box, who, f"b{k}/m")) in (0, n))
    assert box.sh("echo fine", who)["stdout"] == "fine\n"


@pytest.mark.parametrize("size", [10, 100000, 3 * MB])
@pytest.mark.parametrize("kind", ["put", "form", "batch"])
def test_a_client_that_closed_its_side_alone_is_answered(box, who, size, kind):
    """What it sent is whole, and it waits: for a cell that has to be started, too."""
    data = os.urandom(size)
    request = {"put": whole("PUT", "/v1/path?path=f", who, data),
               "form": whole("POST", "/v1/files", who, form([(b"f", data)]), FORM),
               "batch": whole("POST", "/v1/files/batch", who, form([(b"f", data), (b"g", b"")]), FORM)}[kind]
    with box.conn() as c:
        c.send(request)
        c.sock.shutdown(socket.SHUT_WR)
        a = c.answer()
        assert a.status in (200, 201)
        assert c.closed()
    assert box.download("f", who).body == data


@pytest.mark.parametrize("target", ["/v1/list", "/v1/usage", "/v1/archive", "/v1/files?path=f", "/v1/list?recursive=true"])
def test_a_reader_that_closed_its_side_alone_is_answered(box, who, target):
    assert box.upload("f", b"x", who).status == 201
    with box.conn() as c:
        c.send(whole("GET", target, who, None))
        c.sock.shutdown(socket.SHUT_WR)
        assert c.answer().status == 200
        assert c.closed()


def test_nobody_makes_the_daemon_work_by_asking_whether_it_can(start_box):
    """/ready needs no key: asked and left again and again, it runs no more commands than its answer holds for."""
    b = start_box(env={"BASH_ENV": "$(echo x >> probes)", "SALLYPORT_ENV_PASS": "BASH_ENV"})

    def runs():
        return sum(len(p.read_text().splitlines()) for p in (b.root / "workspaces").glob("*/probes"))
    assert b.call("GET", "/ready", who=None, key=None).status == 200
    procs.wait_for("its command ran", runs)

    def stale():
        for _ in range(10):
            c = b.conn()
            c.send(b"GET /ready HTTP/1.1\r\nHost: t\r\n\r\n")
            c.reset()
        return runs() > 1
    procs.wait_for("it ran again", stale)
    for _ in range(10):
        stale()
    assert b.call("GET", "/ready", who=None, key=None).status == 200
    assert runs() <= 3


# ---- a workspace that is made to cost ----

def test_many_small_files_fill_a_quota(start_box):
    """Each takes a block, as du says, however few bytes it has."""
    b = start_box(env={"RUNBOX_QUOTA": "2MiB"})
    for k in range(200):
        a = b.call("POST", "/v1/files/batch", form([(b"%d/%d" % (k, i), b"x") for i in range(FILES_MAX)]), headers=FORM)
        if a.status != 200:
            break
    assert (a.status, a.code) == (507, "quota_exceeded")
    assert b.call("GET", "/v1/usage").json["bytes"] < 3 * MB


def deep_names(box, who):
    """A tree whose every path is tens of thousands of bytes long."""
    box.sh("""python3 -c "
import os
for _ in range(200):
    os.mkdir('d' * 250); os.chdir('d' * 250)
for i in range(1400):
    os.close(os.open(str(i), os.O_CREAT, 0o644))" """, who, timeout=120)


def test_deep_names_make_no_endless_list(box, who):
    deep_names(box, who)
    a = box.call("GET", "/v1/list", who=who, recursive="true")
    assert 63 * MB < len(a.body) < 65 * MB and a.body.endswith(b'"}],"truncated":true}'.replace(b'"}', b"}"))
    assert box.call("DELETE", "/v1/workspace", who=who).status == 204


def test_conditions_of_a_removal(box, who):
    tag = box.upload("f", b"old", who).get("etag")

    def gone(**query):
        def with_headers(*headers):
            return box.call("DELETE", "/v1/path", None, who, headers, path="f", **query)
        return with_headers
    for query in ({}, {"recursive": "true"}):
        for header in (("If-Match", '"1-2-3"'), ("If-None-Match", tag), ("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT")):
            a = gone(**query)(header)
            assert (a.status, a.code) == (412, "precondition_failed")
    assert gone()(("If-None-Match", "x")).code == "bad_request"
    assert box.download("f", who).body == b"old"
    assert gone()(("If-Match", f'"1-2-3", {tag}')).status == 204
    assert gone()(("If-Match", tag)).code == "not_found"


@pytest.mark.parametrize("header", ["If-Match", "If-None-Match", "If-Unmodified-Since"])
def test_a_workspace_is_not_removed_on_conditions(box, who, header):
    assert box.upload("f", b"x", who).status == 201
    a = box.call("DELETE", "/v1/workspace", None, who, [(header, "*")])
    assert (a.status, a.code) == (400, "bad_request")
    assert box.download("f", who).body == b"x"


def test_listings_that_nobody_takes_are_bounded_together(box, who):
    """Each is 64 MiB of memory for as long as its client likes; other requests go on."""
    deep_names(box, who)
    assert box.upload("small/f", b"x", who).status == 201
    conns = []

    def ask():
        c = box.conn()
        c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        c.send(whole("GET", "/v1/list?recursive=true", who, None))
        conns.append(c)
        return c.line().split()[1]
    got = [ask() for _ in range(8)]
    assert got.count(b"200") in (3, 4) and set(got) == {b"200", b"503"}, got
    assert box.upload("f", b"x", who).status == 201 and box.sh("echo on", who)["stdout"] == "on\n"
    assert box.call("GET", "/v1/list", who=who, path="small").json["entries"][0]["name"] == "f"
    for c in conns:
        c.close()
    procs.wait_for("there is room again", lambda: box.call("GET", "/v1/list", who=who, recursive="true").status == 200)
    assert box.call("DELETE", "/v1/workspace", who=who).status == 204
