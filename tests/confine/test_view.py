"""The private root of commands: what is in it, what isn't, whose it is, and how long it lasts."""
import os
import socket

import pytest

from harness import names

PLANS = pytest.mark.parametrize("seat", list(names.PLANS), indirect=True)
TOP = {"bin", "dev", "etc", "lib", "proc", "sbin", "sys", "tmp", "usr", "var"}


def stays_empty(d, path):
    """What a mask lays over a file: nothing is read, and no write goes into nothing."""
    r = d.run(f"test -f {path} && cat {path} && wc -c <{path}")
    assert (r["stdout"], r["exit_code"]) == ("0\n", 0), (path, r)
    r = d.run(f"echo x >{path}; echo x >>{path}; truncate -s 1 {path}; rm {path}; chmod 600 {path}; cat {path}")
    assert (r["stdout"], len(r["stderr"].splitlines())) == ("", 5), (path, r)


def beside_programs(d):
    """The daemon's program in a folder that the operator added for commands."""
    d.programs = d.base / "programs"
    d.programs.mkdir()
    d.binary = d.programs / "sallyport"
    d.binary.touch()
    (d.programs / "other").write_text("other\n")
    d.late_env["SALLYPORT_COMMAND_PATHS"] = f"exec {d.programs}"


@PLANS
def test_only_what_the_policy_names(seat):
    top = set(seat.run("ls /")["stdout"].split())
    may = TOP | {"lib32", "lib64", "libx32", "opt", "nix", "run"} | {seat.ws.parts[1]}
    assert TOP <= top <= may, top
    assert set(seat.run("ls /var")["stdout"].split()) <= {"lib", "tmp", "cache"}
    assert set(seat.run("ls /run")["stdout"].split()) <= {"systemd", "resolvconf", "NetworkManager", seat.ws.parts[2]}
    assert seat.run(f"ls {seat.base}")["stdout"].split() == ["ws"]


@PLANS
def test_all_but_the_workspace_and_tmp_is_read_only(seat):
    flags = {}
    for line in seat.run("cat /proc/self/mountinfo")["stdout"].splitlines():
        fields = line.split()
        flags[fields[4]] = fields[5].split(",")
    writable = {path for path, f in flags.items() if "rw" in f}
    devices = {p for p in writable if p.startswith("/dev/")} 
    assert writable - devices == {str(seat.ws), "/tmp"}
    for path, f in flags.items():
        assert "nosuid" in f, path
        assert "nodev" in f or path.startswith("/dev"), path
    masks = [path for path in flags if path.startswith("/proc/")]
    assert "/proc/keys" in masks
    for path in masks:
        if seat.run(f"test -d {path}")["exit_code"] == 0:
            assert seat.run(f"ls -A {path}; touch {path}/x")["stdout"] == "", path
        else:
            stays_empty(seat, path)


@PLANS
def test_attributes_of_files_outside_stay(seat):
    """What Landlock doesn't cover: the owner of a file may not even change its mode or times."""
    mine = "/var/lib/sp-view-mine"
    assert seat.run(f"test -e {mine}; chmod 600 /etc/passwd; touch /usr/bin/env; chmod 777 /etc /usr; chmod 1777 /")
    r = seat.run("chmod 755 /etc 2>&1; touch -c /etc/hostname 2>&1; chmod 755 / 2>&1; touch -c / 2>&1")["stdout"]
    assert r.count("Read-only file system") + r.count("not permitted") == 4, r


def test_a_socket_of_the_host_is_not_there(seat):
    path = seat.base / "bus"
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(str(path))
        os.chmod(path, 0o777)
        s.listen()
        code = f"import socket; s = socket.socket(socket.AF_UNIX); s.connect({str(path)!r})"
        r = seat.run(f"python3 -I -c \"{code}\"")
        assert r["exit_code"] == 1 and "No such file" in r["stderr"], r


@PLANS
def test_the_binary_is_hidden(seat):
    r = seat.run(f"ls {seat.binary}; {seat.binary} --version")
    assert "sallyport" not in r["stdout"] and r["exit_code"] != 0


@pytest.mark.parametrize("plan", ["root-uid1000", "user"])
def test_a_binary_among_programs_is_hidden(start, plan):
    d = start(plan=plan, prepare=beside_programs)
    assert "layer view: on" in d.log(), d.log()
    assert d.run(f"ls {d.programs}")["stdout"] == "other\nsallyport\n"
    stays_empty(d, f"{d.programs}/sallyport")
    assert d.run(f"cat {d.programs}/other")["stdout"] == "other\n"
    assert d.run(f"{d.programs}/sallyport --version")["exit_code"] == 126


@PLANS
def test_tmp_is_its_own_and_lasts_as_long_as_the_cell(seat, start):
    seat.run("echo kept > /tmp/mark; echo kept > /dev/shm/mark")
    assert seat.run("cat /tmp/mark /var/tmp/mark /dev/shm/mark")["stdout"] == "kept\n" * 3
    other = start(plan=seat.plan)
    assert other.run("ls -A /tmp /dev/shm")["stdout"] == "/dev/shm:\n\n/tmp:\n"
    cell = seat.role("cell").pid
    os.kill(cell, 9)
    seat.wait_idle()
    assert seat.run("cat /tmp/mark /dev/shm/mark")["stdout"] == ""


def test_tmp_has_the_size_that_was_set(start):
    d = start(env={"SALLYPORT_TMP_SIZE": "2MiB"})
    r = d.run("head -c 3000000 /dev/zero > /tmp/big; stat -c %s /tmp/big; stat -fc '%b %s' /tmp")
    assert "No space" in r["stderr"] and r["stdout"].split()[0] == str(2 << 20), r


@PLANS
def test_devices(seat):
    assert set(seat.run("ls /dev")["stdout"].split()) == {
        "fd", "full", "mqueue", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty", "urandom", "zero"}
    code = "import os, pty; pid, fd = pty.fork()\nif pid == 0: os.execlp('tty', 'tty')\nprint(os.read(fd, 99))"
    assert "/dev/pts/0" in seat.run("exec python3 -I -", stdin=code)["stdout"]
    assert seat.run("exec 3>/dev/full; echo x >&3")["exit_code"] == 1


@PLANS
def test_ipc_is_its_own(seat):
    made = os.popen("ipcmk -M 4096").read().split()[-1]
    try:
        assert seat.run("ipcs -m | grep -c 0x")["stdout"] == "0\n"
        assert seat.run("ipcmk -M 4096 >/dev/null && ipcs -m | grep -c 0x")["stdout"] == "1\n"
    finally:
        os.system(f"ipcrm -m {made}")
    assert seat.run("stat -fc %T /dev/mqueue; ls /dev/mqueue")["stdout"] == "mqueue\n"


@pytest.mark.parametrize("plan", list(names.PLANS))
def test_mounts_in_the_workspace_stay(start, plan):
    """With what the operator set: read-only stays read-only, and files get there through both ways."""
    def prepare(d):
        (d.ws / "sub").mkdir()
        os.chown(d.ws / "sub", d.owner, d.owner)
        d.mounts = [(d.ws / "sub", f"size=1m,mode=755,uid={d.owner},gid={d.owner}")]
    d = start(plan=plan, prepare=prepare)
    assert d.run("echo in > sub/f && stat -fc %T sub")["stdout"] == "tmpfs\n"
    assert d.get("sub/f").body == b"in\n"
    assert d.run("head -c 2000000 /dev/zero > sub/big")["exit_code"] == 1


@pytest.mark.parametrize("plan", list(names.PLANS))
def test_a_workspace_in_tmp(start, plan):
    """It shows at its own path in the commands' own /tmp, beside nothing else of the host's."""
    def prepare(d):
        d.mounts = [("/tmp/deep/ws", f"size=1m,mode=755,uid={d.owner},gid={d.owner}")]
        d.late_env = {names.WORKSPACE: "/tmp/deep/ws"}
    d = start(plan=plan, prepare=prepare)
    assert d.run("pwd; find /tmp; echo x > f; cat /tmp/deep/ws/f")["stdout"] == \
        "/tmp/deep/ws\n/tmp\n/tmp/deep\n/tmp/deep/ws\nx\n"
    assert d.get("f").body == b"x\n"


def test_a_link_on_the_way_to_an_added_path_leads_nowhere(start):
    """A command lays one where the operator lets it write; the next cell must not follow it out."""
    def prepare(d):
        for name in ("free", "free/sub"):
            (d.base / name).mkdir()
            os.chown(d.base / name, d.owner, d.owner)
        (d.base / "free/sub/secret").write_text("inside")
        d.late_env = {"SALLYPORT_COMMAND_PATHS": f"write {d.base}/free, read {d.base}/free/sub/secret"}
    d = start(prepare=prepare)
    free, outside = d.base / "free", d.outside
    assert d.run(f"cat {free}/sub/secret")["stdout"] == "inside"
    d.run(f"mv {free}/sub {free}/old; ln -s {outside} {free}/sub")
    os.kill(d.role("cell").pid, 9)
    d.wait_idle()
    r = d.run(f"cat {free}/sub/secret; ls {outside}")
    assert r["stdout"] == "" and r["exit_code"] != 0, r
