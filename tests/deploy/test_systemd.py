"""The units of deploy/systemd: how exposed systemd-analyze finds them, and what they do under Debian's own
systemd: started by their first client, with every layer that they are meant to leave possible."""
import json
import pathlib
import re
import subprocess

import pytest

from harness import procs
from systemd_room import KEY, ROOT, Room, unified

UNITS = ROOT / "deploy/systemd"
AUTH = [("Authorization", f"Bearer {KEY}"), ("X-Runbox-Identity", "alice")]


def opened(dropins=()):
    r = Room(dropins=dropins)
    try:
        r.wait_up()
        yield r
    except BaseException:
        print(r.log(), r.status())
        raise
    finally:
        for kind in ("box", "seat"):
            print(kind, r.log(kind))
        print(r.log(), r.status())
        r.close()


@pytest.fixture(scope="module", name="room")
def fixture_room():
    yield from opened()


@pytest.fixture(name="limited")
def fixture_limited():
    yield from opened(["limits.conf"])


def layers(text):
    return dict(re.findall(r" layer ([a-z0-9-]+): (on|off)", text))


@pytest.mark.parametrize("kind, most", [("box", 2.0), ("seat", 1.6)])
def test_exposure(kind, most):
    unit = UNITS / f"sallyport-{kind}.service"
    said = subprocess.run(["systemd-analyze", "security", "--offline=true", "--no-pager", unit],
                          capture_output=True, text=True, check=True)
    assert said.stderr == ""
    level = re.search(r"Overall exposure level for \S+: ([0-9.]+)", said.stdout)
    assert float(level[1]) <= most, said.stdout


def test_units_are_well_formed():
    said = subprocess.run(["systemd-analyze", "verify", "--man=no", *sorted(UNITS.glob("*.s[eo][rc]*"))],
                          capture_output=True, text=True, check=False)
    complaints = [line for line in said.stderr.splitlines() if "sallyport" in line
                  and "not executable" not in line]  # the binary isn't installed here
    assert complaints == []


@pytest.mark.parametrize("kind", ["box", "seat"])
def test_a_command_cannot_stop_the_service(kind):
    """systemd's own default ends all of a service when the kernel kills one process of it for its memory."""
    unit = (UNITS / f"sallyport-{kind}.service").read_text()
    assert "\nOOMPolicy=continue\n" in unit and "\nKillMode=mixed\n" in unit


def test_box_is_started_by_its_first_client(room):
    assert room.log("box") == ""
    with room.conn("box") as c:
        assert c.request("GET", "/ready").status == 200
    found = layers(room.log("box"))
    assert {k for k, v in found.items() if v == "off"} == {"cgroup", "net-ns"}, room.log("box")


def test_box_has_five_capabilities_and_the_files_it_was_given(room):
    with room.conn("box") as c:
        assert c.request("GET", "/ready").status == 200
    five = sum(1 << n for n in (0, 5, 6, 7, 21))  # CHOWN, KILL, SETGID, SETUID, SYS_ADMIN
    mine = [p for p in procs.in_namespace(int(pathlib.Path(room.root).parent.name)) if p.cmdline
            and p.cmdline[0].endswith("sallyport") and ("box" in p.cmdline or p.role in ("broker", "registry"))]
    seen = {p.role: (p, p.status()) for p in mine}
    assert {None, "broker"} <= set(seen)
    for role in (None, "broker"):
        p, status = seen[role]
        assert "0" not in status["Uid"].split() and "0" not in status["Gid"].split(), status
        assert {int(status[c], 16) for c in ("CapPrm", "CapBnd")} == {five} and status["CapAmb"].strip("0") == "", status
        root = pathlib.Path(f"/proc/{p.pid}/root")
        assert {n.name for n in root.iterdir()} <= {"bin", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "run",
                                                    "sbin", "sys", "tmp", "usr", "var", "home", "root"}
        for hidden in ("home", "root"):
            assert not (root / hidden).exists() or list((root / hidden).iterdir()) == []
        assert {n.name for n in (root / "var").iterdir()} == {"lib", "tmp"}
        assert {n.name for n in (root / "var/lib").iterdir()} == {"sallyport"}
        assert subprocess.run(["find", root / "run", "-type", "s"], capture_output=True, check=True).stdout == b""


def test_box_commands_reach_no_network(room):
    script = ("id -u; cat /proc/net/dev | wc -l; python3 -c 'import socket; socket.socketpair(); "
              "socket.socket(socket.AF_INET)' 2>&1 | tail -1; ls -d /home/* 2>/dev/null; touch ~/mine && echo kept")
    with room.conn("box") as c:
        a = c.request("POST", "/v1/exec", json.dumps({"command": script}).encode(),
                      [*AUTH, ("Content-Type", "application/json")])
    said = a.json["stdout"].splitlines()
    assert 200000 <= int(said[0]) <= 265535 and said[1] == "3"  # two lines of heading, and lo
    assert said[2] == "OSError: [Errno 97] Address family not supported by protocol" and said[3:] == ["kept"]
    assert list((room.root / "var/lib/sallyport/workspaces").iterdir())


def test_seat(room):
    with room.conn("seat") as c:
        a = c.request("POST", "/execute", json.dumps({"command": "id -un; pwd; echo x >f; cat f"}).encode(),
                      [("Content-Type", "application/json")])
    assert a.json["stdout"] == "sallyport\n/var/lib/sallyport-seat\nx\n", a
    found = layers(room.log("seat"))
    assert {k for k, v in found.items() if v == "off"} == {"uid", "cgroup", "net-ns"}, room.log("seat")


def test_seat_has_a_loopback_and_nothing_else(room):
    script = ("import socket; s = socket.create_server(('127.0.0.1', 0)); socket.create_connection(s.getsockname()); "
              "print('met', flush=True); socket.create_connection(('192.0.2.1', 80), 5)")
    with room.conn("seat") as c:
        a = c.request("POST", "/execute", json.dumps({"command": f'python3 -c "{script}" 2>&1 | sed -n "1p;\\$p"'}).encode(),
                      [("Content-Type", "application/json")])
    assert a.json["stdout"] == "met\nOSError: [Errno 101] Network is unreachable\n", a


def test_network_conf_is_about_lines_that_are_there():
    lines = [line for line in (UNITS / "network.conf").read_text().splitlines() if "=" in line and line[0] != "#"]
    assert len(lines) == 3
    for kind in ("box", "seat"):
        unit = (UNITS / f"sallyport-{kind}.service").read_text()
        assert all(re.search(rf"^{line.split('=')[0]}=", unit, re.M) for line in lines)


def test_limits_conf_lets_both_make_cgroups(limited):
    """On a host with controllers they limit; on one without they say so, and nothing else is in the way."""
    have = {"memory", "pids", "cpu"} & set((unified() / "cgroup.controllers").read_text().split())
    with limited.conn("box") as c, limited.conn("seat") as d:
        assert c.request("GET", "/ready").status == 200 and d.request("GET", "/healthz").status == 200
    for kind in ("box", "seat"):
        line = next(x for x in limited.log(kind).splitlines() if " layer cgroup: " in x)
        assert ("on (commands are ended together" if have else "off (it would limit nothing here,") in line
        assert layers(limited.log(kind))["view"] == "on"


def test_nothing_in_the_environment_of_others(room):
    """The key is in main's environment and nobody else's."""
    with room.conn("box") as c:
        assert c.request("GET", "/healthz").status == 200
    mine = [p for p in procs.in_namespace(int(pathlib.Path(room.root).parent.name)) if p.cmdline
            and p.cmdline[0].endswith("sallyport") and p.role == "front"]
    assert mine
    for p in mine:
        assert KEY.encode() not in pathlib.Path(f"/proc/{p.pid}/environ").read_bytes()


DROP_INS = """
mkdir -p opt/tools
printf '#!/bin/sh\\necho from tools\\n' >opt/tools/tool; chmod 755 opt/tools/tool
chroot . install -d -o sallyport-box -g sallyport-box -m 0711 /srv/box
printf '[Service]\\nBindReadOnlyPaths=/opt/tools\\nEnvironment=RUNBOX_ROOT=/srv/box\\nBindPaths=/srv/box\\n' \
    >etc/systemd/system/sallyport-box.service.d/local.conf
for kind in box seat; do cp "$UNITS/network.conf" "etc/systemd/system/sallyport-$kind.service.d/"; done
"""


def test_drop_ins():
    """The page's: programs elsewhere, workspaces elsewhere, the host's network."""
    page = (ROOT / "docs/deployment.md").read_text(encoding="utf-8")
    for line in ("BindReadOnlyPaths=/opt/tools", "Environment=RUNBOX_ROOT=/srv/box", "BindPaths=/srv/box"):
        assert f"`{line}`" in page and line in DROP_INS
    r = Room(DROP_INS)
    try:
        r.wait_up()
        script = "/opt/tools/tool; pwd; python3 -c 'import socket; socket.create_server((\"127.0.0.1\", 0)); print(\"net\")'"
        with r.conn("box") as c:
            a = c.request("POST", "/v1/exec", json.dumps({"command": script}).encode(),
                          [*AUTH, ("Content-Type", "application/json")])
        said = a.json["stdout"].splitlines()
        assert said[0] == "from tools" and said[1].startswith("/srv/box/workspaces/") and said[2] == "net", (a.json, r.log("box"))
        with r.conn("seat") as c:
            a = c.request("POST", "/execute", json.dumps({"command": script.split("; ", 2)[2]}).encode(),
                          [("Content-Type", "application/json")])
        assert a.json["stdout"] == "net\n", a.json
    except BaseException:
        print(r.log("box"), r.log(), r.status())
        raise
    finally:
        r.close()
