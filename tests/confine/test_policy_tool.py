"""`sallyport policy`: the lint says file, line and what is wrong; show prints what is built in."""
import subprocess

import pytest

from harness import names

ROOT = names.ROOT


def tool(*args, **kw):
    return subprocess.run([names.BIN, "policy", *args], capture_output=True, timeout=60, check=False, **kw)


def lint(tmp_path, text):
    f = tmp_path / "f"
    f.write_bytes(text)
    return tool("check", f)


@pytest.mark.parametrize("name", ["front.seccomp", "broker.seccomp", "cell.seccomp", "command.seccomp", "registry.seccomp",
                                  "command.landlock"])
def test_our_own_are_fine(name):
    r = tool("check", ROOT / "policy" / name)
    assert (r.returncode, r.stdout, r.stderr) == (0, b"", b"")


GOOD = [b"", b"# nothing\n", b"allow ptrace\nerrno EPERM socket if arg0.lo == AF_INET", b"exec /app\nwrite /b b\n",
        b"\n# x\n\tdefault kill\nallow read\n", b"errno EPERM ?not_a_call_at_all\n"]


@pytest.mark.parametrize("text", GOOD)
def test_fine(tmp_path, text):
    r = lint(tmp_path, text)
    assert (r.returncode, r.stdout, r.stderr) == (0, b"", b"")


BAD = [(b"default kill\n\nallow red\n", 3, b"unknown system call \"red\""),
       (b"default kill\nallow read if arg9 == 1\n", 2, b"arg0 to arg5"),
       (b"default kill\ndefault kill\n", 2, b"a second default"),
       (b"allow read\ndefault kill\n", 2, b"for the built-in policy"),
       (b"errno EPERM execve\n", 1, b"no command starts without execve"),
       (b"errno EPERM bind\nallow bind\n", 2, b"never reached"),
       (b"read /a\nwrit /b\n", 2, b"none of read, exec"),
       (b"exec relative\n", 1, b"absolute"), (b"read /a/../b\n", 1, b"component"),
       (b"nonsense\n", 1, b"is no action"), (b"allow read\n\0", 2, b"NUL"),
       (b"default kill\nallow \xff\n", 2, b"printable ASCII"), (b"#" * 70000, 1, b"64 KiB"),
       (b"default kill\nallow read\x1b[31m\n", 2, b"printable ASCII")]


@pytest.mark.parametrize("text,line,what", BAD)
def test_wrong(tmp_path, text, line, what):
    r = lint(tmp_path, text)
    assert r.returncode == 1 and r.stdout == b""
    assert r.stderr.startswith(b"%s:%d: " % (str(tmp_path / "f").encode(), line)), r.stderr
    assert what in r.stderr and r.stderr.count(b"\n") == 1 and b"\x1b" not in r.stderr


def test_several_files(tmp_path):
    good, bad = tmp_path / "good", tmp_path / "bad"
    good.write_text("read /a\n")
    bad.write_text("read a\n")
    r = tool("check", good, bad, tmp_path / "none", good)
    assert r.returncode == 2
    assert r.stderr.splitlines()[0].startswith(b"%s:1: " % bytes(bad))
    assert b"none: No such file" in r.stderr.splitlines()[1] and len(r.stderr.splitlines()) == 2
    assert tool("check", good, bad).returncode == 1
    assert tool("check", tmp_path).returncode == 2
    assert tool("check", "/dev/null").returncode == 2


def test_a_file_that_may_not_be_read(start):
    """As a plain user, who is nobody in particular to the file."""
    d = start(plan="user", up=False, args=("policy", "check", "/etc/shadow", "/usr/../etc/shadow"))
    assert d.wait_exit()["status"] == 2
    assert d.log() == "/etc/shadow: Permission denied\n/usr/../etc/shadow: Permission denied\n"


@pytest.mark.parametrize("role", ["front", "broker", "cell", "command", "registry", "paths"])
def test_show_is_the_source(role):
    name = "command.landlock" if role == "paths" else f"{role}.seccomp"
    r = tool("show", role)
    text = (ROOT / "policy" / name).read_bytes()
    assert r.returncode == 0 and r.stderr == b"" and r.stdout.startswith(text)


def test_what_is_shown_is_fine(tmp_path):
    for role in ("front", "broker", "cell", "command", "registry", "paths"):
        assert lint(tmp_path, tool("show", role).stdout).returncode == 0


@pytest.mark.parametrize("args", [(), ("check",), ("show",), ("show", "main"), ("show", "front", "cell"), ("x", "y")])
def test_usage(args):
    r = tool(*args)
    assert r.returncode == 2 and r.stdout == b"" and b"usage: sallyport policy" in r.stderr
