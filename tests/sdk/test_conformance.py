"""sdk/conformance.json through each client: the same operations must come to the same results."""
import base64
import io
import itertools
import json
import tarfile

import pytest

from clients import LANGUAGES, Driver
from harness import names
from harness.box import KEY

TABLE = json.loads((names.ROOT / "sdk/conformance.json").read_text(encoding="utf-8"))
SEAT_ENV = {names.MAX_UPLOAD: "20MiB"}
BOX_ENV = {"RUNBOX_MAX_UPLOAD": "20MiB"}
KINDS = {"$int": lambda v: isinstance(v, int) and v >= 0, "$text": lambda v: isinstance(v, str) and v != "",
         "$etag": lambda v: isinstance(v, str) and len(v) > 2 and v[0] == v[-1] == '"'}


def fits(want, got):
    if isinstance(want, dict):
        return isinstance(got, dict) and all(k in got and fits(v, got[k]) for k, v in want.items())
    if isinstance(want, list):
        return isinstance(got, list) and len(got) == len(want) and all(map(fits, want, got))
    if isinstance(want, str) and want in KINDS:
        return KINDS[want](got)
    if isinstance(want, str) and want.startswith("$has:"):
        return isinstance(got, str) and want[5:] in got
    return type(want) is type(got) and want == got


def fill(value, known):
    if isinstance(value, dict):
        return {fill(k, known): fill(v, known) for k, v in value.items()}
    if isinstance(value, list):
        return [fill(v, known) for v in value]
    if isinstance(value, str):
        for name, text in known.items():
            value = value.replace(name, text)
    return value


def result(got):
    """An archive is what is in it."""
    if "base64" in got:
        with tarfile.open(fileobj=io.BytesIO(base64.b64decode(got.pop("base64")))) as tar:
            got["tar"] = sorted(m.name.removeprefix("./").rstrip("/") for m in tar if m.name.strip("./"))
    return got


def cases(face):
    found = [c for c in TABLE["cases"] if c.get("on", face) == face]
    return pytest.mark.parametrize("case", found, ids=[c["name"] for c in found])


@pytest.fixture(scope="module", params=LANGUAGES)
def client(request, seat):
    """One client for all cases: a process for each would be most of what they cost, and tell nothing of what a client
    keeps from one call for the next."""
    d = Driver(request.param, f"http://127.0.0.1:{seat.port}")
    yield d
    d.close()


@pytest.fixture(scope="module", params=LANGUAGES)
def box_client(request, many):
    d = Driver(request.param, f"http://127.0.0.1:{many.port}", key=KEY)
    yield d
    d.close()


def run(client, case, box):
    known = {"$box": box}
    for step in case["steps"]:
        want = fill(step["want"], known)
        got = result(client.ask(step["op"], **fill(step["args"], known)))
        assert "error" in want or "error" not in got, (step, got)
        assert fits(want, got), (step, got)
        if "save" in step:
            known[f"${step['save']}-saved"] = got[step["save"]]


@cases("seat")
def test_seat(client, seat, box, case):
    run(client, case, box)
    seat.wait_idle()


_turn = itertools.count()


@cases("box")
def test_box(box_client, many, case):
    """Both forms of an identity take turns."""
    n = next(_turn)
    box_client.who = [f"who-{n}-é"] if n % 2 else [f"tenant-{n}", "user/ü:"]
    many.sh("mkdir folder", [w.encode().decode("latin-1") for w in box_client.who])  # the harness sends that
    run(box_client, case, "folder")


def test_the_comparison_itself():
    """It must be able to say no."""
    assert fits({"a": "$int"}, {"a": 1, "b": 2}) and fits([{}], [{"x": 1}])
    assert fits("$has:b", "abc")
    for want, got in (({"a": 1}, {}), ({"a": 1}, {"a": True}), ([1], [1, 2]), ("$int", -1), ("$etag", "x"),
                      ("$text", ""), ({"a": None}, {"a": ""}), ("a", "b"), ("$has:a", "b")):
        assert not fits(want, got), (want, got)


def test_a_refusal_on_the_way_is_always_read(client, seat):
    """It comes while bytes still go, and a write to what the daemon has closed must not hide it."""
    for _ in range(25):
        got = client.ask("upload", path="large", size=30 << 20, how="chunked")
        assert got.get("code") == "body_too_large", got
    assert not (seat.ws / "large").exists()
