"""A line a request, as text and as JSON: enough to follow one, nothing of who asked."""
import json
import re

from harness import procs
from harness.box import KEY, canonical

TEXT = re.compile(r"front info request id=([0-9]+) method=(\S+) route=(\S+) status=(\S+) bytes=([0-9]+) "
                  r"duration_ms=([0-9.]+) identity=(\S+)$")


def work(b):
    b.sh("echo x", ("person",))
    b.upload("f", b"x" * 1000, ("person",))
    b.download("f", ("person",))
    b.call("GET", "/v1/usage", key=None)
    b.call("GET", "/nothing-of-ours?secret-query")
    c = b.send_exec("touch up; sleep 1000", ("person",))
    procs.wait_for("it runs", (b.workspace("person") / "up").exists)
    c.close()
    b.request("GET", "/healthz")


def check(lines):
    who = canonical("person")[:8]
    kinds = [(m, r, s, i) for _, m, r, s, i in lines]
    assert ("POST", "/v1/exec", "200", who) in kinds
    assert ("POST", "/v1/files", "201", who) in kinds
    assert ("GET", "/v1/files", "200", who) in kinds
    assert ("GET", "none", "401", "null") in kinds or ("GET", "/v1/usage", "401", "null") in kinds
    assert ("GET", "none", "404", "null") in kinds
    assert ("POST", "/v1/exec", "null", who) in kinds
    assert ("GET", "/healthz", "200", "null") in kinds
    ids = [int(i) for i, *_ in lines]
    assert ids == sorted(set(ids))


def test_text(start_box):
    b = start_box()
    work(b)
    b.end()
    found = [m.groups() for line in b.log().splitlines() if (m := TEXT.search(line))]
    check([(i, m, r, s, w) for i, m, r, s, _, _, w in found])
    sizes = [int(n) for _, m, r, s, n, _, _ in found if (m, r, s) == ("GET", "/v1/files", "200")]
    assert sizes[0] > 1000
    for word in ("person", KEY, "secret-query", canonical("person")):
        assert word not in b.log()


def test_json(start_box):
    b = start_box(env={"RUNBOX_LOG_FORMAT": "json"})
    work(b)
    b.end()
    lines = [json.loads(line) for line in b.log().splitlines()]
    assert all({"time", "role", "level", "message"} <= set(line) for line in lines)
    check([(r["id"], r["method"], r["route"], str(r["status"]) if r["status"] else "null",
            r["identity"] or "null") for r in lines if r["message"] == "request"])
    assert {"main", "front"} <= {line["role"] for line in lines}
