"""The box's images under podman, with the reference's rights: a read-only root, six capabilities, no new
privileges. `minimal` by ./dev places; the others, told by SALLYPORT_IMAGES, by ./dev images."""
import json
import os

import pytest

from harness.box import KEY, canonical, identity
from harness.images import HARD, LIMITS, SIX, podman

IMAGES = os.environ.get("SALLYPORT_IMAGES", "minimal").split(",")
# What docs/images.md promises of each, tried by using it.
PROGRAMS = {
    "minimal": {"bash": "bash -c 'echo ok'", "awk": "awk 'BEGIN { print \"ok\" }'", "perl": "perl -e 'print \"ok\\n\"'"},
    "toolbox": {
        "git": "cd /tmp && rm -rf g && git init -q g && cd g && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m ok "
               "&& git log --format=%s",
        "python": "python3 -c 'import sqlite3, ssl, venv; print(\"ok\")'", "jq": "echo '{\"a\":\"ok\"}' | jq -r .a",
        "sqlite": "sqlite3 :memory: \"select 'ok'\"", "curl": "curl --version >/dev/null && echo ok",
        "archives": "cd /tmp && echo ok > f && for c in gzip bzip2 xz zstd; do $c -qkf f || exit 1; done && rm -f z.zip && "
                    "zip -q z.zip f && tar cJf t.tar.xz f && tar xJOf t.tar.xz && unzip -p z.zip | cmp - f",
        "rg": "echo ok | rg ok", "rsync": "cd /tmp && echo ok > a && rsync a b && cat b",
        "tools": "which patch diff file less ps pstree wget openssl bc gawk tree nano >/dev/null && echo ok"},
    "full": {
        "c": "cd /tmp && printf '#include <stdio.h>\\nint main(void){puts(\"ok\");}' > a.c && gcc -o a.out a.c && ./a.out",
        "c++": "cd /tmp && printf '#include <iostream>\\nint main(){std::cout<<\"ok\\\\n\";}' > a.cc && g++ -o b.out a.cc && ./b.out",
        "make": "cd /tmp && printf 'x:\\n\\t@echo ok\\n' > Makefile && make -s", "node": "node -e 'console.log(\"ok\")'",
        "npm": "npm --version >/dev/null && echo ok", "numpy": "python3 -c 'import numpy; print(\"ok\")'",
        "go": "cd /tmp && printf 'package main\\nfunc main() { println(\"ok\") }' > a.go && HOME=/tmp GOFLAGS=-p=1 go run a.go 2>&1",
        "java": "cd /tmp && printf 'class A { public static void main(String[] a) { System.out.println(\"ok\"); } }' > A.java "
                "&& java -Xmx256m A.java",
        "rust": "cd /tmp && printf 'fn main() { println!(\"ok\"); }' > a.rs && rustc -o r.out a.rs && ./r.out",
        "tools": "which cmake ninja cargo pip3 pkg-config ruby >/dev/null && echo ok"},
}


class Box:
    def __init__(self, container):
        self.container = container

    def call(self, method, target, body=None, who="alice", key=KEY, kind="application/json"):
        fields = [("Content-Type", kind)] + (identity(who) if who else [])
        fields += [("Authorization", f"Bearer {key}")] if key else []
        return self.container.request(method, target, body, fields)

    def sh(self, command, who="alice", **members):
        a = self.call("POST", "/v1/exec", json.dumps({"command": command, **members}).encode(), who)
        assert a.status == 200, f"{a!r}\n{podman('logs', self.container.id).stderr}"
        return a.json


@pytest.fixture(params=IMAGES)
def image(request):
    return request.param


@pytest.fixture
def box(run_image, volume, image):
    """/tmp may hold programs, as compilers and their users want it to."""
    hard = [o.replace("/tmp", "/tmp:exec,mode=1777") for o in HARD]
    return Box(run_image(*hard, *SIX, *volume(0, "/data"), "--env", f"RUNBOX_API_KEY={KEY}",
                         f"localhost/sallyport-{image}", prefix="RUNBOX"))


def test_identities(box, tmp_path):
    assert box.call("POST", "/v1/exec", b'{"command":"true"}', key=None).status == 401
    assert box.call("POST", "/v1/exec", b'{"command":"true"}', who=None).code == "bad_identity"
    a, b = box.sh("id -u; echo secret > f; pwd"), box.sh("id -u; cat /data/workspaces/*/f", "bob")
    assert a["stdout"].split()[0] != b["stdout"].split()[0] and min(int(x["stdout"].split()[0]) for x in (a, b)) >= 200000
    assert "secret" not in b["stdout"] and b["stderr"], b
    name = canonical("alice")
    assert (tmp_path / "ws" / "workspaces" / name / "f").read_text() == "secret\n"
    assert box.call("PUT", "/v1/path?path=d/x", b"data", kind="text/plain").status == 201
    assert box.sh("cat d/x; stat -c %u d/x")["stdout"] == "data" + a["stdout"].split()[0] + "\n"
    assert box.call("GET", "/v1/files?path=d/x", who="bob").status == 404
    assert [e["name"] for e in box.call("GET", "/v1/list?path=.").json["entries"]] == ["d", "f"]
    assert box.call("GET", "/v1/archive?path=d").body[257:262] == b"ustar"
    assert box.call("GET", "/v1/usage").json["entries"] >= 3
    assert box.call("DELETE", "/v1/workspace").status == 204
    assert not (tmp_path / "ws" / "workspaces" / name).exists()


def test_walls(box):
    r = box.sh("touch /etc/x /usr/local/bin/x /data/x; kill 1; grep -E '^(CapEff|CapBnd|NoNewPrivs):' /proc/self/status | "
               "tr -s '\\n\\t' ' '; cat /proc/1/environ | tr '\\0' ' '; env")
    assert "CapEff: 0000000000000000" in r["stdout"] and "NoNewPrivs: 1" in r["stdout"], r
    assert KEY not in r["stdout"] and r["stderr"].count("\n") >= 4, r
    assert box.sh("(setsid sleep 1000 &); sleep 1000", timeout=0.5)["timed_out"]
    assert box.sh("ps ax 2>/dev/null | grep -c '[s]leep 1000'; echo x")["stdout"].endswith("0\nx\n")


def test_health_and_end(box, image):
    assert podman("healthcheck", "run", box.container.id).returncode == 0
    assert box.container.stop() == 0
    done = podman("run", "--rm", "--network", "host", *LIMITS, *HARD, *SIX, f"localhost/sallyport-{image}", check=False)
    assert done.returncode == 2 and "RUNBOX_API_KEY" in done.stderr


def test_programs(box, image):
    known = {name: command for level in list(PROGRAMS)[:list(PROGRAMS).index(image) + 1]
             for name, command in PROGRAMS[level].items()}
    bad = {name: r for name, command in known.items()
           if (r := box.sh(command, timeout=120))["exit_code"] != 0 or r["stdout"].strip().splitlines()[-1:] != ["ok"]}
    assert not bad


def test_no_set_user_id_program_helps(box):
    """Debian's own are there; no_new_privs makes nothing of their bit."""
    found = box.sh("find / -xdev -perm /6000 -type f 2>/dev/null")["stdout"].split()
    r = box.sh("su -c id 2>&1; cp /bin/bash b; chmod u+s b; ./b -p -c 'id -u'")
    assert "uid=0" not in r["stdout"] and r["stdout"].split()[-1] != "0", (found, r)
