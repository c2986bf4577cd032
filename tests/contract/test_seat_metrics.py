"""GET /metrics: off unless asked for, in the text format that promtool accepts, with numbers that
are exactly what happened."""
import re
import subprocess

import pytest

from harness import names, procs

SEAT_ENV = {"SALLYPORT_METRICS": "true"}
TYPE = "text/plain; version=0.0.4; charset=utf-8"
LINE = re.compile(r'(sallyport_[a-z_]+)(?:\{([^}]*)\})? ([0-9.e+]+|\+Inf)\Z')


def page(d):
    a = d.request("GET", "/metrics")
    assert a.status == 200 and a.get("content-type") == TYPE, repr(a)
    return a.body.decode("ascii")


def values(text):
    found = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        m = LINE.match(line)
        assert m, line
        key = m[1] + ("{" + m[2] + "}" if m[2] else "")
        assert key not in found, line
        found[key] = float(m[3])
    return found


def scrape(d):
    return values(page(d))


def promtool(text):
    r = subprocess.run(["promtool", "check", "metrics"], input=text.encode(), capture_output=True,
                       check=False)
    return r.returncode, (r.stdout + r.stderr).decode()


@pytest.fixture(name="fresh")
def fixture_fresh(start):
    return start(env=SEAT_ENV)


def test_off_by_default(start):
    d = start()
    a = d.request("GET", "/metrics")
    assert a.status == 404 and a.code == "no_route"


def test_promtool_accepts_it(fresh):
    assert promtool(page(fresh)) == (0, "")
    fresh.run("exit 3")
    fresh.put("a/b", b"x")
    fresh.get("missing")
    fresh.request("BREW", "/nothing")
    text = page(fresh)
    assert promtool(text) == (0, "")
    # The judge does judge.
    code, said = promtool(text.replace("# TYPE sallyport_requests_total counter", "# TYPE x y"))
    assert code != 0 and said


def test_requests_by_route_and_code(fresh):
    before = scrape(fresh)
    assert 'sallyport_requests_total{route="/files",code="201"}' not in before
    fresh.put("f", b"12345")
    fresh.put("f", b"12345")
    fresh.get("f")
    fresh.get("none")
    fresh.request("GET", "/healthz")
    fresh.request("GET", "/healthz?x")
    fresh.request("GET", "/" + "x" * 30)
    fresh.run(":")
    with fresh.conn() as c:
        c.send(b"nonsense\r\n\r\n")
        assert c.answer().status == 400
    after = scrape(fresh)
    want = {('/files', 201): 1, ('/files', 200): 2, ('/files', 404): 1, ('/healthz', 200): 1,
            ('/healthz', 400): 1, ('other', 404): 1, ('other', 400): 1, ('/execute', 200): 1,
            ('/metrics', 200): 1}
    got = {k: v for k, v in after.items() if k.startswith("sallyport_requests_total")}
    assert got == {f'sallyport_requests_total{{route="{r}",code="{c}"}}': n
                   for (r, c), n in want.items()}
    errors = {k: v for k, v in after.items() if k.startswith("sallyport_errors_total")}
    assert errors == {'sallyport_errors_total{code="bad_request"}': 1,
                      'sallyport_errors_total{code="bad_query"}': 1,
                      'sallyport_errors_total{code="no_route"}': 1,
                      'sallyport_errors_total{code="not_found"}': 1}
    for route, count in (("/files", 4), ("/healthz", 2), ("/execute", 1), ("other", 2)):
        assert after[f'sallyport_request_duration_seconds_count{{route="{route}"}}'] == count
        inf = f'sallyport_request_duration_seconds_bucket{{route="{route}",le="+Inf"}}'
        assert after[inf] == count


def test_buckets_add_up(fresh):
    for i in range(5):
        fresh.run(f"sleep 0.0{i}")
    text = page(fresh)
    counts = [int(m[1]) for m in re.finditer(
        r'^sallyport_command_duration_seconds_bucket\{le="[^"]+"\} ([0-9]+)$', text, re.M)]
    assert len(counts) == 15 and counts == sorted(counts) and counts[-1] == 5
    got = values(text)
    assert got["sallyport_command_duration_seconds_count"] == 5
    assert got["sallyport_command_duration_seconds_sum"] >= 0.1  # what was slept


def test_bytes_and_connections(fresh):
    before = scrape(fresh)
    body = b"z" * 3_000_000
    fresh.put("big", body)
    assert fresh.get("big").body == body
    with fresh.conn(), fresh.conn():
        def both_open():
            return scrape(fresh)["sallyport_connections_open"] == 3  # the scraper's is the third
        procs.wait_for("both are counted", both_open)
    after = scrape(fresh)
    for name in ("received", "sent"):
        moved = after[f"sallyport_{name}_bytes_total"] - before[f"sallyport_{name}_bytes_total"]
        assert len(body) < moved < len(body) + 200_000, name  # heads, and the pages
    assert after["sallyport_connections_total"] >= before["sallyport_connections_total"] + 4
    assert after["sallyport_connections_limit"] > 0


def test_outcomes(fresh):
    fresh.run("exit 1")
    fresh.run("kill -9 $$")
    fresh.run("sleep 100", timeout_ms=100)
    with fresh.send_command("touch going; sleep 100"):
        fresh.wait_file("going")
        assert scrape(fresh)["sallyport_commands_running"] == 1
    fresh.wait_idle()  # by commands of its own
    got = scrape(fresh)
    assert got["sallyport_commands_running"] == 0
    assert got['sallyport_commands_total{outcome="signalled"}'] == 1
    assert got['sallyport_commands_total{outcome="timed_out"}'] == 1
    assert got['sallyport_commands_total{outcome="cancelled"}'] == 1
    assert got['sallyport_commands_total{outcome="exited"}'] >= 2
    assert got['sallyport_requests_aborted_total{route="/execute"}'] == 1


def test_timeouts(start):
    d = start(env={**SEAT_ENV, names.HEAD_TIMEOUT: "200ms", names.IDLE_TIMEOUT: "200ms"})
    with d.conn() as c:
        c.send(b"GET / HT")
        assert c.answer().status == 408
    with d.conn() as c:
        assert c.request("GET", "/healthz").status == 200
        assert c.closed()
    got = scrape(d)
    assert got['sallyport_timeouts_total{wait="head"}'] == 1
    assert got['sallyport_timeouts_total{wait="idle"}'] >= 1
    assert got['sallyport_requests_total{route="other",code="408"}'] == 1
    with d.conn() as c:  # nor is it of the route before
        assert c.request("POST", "/execute", b'{"command":"true"}').status == 200
        c.send(b"GET / HT")
        assert c.answer().status == 408
    got = scrape(d)
    assert got['sallyport_requests_total{route="other",code="408"}'] == 2
    assert 'sallyport_requests_total{route="/execute",code="408"}' not in got


def test_restarts(fresh):
    def front():
        return fresh.role("front").nspid
    old = front()
    fresh.kill(fresh.role("front"))
    procs.wait_for("a new front", lambda: front() != old)
    got = scrape(fresh)
    assert got['sallyport_restarts_total{role="front"}'] == 1
    assert got['sallyport_restarts_total{role="broker"}'] == 0
    broker = fresh.role("broker")
    fresh.kill(broker)
    procs.wait_for("a new broker", lambda: fresh.role("broker").pid != broker.pid)
    fresh.wait_idle()
    got = scrape(fresh)
    assert got['sallyport_restarts_total{role="front"}'] == 1
    assert got['sallyport_restarts_total{role="broker"}'] == 1


def test_methods_and_query(seat):
    assert seat.request("HEAD", "/metrics").status == 200
    a = seat.request("POST", "/metrics", b"")
    assert a.status == 405 and a.get("allow") == "GET, HEAD"
    assert seat.request("GET", "/metrics?x=1").code == "bad_query"
    assert seat.request("GET", "/metrics/").code == "no_route"
