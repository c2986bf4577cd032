"""docs/openapi.yaml and docs/openapi-box.yaml by schemathesis, against a live seat and a live box: no status that
isn't in the document, no answer that breaks its schema, no 5xx. The seed is fixed. The commands it makes up run
in the fence."""
import json
import re

import pytest
import yaml

import tools
from harness import names
from harness.box import KEY

SEAT_ENV = {names.MAX_TIMEOUT: "2s", names.DEFAULT_TIMEOUT: "2s", "SALLYPORT_METRICS": "true"}
BOX_ENV = {"RUNBOX_MAX_TIMEOUT": "2s", "RUNBOX_DEFAULT_TIMEOUT": "2s"}
AUTH = ("-H", f"Authorization: Bearer {KEY}")
SEED = 1


def run(seat, document, operations, *args):
    out = tools.run(tools.venv() / "schemathesis", "--config-file", tools.HERE / "schemathesis.toml",
                    "run", document, "--url", f"http://127.0.0.1:{seat.port}", "--seed", SEED,
                    "--generation-database", "none", "--workers", 1, "--continue-on-failure",
                    "--output-truncate", "true", "--no-color", "--suppress-health-check", "all", *args,
                    cwd=tools.OUT,  # it likes to leave things where it stands
                    env={"PYTHONDONTWRITEBYTECODE": ""})  # of what it is made of, only what runs is compiled
    assert f"Tested: {operations}" in out, out[-3000:]
    assert seat.request("GET", "/healthz").status == 200
    seat.wait_no_strangers()


@pytest.mark.slow
def test_what_the_schemas_allow_and_what_not(seat):
    run(seat, names.ROOT / "docs/openapi.yaml", 13, "--max-examples", 40)


def narrow_command(doc):
    members = doc["components"]["schemas"]["Command"]["properties"]
    members["timeout"]["maximum"] = 2
    members["timeout_ms"]["maximum"] = 2000
    members["cwd"]["enum"] = ["", "d"]
    members["env"]["additionalProperties"]["pattern"] = "^[ -~]*$"


@pytest.mark.slow
def test_mostly_accepted(seat, tmp_path):
    """The document narrowed to what this seat takes, so that more requests get beyond the checks."""
    doc = yaml.safe_load((names.ROOT / "docs/openapi.yaml").read_text())
    narrow_command(doc)
    path = doc["paths"]["/files/{path}"]["parameters"][0]
    path["schema"] = {"type": "string", "pattern": "^[a-d]{1,2}(/[a-d]{1,2}){0,2}$"}
    for name in ("IfMatch", "IfNoneMatch"):
        doc["components"]["parameters"][name]["schema"] = {"const": "*"}
    seat.put("d/x", b"x")
    narrow = tmp_path / "narrow.json"
    narrow.write_text(json.dumps(doc))
    run(seat, narrow, 13, "--max-examples", 40, "--mode", "positive")


@pytest.mark.slow
def test_a_box(many):
    """Whatever identity it makes up: most of them are refused."""
    run(many, names.ROOT / "docs/openapi-box.yaml", 20, *AUTH, "--max-examples", 15)


@pytest.mark.slow
def test_a_box_mostly_accepted(many, tmp_path):
    """Narrowed, for one identity."""
    doc = yaml.safe_load((names.ROOT / "docs/openapi-box.yaml").read_text())
    narrow_command(doc)
    given = doc["components"]["parameters"]
    for item in doc["paths"].values():
        for op in item.values():
            op["parameters"] = [p for p in op.get("parameters", []) if p["$ref"].rpartition("/")[2] not in
                                ("Identity", "Tenant", "User")]
    for name in ("Path", "Folder"):
        given[name]["schema"] = {"type": "string", "pattern": "^[a-d]{1,2}(/[a-d]{1,2}){0,2}$"}
    for name in ("IfMatch", "IfNoneMatch"):
        given[name]["schema"] = {"const": "*"}
    many.upload("d/x", b"x", ("narrow",))
    narrow = tmp_path / "narrow.json"
    narrow.write_text(json.dumps(doc))
    run(many, narrow, 20, *AUTH, "-H", "X-Runbox-Identity: narrow", "--max-examples", 15, "--mode", "positive")
    text = many.call("GET", "/metrics", who=None).body.decode()
    for route in doc["paths"]:
        assert re.search(f'^sallyport_requests_total{{route="{route}",code="20[0-9]"}} [1-9]', text, re.M), route
