"""`sallyport check`: what a start would have here, as a table and as JSON, with what to do about the rest."""
import json

import pytest

from harness import names, places


def check(start, *args, status=0, plan=None, **env):
    d = start(up=False, plan=plan, args=("check", *args), env=env)
    assert d.wait_exit()["status"] == status, d.log()
    return (d.base / "stdout").read_text().replace(str(d.base), "BASE"), d.log().replace(str(d.base), "BASE")


@pytest.mark.parametrize("plan", places.HERE.plans)
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


def test_the_seat_may_be_named(start):
    named, _ = check(start, "seat", "--json")
    assert json.loads(named)["mode"] == "seat" and named == check(start, "--json")[0]


def test_arguments(start):
    for args in (("--jsno",), ("cell",), ("--json", "--json"), ("--json", "seat"), ("seat", "box")):
        _, log = check(start, *args, status=2)
        assert "usage: sallyport" in log
