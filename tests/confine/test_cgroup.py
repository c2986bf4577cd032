"""The cgroup layer: commands are born in a cgroup of their own, can't leave it, are ended by it; and the
daemon takes away what it made. In the host's real cgroup2 tree; what needs the memory and pids controllers
is in test_cgroup_limits.py."""
import itertools
import json
import os
import signal
import textwrap

import pytest

from harness import cgroup2, names, procs

_count = itertools.count()
DISABLE = names.TEST_DISABLE


@pytest.fixture
def folder():
    made = []

    def make(owner=0):
        made.append(cgroup2.Folder(f"sp-test-{os.getpid()}-{next(_count)}", owner))
        return made[-1]
    yield make
    for f in made:
        f.remove()


@pytest.fixture
def start(start):
    """Without a PID namespace: beside one the layer is on only where it limits something."""
    def make(env=None, **kw):
        env = dict(env or {})
        env[DISABLE] = ",".join(filter(None, (env.get(DISABLE), "pid-ns")))
        return start(env=env, **kw)
    make.plain = start
    return make


@pytest.fixture(params=["root-uid1000", "user"])
def placed(request, folder, start):
    """A daemon that was started in a cgroup which it may write."""
    def make(**kw):
        f = folder(names.PLANS[request.param]["daemon"])
        d = start(plan=request.param, cgroup2=f.path, **kw)
        assert "layer cgroup: on" in d.log(), d.log()
        return d, f
    return make


BASE = "sallyport-0"


def test_places(placed):
    d, f = placed()
    assert f.below() == [BASE, f"{BASE}/commands", f"{BASE}/daemon"]
    with d.send_command("echo > up; sleep 1000 & sleep 1000"):
        d.wait_file("up")
        roles = {p.pid for p in d.procs() if p.role} | {d.main.pid}
        assert roles <= set(f.pids(f"{BASE}/daemon"))
        strangers = {p.pid for p in d.strangers()}
        assert len(strangers) >= 2 and strangers == set(f.pids(f"{BASE}/commands"))
    d.wait_idle()
    assert f.pids(f"{BASE}/commands") == []
    d.stop()
    assert f.below() == []


PROBE = """
    import ctypes, errno, os, sys
    tries = {}
    def attempt(name, f):
        try:
            f()
            tries[name] = "done"
        except OSError as e:
            tries[name] = errno.errorcode[e.errno]
    places = [l.split()[4] for l in open("/proc/self/mountinfo") if " - cgroup2 " in l]
    own = next(l.split("::")[1].strip() for l in open("/proc/self/cgroup") if l.startswith("0::"))
    found = 0
    for p in places:
        for at in (own, os.path.dirname(own), os.path.dirname(own) + "/daemon", "", os.path.dirname(os.path.dirname(own))):
            folder = p + at
            found += os.path.exists(folder + "/cgroup.procs")
            for name in ("cgroup.procs", "cgroup.threads", "cgroup.kill", "cgroup.freeze", "cgroup.subtree_control",
                         "memory.max", "pids.max"):
                if os.path.exists(folder + "/" + name):
                    attempt(f"{at} {name}", lambda: open(folder + "/" + name, "w").write("0"))
            if os.path.isdir(folder):
                attempt(f"{at} mkdir", lambda: os.mkdir(folder + "/mine"))
    libc = ctypes.CDLL(None, use_errno=True)
    def clone3(*rest):
        args = (ctypes.c_uint64 * 11)(0x200000000, 0, 0, 0, 17)
        fd = os.open(places[0] + os.path.dirname(own), os.O_RDONLY) if places else 0
        args[10] = fd
        if libc.syscall(435, args, 88, *[ctypes.c_long(r) for r in rest]) < 0:
            raise OSError(ctypes.get_errno(), "clone3")
        else:
            os._exit(0)
    if found:
        attempt("clone3", clone3)
    attempt("clone3 with zeros", lambda: clone3(0, 0) if found else libc.syscall(435, 0, 0, 0, 0) < 0 and (_ for _ in ()).throw(OSError(ctypes.get_errno(), "")))
    print(own)
    print(tries)
    """


def test_no_way_out(placed):
    """Its own cgroup files belong to the commands' user: to open them is what has to fail."""
    d, f = placed()
    r = d.run("exec /usr/bin/python3 -I -", stdin=textwrap.dedent(PROBE))
    assert r["exit_code"] == 0, r
    own, tries = r["stdout"].splitlines()
    assert own.endswith(f"/{BASE}/commands")
    tries = eval(tries, {})
    assert tries and set(tries.values()) <= {"EACCES", "EPERM", "EROFS", "ENOSYS", "ENOENT", "EBADF", "EINVAL"}, tries
    assert {v for k, v in tries.items() if "clone3" in k} == {"ENOSYS"}, tries
    assert f.below() == [BASE, f"{BASE}/commands", f"{BASE}/daemon"]


def test_many_commands(placed):
    """The same path again and again: exit codes, output, stdin, a shell that can't start."""
    d, f = placed()
    for n in range(60):
        assert d.run(f"cat; exit {n}", stdin=f"in{n}")["stdout"] == f"in{n}"
    assert d.run("(sleep 1000 &) ; kill -9 $$")["signal"] == "SIGKILL"
    assert f.pids(f"{BASE}/commands") == []


@pytest.mark.parametrize("role", ["cell", "broker", "front"])
def test_a_role_dies(placed, role):
    """What it ran is gone, and the next command is in the same cgroup."""
    d, f = placed()
    c = d.send_command("echo > up; setsid sleep 1000 & sleep 1000")
    d.wait_file("up")
    os.kill(d.role(role).pid, signal.SIGKILL)
    procs.wait_for("its commands are gone", lambda: f.pids(f"{BASE}/commands") == [])
    c.close()
    d.wait_idle()
    r = d.run("cat /proc/self/cgroup")
    own = next((x for x in r["stdout"].splitlines() if x.startswith("0::")), str(r))
    assert own.endswith(f"/{BASE}/commands")


def test_what_a_killed_main_left_is_cleared(folder, start):
    f = folder()
    d = start(cgroup2=f.path)
    os.kill(d.main.pid, signal.SIGKILL)
    d.wait_exit()
    d.destroy()
    assert BASE in f.below()
    d = start(cgroup2=f.path)
    assert f.below() == [BASE, f"{BASE}/commands", f"{BASE}/daemon"] and "layer cgroup: on" in d.log()


def test_two_daemons_in_one_cgroup(folder, start):
    f = folder()
    one, two = start(cgroup2=f.path), start(cgroup2=f.path)
    assert len(f.below()) == 6
    with two.send_command("echo > up; sleep 1000"):
        two.wait_file("up")
        assert one.run("echo ok")["stdout"] == "ok\n"
        one.stop()
        assert f.below() == ["sallyport-1", "sallyport-1/commands", "sallyport-1/daemon"]
        assert len(f.pids("sallyport-1/commands")) >= 1
    two.wait_idle()


def test_check_leaves_nothing(folder, start):
    f = folder()
    d = start(up=False, args=("check",), cgroup2=f.path)
    assert d.wait_exit()["status"] == 0
    line = next(x for x in (d.base / "stdout").read_text().splitlines() if x.startswith("cgroup"))
    assert line.split()[:2] == ["cgroup", "on"] and f.below() == []


def test_a_refused_start_leaves_nothing(folder, start):
    f = folder()
    d = start(up=False, cgroup2=f.path, env={names.BIND: "192.0.2.1"})
    assert d.wait_exit()["status"] == 2 and f.below() == []


OFF = [("disabled", {DISABLE: "cgroup"}, 0), ("it needs seccomp", {DISABLE: "seccomp", names.ACCEPT_MISSING: "seccomp"}, 0)]


@pytest.mark.parametrize("why,env,owner", OFF)
def test_off(folder, start, why, env, owner):
    f = folder(owner)
    d = start(cgroup2=f.path, env=env)
    assert f"layer cgroup: off ({why})" in d.log() and f.below() == []
    assert d.run("echo ok; sleep 1000 &")["stdout"] == "ok\n"
    d.wait_no_strangers()


def test_off_where_it_would_limit_nothing(folder, start):
    """A PID namespace ends commands as surely, and every command pays for being put into a cgroup."""
    f = folder()
    d = start.plain(cgroup2=f.path)
    limits = {"memory", "pids"} & set((cgroup2.mounted() / "cgroup.controllers").read_text().split())
    state = "layer cgroup: on" if limits else "layer cgroup: off (it would limit nothing here"
    assert state in d.log(), d.log()
    assert d.run("echo ok; sleep 1000 &")["stdout"] == "ok\n"
    d.wait_no_strangers()


def test_off_where_nothing_may_be_written(start):
    """The fence's usual, read-only tree: no reason to refuse the start."""
    d = start()
    assert "layer cgroup: off (" in d.log()
    assert d.run("echo ok")["stdout"] == "ok\n"


def test_off_without_delegation(folder, start):
    d = start(plan="user", cgroup2=folder(0).path)
    assert "layer cgroup: off (our cgroup can't be written: Permission denied)" in d.log()
    assert d.run("echo ok")["stdout"] == "ok\n"


def test_processors_need_a_controller(folder, start):
    """No other limit does instead: the start is refused by the layer's name, or accepted by it."""
    if "cpu" in (cgroup2.mounted() / "cgroup.controllers").read_text().split():
        d = start(cgroup2=folder().path, env={"SALLYPORT_CPUS": "1.5"})
        assert "their processors have one" in d.log()
        return
    whys = ((folder().path, "commands are ended together; no controller for "), (None, "our cgroup can't be written: "))
    for path, why in whys:
        d = start(up=False, cgroup2=path, env={"SALLYPORT_CPUS": "1.5", names.ACCEPT_MISSING: "signal-scope"})
        assert d.wait_exit()["status"] == 2
        assert f"The layer cgroup is missing (SALLYPORT_CPUS needs it; {why}" in d.log(), d.log()
        assert "SALLYPORT_ACCEPT_MISSING=cgroup,signal-scope starts without it." in d.log()
        d = start(cgroup2=path, env={"SALLYPORT_CPUS": "1.5", names.ACCEPT_MISSING: "cgroup"})
        assert d.run("echo ok")["stdout"] == "ok\n" and why in d.log()


def test_check_tells_what_is_missing_for_processors(folder, start):
    f = folder()
    d = start(up=False, args=("check", "--json"), cgroup2=f.path, env={"SALLYPORT_CPUS": "1"})
    has = "cpu" in (cgroup2.mounted() / "cgroup.controllers").read_text().split()
    assert d.wait_exit()["status"] == (0 if has else 2)
    said = json.loads((d.base / "stdout").read_text())
    layer = next(x for x in said["layers"] if x["name"] == "cgroup")
    assert said["starts"] is has and layer["required"] is True and f.below() == []
    assert has or ("Delegate=memory pids cpu" in layer["fix"] and "layer cgroup" in said["refusal"])


def test_limits_without_controllers_are_told(placed):
    if "memory" in (cgroup2.mounted() / "cgroup.controllers").read_text().split():
        controllers = "on"
    else:
        controllers = "off"
    d, _ = placed(env={"SALLYPORT_MAX_MEMORY": "512MiB"})
    line = next(x for x in d.log().splitlines() if "layer cgroup" in x)
    assert ("; no controller for memory" in line) == (controllers == "off"), line
    r = d.run("echo ok")
    assert r["stdout"] == "ok\n" and "oom_killed" not in r
