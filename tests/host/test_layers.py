"""What the start makes of a layer that is missing. Each needs a place where the layer is there at first."""
import json
import re

import pytest

from harness import names


@pytest.mark.plan("root-uid1000")
@pytest.mark.parametrize("layer", ["landlock,view", "seccomp", "caps", "no-new-privs"])
def test_a_missing_layer_stops_the_start(start, layer):
    d = start(up=False, env={names.TEST_DISABLE: layer})
    report = d.wait_exit()
    assert report["status"] == 2 and f"ACCEPT_MISSING={layer}" in d.log(), d.log()


@pytest.mark.every_layer
@pytest.mark.parametrize("layer", ["landlock", "view", "pid-ns", "ipc-ns", "front-root", "signal-scope", "openat2"])
def test_strict_takes_nothing_that_is_missing(start, layer):
    env = {"SALLYPORT_ISOLATION": "strict", names.TEST_DISABLE: layer}
    d = start(up=False, env=env)
    report = d.wait_exit()
    assert report["status"] == 2 and f"The layer {layer}" in d.log(), d.log()
    assert start(env={"SALLYPORT_ISOLATION": "strict"}).run("echo on")["stdout"] == "on\n"


@pytest.mark.every_layer
@pytest.mark.parametrize("layer", ["landlock", "view", "pid-ns", "ipc-ns", "front-root"])
def test_one_of_view_and_landlock_is_enough(start, layer):
    d = start(env={names.TEST_DISABLE: layer})
    assert d.run("cat ../outside/secret; echo on")["stdout"] == "on\n"
    assert d.request("PUT", "/files/f", b"x").status == 201


@pytest.mark.every_layer
def test_network_none(start):
    code = ("import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(); "
            "c = socket.create_connection(s.getsockname()); print('loopback')\n"
            "try: socket.create_connection(('127.0.0.1', %d), 2)\n"
            "except OSError as e: print(e.errno)")
    for plan in ("root-uid1000", "user"):
        d = start(plan=plan, env={"SALLYPORT_NETWORK": "none"})
        out = d.run("exec python3 -I -", stdin=code % d.port)
        assert out["stdout"] == "loopback\n111\n", out
        assert d.run("ls /sys/class/net; cat /proc/net/dev")["stdout"].count(":") == 1
    d = start(up=False, env={"SALLYPORT_NETWORK": "none", names.TEST_DISABLE: "view"})
    assert d.wait_exit()["status"] == 2 and "net-ns" in d.log()


# What makes each layer one that the start insists on, and the host one that hasn't got it.
STRICT = {"SALLYPORT_ISOLATION": "strict"}
MISSED = {
    "no-new-privs": {}, "caps": {}, "seccomp": {}, "uid": STRICT, "landlock": {names.TEST_DISABLE: "landlock,view"},
    "signal-scope": STRICT, "openat2": STRICT,
    "cgroup": {"SALLYPORT_CPUS": "1"}, "view": {names.TEST_DISABLE: "view", "SALLYPORT_ISOLATION": "strict"},
    "pid-ns": STRICT, "ipc-ns": STRICT, "net-ns": {"SALLYPORT_NETWORK": "none"}, "front-root": STRICT,
}


@pytest.mark.every_layer
@pytest.mark.plan("root-uid1000")
@pytest.mark.parametrize("layer", names.LAYERS)
def test_each_layer_that_is_missing_is_refused_by_name(start, layer):
    """With the layer, the reason and the setting: and that setting, as it is suggested, starts it."""
    env = {names.TEST_DISABLE: layer, **MISSED[layer]}
    d = start(up=False, env=env)
    assert d.wait_exit()["status"] == 2
    said = re.search(rf"The layer {layer} is missing \((.+)\); SALLYPORT_ACCEPT_MISSING=(\S+) starts without it\.", d.log())
    assert said and len(said[1]) > 7 and layer in said[2].split(","), d.log()
    d = start(env={**env, names.ACCEPT_MISSING: said[2]})
    assert d.run("echo on")["stdout"] == "on\n"
    assert f"layer {layer}: off (" in d.log()


def check(start, *args, status=0, **env):
    d = start(up=False, args=("check", *args), env=env)
    assert d.wait_exit()["status"] == status, d.log()
    return (d.base / "stdout").read_text().replace(str(d.base), "BASE"), d.log().replace(str(d.base), "BASE")


@pytest.mark.parametrize("layer", names.LAYERS)
def test_what_is_off_has_a_fix(start, layer):
    """The fence has no cgroup that may be written, so that one is off by itself."""
    env = {"SALLYPORT_NETWORK": "none"} if layer == "net-ns" else {}
    env |= {names.ACCEPT_MISSING: f"{layer},landlock,view,signal-scope"}
    env |= {names.TEST_DISABLE: layer} if layer != "cgroup" else {}
    out, _ = check(start, "--json", **env)
    found = next(entry for entry in json.loads(out)["layers"] if entry["name"] == layer)
    assert not found["active"] and len(found["fix"]) > 10
    table, _ = check(start, **env)
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
