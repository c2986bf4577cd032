"""What a command holds and reaches: rights, descriptors, environment, files, the daemon's processes."""
import os
import socket
import textwrap

import pytest

from harness import names
from harness.daemon import Daemon

SEAT_ENV = {"SECRET_TOKEN": "hush-hush"}
DEFAULT = list(names.PLANS)


@pytest.fixture(scope="module", params=DEFAULT)
def seat(request):
    d = Daemon(plan=request.param, env=SEAT_ENV)
    try:
        d.wait_up()
    except BaseException:
        d.destroy()
        raise
    yield d
    d.stop()


def python(seat, code, **kw):
    """Runs a probe as a command and gives back what it printed."""
    r = seat.run("exec /usr/bin/python3 -I -", stdin=textwrap.dedent(code), **kw)
    assert r["exit_code"] == 0, r
    return r["stdout"]


def status(seat):
    return dict(line.split(":\t", 1) for line in seat.run("cat /proc/self/status")["stdout"].splitlines()
                if ":\t" in line)


def test_rights(seat):
    st = status(seat)
    for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        assert int(st[name], 16) == 0, name
    assert int(st["CapBnd"], 16) == 0 or seat.plan == "user"
    assert st["NoNewPrivs"] == "1" and st["Seccomp"] == "2"
    assert st["Uid"].split() == [str(seat.owner)] * 4
    assert st["Gid"].split() == [str(seat.owner)] * 4
    assert st["Groups"].split() in ([], [str(seat.owner)])


def test_only_three_descriptors(seat):
    out = python(seat, """
        import os
        print(sorted(int(n) for n in os.listdir("/proc/self/fd"))[:-1])
        """)
    assert out.split("\n")[0] == "[0, 1, 2]"


def test_environment_is_clean(seat):
    out = seat.run("cat /proc/self/environ; env")["stdout"]
    assert "hush" not in out and "SALLYPORT" not in out and "SANDBOX" not in out
    assert "LISTEN_" not in out


def test_signals_are_at_their_default(seat):
    st = status(seat)
    assert int(st["SigBlk"], 16) == 0 and int(st["SigIgn"], 16) == 0


def test_umask_and_limits(seat):
    assert seat.run("umask; ulimit -c")["stdout"].split() == ["0022", "0"]


def test_session_of_its_own(seat):
    out = seat.run("cat /proc/self/stat")["stdout"].rpartition(")")[2].split()
    assert int(out[4]) <= 0 or out[4] == "0"  # no terminal


@pytest.mark.parametrize("path", ["/etc/sp-x", "/usr/sp-x", "/usr/bin/sp-x", "/sp-x", "/root/sp-x", "/var/sp-x",
                                  "/var/lib/sp-x", "/home/sp-x", "/run/sp-x", "/opt/sp-x", "/proc/sys/kernel/x",
                                  "/dev/sp-x", "/sys/sp-x", "OUTSIDE/sp-x", "../sp-x", "BASE/sp-x"])
def test_writes_outside_fail(seat, path):
    path = path.replace("OUTSIDE", str(seat.outside)).replace("BASE", str(seat.base))
    r = seat.run(f"echo x > '{path}'")
    assert r["exit_code"] != 0 and not os.path.exists(f"/proc/{seat.main.pid}/root/{path}")
    assert sorted(os.listdir(seat.outside)) == ["secret"]
    assert not (seat.base / "sp-x").exists()


def test_outside_is_neither_read_nor_removed_nor_linked(seat):
    secret = seat.outside / "secret"
    for command in (f"cat {secret}", f"ls {seat.outside}", f"rm {secret}", f"mv {secret} .",
                    f"ln {secret} hard", f"cp {secret} .", "cat ../outside/secret",
                    f"ln -s {secret} soft && cat soft", f"truncate -s 0 {secret}", f"chmod 0 {secret}"):
        r = seat.run(f"{command} 2>/dev/null; rm -f soft; true")
        assert "secret" not in r["stdout"], command
    assert secret.read_text() == "secret" and not (seat.ws / "hard").exists()


@pytest.mark.parametrize("path", ["/root", "/home", "/boot", "/srv", "/mnt", "/media", "/run", "BASE",
                                  "/etc/shadow", "/dev/mem", "/dev/vda", "/proc/kcore", "/dev/kmsg"])
def test_reads_outside_fail(seat, path):
    path = path.replace("BASE", str(seat.base))
    r = seat.run(f"if [ -d {path} ]; then ls {path}; else head -c 1 {path}; fi")
    way = [str(p.name) for p in (seat.ws, *seat.ws.parents) if str(p.parent) == path]
    named = {"systemd", "resolvconf", "NetworkManager"} if path == "/run" else set()  # by policy/command.landlock
    if way:  # a folder above the workspace shows the way to it
        assert set(r["stdout"].split()) - named == set(way), r
    else:
        assert r["exit_code"] != 0 or (path == "/etc/shadow" and seat.owner == 0), r


def test_reads_that_work(seat):
    r = seat.run("cat /etc/passwd >/dev/null && ls /usr/bin >/dev/null && head -c 1 /dev/urandom >/dev/null "
                 "&& echo x >/dev/null && echo y > /tmp/sp-t && cat /tmp/sp-t && rm /tmp/sp-t")
    assert r["stdout"] == "y\n", r


def test_setuid_programs_give_nothing(seat):
    """Any on the host, and one that the test plants in the workspace."""
    os.system(f"cp /usr/bin/id {seat.ws}/id-root && chown 0:0 {seat.ws}/id-root && chmod 6755 {seat.ws}/id-root")
    r = seat.run("./id-root -u; ./id-root -g; grep -h . /dev/null; ls /usr/bin/su && su -c id root </dev/null")
    assert r["stdout"].split()[:2] == [str(seat.owner)] * 2
    assert "uid=0" not in r["stdout"] or seat.owner == 0
    (seat.ws / "id-root").unlink()


def test_file_capabilities_give_nothing(seat):
    r = seat.run("cp /usr/bin/cat capcat; setcap cap_dac_override+ep capcat; chmod 4755 capcat; "
                 "./capcat /proc/self/status | grep CapEff; rm -f capcat")
    assert r["stdout"].split()[1].strip("0") == ""


def test_set_ids_fail(seat):
    out = python(seat, """
        import os
        for f, a in ((os.setuid, (0,)), (os.setgid, (0,)), (os.setgroups, ([0],)), (os.setresuid, (0, 0, 0)),
                     (os.setuid, (64998,)), (os.setuid, (2000,)), (os.setgid, (2000,))):
            try:
                f(*a); print("ok", a)
            except OSError:
                pass
        """)
    if seat.owner != 0:
        assert out == ""
    else:
        assert "64998" not in out and "2000" not in out


def test_network_of_the_host_by_abstract_sockets(seat):
    """An abstract socket of another process is out of reach (Landlock ABI 6)."""
    s = socket.socket(socket.AF_UNIX)
    s.bind(f"\0sp-test-{os.getpid()}-{seat.plan}")
    s.listen(1)
    out = python(seat, f"""
        import socket
        s = socket.socket(socket.AF_UNIX)
        try:
            s.connect("\\0sp-test-{os.getpid()}-{seat.plan}"); print("reached")
        except OSError as e:
            print("refused")
        """)
    s.close()
    assert out == "refused\n"


def test_commands_cannot_see_each_others_end(seat):
    """The next command starts with no process of the one before."""
    seat.run("sleep 500 & sleep 501 &")
    out = seat.run("ls /proc | grep -c '^[0-9]'; cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '")
    assert "sleep 50" not in out["stdout"]
