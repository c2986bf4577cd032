"""The static file in images that aren't Debian's, as sandbox pools start it: as `.sandbox-agent` in the workspace, by
a number without a name, on a read-only root; and what it says where something is missing that it can't do without."""
import json
import os
import subprocess
import sys

import pytest

from harness import names
from harness.foreign import Foreign

sys.path.insert(0, str(names.ROOT / "tests" / "sdk"))
from test_conformance import cases, run  # noqa: E402

OPENSHIFT = {"uid": 1000670000, "gid": 0, "owner": (0, 0), "mode": 0o2775}  # the group's, which is root's
SORTS = {"an empty root": {"kind": "empty"}, "alpine": {}, "alpine, /tmp": {"have": ("proc", "null", "tmp")},
         "openshift": OPENSHIFT, "openshift, no namespaces": {**OPENSHIFT, "kind": "empty", "have": ("proc", "null", "no-userns")}, "the highest": {"uid": 0xfffffffd}}


@pytest.fixture
def foreign(tmp_path):
    made = []

    def make(up=True, **how):
        for path in list(tmp_path.parents)[:3]:  # pytest's folders are its own alone
            path.chmod(0o755)
        made.append(Foreign(tmp_path / str(len(made)), **how))
        return made[-1].wait_up() if up else made[-1]
    yield make
    for f in made:
        f.close()


@pytest.mark.parametrize("sort", SORTS)
def test_serves(foreign, sort):
    how = SORTS[sort]
    f = foreign(**how)
    uid, gid = how.get("uid", 65534), how.get("gid", how.get("uid", 65534))
    r = f.run("echo $HOME $PWD $0 $TMPDIR; cd; echo x >f && read a <f; echo $a; read p rest </proc/self/stat; "
              "[ $p -gt 0 ] && echo alive; exit 7")
    assert (r["stdout"], r["exit_code"]) == ("/workspace /workspace sh /tmp\nx\nalive\n", 7), r
    assert os.stat(f.workspace / "f").st_uid == uid
    r = f.run("while read key real rest; do case $key in Uid:|Gid:|CapPrm:|NoNewPrivs:|Seccomp:) echo $real; esac; done"
              " </proc/self/status")
    found = r["stdout"].split()
    assert sorted(found[:2]) == sorted([str(uid), str(gid)]) and set(found[2:]) == {"0000000000000000", "1", "2"}, r
    assert f.request("PUT", "/files/a/b.txt", b"data").status == 201
    assert f.request("GET", "/files/a/b.txt").body == b"data"
    assert os.stat(f.workspace / "a/b.txt").st_uid == uid
    assert {e["name"] for e in f.request("GET", "/files/").json["entries"]} == {".sandbox-agent", "a", "f"}
    assert f.request("DELETE", "/files/a?recursive=true").status == 204
    assert f.run("while :; do :; done", timeout=0.3)["timed_out"]
    r = f.run("echo x >/etc-new; echo x >/bin/new; (echo x >/tmp/t) && echo tmp; echo done")
    private = "no-userns" not in how.get("have", ())  # a view has its own /tmp
    assert ("layer view: on" in f.log()) is private, f.log()
    tmp = private or "tmp" in how.get("have", ())
    assert r["stdout"] == ("tmp\n" if tmp else "") + "done\n", (r, f.log())


@pytest.fixture(scope="module", name="shared")
def fixture_shared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("foreign")
    for path in list(folder.parents)[:2] + [folder]:
        path.chmod(0o755)
    f = Foreign(folder / "it", **OPENSHIFT, env={"SALLYPORT_MAX_UPLOAD": "20MiB"})
    yield f.wait_up()
    f.close()


@pytest.fixture(scope="module", name="client")
def fixture_client(shared):
    env = {**os.environ, "PYTHONPATH": str(names.ROOT / "sdk/python/src"), "PYTHONDONTWRITEBYTECODE": "1"}
    p = subprocess.Popen(["/usr/bin/python3", names.ROOT / "tests/sdk/drive.py", f"http://127.0.0.1:{shared.port}"],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)

    class Client:
        @staticmethod
        def ask(op, **args):
            p.stdin.write(json.dumps({"op": op, "args": args}).encode() + b"\n")
            p.stdin.flush()
            return json.loads(p.stdout.readline())
    yield Client
    p.stdin.close()
    p.wait(60)
    p.stdout.close()


@cases("seat")
def test_contract(client, shared, case):
    """The table that the clients are held to."""
    box = "box-" + case["name"].replace(" ", "-").replace("'", "")
    assert shared.run(f"mkdir {box}")["exit_code"] == 0
    run(client, case, box)


@pytest.mark.parametrize("have, says", [((), "/dev/null"), (("null",), "/proc/self/exe"), (("proc",), "/dev/null")])
def test_what_it_needs(foreign, have, says):
    f = foreign(up=False, have=have)
    assert f.outer.wait(60) == 2, f.log()
    last = f.log().splitlines()[-1]
    assert last.startswith("sallyport: ") and says in last, f.log()


def no_shell(f):
    (f.root / "bin/sh").unlink()


def no_workspace(f):
    os.chown(f.workspace, 0, 0)


@pytest.mark.parametrize("change, says", [(no_shell, "SANDBOX_SHELL"), (no_workspace, "SANDBOX_WORKSPACE")])
def test_what_it_is_told(foreign, change, says):
    f = foreign(up=False, change=change)
    assert f.outer.wait(60) == 2, f.log()
    assert f.log().splitlines()[-1].startswith(f"sallyport: {says}"), f.log()
