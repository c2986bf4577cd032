"""What each of the daemon's own processes still holds, read from /proc by the host's root."""
import os

import pytest

from harness import names

SETUID_SETGID_KILL = (1 << 7) | (1 << 6) | (1 << 5)
SYS_ADMIN = 1 << 21  # for the namespaces of cells and of the front
ALL_PLANS = pytest.mark.parametrize("seat", list(names.PLANS), indirect=True, scope="module")


def roles(seat):
    seat.run(":")
    found = {p.role: p for p in seat.procs() if p.role and p.state != "Z"}
    assert set(found) == {"front", "broker", "cell"}
    return found


@ALL_PLANS
def test_status_of_each_role(seat):
    root = seat.plan != "user"
    for role, p in {**roles(seat), "main": seat.main}.items():
        st = p.status()
        assert st["NoNewPrivs"] == "1", role
        if role != "main":
            assert st["Seccomp"] == "2", role
        want = SETUID_SETGID_KILL | SYS_ADMIN if root and role in ("main", "broker") else 0
        for name in ("CapPrm", "CapEff", "CapInh", "CapAmb"):
            have = int(st[name], 16)
            assert have & ~want == 0, (role, name, st[name])
        if root:
            assert int(st["CapBnd"], 16) == 0, (role, st["CapBnd"])


@ALL_PLANS
def test_all_threads_are_confined(seat):
    for role, p in roles(seat).items():
        for tid in os.listdir(f"/proc/{p.pid}/task"):
            with open(f"/proc/{p.pid}/task/{tid}/status", encoding="utf-8") as f:
                st = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
            assert st["Seccomp"] == "2" and st["NoNewPrivs"] == "1", (role, tid)
            if role in ("front", "cell"):
                assert int(st["CapEff"], 16) == 0 and int(st["CapPrm"], 16) == 0, (role, tid)


@ALL_PLANS
def test_user_ids(seat):
    uid = {role: p.status()["Uid"].split() for role, p in roles(seat).items()}
    assert all(len(set(u)) == 1 for u in uid.values()), uid
    assert uid["cell"][0] == str(seat.owner)
    if seat.plan != "user":
        assert uid["front"][0] not in ("0", uid["cell"][0]), uid
        assert roles(seat)["front"].status()["Groups"].strip() in ("", uid["front"][0])
    else:
        assert uid["front"][0] == str(names.USER)


@ALL_PLANS
def test_command_lines_and_environments_tell_nothing(seat):
    for role, p in roles(seat).items():
        assert list(p.cmdline[1:]) == [f"--role={role}"], p
        with open(f"/proc/{p.pid}/environ", "rb") as f:
            env = f.read()
        assert env.strip(b"\0") == b"" or b"ASAN" in env, (role, env)
    with open(f"/proc/{seat.main.pid}/environ", "rb") as f:
        assert f.read().strip(b"\0") == b""


@ALL_PLANS
def test_front_holds_no_path(seat):
    """Sockets, memory, epoll, /dev/null and the log: no folder, no file, no device."""
    fds = roles(seat)["front"].fds()
    log = {str(seat.log_path), str(seat.base / "stdout")}
    for n, target in fds.items():
        good = target.startswith(("socket:", "pipe:", "anon_inode:", "/memfd:")) or target == "/dev/null" \
            or target in log
        assert good, (n, target)


@ALL_PLANS
def test_only_the_cell_and_broker_hold_the_workspace(seat):
    for role, p in {**roles(seat), "main": seat.main}.items():
        holds = any(t.startswith(str(seat.ws)) for t in p.fds().values())
        assert not (holds and role == "front"), role


@ALL_PLANS
def test_nothing_listens_but_what_was_asked(seat):
    """The broker and the cell have no listening or internet socket."""
    with open(f"/proc/{seat.main.pid}/net/tcp", encoding="ascii") as f:
        inodes = {line.split()[9] for line in f.readlines()[1:]}
    for role in ("broker", "cell"):
        for target in roles(seat)[role].fds().values():
            if target.startswith("socket:["):
                assert target[8:-1] not in inodes, (role, target)


@ALL_PLANS
def test_not_dumpable(seat):
    """What is not dumpable has its /proc files owned by root."""
    for role, p in {**roles(seat), "main": seat.main}.items():
        assert os.stat(f"/proc/{p.pid}/mem").st_uid == 0, role
        with open(f"/proc/{p.pid}/limits", encoding="ascii") as f:
            core = next(line for line in f if line.startswith("Max core file size"))
        assert core.split()[4] == "0", (role, core)


def test_main_lets_go_of_the_workspace_owner_rights(start):
    """A root daemon can't be used to read what its user of commands can't."""
    d = start()
    (d.ws / "roots").write_text("private")
    os.chmod(d.ws / "roots", 0o600)
    a = d.get("roots")
    assert (a.status, a.code) == (403, "forbidden")
    assert d.run("cat roots")["exit_code"] != 0
