"""The key is asked for at the end of the head: who has none gets no byte of a body read, kept or asked for, and
the answer comes before the body does. docs/box.md, "Who asks"."""
import pytest

from harness import procs
from harness.box import KEY, identity

MB = 1 << 20
LARGE = 900_000
BODIES = [("POST", "/v1/exec", "application/json"), ("POST", "/v1/exec", "multipart/form-data; boundary=B"),
          ("POST", "/v1/files?path=f", "application/octet-stream"), ("POST", "/v1/files", "multipart/form-data; boundary=B"),
          ("POST", "/v1/files/batch", "multipart/form-data; boundary=B"), ("PUT", "/v1/path?path=f", "application/octet-stream"),
          ("POST", "/v1/none", "application/json"), ("POST", "/execute", "application/json")]
BAD_KEYS = [None, "Bearer wrong-key-0123456789", "Bearer", "Bearer ", f"Basic {KEY}", f"Bearer {KEY}x", f"Bearer {KEY[:-1]}",
            f"Bearer {KEY},{KEY}", f'Bearer "{KEY}"', KEY, f"Bearer\t{KEY}"]


def head(method, target, media, key, *more):
    lines = [f"{method} {target} HTTP/1.1", "Host: t", f"Content-Type: {media}", *more]
    if key is not None:
        lines.append(f"Authorization: {key}")
    lines += [f"{k}: {v}" for k, v in identity("alice")]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def refused(c):
    a = c.answer()
    assert (a.status, a.code) == (401, "unauthorized") and a.closes and a.interim == []
    assert a.get("www-authenticate")
    return a


@pytest.mark.parametrize("method,target,media", BODIES, ids=lambda v: v[-12:])
@pytest.mark.parametrize("more", [[f"Content-Length: {LARGE}"], ["Transfer-Encoding: chunked"],
                                  [f"Content-Length: {LARGE}", "Expect: 100-continue"],
                                  ["Transfer-Encoding: chunked", "Expect: 100-continue"]], ids=" ".join)
def test_before_the_body(box, method, target, media, more):
    """Nothing of the body is sent, and yet the answer is there, without a 100."""
    with box.conn() as c:
        c.send(head(method, target, media, None, *more))
        refused(c)
        assert c.closed()


@pytest.mark.parametrize("key", BAD_KEYS, ids=str)
def test_keys_that_are_none(box, key):
    with box.conn() as c:
        c.send(head("POST", "/v1/exec", "application/json", key, f"Content-Length: {LARGE}"))
        refused(c)


def test_a_key_given_twice(box):
    with box.conn() as c:
        c.send(head("POST", "/v1/exec", "application/json", f"Bearer {KEY}", f"Authorization: Bearer {KEY}", "Content-Length: 20"))
        refused(c)


def resident(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return int(next(line for line in f if line.startswith("RssAnon")).split()[1]) * 1024


def test_two_hundred_large_bodies_are_kept_nowhere(start_box):
    """Each as large as a command may be; the front's memory knows nothing of it."""
    b = start_box()
    front = b.role("front").pid
    assert b.sh("echo up")["stdout"] == "up\n"
    before = resident(front)
    conns = [b.conn() for _ in range(200)]
    for c in conns:
        c.send(head("POST", "/v1/exec", "application/json", None, f"Content-Length: {LARGE}"))
        c.send_lenient(b" " * (LARGE - 1))
    for c in conns:
        refused(c)
    assert resident(front) - before < 50 * MB
    for c in conns:
        c.close()
    procs.wait_for("they are gone", lambda: len(b.role("front").fds()) < 100)
    assert b.sh("echo on")["stdout"] == "on\n"
