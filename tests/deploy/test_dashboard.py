"""The dashboard and the alerts: expressions that Prometheus parses, of series that a real box has, with labels
that those have; and alerts that go off for what they are about and for nothing else."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import urllib.parse
import urllib.request

import pytest
import yaml

from harness import procs
from harness.box import KEY, Box

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]
DASHBOARD = json.loads((ROOT / "deploy/grafana/sallyport.json").read_text(encoding="utf-8"))
RULES = ROOT / "deploy/prometheus/sallyport.rules.yml"
OURS = re.compile(r"\b(sallyport_[a-z_]+)(?:\{([^}]*)\})?")
SCRAPED = {"job", "instance"}


def expressions():
    shown = [t["expr"] for p in DASHBOARD["panels"] for t in p["targets"]]
    alerts = [r["expr"] for g in yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"] for r in g["rules"]]
    assert len(shown) >= 20 and len(alerts) >= 7
    return shown + alerts


def labels(text):
    """series -> the names of its labels, as a scrape has them."""
    found = {}
    for m in re.finditer(r"^(sallyport_[a-z_]+)(?:\{([^}]*)\})? ", text, re.M):
        found.setdefault(m[1], set()).update(re.findall(r"([a-z_]+)=", m[2] or ""))
    return found


@pytest.fixture(scope="module", name="series")
def fixture_series():
    """Of a box that had one of everything: some series are there only once they have a value."""
    box = Box()
    try:
        box.wait_up()
        box.sh("true")
        box.download("none")
        box.send_exec("touch up; sleep 100").close()
        yield labels(box.call("GET", "/metrics", who=None).body.decode())
    finally:
        box.stop()


def test_promtool_parses_them(tmp_path):
    rules = [{"record": f"shown_{n}", "expr": e.replace("$__rate_interval", "1m")}
             for n, e in enumerate(expressions())]
    path = tmp_path / "rules.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "shown", "rules": rules}]}))
    said = subprocess.run(["promtool", "check", "rules", path], capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stdout + said.stderr
    path.write_text(path.read_text().replace("sum by (", "sum by ((", 1))  # the judge does judge
    assert subprocess.run(["promtool", "check", "rules", path], capture_output=True, check=False).returncode != 0


def test_their_series_exist(series):
    used = set()
    for expr in expressions():
        for name, matchers in OURS.findall(expr):
            used.add(name)
            if name == "sallyport_requests_aborted_total":
                continue  # only there once a request was cut off, which takes its time
            assert name in series, expr
            known = series[name] | SCRAPED
            assert set(re.findall(r"([a-z_]+)(?:=|!)", matchers)) <= known, expr
            by = re.findall(r"by \(([^)]*)\)", expr)
            assert set(re.split(r", *", by[0])) <= known if by else True, expr
    shown = {n for n in series if not n.endswith(("_sum", "_count"))} - {"sallyport_start_time_seconds"}
    assert used - {"sallyport_requests_aborted_total"} == shown - {"sallyport_requests_aborted_total"}


def listening_port(pid):
    """Of a process that was told to take any."""
    inodes = set()
    for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            inodes.update(re.findall(r"socket:\[(\d+)\]", os.readlink(fd)))
        except FileNotFoundError:
            continue
    for line in pathlib.Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
        words = line.split()
        if words[3] == "0A" and words[9] in inodes:
            return int(words[1].split(":")[1], 16)
    return None


@pytest.fixture(scope="module", name="prometheus")
def fixture_prometheus(tmp_path_factory):
    """Prometheus, with the alerts, that scrapes a box as docs/deployment.md's block tells. A function that queries it."""
    folder = tmp_path_factory.mktemp("prometheus")
    box = Box().wait_up()
    (folder / "key").write_text(KEY)
    page = (ROOT / "docs/deployment.md").read_text(encoding="utf-8")
    config = yaml.safe_load(re.search(r"^```yaml\n(scrape_configs:.*?)^```$", page, re.M | re.S)[1])
    (job,) = config["scrape_configs"]
    job["authorization"]["credentials_file"] = str(folder / "key")
    job["static_configs"] = [{"targets": [f"127.0.0.1:{box.port}"]}]
    config.update({"global": {"scrape_interval": "1s", "evaluation_interval": "1s"}, "rule_files": [str(RULES)]})
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    with open(folder / "log", "wb") as log:
        daemon = subprocess.Popen(["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
                                   "--web.listen-address=127.0.0.1:0"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def ask(what, **query):
        url = f"http://127.0.0.1:{port}/api/v1/{what}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=60) as answer:
            return json.load(answer)["data"]
    try:
        port = procs.wait_for("Prometheus listens", lambda: listening_port(daemon.pid), 60)
        for n in range(3):
            box.sh("true")
            box.download("none")
            box.upload(f"f{n}", b"x")
        procs.wait_for("it has scraped the box twice", lambda: any(float(r["value"][1]) >= 2 for r in ask(
            "query", query='count_over_time(sallyport_commands_total{outcome="exited"}[5m]) > 1')["result"]), 60)
        yield ask
    finally:
        daemon.terminate()
        daemon.wait(60)
        box.stop()


def test_a_real_prometheus_answers(prometheus):
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            expr = target["expr"].replace("$__rate_interval", "5m").replace("$job", ".*").replace("$instance", ".*")
            found = prometheus("query", query=expr)["result"]
            assert found, (panel["title"], expr)
    assert {r["health"] for g in prometheus("rules")["groups"] for r in g["rules"]} == {"ok"}
    assert prometheus("alerts")["alerts"] == []


def test_variables_and_places():
    names = {v["name"] for v in DASHBOARD["templating"]["list"]}
    assert names == {"datasource", "job", "instance"}
    for p in DASHBOARD["panels"]:
        at = p["gridPos"]
        assert at["x"] + at["w"] <= 24
    spots = [(p["gridPos"]["x"], p["gridPos"]["y"]) for p in DASHBOARD["panels"]]
    assert len(set(spots)) == len(spots) and len({p["id"] for p in DASHBOARD["panels"]}) == len(spots)


def test_alerts(tmp_path):
    said = subprocess.run(["promtool", "check", "rules", RULES], capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stdout + said.stderr
    shutil.copy(RULES, tmp_path / "sallyport.rules.yml")
    shutil.copy(HERE / "alerts.yml", tmp_path)
    said = subprocess.run(["promtool", "test", "rules", "alerts.yml"], cwd=tmp_path, capture_output=True, text=True,
                          check=False)
    assert said.returncode == 0, said.stdout + said.stderr
