"""Several boxes behind nginx and HAProxy, with the files of deploy/: an identity meets its workspace,
one box down moves only its own, and neither events nor files are held back on the way."""
import itertools
import json

import pytest

from harness import procs
from harness.box import KEY, identity
from harness.http import Closed
from proxied import listening

_count = itertools.count()


@pytest.fixture(name="who")
def fixture_who():
    return (f"proxied-{next(_count)}",)


def sent_head(method, target, who, *fields):
    lines = [f"{method} {target} HTTP/1.1", "Host: t", f"Authorization: Bearer {KEY}",
             *(f"{k}: {v}" for k, v in identity(*who)), *fields]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def counter(box, name):
    text = box.call("GET", "/metrics", who=None).body.decode()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith(name + " "))


def identities():
    """Both forms, and the same names in the places of others."""
    return [(f"id-{n}-ü",) if n % 2 else (f"tenant-{n % 7}", f"user-{n}") for n in range(40)
            ] + [("a", "bc"), ("ab", "c"), ("abc",)]


def put_all(pool):
    for who in identities():
        mine = json.dumps(who).encode()
        fields = [(k, v.encode().decode("latin-1")) for k, v in identity(*who)]
        a = pool.call("POST", "/v1/files", mine, who=None, headers=fields, path="me")
        assert a.status in (200, 201), a


def ask(pool, who):
    fields = [(k, v.encode().decode("latin-1")) for k, v in identity(*who)]
    return pool.call("GET", "/v1/files", who=None, headers=fields, path="me")


def test_an_identity_always_meets_its_workspace(pool):
    put_all(pool)
    for _ in range(3):
        for who in identities():
            assert ask(pool, who).body == json.dumps(who).encode()
    owners = [pool.owner(who) for who in identities()]
    assert all(len(o) == 1 for o in owners)
    shares = [sum(o[0] is box for o in owners) for box in pool.boxes]
    assert min(shares) >= 3, shares


def test_answers_come_through_as_they_are(pool, who):
    assert pool.call("GET", "/v1/files", who=who, path="none").code == "not_found"
    assert pool.call("GET", "/v1/usage", who=who, key="x" * 20).code == "unauthorized"
    assert pool.call("GET", "/v1/usage", who=None).code == "bad_identity"
    a = pool.call("POST", "/v1/files", b"0123456789", who=who, path="a b/%ü")
    assert (a.status, a.json["path"]) == (201, "a b/%ü")
    a = pool.call("GET", "/v1/files", who=who, path="a b/%ü", headers=[("Range", "bytes=2-3")])
    assert (a.status, a.body) == (206, b"23")
    with pool.conn() as c:  # each box has figures of its own
        c.send(sent_head("GET", "/metrics", who))
        assert b" 404 " in c.line()


def test_output_arrives_while_the_command_runs(pool, who):
    body = json.dumps({"command": "echo first; until [ -e go ]; do sleep 0.01; done; echo last"}).encode()
    with pool.conn() as c:
        c.send(sent_head("POST", "/v1/exec", who, "Accept: text/event-stream",
                         f"Content-Length: {len(body)}") + body)
        until(c, b'"first\\n"')
        assert pool.call("POST", "/v1/files", b"", who=who, path="go").status == 201
        until(c, b'"last\\n"')
        until(c, b'"exit_code":0')


def until(c, text):
    while text not in c.buf:
        c.fill()


def test_a_client_that_leaves_ends_its_command(pool, who):
    body = json.dumps({"command": "touch up; sleep 1000"}).encode()
    with pool.conn() as c:
        c.send(sent_head("POST", "/v1/exec", who, f"Content-Length: {len(body)}") + body)
        box = procs.wait_for("it has a workspace", lambda: pool.owner(who))[0]
        procs.wait_for("it runs", (box.workspace(*who) / "up").exists)
    a = pool.call("POST", "/v1/exec", json.dumps({"command": "echo next"}).encode(), who=who)
    assert a.json["stdout"] == "next\n"


def test_an_upload_is_not_kept_on_the_way(pool, who):
    assert pool.call("POST", "/v1/files", b"", who=who, path="x").status == 201
    box, half = pool.owner(who)[0], b"z" * (24 << 20)
    before = counter(box, "sallyport_received_bytes_total")
    with pool.conn() as c:
        c.send(sent_head("POST", "/v1/files?path=big", who, f"Content-Length: {2 * len(half)}"))
        c.send(half)
        procs.wait_for("the box has nearly all that was sent", lambda: counter(
            box, "sallyport_received_bytes_total") - before > len(half) - (1 << 20))
        c.send(half)
        assert c.answer().json["size"] == 2 * len(half)
    with pool.conn() as c:  # and one without a length
        c.send(sent_head("POST", "/v1/files?path=chunks", who, "Transfer-Encoding: chunked"))
        c.send(b"5\r\nhello\r\n")
        procs.wait_for("the box has begun", lambda: counter(
            box, "sallyport_received_bytes_total") - before > 2 * len(half))
        c.send(b"0\r\n\r\n")
        assert c.answer().json["size"] == 5


def test_a_download_waits_for_its_reader(pool, who):
    a = pool.call("POST", "/v1/exec", json.dumps({"command": "truncate -s 128M big"}).encode(), who=who)
    assert a.json["exit_code"] == 0
    box = pool.owner(who)[0]
    before = counter(box, "sallyport_sent_bytes_total")

    def moved():
        return counter(box, "sallyport_sent_bytes_total") - before
    with pool.conn() as c:
        c.send(sent_head("GET", "/v1/files?path=big", who))
        until(c, b"\r\n\r\n")
        seen = [0]

        def still():  # the sockets on the way are full: all that moves is what tells us so
            seen.append(moved())
            return len(seen) > 10 and seen[-1] - seen[-10] < 1 << 20
        procs.wait_for("nothing moves", still, 60, 0.05)
        assert seen[-1] < 64 << 20, seen
        c.buf = c.buf.partition(b"\r\n\r\n")[2]
        assert c.take(128 << 20).count(0) == 128 << 20


def test_one_box_down_moves_only_its_own(pool):
    put_all(pool)
    whose = {who: pool.owner(who)[0] for who in identities()}
    down = pool.boxes[1]
    port = down.port
    down.end()
    for who, box in whose.items():
        if box is not down:
            assert ask(pool, who).body == json.dumps(who).encode()
    for who in (w for w, box in whose.items() if box is down):
        procs.wait_for("another box takes them", lambda: serves(pool, who) == "not_found", 60)
    for who, box in whose.items():  # still, and nobody's files were seen by another
        if box is not down:
            assert ask(pool, who).body == json.dumps(who).encode()
    with listening(port) as s:
        down.exit, down.port = None, None
        down._start(0, ("box",), [s], [], 4096)
    down.wait_up()
    for who in whose:  # back where their files are
        procs.wait_for("its workspace", lambda: serves(pool, who) == json.dumps(who), 60)


def serves(pool, who):
    """The code of an error, the file, or None where nobody answers."""
    try:
        with pool.conn() as c:
            fields = [f"{k}: {v}" for k, v in identity(*who)]
            c.send("\r\n".join(["GET /v1/files?path=me HTTP/1.1", "Host: t", f"Authorization: Bearer {KEY}",
                                "Connection: close", *fields]).encode() + b"\r\n\r\n")
            head, _, body = c.rest().partition(b"\r\n\r\n")
    except (OSError, Closed):
        return None
    if b" 200 " in head.split(b"\r\n")[0]:
        return body.decode()
    code = json.loads(body)["code"]
    return None if code == "no_box" else code
