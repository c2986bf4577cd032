"""Every way of ending a command's tree, with all the others switched off, against everything that makes
trees hard to end. test_tree_kill.py has the same for what a host usually offers."""
import itertools
import os
import textwrap

import pytest

from harness import cgroup2, names
from harness.daemon import Daemon

SPARE_UID = 64321  # nothing else runs as that: kill(-1) by user id is allowed
OTHERS = [n for n in ("pid-ns", "cgroup", "signal-scope") if n in names.LAYERS]


def without(*kept):
    off = ",".join(n for n in OTHERS if n not in kept)
    return {names.TEST_DISABLE: off, names.ACCEPT_MISSING: "signal-scope"}


# way: (plan, settings, the layer that does it, whether it gets a cgroup folder, children at most)
WAYS = {
    "scope": ("root-uid1000", without("signal-scope"), "signal-scope", False, 3000),
    "scope, user": ("user", without("signal-scope"), "signal-scope", False, 3000),
    "cgroup": ("root-uid1000", without("cgroup"), "cgroup", True, 3000),
    "cgroup, user": ("user", without("cgroup"), "cgroup", True, 3000),
    "user id": ("root-uid1000", {**without(), "SALLYPORT_USER": str(SPARE_UID)}, "uid", False, 3000),
    "walk": ("root-uid1000", without(), None, False, 400),  # 512 processes at most there
    "walk, user": ("user", without(), None, False, 400),
}
if "pid-ns" in names.LAYERS:
    WAYS["pid namespace"] = ("root-uid1000", without("pid-ns"), "pid-ns", False, 3000)
    WAYS["pid namespace, user"] = ("user", without("pid-ns"), "pid-ns", False, 3000)

_count = itertools.count()


def layer(d, name):
    return next(x for x in d.log().splitlines() if f" layer {name}: " in x).split(f"layer {name}: ")[1].split()[0]


@pytest.fixture(scope="module", params=list(WAYS))
def seat(request):
    plan, env, does_it, in_cgroup, most = WAYS[request.param]
    folder = None
    if in_cgroup:
        folder = cgroup2.Folder(f"sp-matrix-{os.getpid()}-{next(_count)}", names.PLANS[plan]["daemon"])

    def give_workspace(d):
        if "SALLYPORT_USER" in env:
            os.chown(d.ws, SPARE_UID, SPARE_UID)
    d = Daemon(plan=plan, env=env, pids=3600, prepare=give_workspace, cgroup2=folder.path if folder else None)
    try:
        d.wait_up()
        for n in OTHERS:
            assert layer(d, n) == ("on" if n == does_it else "off"), d.log()
        # how many the kernel starts is no matter of the build
        d.most = min(most, 1000) if "ASAN_OPTIONS" in os.environ else most
        yield d
        d.stop()
    finally:
        if not d.stopped:
            d.destroy()
        if folder:
            folder.remove()


def python(code):
    return "exec /usr/bin/python3 -I -c '" + textwrap.dedent(code).replace("'", '"') + "'"


BOMB = "ulimit -u 400; " + python("""
    import os, signal
    for n in range(1, 65):
        try: signal.signal(n, signal.SIG_IGN)
        except (OSError, ValueError): pass
    while True:
        try:
            if os.fork() == 0: os.setsid()
        except OSError:
            pass
    """)
# One that is always gone by the time that a list with it is read: the parent ends, the child goes on.
HOPPER = "ulimit -u 400; " + python("""
    import os
    for n in range(8):
        if os.fork() == 0:
            while True:
                try:
                    if os.fork() != 0: os._exit(0)
                    os.setsid()
                except OSError:
                    pass
    print("end", flush=True)
    """)
TREES = {
    "setsid": "setsid sleep 1000 & setsid setsid sleep 1001 & (setsid sh -c 'setsid sleep 1002 &' &)",
    "double fork": "( (sleep 1000 &) & ) ; (setsid sh -c '(sleep 1001 &) ; sleep 1002' &)",
    "ignores signals": python("""
        import os, signal
        for n in range(30):
            if os.fork() == 0:
                signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
                os.setsid()
                while True: signal.sigwaitinfo([10])
        print("end", flush=True)
        """),
    "stops itself": "for i in 1 2 3 4 5 6 7 8; do setsid sh -c 'kill -STOP $$; sleep 1000' & done",
    "stops others": "sleep 1000 & p=$!; (while :; do kill -STOP $p; kill -CONT $p; done) & setsid sh -c 'kill -STOP 0' &",
    "in the terminal's background": "set -m; sleep 1000 & sleep 1001 | sleep 1002 & bg 2>/dev/null; :",
}


@pytest.mark.parametrize("name", TREES)
def test_left_behind(seat, name):
    r = seat.run(TREES[name] if TREES[name].startswith("exec ") else f"{TREES[name]}\necho end")
    assert (r["exit_code"], r["stdout"]) == (0, "end\n"), r
    assert seat.strangers() == []
    assert seat.run("echo next")["stdout"] == "next\n"


@pytest.mark.parametrize("tree", [BOMB, "sleep 1000 & kill -STOP $$"], ids=["bomb", "shell stops itself"])
def test_timed_out(seat, tree):
    cell = seat.role("cell").pid
    r = seat.run(tree, timeout=0.5)
    assert r["timed_out"] is True and r["exit_code"] == 124
    assert seat.strangers() == []
    assert seat.run("echo next")["stdout"] == "next\n"
    assert seat.role("cell").pid == cell  # it wasn't the cell's end that did it


def test_hopping(seat):
    r = seat.run(HOPPER)
    assert r["stdout"] == "end\n", r
    assert seat.strangers() == []
    assert seat.run("echo next")["stdout"] == "next\n"


def test_hang_up(seat):
    c = seat.send_command("touch bomb; " + BOMB)
    seat.wait_file("bomb")
    c.close()
    seat.wait_no_strangers()
    seat.wait_idle()
    (seat.ws / "bomb").unlink()


@pytest.mark.slow
def test_thousands(seat):
    """3,000 children (with a sanitizer 1,000), in sessions of their own, deaf, or waiting; no timed assertion: only that they end."""
    r = seat.run(python(f"""
        import os, signal
        for n in range({seat.most}):
            if os.fork() == 0:
                if n % 3 == 0: os.setsid()
                if n % 5 == 0: signal.signal(15, signal.SIG_IGN)
                if n % 7 == 0: os.kill(os.getpid(), signal.SIGSTOP)
                signal.pause()
        print("made", flush=True)
        """), timeout=300)
    assert r["stdout"] == "made\n", r
    assert seat.strangers() == []
    assert seat.run("echo next")["stdout"] == "next\n"
