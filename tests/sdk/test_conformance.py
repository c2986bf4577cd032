"""sdk/conformance.json through each client: the same operations must come to the same results."""
import json

import pytest

from harness import names

TABLE = json.loads((names.ROOT / "sdk/conformance.json").read_text(encoding="utf-8"))
SEAT_ENV = {names.MAX_UPLOAD: "20MiB"}
KINDS = {"$int": lambda v: isinstance(v, int) and v >= 0, "$text": lambda v: isinstance(v, str) and v != "",
         "$etag": lambda v: isinstance(v, str) and len(v) > 2 and v[0] == v[-1] == '"'}


def fits(want, got):
    if isinstance(want, dict):
        return isinstance(got, dict) and all(k in got and fits(v, got[k]) for k, v in want.items())
    if isinstance(want, list):
        return isinstance(got, list) and len(got) == len(want) and all(map(fits, want, got))
    if isinstance(want, str) and want in KINDS:
        return KINDS[want](got)
    return type(want) is type(got) and want == got


def fill(value, known):
    if isinstance(value, dict):
        return {k: fill(v, known) for k, v in value.items()}
    if isinstance(value, list):
        return [fill(v, known) for v in value]
    if isinstance(value, str):
        for name, text in known.items():
            value = value.replace(name, text)
    return value


@pytest.mark.parametrize("case", TABLE["cases"], ids=[c["name"] for c in TABLE["cases"]])
def test_case(client, seat, box, case):
    known = {"$box": box}
    for step in case["steps"]:
        want = fill(step["want"], known)
        got = client.ask(step["op"], **fill(step["args"], known))
        assert "error" in want or "error" not in got, (step, got)
        assert fits(want, got), (step, got)
        if "save" in step:
            known[f"${step['save']}-saved"] = got[step["save"]]
    seat.wait_idle()


def test_the_comparison_itself():
    """It must be able to say no."""
    assert fits({"a": "$int"}, {"a": 1, "b": 2}) and fits([{}], [{"x": 1}])
    for want, got in (({"a": 1}, {}), ({"a": 1}, {"a": True}), ([1], [1, 2]), ("$int", -1), ("$etag", "x"),
                      ("$text", ""), ({"a": None}, {"a": ""}), ("a", "b")):
        assert not fits(want, got), (want, got)
