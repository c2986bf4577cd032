"""docs/openapi.yaml by schemathesis, against a live seat: no status that isn't in the document, no
answer that breaks its schema, no 5xx. The seed is fixed. The commands it makes up run in the fence."""
import json

import pytest
import yaml

import tools
from harness import names

SEAT_ENV = {names.MAX_TIMEOUT: "2s", names.DEFAULT_TIMEOUT: "2s", "SALLYPORT_METRICS": "true"}
SEED = 1


def run(seat, document, *args):
    out = tools.run(tools.venv() / "schemathesis", "--config-file", tools.HERE / "schemathesis.toml",
                    "run", document, "--url", f"http://127.0.0.1:{seat.port}", "--seed", SEED,
                    "--generation-database", "none", "--workers", 1, "--continue-on-failure",
                    "--output-truncate", "true", "--no-color", "--suppress-health-check", "all", *args,
                    cwd=tools.OUT)  # it likes to leave things where it stands
    assert "Tested: 13" in out, out[-3000:]
    assert seat.request("GET", "/healthz").status == 200
    seat.wait_no_strangers()


@pytest.mark.slow
def test_what_the_schemas_allow_and_what_not(seat):
    run(seat, names.ROOT / "docs/openapi.yaml", "--max-examples", 40)


@pytest.mark.slow
def test_mostly_accepted(seat, tmp_path):
    """The document narrowed to what this seat takes, so that more requests get beyond the checks."""
    doc = yaml.safe_load((names.ROOT / "docs/openapi.yaml").read_text())
    members = doc["components"]["schemas"]["Command"]["properties"]
    members["timeout"]["maximum"] = 2
    members["timeout_ms"]["maximum"] = 2000
    members["cwd"]["enum"] = ["", "d"]
    members["env"]["additionalProperties"]["pattern"] = "^[ -~]*$"
    path = doc["paths"]["/files/{path}"]["parameters"][0]
    path["schema"] = {"type": "string", "pattern": "^[a-d]{1,2}(/[a-d]{1,2}){0,2}$"}
    for name in ("IfMatch", "IfNoneMatch"):
        doc["components"]["parameters"][name]["schema"] = {"const": "*"}
    seat.put("d/x", b"x")
    narrow = tmp_path / "narrow.json"
    narrow.write_text(json.dumps(doc))
    run(seat, narrow, "--max-examples", 40, "--mode", "positive")
