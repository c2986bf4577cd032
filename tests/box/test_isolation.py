"""Two identities: what the one has, the other can neither see nor touch."""
import pytest

from harness import procs
from harness.box import UID_MAX, UID_MIN, Box

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
                    f"ls {path.parent} | grep {path.name}", f"rm {path}/secret", f"ln -s {path}/secret l; cat l",
                    f"mv mine {path}/"):
        r = box.sh(command, who=B)
        assert r["exit_code"] != 0 and "of a" not in r["stdout"], command
    assert box.download("secret", who=A).body == b"of a"
    assert box.download("secret", who=B).code == "not_found"
    a = box.download("l", who=B)
    assert (a.status, a.code) == (403, "outside_workspace")


def test_state_is_out_of_sight(box):
    for command in ("ls {r}/state", "cat {r}/state/registry.db", "ls {r} | grep -v '^workspaces$'", "touch {r}/x",
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


# ---- what else there is to share: under every kind of isolation that this host gives ----

@pytest.fixture(scope="module", params=["auto", "basic"])
def kind(request):
    b = Box(env={"SALLYPORT_ISOLATION": request.param})
    b.wait_up()
    yield b
    b.stop()


def layers(b):
    return set(b.call("GET", "/v1/capabilities").json["layers"])


def test_tmp(kind):
    kind.sh("echo of-a > /tmp/x; chmod 600 /tmp/x; echo of-a > /dev/shm/x; chmod 600 /dev/shm/x", who=A)
    r = kind.sh("cat /tmp/x /dev/shm/x; rm -f /tmp/x /dev/shm/x; echo mine > /tmp/x", who=B)
    assert "of-a" not in r["stdout"]
    if "view" in layers(kind):
        assert r["exit_code"] == 0
        assert kind.sh("ls -A /tmp", who=A)["stdout"].split() == ["x"]
    assert kind.sh("cat /tmp/x /dev/shm/x", who=A)["stdout"] == "of-a\nof-a\n"


def test_proc(kind):
    c = kind.send_exec("touch up; sleep 4321", who=A)
    procs.wait_for("it runs", (kind.workspace(*A) / "up").exists)
    r = kind.sh("cat /proc/[0-9]*/environ /proc/[0-9]*/maps 2>/dev/null | grep -a %s; "
                "kill -9 -1; ls -l /proc/[0-9]*/cwd" % kind.workspace(*A).name, who=B)
    assert kind.workspace(*A).name not in r["stdout"]
    if "pid-ns" in layers(kind):
        assert "4321" not in kind.sh("cat /proc/[0-9]*/cmdline", who=B)["stdout"]
    assert any("4321" in p.cmdline for p in kind.procs())
    c.close()


def test_ipc(kind):
    """What a running command has, another identity neither sees nor removes."""
    kind.sh("rm -f up go", who=A)
    c = kind.send_exec(
        "m=$(ipcmk -M 4096 -p 0600 | grep -o '[0-9]*$'); q=$(ipcmk -Q -p 0600 | grep -o '[0-9]*$');"
        "s=$(ipcmk -S 1 -p 0600 | grep -o '[0-9]*$'); touch up;"
        "while [ ! -e go ]; do sleep 0.02; done; ipcrm -m $m -q $q -s $s && echo kept", who=A)
    procs.wait_for("it has them", (kind.workspace(*A) / "up").exists)
    seen = kind.sh("ipcs -m -q -s; ipcrm -a; true", who=B)["stdout"]
    if "ipc-ns" in layers(kind):
        assert str(kind.workspace(*A).stat().st_uid) not in seen
    kind.upload("go", b"", A)
    assert c.answer().json["stdout"] == "kept\n"
    c.close()


def test_abstract_sockets(kind):
    """Landlock's scope, or a network of one's own, keeps them apart."""
    if not layers(kind) & {"signal-scope", "net-ns"}:
        return
    c = kind.send_exec("exec python3 -c \"import socket,os; s=socket.socket(socket.AF_UNIX);"
                       "s.bind('\\0sp-box-test'); s.listen(); open('up','w').close();"
                       "s.accept()\"", who=A)
    procs.wait_for("it listens", (kind.workspace(*A) / "up").exists)
    kind.sh("rm -f up", who=("iso-c",))
    r = kind.sh("python3 -c \"import socket; s=socket.socket(socket.AF_UNIX);"
                "s.connect('\\0sp-box-test')\"", who=B)
    assert r["exit_code"] == 1 and "Error" in r["stderr"]
    c.close()


def test_only_its_own_workspace(kind):
    kind.sh("true", who=A)
    r = kind.sh(f"ls {kind.workspace(*A).parent} 2>&1; ls -d {kind.workspace(*A)} 2>&1", who=B)
    if "view" in layers(kind):
        names = r["stdout"].split("ls:")[0].split()
        assert kind.workspace(*A).name not in names
    assert kind.sh("echo $PWD", who=B)["stdout"].strip() == str(kind.workspace(*B))
