"""`sallyport check`: what a start would have here, as a table and as JSON, with what to do about the rest."""
import json

import pytest

from harness import names


def check(start, *args, status=0, plan=None, **env):
    d = start(up=False, plan=plan, args=("check", *args), env=env)
    assert d.wait_exit()["status"] == status, d.log()
    return (d.base / "stdout").read_text().replace(str(d.base), "BASE"), d.log().replace(str(d.base), "BASE")


@pytest.mark.parametrize("plan", list(names.PLANS))
def test_json_and_table_agree(start, plan):
    out, _ = check(start, "--json", plan=plan)
    plan_json = json.loads(out)
    table, _ = check(start, plan=plan)
    assert plan_json["starts"] is True and plan_json["refusal"] is None
    assert [layer["name"] for layer in plan_json["layers"]] == list(names.LAYERS)
    for layer in plan_json["layers"]:
        line = next(line for line in table.splitlines() if line.startswith(layer["name"] + " "))
        assert line.split()[1] == ("on" if layer["active"] else "off")
        assert layer["why"] in line


@pytest.mark.parametrize("layer", [n for n in names.LAYERS if n not in ("net-ns", "cgroup")])
def test_what_is_off_has_a_fix(start, layer):
    accept = f"{layer},landlock,view,signal-scope"
    out, _ = check(start, "--json", **{names.TEST_DISABLE: layer, names.ACCEPT_MISSING: accept})
    found = next(entry for entry in json.loads(out)["layers"] if entry["name"] == layer)
    assert not found["active"] and len(found["fix"]) > 10
    table, _ = check(start, **{names.TEST_DISABLE: layer, names.ACCEPT_MISSING: accept})
    assert f"fix: {found['fix']}" in table


@pytest.mark.layers("landlock", "view")
@pytest.mark.plan("root-uid1000")
def test_a_refusal_is_told(start):
    out, log = check(start, "--json", status=2, **{names.TEST_DISABLE: "landlock,view"})
    plan_json = json.loads(out)
    assert plan_json["starts"] is False and "SALLYPORT_ACCEPT_MISSING=landlock,view" in plan_json["refusal"]
    assert plan_json["refusal"] in log
    out, _ = check(start, "--json", status=2, **{names.WORKSPACE: "/none"})
    assert json.loads(out)["layers"] == []


def test_arguments(start):
    for args in (("--jsno",), ("seat",), ("--json", "--json")):
        _, log = check(start, *args, status=2)
        assert "usage: sallyport" in log
