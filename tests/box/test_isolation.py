"""Two identities: what the one has, the other can neither see nor touch."""
import pytest

from harness import procs
from harness.box import UID_MAX, UID_MIN

A, B = ("iso-a",), ("iso-b",)


def test_each_has_a_user_of_its_own(box):
    ids = [int(box.sh("id -u", who=w)["stdout"]) for w in (A, B)]
    assert len(set(ids)) == 2 and all(UID_MIN <= i <= UID_MAX for i in ids)
    for w in (A, B):
        assert box.sh("id -G", who=w)["stdout"].strip() == str(ids[(A, B).index(w)])


def test_files(box):
    assert box.upload("secret", b"of a", who=A).status == 201
    path = box.workspace(*A)
    box.sh("touch mine", who=B)
    for command in (f"cat {path}/secret", f"ls {path}", f"cd {path}", f"touch {path}/x",
                    f"ls {path.parent}", f"rm {path}/secret", f"ln -s {path}/secret l; cat l",
                    f"mv mine {path}/"):
        r = box.sh(command, who=B)
        assert r["exit_code"] != 0 and "of a" not in r["stdout"], command
    assert box.download("secret", who=A).body == b"of a"
    assert box.download("secret", who=B).code == "not_found"
    a = box.download("l", who=B)
    assert (a.status, a.code) == (403, "outside_workspace")


def test_state_is_out_of_sight(box):
    for command in ("ls {r}/state", "cat {r}/state/registry.db", "ls {r}", "touch {r}/x",
                    "touch {r}/workspaces/x"):
        assert box.sh(command.format(r=box.root), who=A)["exit_code"] != 0, command


def test_processes_and_signals(box):
    c = box.send_exec("echo $$ > pid; exec sleep 1000", who=A)
    file = box.workspace(*A) / "pid"
    procs.wait_for("the command runs", lambda: file.exists() and file.read_text().strip())
    pid = file.read_text().strip()
    r = box.sh(f"kill -9 {pid}; kill -9 -1; cat /proc/{pid}/environ; ls /proc/{pid}/cwd/", who=B)
    assert "pid" not in r["stdout"]
    c.close()


def test_kill_all_stays_at_home(box):
    """kill -9 -1 of one ends nothing of the other's."""
    c = box.send_exec("touch up; sleep 3; echo survived", who=A)
    up = box.workspace(*A) / "up"
    procs.wait_for("the command runs", up.exists)
    box.sh("kill -9 -1; true", who=B)
    assert c.answer().json["stdout"] == "survived\n"
    c.close()


@pytest.mark.parametrize("what", ["environ", "maps", "mem", "root/", "fd/"])
def test_the_daemon_is_closed(box, what):
    r = box.sh("for p in /proc/[0-9]*; do grep -qs -- --role= $p/cmdline && cat $p/%s && ls $p/%s;"
               " done; true" % (what, what), who=A)
    assert "RUNBOX" not in r["stdout"] and "socket" not in r["stdout"]


def test_no_privilege(box):
    out = box.sh("grep -E '^(Cap(Inh|Prm|Eff|Bnd|Amb)|NoNewPrivs|Seccomp):' /proc/self/status",
                 who=A)["stdout"]
    got = dict(line.split(":\t") for line in out.splitlines())
    assert got["NoNewPrivs"] == "1" and got["Seccomp"] == "2"
    for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        assert int(got[name], 16) == 0, name


def test_environment_tells_nothing(box):
    env = box.sh("env", who=A)["stdout"]
    assert "RUNBOX" not in env and "SALLYPORT" not in env
