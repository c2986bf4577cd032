"""SALLYPORT_COMMAND_POLICY: the operator's rules stand before the built-in ones, for commands alone; both
ways, tighter and looser, are what the kernel then does. What is wrong stops the start."""
import errno
import textwrap

import pytest

from harness import names

POLICY = "SALLYPORT_COMMAND_POLICY"


def rules(text):
    def prepare(d):
        (d.base / "policy").write_bytes(text if isinstance(text, bytes) else textwrap.dedent(text).encode())
        d.late_env[POLICY] = str(d.base / "policy")
    return prepare


def call(d, number, *args):
    """What the call answers a command: 0 or more, or the name of its error."""
    code = f"""
        import ctypes, errno
        libc = ctypes.CDLL(None, use_errno=True)
        r = libc.syscall({number}, *[ctypes.c_long(a) for a in {args!r}])
        print(errno.errorcode[ctypes.get_errno()] if r < 0 else "done")
        """
    r = d.run("exec /usr/bin/python3 -I -", stdin=textwrap.dedent(code))
    return r["stdout"].strip() or r["signal"]


SOCKET, PERSONALITY, UNAME, SYNC, PTRACE, CLONE3, UNSHARE = 41, 135, 63, 162, 101, 435, 272
INET, INET6, NETLINK, VSOCK = 2, 10, 16, 40


@pytest.mark.parametrize("plan", ["root-uid1000", "user"])
def test_both_ways(start, plan):
    d = start(plan=plan, prepare=rules("""\
        # tighter
        errno EACCES socket if arg0.lo == AF_INET and arg1.lo & 0xf == 1
        kill sync
        # looser
        allow personality
        allow socket if arg0.lo == AF_NETLINK
        log socket if arg0.lo == 17
        allow ptrace if arg0.lo == 16
        """))
    assert call(d, SOCKET, INET, 1, 0) == "EACCES"
    assert call(d, SOCKET, INET, 2, 0) == "done"      # the built-in rule behind it
    assert call(d, SOCKET, INET6, 1, 0) == "done"
    assert call(d, SOCKET, NETLINK, 3, 15) == "done"   # refused by the built-in rules of both filters
    assert call(d, SOCKET, 17, 3, 0) == "EPERM"        # now the kernel's own answer: no CAP_NET_RAW
    assert call(d, SOCKET, 38, 5, 0) == "EAFNOSUPPORT"  # AF_ALG: the built-in one still
    assert call(d, SYNC) == "SIGSYS"
    assert call(d, PERSONALITY, 0x400000) == "done"
    assert call(d, PTRACE, 0, 0, 0, 0) == "EPERM"      # TRACEME: not named
    assert call(d, PTRACE, 16, 1, 0, 0) in ("EPERM", "ESRCH")
    assert call(d, CLONE3, 0, 0) == "ENOSYS"
    assert call(d, UNSHARE, 0x10000000) == "EPERM"


def test_without_it_the_built_in_rules_hold(start):
    d = start()
    assert call(d, SOCKET, INET, 1, 0) == "done"
    assert call(d, SOCKET, NETLINK, 3, 15) == "EAFNOSUPPORT"
    assert call(d, PERSONALITY, 0x400000) == "EPERM"


def test_only_commands_are_meant(start):
    """What a rule refuses the daemon's own processes still do: the cell renames, links, writes."""
    d = start(prepare=rules("""\
        kill renameat renameat2 linkat unlinkat mkdirat splice statx openat2 epoll_wait recvmsg sendmsg
        """))
    assert d.put("a/b", b"x").status == 201 and d.get("a/b").body == b"x"
    assert d.delete("a", "?recursive=true").status == 204
    assert d.run("mkdir x && exec mv x y")["signal"] == "SIGSYS"


def refused(d):
    report = d.wait_exit()
    assert report["status"] == 2, f"{report}\n{d.log()}"
    assert report["left"] == [] and report["orphans"] == 0
    line = d.log().strip().splitlines()[-1]
    assert line.startswith(f"sallyport: {POLICY}") and line.endswith("."), line
    return line


BAD = [("errno EPERM socket\nalow bind\n", "policy:2: \"alow\" is no action"),
       ("default allow\n", "policy:1: default is for the built-in"),
       ("\nnewer allow\n", "policy:2: newer is for the built-in"),
       ("allow nosuchcall\n", "policy:1: unknown system call"),
       ("errno EPERM bind\nallow bind\n", "policy:2: never reached"),
       ("errno EPERM uname\nkill execve\n", "policy:2: no command starts without execve"),
       ("errno EPERM mount futex\n", "policy:1: no command starts without futex"),
       ("kill openat\n", "policy: under these rules"),
       ("kill prctl if arg0.lo == PR_SET_PDEATHSIG\n", "policy: under these rules signal 31 ends the shell"),
       ("kill close_range if arg2.lo == 2\n", "policy: under these rules signal 31 ends the shell"),
       ("errno EACCES execve if arg2 != 0\n", "policy: under these rules the shell ends with status 126"),
       (b"allow bind\n\0\n", "NUL"), (b"#" * 70000, "64 KiB")]


@pytest.mark.parametrize("text,what", BAD)
def test_a_bad_file_is_refused(start, text, what):
    assert what in refused(start(up=False, prepare=rules(text)))


@pytest.mark.parametrize("path,what", [("/no/such", "No such file"), ("/etc", "no file")])
def test_a_file_that_is_none(start, path, what):
    assert what in refused(start(up=False, env={POLICY: path}))


def test_check_refuses_it_too(start):
    assert "policy:1:" in refused(start(up=False, args=("check",), prepare=rules("allow nosuch\n")))


def test_without_seccomp_it_is_still_read(start):
    env = {names.TEST_DISABLE: "seccomp", names.ACCEPT_MISSING: "seccomp"}
    assert "policy:1:" in refused(start(up=False, env=env, prepare=rules("allow nosuch\n")))
    d = start(env=env, prepare=rules("kill openat\n"))
    assert d.run("echo ok")["stdout"] == "ok\n"


def test_errno_names(start):
    d = start(prepare=rules("errno ENOTTY uname if arg0 == 0\n"))
    assert call(d, UNAME, 0) == errno.errorcode[errno.ENOTTY]


def test_a_child_that_may_not_part_from_descriptors(start):
    """Made in advance it shares them with the cell, and has to: the first command finds out, the others are made when
    they are asked for."""
    d = start(prepare=rules("errno EPERM close_range if arg2.lo == 2\n"))
    d.execute("echo one")
    for _ in range(3):
        assert d.run("echo two")["stdout"] == "two\n"
