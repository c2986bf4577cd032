"""Faults that services of this kind have had with commands, against ours: what they inherit, where they start, how
long they may run. tests/cases/index.tsv has the list."""
import os
import shutil

import pytest

from harness import names
from harness.box import KINDS

SEAT_ENV = {names.MAX_TIMEOUT: "2000h"}


def own(seat, path):
    os.chown(path, seat.owner, seat.owner)
    return path


@pytest.mark.parametrize("ms", [1 << 31, (1 << 32) + 1, 7_200_000_000])
def test_a_timeout_beyond_an_integer_of_32_bits(seat, ms):
    """Of milliseconds that is 25 and 50 days; cut off to them it would be over at once."""
    for member in ({"timeout_ms": ms}, {"timeout": ms / 1000}):
        r = seat.run("sleep 0.05; echo done", **member)
        assert (r["stdout"], r["timed_out"]) == ("done\n", False)


@pytest.mark.parametrize("seconds", [0.0004, 1e-9, 5e-324])
def test_a_timeout_that_rounds_to_nothing(seat, seconds):
    """It is short, not none."""
    r = seat.run("sleep 600", timeout=seconds)
    assert (r["timed_out"], r["exit_code"]) == (True, 124)


@pytest.mark.parametrize("value", ["-0.0", "-0", "0e9", "-1e-9"])
def test_a_timeout_of_less_than_nothing(seat, value):
    a = seat.request("POST", "/execute", b'{"command":"touch timed-ran","timeout":%s}' % value.encode())
    assert (a.status, a.code) == (400, "bad_field") and not (seat.ws / "timed-ran").exists()


@pytest.mark.parametrize("name", ["-", "--", "-P", "~", "$HOME", "`id`", "$(id)", "'", '"', " ", "a\nb", "\\", "*", "é", "a;b"])
def test_folders_with_names_that_a_shell_reads(seat, box, name):
    """The folder is a folder: no shell is told to go there."""
    d = seat.ws / box / name
    own(seat, seat.ws / box)
    d.mkdir()
    own(seat, d)
    r = seat.run('pwd; printf "%s\\n" "$PWD"; touch here', cwd=f"{box}/{name}")
    assert r["stdout"] == f"{d}\n" * 2 and (d / "here").exists()


def test_a_folder_that_may_not_be_entered(seat, box):
    d = seat.ws / box / "shut"
    d.mkdir()
    os.chmod(own(seat, d), 0o600)
    a = seat.execute("touch ran", cwd=f"{box}/shut")
    assert (a.status, a.code) == (403, "forbidden")


def test_the_folder_goes_away_meanwhile(seat, box):
    """A command whose folder was removed ends as any other, and the next one starts."""
    (seat.ws / box / "d").mkdir()
    own(seat, seat.ws / box)
    own(seat, seat.ws / box / "d")
    r = seat.run("rmdir ../d && echo gone; /bin/true; ls", cwd=f"{box}/d")
    assert (r["stdout"], r["exit_code"]) == ("gone\n", 0)
    assert seat.execute("pwd", cwd=f"{box}/d").code == "not_found"
    assert seat.run("pwd", cwd=box)["stdout"] == f"{seat.ws / box}\n"


@pytest.mark.parametrize("mode", ["0", "077", "500", "600"])
def test_a_workspace_that_was_shut_by_its_own_command(start, mode):
    """Nobody else may be there to open it again: the next command is one that can."""
    d = start()
    assert d.run(f"mkdir d; echo kept > d/f; chmod {mode} .")["exit_code"] == 0
    assert d.run("cat f; echo more > g", cwd="d")["stdout"] == "kept\n"
    assert d.get("d/g").body == b"more\n" and d.put("d/h", b"x").status == 201
    assert d.ws.stat().st_mode & 0o700 == 0o700
    d.run(f"chmod {mode} .")
    assert d.run("echo d/*")["stdout"] == "d/f d/g d/h\n"


def test_outputs_that_are_opened_by_name(seat):
    """/dev/stdout and its like are opened anew: a socket, or another user's pipe, would refuse."""
    r = seat.run("echo a > /dev/stdout; echo b >> /dev/stdout; echo c > /proc/self/fd/1; cat /dev/stdin; "
                 "echo e > /dev/stderr; echo f > /dev/fd/2", stdin="d\n")
    assert (r["stdout"], r["stderr"]) == ("a\nb\nc\nd\n", "e\nf\n")


def test_an_output_that_a_command_made_nonblocking(seat, box):
    """It is the command's own end: ours, and the next command's, are as before."""
    r = seat.run("""python3 -c "
import fcntl, os
for fd in (0, 1, 2):
    fcntl.fcntl(fd, fcntl.F_SETFL, os.O_NONBLOCK)
"; head -c 3000000 /dev/zero | tr '\\0' x >&2; echo end""", stdin="x")
    assert r["stdout"].endswith("end\n")
    r = seat.run("head -c 3000000 /dev/zero | tr '\\0' x; echo end >&2")
    assert r["stdout_truncated"] and r["stderr"] == "end\n"


def given(nice, oom, umask):
    """A program in the daemon's place that starts it as a service manager might."""
    return f"""#!/usr/bin/python3 -I
import os, signal, sys
for sig in (signal.SIGPIPE, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1):
    signal.signal(sig, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGUSR1, signal.SIGCHLD))
os.umask({umask})
os.setpriority(os.PRIO_PROCESS, 0, {nice})
try:
    with open("/proc/self/oom_score_adj", "w") as f:
        f.write("{oom}")
except PermissionError:  # a root without CAP_SYS_RESOURCE, as in some machines that tests run on
    pass
real = os.path.join(os.path.dirname(sys.argv[0]), "real")
os.execv(real, [real, *sys.argv[1:]])
"""


INHERITED = "cat /proc/self/oom_score_adj; nice; grep -E 'Sig(Blk|Ign)' /proc/self/status; umask; ulimit -c"
PLAIN = ["SigBlk:", "0" * 16, "SigIgn:", "0" * 16, "0022", "0"]


def gives(nice, oom, umask=0o077):
    def prepare(d):
        shutil.copy(names.BIN, d.base / "real")
        d.source = d.base / "given.py"
        d.source.write_text(given(nice, oom, umask))
        d.source.chmod(0o755)
    return prepare


def spared(d):
    """What a command should have where the daemon has this; the host may not have let it be less than nothing."""
    with open(f"/proc/{d.role('front').pid}/oom_score_adj", encoding="ascii") as f:
        return str(max(int(f.read()), 0))


@pytest.mark.parametrize("plan,nice,oom,want", [("root-uid1000", -5, -500, "0"), ("user", 19, 900, "19")])
def test_what_a_service_manager_gave_the_daemon(start, plan, nice, oom, want):
    """Spared when memory runs out, before others in the queue, signals ignored or blocked, a closed umask: the daemon
    may keep it, a command would be the last that the kernel ends. What makes it come later is inherited."""
    d = start(plan=plan, prepare=gives(nice, oom))
    assert d.run(INHERITED)["stdout"].split() == [spared(d), want, *PLAIN]
    d.run("mkdir d; echo x > f")
    assert d.put("g", b"x").status == 201
    assert [oct((d.ws / n).stat().st_mode & 0o777) for n in "dfg"] == ["0o755", "0o644", "0o644"]


@pytest.mark.parametrize("kind", ["root", "basic"])
def test_what_a_service_manager_gave_a_box(start_box, kind):
    """An identity's process that was waiting for it, and one that was made for it."""
    b = start_box(prepare=gives(-5, -500, 0o022), **KINDS[kind])
    for who in ("a", "b", "c", "d"):
        assert b.sh(INHERITED, (who,))["stdout"].split() == [spared(b), "0", *PLAIN]
