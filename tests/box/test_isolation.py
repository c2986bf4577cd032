"""Two identities: what the one has, the other can neither see nor touch."""
import pytest

from harness import procs
from harness.box import KINDS, UID_MAX, UID_MIN, Box

A, B = ("iso-a",), ("iso-b",)


@pytest.fixture(scope="module", params=KINDS, name="box")
def fixture_box(request):
    b = Box(**KINDS[request.param])
    try:
        b.wait_up()
        on = layers(b)
        assert ("view" in on) is (request.param not in ("basic", "six-caps-no-userns", "no-view", "user-ids-alone")), b.log()
        assert ("through a user namespace" in b.log()) is (request.param == "six-caps"), b.log()
        yield b
        b.stop()
    finally:
        if not b.stopped:
            b.destroy()


def layers(b):
    return set(b.call("GET", "/v1/capabilities").json["layers"])


def kill_all(b):
    """Where nothing scopes signals, a command's cell is of the same user and would be lost."""
    return "kill -9 -1;" if layers(b) & {"pid-ns", "signal-scope"} else ""


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
    with box.send_exec("echo $$ > pid; exec sleep 1000", who=A):
        file = box.workspace(*A) / "pid"
        procs.wait_for("the command runs", lambda: file.exists() and file.read_text().strip())
        pid = file.read_text().strip()
        r = box.sh(f"kill -9 {pid}; {kill_all(box)} cat /proc/{pid}/environ; ls /proc/{pid}/cwd/", who=B)
        assert "pid" not in r["stdout"]


def test_kill_all_stays_at_home(box):
    """kill -9 -1 of one ends nothing of the other's."""
    box.sh("rm -f up go", who=A)
    with box.send_exec("touch up; while [ ! -e go ]; do sleep 0.02; done; echo survived", who=A) as c:
        up = box.workspace(*A) / "up"
        procs.wait_for("the command runs", up.exists)
        box.sh(f"{kill_all(box)} true", who=B)
        box.upload("go", b"", A)
        assert c.answer().json["stdout"] == "survived\n"


@pytest.mark.parametrize("what", ["environ", "maps", "mem", "root/", "fd/"])
def test_the_daemon_is_closed(box, what):
    r = box.sh("for p in /proc/[0-9]*; do grep -qs -- --role= $p/cmdline && cat $p/%s && ls $p/%s;"
               " done; true" % (what, what), who=A)
    assert "RUNBOX" not in r["stdout"] and "socket" not in r["stdout"]


def test_no_privilege(box):
    out = box.sh("grep -E '^(Cap(Inh|Prm|Eff|Bnd|Amb)|NoNewPrivs|Seccomp):' /proc/self/status",
                 who=A)["stdout"]
    got = dict(line.split(":\t") for line in out.splitlines())
    assert got["NoNewPrivs"] == "1" and got["Seccomp"] == ("2" if "seccomp" in layers(box) else "0")
    for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        assert int(got[name], 16) == 0, name


def test_environment_tells_nothing(box):
    env = box.sh("env", who=A)["stdout"]
    assert "RUNBOX" not in env and "SALLYPORT" not in env


# ---- what else there is to share ----

def test_tmp(box):
    box.sh("echo of-a > /tmp/x; chmod 600 /tmp/x; echo of-a > /dev/shm/x; chmod 600 /dev/shm/x", who=A)
    r = box.sh("cat /tmp/x /dev/shm/x; rm -f /tmp/x /dev/shm/x; echo mine > /tmp/x", who=B)
    assert "of-a" not in r["stdout"]
    if "view" in layers(box):
        assert r["exit_code"] == 0
        assert box.sh("ls -A /tmp", who=A)["stdout"].split() == ["x"]
    assert box.sh("cat /tmp/x /dev/shm/x", who=A)["stdout"] == "of-a\nof-a\n"


def test_proc(box):
    with box.send_exec("touch up; sleep 4321", who=A):
        procs.wait_for("it runs", (box.workspace(*A) / "up").exists)
        r = box.sh("cat /proc/[0-9]*/environ /proc/[0-9]*/maps 2>/dev/null | grep -a %s; "
                    "%s ls -l /proc/[0-9]*/cwd" % (box.workspace(*A).name, kill_all(box)), who=B)
        assert box.workspace(*A).name not in r["stdout"]
        if "pid-ns" in layers(box):
            assert "4321" not in box.sh("cat /proc/[0-9]*/cmdline", who=B)["stdout"]
        assert any("4321" in p.cmdline for p in box.procs())


def test_ipc(box):
    """What a running command has, another identity neither sees nor removes."""
    box.sh("rm -f up go", who=A)
    with box.send_exec(
        "m=$(ipcmk -M 4096 -p 0600 | grep -o '[0-9]*$'); q=$(ipcmk -Q -p 0600 | grep -o '[0-9]*$');"
        "s=$(ipcmk -S 1 -p 0600 | grep -o '[0-9]*$'); touch up;"
        "while [ ! -e go ]; do sleep 0.02; done; ipcrm -m $m -q $q -s $s && echo kept", who=A) as c:
        procs.wait_for("it has them", (box.workspace(*A) / "up").exists)
        seen = box.sh("ipcs -m -q -s; ipcrm -a; true", who=B)["stdout"]
        if "ipc-ns" in layers(box):
            assert str(box.workspace(*A).stat().st_uid) not in seen
        box.upload("go", b"", A)
        assert c.answer().json["stdout"] == "kept\n"


QUEUE = """
import ctypes, os, sys
rt = ctypes.CDLL(None, use_errno=True)
def call(f, *args):
    return "done" if f(*args) >= 0 else os.strerror(ctypes.get_errno())
"""


def test_message_queues(box):
    made = box.sh("exec python3 -I -", who=A, stdin=QUEUE + "print(call(rt.mq_open, b'/of-a', os.O_CREAT | os.O_RDWR, 0o600, None))")
    # Landlock finds no way to the host's queues from within a view: they are made, and opened by nobody.
    shut = made["stdout"] == "Permission denied\n" and {"view", "landlock"} <= layers(box) and "ipc-ns" not in layers(box)
    assert shut or made["stdout"] == "done\n", made
    try:
        r = box.sh("exec python3 -I -", who=B, stdin=QUEUE + "print(*(call(rt.mq_open, b'/of-a', m) for m in (0, 1, 2)), sep='\\n')\n"
                   "print(call(rt.mq_unlink, b'/of-a'))")
        assert set(r["stdout"].splitlines()) <= {"No such file or directory", "Permission denied", "Operation not permitted"} and r["exit_code"] == 0, r
    finally:
        gone = box.sh("exec python3 -I -", who=A, stdin=QUEUE + "print(call(rt.mq_unlink, b'/of-a'))")["stdout"]
        assert gone == "done\n"


REACH = """
import ctypes, os
c = ctypes.CDLL(None, use_errno=True)
class Vec(ctypes.Structure):
    _fields_ = [("at", ctypes.c_void_p), ("n", ctypes.c_size_t)]
def seen(n):
    try:
        return b"4567" in open(f"/proc/{n}/cmdline", "rb").read()
    except OSError:
        return False
def opens(n, what, mode):
    try:
        open(f"/proc/{n}/{what}", mode).read(1)
        return True
    except OSError:
        return False
def links(n, what):
    try:
        os.stat(f"/proc/{n}/{what}")
        return True
    except OSError:
        return False
buf = ctypes.create_string_buffer(8)
mine, theirs = Vec(ctypes.addressof(buf), 8), Vec(0x400000, 8)
for n in filter(seen, filter(str.isdigit, os.listdir("/proc"))):
    pid = int(n)
    fd = c.syscall(434, pid, 0)
    did = {"mem": opens(n, "mem", "rb"), "environ": opens(n, "environ", "rb"), "maps": opens(n, "maps", "rb"),
           "auxv": opens(n, "auxv", "rb"), "syscall": opens(n, "syscall", "rb"), "cwd": links(n, "cwd/."),
           "root": links(n, "root/."), "exe": links(n, "exe"), "fd": links(n, "fd/0"), "ns": links(n, "ns/mnt"),
           "attach": c.ptrace(16, pid, 0, 0) == 0, "seize": c.ptrace(0x4206, pid, 0, 0) == 0,
           "read": c.process_vm_readv(pid, ctypes.byref(mine), 1, ctypes.byref(theirs), 1, 0) > 0,
           "write": c.process_vm_writev(pid, ctypes.byref(mine), 1, ctypes.byref(theirs), 1, 0) > 0,
           "kill": c.kill(pid, 0) == 0, "stop": c.kill(pid, 19) == 0, "getfd": fd >= 0 and c.syscall(438, fd, 0, 0) >= 0,
           "pidfd": fd >= 0 and c.syscall(424, fd, 9, None, 0) == 0, "nice": c.setpriority(0, pid, 19) == 0,
           "limit": c.prlimit(pid, 7, None, buf) == 0, "group": c.kill(-pid, 0) == 0}
    print("seen", *(k for k, v in did.items() if v))
print("end")
"""


def test_memory_and_tracing(box):
    """Another identity's process, by each way that leads into one: and it runs on."""
    with box.send_exec("SECRET=of-a exec sleep 4567", who=A):
        procs.wait_for("it runs", lambda: any(p.cmdline == ("sleep", "4567") for p in box.procs()))
        victim = next(p for p in box.procs() if p.cmdline == ("sleep", "4567"))
        r = box.sh("exec python3 -I -", who=B, stdin=REACH)
        *seen, end = r["stdout"].splitlines()
        assert r["exit_code"] == 0 and end == "end" and seen == ([] if "pid-ns" in layers(box) else ["seen"]), r
        assert procs.read(victim.pid).state == "S"


def test_abstract_sockets(box):
    """Landlock's scope, or a network of one's own, keeps them apart."""
    if not layers(box) & {"signal-scope", "net-ns"}:
        return
    with box.send_exec("exec python3 -c \"import socket,os; s=socket.socket(socket.AF_UNIX);"
                       "s.bind('\\0sp-box-test'); s.listen(); open('up','w').close();"
                       "s.accept()\"", who=A):
        procs.wait_for("it listens", (box.workspace(*A) / "up").exists)
        box.sh("rm -f up", who=("iso-c",))
        r = box.sh("python3 -c \"import socket; s=socket.socket(socket.AF_UNIX);"
                    "s.connect('\\0sp-box-test')\"", who=B)
        assert r["exit_code"] == 1 and "Error" in r["stderr"]


def test_only_its_own_workspace(box):
    box.sh("true", who=A)
    r = box.sh(f"ls {box.workspace(*A).parent} 2>&1; ls -d {box.workspace(*A)} 2>&1", who=B)
    if "view" in layers(box):
        names = r["stdout"].split("ls:")[0].split()
        assert box.workspace(*A).name not in names
    assert box.sh("echo $PWD", who=B)["stdout"].strip() == str(box.workspace(*B))


TAKE_ALL = """
import os, time
while True:
    try:
        if os.fork() == 0:
            time.sleep(100)
    except OSError:
        open("full", "w").close()
        time.sleep(0.001)
"""


def test_one_takes_all_processes(start_box):
    """All that there may be on this host, which more than SALLYPORT_MAX_PROCS should leave: the others are told to
    come again, and can once it has ended."""
    b = start_box(env={"SALLYPORT_MAX_PROCS": "3000"}, pids=200)
    c = ("iso-c",)
    assert b.sh("echo b", B)["stdout"] == "b\n"
    got = []

    def refused(who):
        got.append(b.exec("echo on", who))  # as long as the process is there that waits for it, it is served
        return got[-1].status != 200
    with b.send_exec("exec /usr/bin/python3 -I -", A, stdin=TAKE_ALL, timeout=100):
        procs.wait_for("all processes are taken", lambda: (b.workspace(*A) / "full").exists())
        procs.wait_for("there is none for another", lambda: refused(B))
        assert (got[-1].status, got[-1].code) == (503, "overloaded"), got[-1]
        procs.wait_for("nor for a new one", lambda: refused(c))
        # Its cell came up, and found no process for the command; or didn't come up.
        assert got[-1].status == 503 and got[-1].code in ("overloaded", "cell_lost"), got[-1]
    for who in (B, c):
        a = procs.wait_for("it is served", lambda w=who: (x := b.exec("echo on", w)).status != 503 and x)
        assert a.json["stdout"] == "on\n"
