"""A command's whole tree ends with it, whatever it does, with each way of killing switched off."""
import textwrap

import pytest

from harness import names
from harness.daemon import Daemon

WAYS = {
    "all": ("root-uid1000", ""), "no scope": ("root-uid1000", "signal-scope"),
    "no landlock": ("root-uid1000", "landlock,signal-scope"), "user": ("user", ""),
    "user, walk": ("user", "signal-scope"), "root": ("root-root", ""), "root, walk": ("root-root", "signal-scope"),
}


@pytest.fixture(scope="module", params=list(WAYS))
def seat(request):
    plan, off = WAYS[request.param]
    env = {names.TEST_DISABLE: off, names.ACCEPT_MISSING: off} if off else {}
    d = Daemon(plan=plan, env=env)
    try:
        d.wait_up()
    except BaseException:
        d.destroy()
        raise
    d.way = request.param
    yield d
    d.stop()


def python(code):
    return "exec /usr/bin/python3 -I -c '" + textwrap.dedent(code).replace("'", '"') + "'"


TREES = {
    "setsid": "setsid sleep 1000 & setsid setsid sleep 1001 &",
    "double fork": "( (sleep 1000 &) & ) ; (setsid sh -c '(sleep 1001 &) ; sleep 1002' &)",
    "stopped": "sh -c 'kill -STOP $$' & sleep 1000 & kill -STOP $!",
    "ignoring": "sh -c \"trap '' TERM HUP INT QUIT USR1 USR2 ALRM PIPE; while :; do sleep 1; done\" &",
    "nohup": "nohup sleep 1000 >/dev/null 2>&1 &",
    "many": "i=0; while [ $i -lt 200 ]; do sleep 1000 & i=$((i+1)); done",
    "deep": "f() { if [ $1 -gt 0 ]; then (f $(($1-1)) & sleep 1000) & fi; sleep 1001; }; f 40 &",
    "busy": "yes >/dev/null & (while :; do :; done) &",
    "forking": "(while :; do (sleep 0.01 &); done) &",
}


@pytest.mark.parametrize("name", TREES)
def test_left_behind(seat, name):
    r = seat.run(f"{TREES[name]}\necho end")
    assert (r["exit_code"], r["stdout"]) == (0, "end\n")
    assert seat.strangers() == []
    assert seat.run("echo next")["stdout"] == "next\n"


@pytest.mark.parametrize("name", TREES)
def test_timed_out(seat, name):
    r = seat.run(f"{TREES[name]}\necho end; sleep 1000", timeout=0.5)
    assert r["timed_out"] and r["exit_code"] == 124
    assert seat.strangers() == []


def test_many_children(seat):
    count = 1000 if "walk" not in seat.way and not seat.way.startswith("no ") else 400  # bounded there
    r = seat.run(python(f"""
        import os, signal
        for n in range({count}):
            if os.fork() == 0:
                if n % 3 == 0: os.setsid()
                if n % 5 == 0: signal.signal(15, signal.SIG_IGN)
                signal.pause()
        print("made", flush=True)
        """))
    assert r["stdout"] == "made\n", r
    assert seat.strangers() == []


def test_fork_bomb(seat):
    """Ended by its timeout; what ran into a limit on the way is the fence's doing."""
    r = seat.run(python("""
        import os, signal
        signal.signal(15, signal.SIG_IGN)
        while True:
            try:
                if os.fork() == 0: os.setsid()
            except OSError:
                pass
        """), timeout=1)
    assert r["timed_out"] is True
    assert seat.strangers() == []
    assert seat.run("echo next")["stdout"] == "next\n"


def test_hang_up_of_a_fork_bomb(seat):
    c = seat.send_command("touch bomb; " + python("""
        import os
        while True:
            try:
                os.fork()
            except OSError:
                pass
        """))
    seat.wait_file("bomb")
    c.close()
    seat.wait_no_strangers()
    seat.wait_idle()
    (seat.ws / "bomb").unlink()


def test_the_shell_ends_while_children_fork(seat):
    r = seat.run(python("""
        import os
        for n in range(20):
            if os.fork() == 0:
                while True:
                    if os.fork() == 0:
                        os.setsid()
                    else:
                        os._exit(0)
        print("end", flush=True)
        """))
    assert r["stdout"] == "end\n"
    assert seat.strangers() == []


def test_vfork_and_threads(seat):
    r = seat.run(python("""
        import threading, subprocess, time
        for n in range(50):
            threading.Thread(target=lambda: subprocess.run(["sleep", "1000"])).start()
        time.sleep(0.3)
        import os
        print("end", flush=True)
        os._exit(3)
        """))
    assert (r["exit_code"], r["stdout"]) == (3, "end\n")
    assert seat.strangers() == []


def test_orphans_never_reach_the_host(seat):
    """All of a command's orphans come to the cell: none to the fence's first process."""
    seat.run("(setsid sh -c 'sleep 0.05; exit 3' &) ; sleep 0.2")
    assert seat.strangers() == []
