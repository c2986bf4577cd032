"""The first questions of docs/production.md's runbooks, put to a box as the page has them."""
import os
import re
import subprocess

import pytest

from harness import names
from harness.box import KEY, Box

PAGE = (names.ROOT / "docs/production.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module", name="box")
def fixture_box():
    b = Box()
    b.wait_up()
    yield b
    b.stop()


def test_first_questions(box, tmp_path):
    text = re.search(r"^## Runbooks$.*?^```sh$\n(.*?)^```$", PAGE, re.M | re.S)[1]
    assert box.sh("true")["exit_code"] == 0
    env = tmp_path / "box.env"
    env.write_text(f"RUNBOX_API_KEY={KEY},another-key-0123456789\n", encoding="ascii")
    asked = "".join(line + "\n" for line in text.splitlines() if not re.match(r"systemctl|journalctl|df ", line))
    asked = asked.replace("127.0.0.1:8080", f"127.0.0.1:{box.port}").replace("/etc/sallyport/box.env", str(env))
    assert asked.count(f":{box.port}") == 2 and str(env) in asked
    done = subprocess.run(["bash", "-eu", "-o", "pipefail", "-c", asked], env={"PATH": os.environ["PATH"]},
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done
    assert done.stdout.startswith('{"status":"ready"}'), done.stdout
    for series in ("sallyport_restarts_total", "sallyport_commands_total", "sallyport_connections_open"):
        assert re.search(rf"^{series}[{{ ]", done.stdout, re.M), done.stdout
    assert '"version"' in done.stdout and "unauthorized" not in done.stdout


def test_every_alert_has_a_runbook():
    rules = (names.ROOT / "deploy/prometheus/sallyport.rules.yml").read_text(encoding="utf-8")
    alerts = re.findall(r"alert: (\w+)", rules)
    assert alerts and [a for a in alerts if f"\n### {a}\n" not in PAGE] == []
