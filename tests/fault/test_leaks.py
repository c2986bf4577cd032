"""Nothing grows: descriptors, processes and zombies are the same before and after mixed requests."""
import os

from harness import procs
from harness.http import Closed

JSON = b'{"command":"echo x; sleep 0 & cat /dev/null"}'


def counts(d):
    """Role -> sorted kinds of its descriptors (numbers differ, kinds must not)."""
    found = {}
    for p in [d.main, *(p for p in d.procs() if p.role)]:
        kinds = sorted(t.split(":")[0] if ":" in t else t for t in p.fds().values())
        found[p.role or "main"] = (p.pid, kinds)
    return found


def mixed(d, n):
    with d.conn() as c:
        for target in ("/healthz", "/files", "/files/none", "/files/%2f", "/nothing", f"/files/f{n % 5}"):
            c.request("GET", target)
        c.request("PUT", f"/files/f{n % 5}", b"x" * (n * 100))
        c.request("POST", "/execute", JSON)
        c.request("DELETE", f"/files/f{(n + 1) % 5}")
        c.request("POST", "/execute", b"{")
        c.send(b"GET /healthz HTTP/1.1\r\n\r\n")
        assert c.answer().status == 400
    c = d.conn()
    c.send(b"PUT /files/broken HTTP/1.1\r\nHost: t\r\nContent-Length: 999\r\n\r\nhalf")
    c.reset() if n % 2 else c.close()
    c = d.conn()
    c.send(b"PUT /files/broken HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")
    try:
        c.answer()
    except Closed:
        pass
    c.close()
    c = d.conn()
    c.send(b"GET /files/large HTTP/1.1\r\nHost: t\r\n\r\n")
    c.fill()
    c.reset()
    c = d.send_command("sleep 100")
    c.close()
    d.wait_idle()


def test_descriptors(start):
    d = start()
    with open(d.ws / "large", "wb") as f:
        f.truncate(16 << 20)
    for n in range(3):
        mixed(d, n)
    d.wait_no_strangers()
    before = counts(d)
    for n in range(20):  # 15 requests each
        mixed(d, n)
    d.wait_no_strangers()
    after = {}

    def same():
        after.update(counts(d))
        return after == before
    try:
        procs.wait_for("descriptors as before", same, bound=10)
    except AssertionError:
        assert after == before
    assert [p for p in d.procs() if p.state == "Z"] == []


def test_memory_does_not_follow_the_requests(start):
    """Resident size of each role after a warm-up and after many requests: no growth by the number."""
    d = start()

    def rss():
        return {p.role: int(p.status()["VmRSS"].split()[0]) for p in d.procs() if p.role}
    body = b"x" * 1000000
    with d.conn() as c:
        def go(times):
            for _ in range(times):
                c.request("PUT", "/files/m", body)
                c.request("GET", "/files/m")
                c.request("POST", "/execute", b'{"command":"head -c 500000 /dev/zero"}')
        go(20)
        before = rss()
        go(60)
        after = rss()
    for role, kib in before.items():
        assert after[role] < kib + 16384, (role, before, after)


def test_no_temporary_files(start):
    d = start()
    for n in range(30):
        c = d.conn()
        c.send(b"PUT /files/a/b%d HTTP/1.1\r\nHost: t\r\nContent-Length: 999\r\n\r\nhalf" % n)
        c.reset()
    d.wait_idle()
    left = [f for _, _, files in os.walk(d.ws) for f in files]
    assert left == []
