"""GET /metrics of the box: for whoever has the key, and fit for promtool."""
import subprocess

from harness import procs
from harness.box import KEY, identity

AUTH = [("Authorization", f"Bearer {KEY}")]


def test_behind_the_key(box):
    a = box.request("GET", "/metrics")
    assert (a.status, a.code) == (401, "unauthorized")
    assert box.request("GET", "/metrics", headers=AUTH + [("Accept", "*/*")]).status == 200
    assert box.request("POST", "/metrics", b"", AUTH).status == 405


def test_what_it_tells(box):
    name = identity("someone-secret")
    assert box.request("GET", "/v1/usage", headers=AUTH + name).status == 200
    assert box.request("GET", "/v1/files?path=none", headers=AUTH + name).status == 404
    text = box.request("GET", "/metrics", headers=AUTH).body.decode()
    assert 'sallyport_requests_total{route="/v1/usage",code="200"} 1\n' in text
    assert 'sallyport_requests_total{route="/v1/files",code="404"} 1\n' in text
    assert "someone-secret" not in text and KEY not in text
    r = subprocess.run(["promtool", "check", "metrics"], input=text.encode(), capture_output=True,
                       check=False)
    assert (r.returncode, r.stdout, r.stderr) == (0, b"", b"")


def test_what_waits(box, who):
    def gauges():
        text = box.request("GET", "/metrics", headers=AUTH).body.decode()
        return {k.rpartition("_")[2]: int(v) for k, _, v in (
            line.partition(" ") for line in text.splitlines()) if k in (
                "sallyport_commands_running", "sallyport_commands_queued")}
    with box.send_exec("touch up; while [ ! -e go ]; do sleep 0.01; done", who) as first:
        procs.wait_for("it runs", (box.workspace(*who) / "up").exists)
        with box.send_exec("true", who) as second, box.send_exec("true", who) as third:
            procs.wait_for("two wait", lambda: gauges() == {"running": 1, "queued": 2})
            (box.workspace(*who) / "go").touch()
            for c in (first, second, third):
                assert c.answer().status == 200
    assert gauges() == {"running": 0, "queued": 0}
