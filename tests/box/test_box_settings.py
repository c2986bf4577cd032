"""Every RUNBOX_ setting: a good value, the forms it may have, and bad ones: one sentence, status 2."""
import json
import os
import re
import shutil
import subprocess

import pytest

from harness import names
from harness.box import KEY, UID_MAX, UID_MIN


def refused(start_box, env, prepare=None, args=("box",)):
    b = start_box(up=False, env=env, prepare=prepare, args=args)
    report = b.wait_exit()
    lines = [line for line in b.log().splitlines() if line.startswith("sallyport: ")]
    assert report["status"] == 2 and len(lines) == 1, b.log()
    return lines[0]


REFUSED = [
    ({"RUNBOX_API_KEY": None}, "RUNBOX_API_KEY"),
    ({"RUNBOX_API_KEY": ""}, "RUNBOX_API_KEY"),
    ({"RUNBOX_API_KEY": "short"}, "16"),
    ({"RUNBOX_API_KEY": f"{KEY},short"}, "16"),
    ({"RUNBOX_API_KEY": f"{KEY},"}, "comma"),
    ({"RUNBOX_API_KEY": "with a blank in the middle"}, "blank"),
    ({"RUNBOX_API_KEY": ",".join(f"{KEY}{i}" for i in range(9))}, "8 keys"),
    ({"RUNBOX_ROOT": "data"}, "absolute"),
    ({"RUNBOX_ROOT": "/"}, "RUNBOX_ROOT"),
    ({"RUNBOX_ROOT": "/usr/nowhere"}, "RUNBOX_ROOT"),  # read-only here
    ({"RUNBOX_ROOT": "/dev/null"}, "RUNBOX_ROOT"),
    ({"RUNBOX_PORT": "x"}, "RUNBOX_PORT"),
    ({"RUNBOX_PORT": "65536"}, "RUNBOX_PORT"),
    ({"RUNBOX_BIND": "nowhere"}, "RUNBOX_BIND"),
    ({"RUNBOX_SHELL": "sh"}, "RUNBOX_SHELL"),
    ({"RUNBOX_SHELL": "/nowhere"}, "RUNBOX_SHELL"),
    ({"RUNBOX_UID_MIN": "0"}, "RUNBOX_UID_MIN"),
    ({"RUNBOX_UID_MIN": "999"}, "RUNBOX_UID_MIN"),
    ({"RUNBOX_UID_MIN": "300000", "RUNBOX_UID_MAX": "299999"}, "RUNBOX_UID_MIN"),
    ({"RUNBOX_UID_MIN": "65000", "RUNBOX_UID_MAX": "70000"}, "uid 65534"),  # nobody
    ({"RUNBOX_UID_MIN": "64990", "RUNBOX_UID_MAX": "64999"}, "USER"),
    ({"RUNBOX_UID_MAX": "4294967295"}, "RUNBOX_UID_MAX"),
    ({"RUNBOX_MAX_CONCURRENCY": "0"}, "RUNBOX_MAX_CONCURRENCY"),
    ({"RUNBOX_MAX_CONCURRENCY": "101"}, "RUNBOX_MAX_CONCURRENCY"),
    ({"RUNBOX_QUEUE": "-1"}, "RUNBOX_QUEUE"),
    ({"RUNBOX_QUOTA": "much"}, "RUNBOX_QUOTA"),
    ({"RUNBOX_RETENTION": "7 days"}, "RUNBOX_RETENTION"),
    ({"RUNBOX_SWEEP_INTERVAL": "0"}, "RUNBOX_SWEEP_INTERVAL"),
    ({"RUNBOX_CELL_IDLE": "0"}, "RUNBOX_CELL_IDLE"),
    ({"RUNBOX_DEFAULT_TIMEOUT": "2m", "RUNBOX_MAX_TIMEOUT": "1m"}, "RUNBOX_DEFAULT_TIMEOUT"),
    ({"RUNBOX_MAX_TIMEOUT": "x"}, "RUNBOX_MAX_TIMEOUT"),
    ({"RUNBOX_MAX_OUTPUT": "0"}, "RUNBOX_MAX_OUTPUT"),
    ({"RUNBOX_MAX_UPLOAD": "1TB2"}, "RUNBOX_MAX_UPLOAD"),
    ({"RUNBOX_MAX_UPLOAD": "0"}, "RUNBOX_MAX_UPLOAD"),
    ({"RUNBOX_SHUTDOWN_TIMEOUT": "soon"}, "RUNBOX_SHUTDOWN_TIMEOUT"),
    ({"RUNBOX_LOG_FORMAT": "xml"}, "RUNBOX_LOG_FORMAT"),
    ({"RUNBOX_TLS_CERT": "/etc/hostname"}, "RUNBOX_TLS"),
    ({"RUNBOX_TLS_KEY": "/etc/hostname"}, "RUNBOX_TLS"),
    ({"RUNBOX_NONSENSE": "1"}, "RUNBOX_NONSENSE"),
    ({"SALLYPORT_NONSENSE": "1"}, "SALLYPORT_NONSENSE"),
    ({"SALLYPORT_MAX_TIMEOUT": "1m"}, "no setting of the box"),
    ({"SALLYPORT_USER": "1000"}, "no setting of the box"),
    ({"SALLYPORT_FRONT_USER": "0"}, "SALLYPORT_FRONT_USER"),
    ({"SALLYPORT_REGISTRY_USER": "0"}, "SALLYPORT_REGISTRY_USER must be a user of its own"),
    ({"SALLYPORT_REGISTRY_USER": "64998"}, "SALLYPORT_FRONT_USER and SALLYPORT_REGISTRY_USER must be two users: both are uid 64998."),
    ({"SALLYPORT_FRONT_USER": "64996"}, "SALLYPORT_FRONT_USER and SALLYPORT_REGISTRY_USER must be two users: both are uid 64996."),
    ({"SALLYPORT_FRONT_USER": str(names.UID_MIN + 5)}, f"SALLYPORT_FRONT_USER must be a user of its own: not root, not the one that "
     f"starts the box, not of the pool; uid {names.UID_MIN + 5} is."),
    ({"SALLYPORT_REGISTRY_USER": str(names.UID_MIN + 5)}, "SALLYPORT_REGISTRY_USER"),
]


def same_in_each_worker(value):
    """The names of tests, which must be the same where user ids aren't."""
    return value.replace(str(names.UID_MIN + 5), "N") if isinstance(value, str) else None


@pytest.mark.parametrize("env,word", REFUSED, ids=same_in_each_worker)
def test_refused(start_box, env, word):
    assert word in refused(start_box, env)


@pytest.mark.parametrize("env,word", [case for case in REFUSED if "RUNBOX_BIND" not in case[0]], ids=same_in_each_worker)
def test_check_refuses_the_same(start_box, env, word):
    """But for sockets, which it doesn't open."""
    assert word in refused(start_box, env, args=("check", "box"))


def looked(start_box, **kw):
    """What `sallyport check box --json` and its table say, which is the same."""
    b = start_box(up=False, args=("check", "box", "--json"), **kw)
    assert b.wait_exit()["status"] == 0, b.log()
    said = json.loads((b.base / "stdout").read_text())
    t = start_box(up=False, args=("check", "box"), **kw)
    assert t.wait_exit()["status"] == 0, t.log()
    table = (t.base / "stdout").read_text()
    assert "identities " in table and "registry" in table
    for layer in said["layers"]:
        line = next(line for line in table.splitlines() if line.startswith(layer["name"] + " "))
        assert line.split()[1] == ("on" if layer["active"] else "off")
    assert said["mode"] == "box" and said["starts"] is True and said["refusal"] is None
    return said, b


@pytest.mark.parametrize("env", [{}, {names.TEST_DISABLE: "pid-ns,view"}])
def test_check_says_what_a_start_would_have(start_box, env):
    """Where there is no root folder yet, none is made; one in use is looked at and left alone."""
    said, b = looked(start_box, env=env)
    assert not b.root.exists() and said["workspaces"] == f"{b.root}/workspaces"
    assert said["users"] == {"first": UID_MIN, "last": UID_MAX, "front": 64998, "registry": 64996}
    b = start_box(env=env)
    b.sh("echo kept > f")
    began = {name: why for name, why in re.findall(r"layer (\S+: \w+) \((.*)\)", b.log())}
    assert {f"{x['name']}: {'on' if x['active'] else 'off'}": x["why"] for x in said["layers"]} == began
    before = [(p.stat().st_uid, p.stat().st_mode, p.stat().st_ctime_ns) for p in (b.root, *sorted(b.root.iterdir()))]
    again, _ = looked(start_box, env={**env, "RUNBOX_ROOT": str(b.root)})
    assert again["layers"] == said["layers"]
    assert before == [(p.stat().st_uid, p.stat().st_mode, p.stat().st_ctime_ns) for p in (b.root, *sorted(b.root.iterdir()))]
    assert b.sh("cat f")["stdout"] == "kept\n"


def test_check_judges_the_root_folder(start_box):
    def unreachable(d):
        (d.base / "shut").mkdir(mode=0o700)
        d.late_env["RUNBOX_ROOT"] = str(d.base / "shut" / "data")

    def of_another(d):
        (d.root / "state").mkdir(parents=True)
        os.chown(d.root / "state", 1000, 1000)

    def without_a_table(d):
        (d.root / "workspaces" / "x").mkdir(parents=True)
    for prepare, word in ((unreachable, "go through"), (of_another, "belongs to"), (without_a_table, "not the table")):
        assert word in refused(start_box, {}, prepare, args=("check", "box"))
        assert word in refused(start_box, {}, prepare)


@pytest.mark.parametrize("env", [
    {"RUNBOX_QUOTA": "64k", "RUNBOX_MAX_UPLOAD": "1.5M", "RUNBOX_MAX_OUTPUT": "4096"},
    {"RUNBOX_QUOTA": "1GiB", "RUNBOX_MAX_UPLOAD": "500kB", "RUNBOX_MAX_OUTPUT": "64MiB"},
    {"RUNBOX_RETENTION": "7d", "RUNBOX_SWEEP_INTERVAL": "1.5s", "RUNBOX_CELL_IDLE": "250ms"},
    {"RUNBOX_RETENTION": "0", "RUNBOX_SWEEP_INTERVAL": "24h", "RUNBOX_CELL_IDLE": "30"},
    {"RUNBOX_SHELL": "/bin/sh", "RUNBOX_MAX_CONCURRENCY": "100", "RUNBOX_QUEUE": "0"},
    {"RUNBOX_UID_MIN": "1000000", "RUNBOX_UID_MAX": "1000000"},
    {"RUNBOX_DEFAULT_TIMEOUT": "10s", "RUNBOX_MAX_TIMEOUT": "10s", "RUNBOX_LOG_FORMAT": "TEXT"},
    {"RUNBOX_PORT": "", "SALLYPORT_MAX_MEMORY": "1GiB", "SALLYPORT_ENV_PASS": "FOO", "FOO": "bar",
     "RUNBOX_PORT_8080_TCP": "tcp://10.0.0.1:8080", "RUNBOX_SERVICE_HOST": "10.0.0.1",
     "SANDBOX_PORT": "1"},
])
def test_accepted(start_box, env):
    if env.get("RUNBOX_PORT") == "":
        env = {**env, "RUNBOX_PORT": "0"}
    b = start_box(env=env)
    assert b.sh("echo $FOO ok; ulimit -d")["stdout"].startswith(("ok", " ok", "bar ok"))


def test_the_default_follows_the_maximum(start_box):
    b = start_box(env={"RUNBOX_MAX_TIMEOUT": "1s"})
    assert b.call("GET", "/v1/capabilities").json["limits"]["default_timeout_ms"] == 1000
    assert b.exec("true", timeout=2).code == "bad_field"


def test_not_as_root(start_box):
    b = start_box(up=False, env={"RUNBOX_ROOT": "/tmp/x"}, uid=1000)
    assert b.wait_exit()["status"] == 2 and "must be started as root" in b.log()


CAPS = "setuid,+setgid,+kill,+chown"


@pytest.mark.parametrize("caps,missing", [
    (CAPS, None), (CAPS + ",+setpcap", None), (CAPS + ",+sys_admin,+setpcap", None),
    ("setgid,+kill,+chown", "SETUID"), ("setuid,+kill,+chown", "SETGID"),
    ("setuid,+setgid,+chown", "KILL"), ("setuid,+setgid,+kill", "CHOWN")])
def test_with_few_capabilities(start_box, caps, missing):
    """Four are enough: no DAC_OVERRIDE, no FOWNER; SYS_ADMIN only gives namespaces."""
    b = start_box()
    b.end()
    real, script = b.base / "real", b.base / "start.sh"
    shutil.copy(names.BIN, real)
    script.write_text(f'#!/bin/sh\nexec setpriv --bounding-set=-all,+{caps} {real} "$@"\n')
    script.chmod(0o755)
    b.source = script
    b.again(up=missing is None)
    if missing is not None:
        assert b.wait_exit()["status"] == 2 and f"needs the capability {missing}." in b.log()
        return
    assert b.request("GET", "/ready").status == 200
    assert b.sh("echo x > f; stat -c %u f", ("one",))["stdout"] != b.sh("id -u", ("two",))["stdout"]
    assert b.upload("d/g", b"1", ("one",)).status == 201
    assert b.call("DELETE", "/v1/workspace", who=("one",)).status == 204
    assert not b.workspace("one").exists()


def test_one_daemon_a_root(start_box):
    b = start_box()
    other = start_box(up=False, env={"RUNBOX_ROOT": str(b.root)}, prepare=None)
    # Its fence has the other's folder read-only: it is refused in any case, and the first goes on.
    assert other.wait_exit()["status"] == 2
    assert b.sh("echo ok")["stdout"] == "ok\n"


def test_folders_are_set_up(start_box):
    b = start_box()
    b.sh("true")
    for name, mode, owner in (("workspaces", 0o711, 0), ("state", 0o700, 64996)):
        st = os.stat(b.root / name)
        assert (st.st_mode & 0o7777, st.st_uid) == (mode, owner), name


@pytest.mark.parametrize("what", ["state open", "workspaces of another", "workspaces a link", "no table", "no table in its folder"])
def test_folders_that_are_wrong(start_box, what):
    def prepare(b):
        root = b.base / "data"
        root.mkdir()
        if what == "state open":
            (root / "state").mkdir(mode=0o755)
            os.chmod(root / "state", 0o755)
            os.chown(root / "state", 64996, 64996)
        elif what == "workspaces of another":
            (root / "workspaces").mkdir()
            os.chown(root / "workspaces", 1000, 1000)
        elif what == "workspaces a link":
            (root / "workspaces").symlink_to("/tmp")
        else:
            (root / "workspaces" / ("a" * 64)).mkdir(parents=True)
            os.chmod(root / "workspaces", 0o711)
            if what == "no table in its folder":
                (root / "state").mkdir(mode=0o700)
                os.chown(root / "state", 64996, 64996)
    line = refused(start_box, {}, prepare)
    assert "RUNBOX_ROOT" in line and ("table" in line) == what.startswith("no table")


def test_a_root_that_others_cannot_go_through(start_box):
    def prepare(b):
        (b.base / "data").mkdir(mode=0o700)
    assert "go through" in refused(start_box, {}, prepare)


def test_help_tells_all(start_box):
    text = subprocess.run([names.BIN, "--help"], capture_output=True, text=True, check=True).stdout
    for name in ("RUNBOX_API_KEY", "RUNBOX_ROOT", "RUNBOX_QUOTA", "RUNBOX_TLS_CERT",
                 "SALLYPORT_REGISTRY_USER", "SANDBOX_WORKSPACE"):
        assert name in text
