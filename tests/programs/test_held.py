"""A command that a held shell runs, beside the same one run by a shell started for it: byte for byte the same
output, status and /proc, for every script in data/held and some that are made here, with three shells; and
what must hold while a shell is held."""
import json
import os
import pathlib
import re
import shutil

import pytest

from harness import names, procs
from harness.daemon import Daemon
from harness.held import READY, USED, hold, traced

HELD = "SALLYPORT_HELD_SHELL"
SCRIPTS = pathlib.Path(__file__).with_name("data") / "held" / "scripts"
SHELLS = {"dash": "/bin/dash", "bash": "/bin/bash", "ash": "/bin/busybox"}
# Numbers of processes, how often they were switched, and what depends on when the kernel was asked for memory.
NUMBERS = re.compile(
    r"^(Pid|PPid|Tgid|Ngid|NSpid|NStgid|NSpgid|NSsid|VmHWM|VmRSS|VmPTE|RssAnon|RssFile|RssShmem|"
    r"SigQ|voluntary_ctxt_switches|nonvoluntary_ctxt_switches):\s.*$", re.M)


def scripts():
    text = SCRIPTS.read_text(encoding="utf-8").split("\n", 2)[2]
    found = [s.removesuffix("\n") for s in text.split("\n----\n")]
    found = [s for s in found if s]
    for n in (1000, 3000, 3600, 3700, 3800, 3900, 4000, 5000, 20000, 130000):  # around a page, and far from it
        found.append(": " + "x" * (n - 20) + f"\necho {n}; exit 1")
        found.append(f"echo {'y' * (n - 10)}")
    for s in ("a b", "$x", "`echo s`", "\\n", "*", "~", "#", "!", "é", "'\"'", '"\'"', "${#}", "\\\\", "\t", "%s"):
        found.append(f"printf '<%s>' {s}; printf '<%s>' \"{s}\"")
    return found


def settle(d, command, text):
    """Without what differs between two daemons."""
    text = re.sub(r"pipe:\[\d+\]", "pipe:[N]", text.replace(d.base.name, "sp-test"))
    text = re.sub(r"(mnt|pid|ipc|net|uts|user|cgroup|time)(_for_children)?:\[\d+\]", r"\1:[N]", text)
    text = re.sub(r"(line \d+: +)\d+ ", r"\1N ", text)  # bash tells the number of who died
    text = NUMBERS.sub(r"\1", re.sub(r"/proc/\d+", "/proc/N", text))
    # Of a shell that is looked at by a child of its own: whether it went on in the meantime is chance.
    return re.sub(r"^(State|SigBlk|SigCgt):\s.*$", r"\1", text, flags=re.M) if "$$" in command else text


class Pair:
    """One daemon that holds shells and one that doesn't."""

    def __init__(self, shell):
        self.on, self.off = (Daemon(prepare=lambda d: self.give(d, shell), env={HELD: held, "SALLYPORT_LOG": "debug"})
                             for held in ("on", "off"))
        for d in (self.on, self.off):
            d.wait_up()
        self.conns = {d: d.conn() for d in (self.on, self.off)}

    @staticmethod
    def give(d, shell):
        """A copy of its own, to be replaced; busybox is a shell by that name alone."""
        path = d.base / "bin" / shell
        path.parent.mkdir(mode=0o755)
        shutil.copy(SHELLS[shell], path)
        d.late_env.update({names.SHELL: path, "SALLYPORT_COMMAND_PATHS": f"exec {path.parent}"})

    def run(self, d, command):
        body = json.dumps({"command": command, "timeout": 60}).encode()
        a = self.conns[d].request("POST", "/execute", body, {"Content-Type": "application/json"})
        assert a.status == 200, f"{command[:200]!r}: {a!r}\n{d.tail()}"
        for entry in os.scandir(d.ws):
            shutil.rmtree(entry) if entry.is_dir(follow_symlinks=False) else os.unlink(entry)
        r = a.json
        del r["duration_ms"]
        return {k: settle(d, command, v) if isinstance(v, str) else v for k, v in r.items()}

    def last(self):
        """READY, USED or what tells of its end, whichever the log had last."""
        with open(self.on.log_path, "rb") as f:
            f.seek(-min(500, os.fstat(f.fileno()).st_size), os.SEEK_END)
            found = re.findall(f"{READY}|{USED}|is let go|was lost", f.read().decode())
        return found[-1] if found else None

    def wait_held(self):
        """None is made after commands that come too fast, or that it can't take."""
        def again():
            try:
                return self.last() == READY or procs.wait_for("", lambda: self.last() == READY, 0.1, 0.001)
            except AssertionError:
                self.run(self.on, ":")
                return False
        procs.wait_for("a shell is held", again, step=0)

    def stop(self):
        for d in (self.on, self.off):
            self.conns[d].close()
            d.stop()


@pytest.mark.parametrize("shell", SHELLS)
def test_nobody_can_tell(shell):
    pair = Pair(shell)
    wrong, short = [], 0
    try:
        for script in scripts():
            pair.wait_held()
            short += len(script.encode()) < 3000 and script[0] not in "-+"
            held, plain = pair.run(pair.on, script), pair.run(pair.off, script)
            if held != plain:
                wrong.append((script[:300], {k: (held[k], plain[k]) for k in held if held[k] != plain[k]}))
        used = pair.on.log().count(USED)
    finally:
        pair.stop()
    assert not wrong, "\n".join(map(repr, wrong))
    assert len(scripts()) >= 300 and used >= short, (used, short)


# ---- while a shell is held ----

def held_daemon(start, *, prepare=None, **env):
    return start(prepare=prepare, env={HELD: "on", "SALLYPORT_LOG": "debug", names.SHELL: "/bin/dash", **env})


def test_it_is_one_and_used_once(start):
    d = held_daemon(start)

    def once():
        own = hold(d).status()["NSpid"].split()[-1]  # as itself sees it
        used = d.log().count(USED)
        assert d.strangers() == []
        first = d.run("echo $$; read x </proc/$$/stat; grep TracerPid /proc/$$/status")["stdout"].split()
        now = d.log().count(USED)
        assert d.run("echo $$")["stdout"].split() != first[:1]
        if now == used:  # it had waited for ten seconds, on a busy machine
            return False
        assert first == [own, "TracerPid:", "0"]
        return True
    for _ in range(5):
        procs.wait_for("a held shell is used", once, bound=60)


@pytest.mark.parametrize("number", [9, 15, 19, 10])
def test_who_signals_it_hits_no_command(start, number):
    d = held_daemon(start)
    p = hold(d)
    own = p.status()["NSpid"].split()[-1]
    os.kill(p.pid, number)
    r = d.run("echo fine; echo $$")
    assert r["exit_code"] == 0 and r["stdout"].split()[0] == "fine" and r["stdout"].split()[1] != own
    assert procs.read(p.pid) is None
    hold(d)


def test_a_command_that_it_cannot_take(start):
    d = held_daemon(start)
    for command, members in (("pwd", {"cwd": "sub"}), ("echo $X", {"env": {"X": "1"}}), ("cat", {"stdin": "in"}),
                             (": " + "x" * 5000, {}), ("-x", {}), ("read x; ls /proc/[0-9]*/comm | wc -l", {"cwd": "sub"})):
        (d.ws / "sub").mkdir(exist_ok=True)
        p = hold(d)
        used = d.log().count(USED)
        plain = d.run(command, **members)
        assert d.log().count(USED) == used and procs.read(p.pid) is None, command
        assert plain["timed_out"] is False, plain


def test_a_new_shell_is_used_at_once(start):
    d = held_daemon(start, prepare=lambda d: (shutil.copy("/bin/dash", d.base / "sh"), d.late_env.update(
        {names.SHELL: d.base / "sh", "SALLYPORT_COMMAND_PATHS": f"exec {d.base / 'sh'}",
         names.ISOLATION: "basic"})))
    hold(d)
    assert d.run("echo ${BASH_VERSION-none}")["stdout"] == "none\n"
    hold(d)
    shutil.copy("/bin/bash", d.base / "sh2")
    os.replace(d.base / "sh2", d.base / "sh")
    # Landlock knows the old file; that a shell can't be started now is as it is without holding.
    assert d.execute("true").status == 500


@pytest.mark.parametrize("victim", ["cell", "broker", "front"])
def test_it_dies_with_the_daemons_processes(start, victim):
    d = held_daemon(start)
    p = hold(d)
    d.kill(d.role(victim))
    if victim != "front":
        procs.wait_for("it is gone", lambda: procs.read(p.pid) is None)
    d.wait_idle()
    hold(d)


def test_a_script_as_shell_is_never_held(start):
    def script(d):
        path = d.ws / "shell"
        path.write_text("#!/bin/dash\nshift; eval \"$1\"\n")
        path.chmod(0o755)
        d.late_env[names.SHELL] = path
    d = held_daemon(start, prepare=script)

    def told():
        assert d.run("echo run")["stdout"] == "run\n"
        return "held shells: off: it isn't started as it stands there" in d.log()
    procs.wait_for("the log says so", told)
    assert d.run("echo run")["stdout"] == "run\n" and traced(d) is None


def test_a_setting_turns_it_off(start):
    d = held_daemon(start, **{HELD: "off"})
    for _ in range(3):
        d.run(":")
    d.run("sleep 0.1")
    assert READY not in d.log() and traced(d) is None


@pytest.mark.parametrize("plan", ["root-uid1000", "user", "root-root"])
def test_with_every_way_to_be_confined(start, plan):
    for off in ("", "pid-ns", "landlock,signal-scope", "view,pid-ns,ipc-ns,front-root", "seccomp"):
        extra = {names.TEST_DISABLE: off, names.ACCEPT_MISSING: off} if off else {}
        d = start(plan=plan, env={HELD: "on", "SALLYPORT_LOG": "debug", names.SHELL: "/bin/dash", **extra})
        if off == "seccomp":  # then nothing keeps a command from tracing either, and none is held
            for _ in range(3):
                d.run(":")
            assert READY not in d.log()
        else:
            hold(d)
            used = d.log().count(USED)
            assert d.run("echo run")["stdout"] == "run\n" and d.log().count(USED) == used + 1
        d.stop()


NO_PTRACE = """#!/usr/bin/python3
import ctypes, os, struct, sys
steps = struct.pack("HBBI" * 4, 0x20, 0, 0, 0, 0x15, 0, 1, 101, 0x06, 0, 0, 0x00050000 | 38, 0x06, 0, 0, 0x7fff0000)
buf = ctypes.create_string_buffer(steps)
prog = struct.pack("HxxxxxxQ", 4, ctypes.addressof(buf))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, prog, 0, 0) == 0
os.execv(os.path.dirname(__file__) + "/real", sys.argv)
"""


def test_where_nothing_may_be_traced(start, tmp_path):
    """As under an outer filter without ptrace: the plain way, told once."""
    program = tmp_path / "sallyport"
    program.write_text(NO_PTRACE)
    program.chmod(0o755)
    d = start(binary=program, env={HELD: "on"}, prepare=lambda d: shutil.copy(names.BIN, d.base / "real"))

    def told():
        assert d.run("echo run")["stdout"] == "run\n"
        return "held shells: off: Function not implemented" in d.log()
    procs.wait_for("the log says so", told)
    for _ in range(3):
        assert d.run("echo run")["stdout"] == "run\n"
    assert d.log().count("held shells: off") == 1
