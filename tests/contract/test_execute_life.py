"""POST /execute: how a command's life ends: timeouts, busy, hang-up, what it left running."""
import json
import shutil
import socket
import threading

import pytest

from harness import names, procs
from harness.http import Closed

SEAT_ENV = {names.MAX_TIMEOUT: "100", names.DEFAULT_TIMEOUT: "50"}


@pytest.mark.parametrize("member", [{"timeout": 1}, {"timeout": 0.3}, {"timeout_ms": 300},
                                    {"timeout": 0.001}, {"timeout_ms": 1}])
def test_timeout(seat, member):
    r = seat.run("echo before; echo err >&2; sleep 600; echo after", **member)
    assert r["timed_out"] is True and r["exit_code"] == 124 and r["signal"] is None
    assert "after" not in r["stdout"]
    if max(member.values()) >= 0.3 and member != {"timeout_ms": 1}:
        assert r["stdout"] == "before\n" and r["stderr"] == "err\n"
    seat.wait_no_strangers()


def test_timeout_of_a_command_that_ignores_everything(seat):
    r = seat.run("trap '' HUP INT QUIT TERM USR1 ALRM; echo on; while :; do sleep 1; done",
                 timeout=0.5)
    assert (r["timed_out"], r["exit_code"], r["stdout"]) == (True, 124, "on\n")
    seat.wait_no_strangers()


def test_timeout_kills_all_it_started(seat):
    r = seat.run("setsid sleep 700 & (setsid sh -c 'sleep 701 & sleep 702' &) ; sleep 703",
                 timeout=0.5)
    assert r["timed_out"]
    seat.wait_no_strangers()


def test_timeout_of_a_stopped_command(seat):
    r = seat.run("kill -STOP $$; echo never", timeout=0.5)
    assert (r["timed_out"], r["exit_code"], r["stdout"]) == (True, 124, "")


def test_timeout_while_output_floods(seat):
    r = seat.run("yes", timeout=0.5)
    assert r["timed_out"] and r["stdout_truncated"] and r["stdout"].startswith("y\ny\n")


def test_timeout_while_stdin_is_not_read(seat):
    assert seat.run("sleep 600", stdin="x" * 900000, timeout=0.5)["timed_out"]


def test_within_its_timeout(seat):
    r = seat.run("sleep 0.1; echo ok", timeout=60)
    assert (r["timed_out"], r["stdout"]) == (False, "ok\n")


@pytest.mark.parametrize("member", [{"timeout": 100.001}, {"timeout_ms": 100001}, {"timeout": 1e9}])
def test_over_the_maximum(seat, member):
    a = seat.execute("touch over", **member)
    assert (a.status, a.code) == (400, "bad_field")
    assert list(member)[0] in a.json["error"] and not (seat.ws / "over").exists()


@pytest.mark.parametrize("member", [{"timeout": 100}, {"timeout_ms": 100000}])
def test_the_maximum_itself(seat, member):
    assert seat.execute(":", **member).status == 200


def test_default_timeout(start):
    d = start(env={names.DEFAULT_TIMEOUT: "400ms"})
    r = d.run("echo x; sleep 600")
    assert (r["timed_out"], r["stdout"]) == (True, "x\n")
    assert d.run("sleep 0.8; echo y", timeout=60)["stdout"] == "y\n"


def test_busy(seat, box):
    first = seat.send_command(f"touch {box}/up; while [ ! -e {box}/go ]; do sleep 0.02; done; echo one")
    seat.wait_file(f"{box}/up")
    for _ in range(5):
        a = seat.execute(f"touch {box}/second-ran")
        assert (a.status, a.code, a.get("retry-after")) == (409, "busy", "1")
    assert not (seat.ws / box / "second-ran").exists()
    # nothing else is affected
    assert seat.put(f"{box}/f", b"data").status == 201
    assert seat.get(f"{box}/f").body == b"data"
    assert seat.request("GET", "/healthz").status == 200
    assert seat.delete(f"{box}/f").status == 204
    a = seat.request("POST", "/execute", b'{"command":1}')
    assert a.status in (400, 409)
    (seat.ws / box / "go").touch()
    assert first.answer().json["stdout"] == "one\n"
    first.close()
    assert seat.run("echo two")["stdout"] == "two\n"


def test_busy_keeps_the_connection(seat, box):
    first = seat.send_command(f"touch {box}/up; sleep 600")
    seat.wait_file(f"{box}/up")
    with seat.conn() as c:
        a = c.request("POST", "/execute", b'{"command":"echo"}')
        assert a.status == 409
        if not a.closes:
            assert c.request("GET", "/healthz").status == 200
    first.close()
    seat.wait_idle()


def test_the_seat_is_free_when_the_answer_is_there(seat):
    with seat.conn() as c:
        for n in range(100):
            a = c.request("POST", "/execute", json.dumps({"command": f"echo {n}"}).encode())
            assert a.status == 200 and a.json["stdout"] == f"{n}\n"


def test_background_processes_end_with_the_shell(seat, box):
    r = seat.run(f"sleep 800 & setsid sleep 801 >/dev/null 2>&1 & (trap '' TERM HUP; sleep 802) & "
                 f"nohup sleep 803 >/dev/null 2>&1 & echo done", cwd=box)
    assert (r["stdout"], r["exit_code"], r["timed_out"]) == ("done\n", 0, False)
    assert seat.strangers() == []


def test_a_background_writer_does_not_hold_the_answer(seat):
    """The pipes are still open in what is left running: the end is the shell's."""
    r = seat.run("(while :; do echo more; sleep 0.05; done) & sleep 0.3; echo last")
    assert r["exit_code"] == 0 and "last\n" in r["stdout"]
    assert seat.strangers() == []


HANG_UPS = {
    "close": lambda c: c.close(), "reset": lambda c: c.reset(),
    "half close": lambda c: c.sock.shutdown(socket.SHUT_WR),
}


@pytest.mark.parametrize("how", HANG_UPS)
@pytest.mark.parametrize("command", ["sleep 900", "trap '' TERM HUP INT PIPE; while :; do sleep 1; done",
                                     "yes", "setsid sleep 900 & sleep 901",
                                     "yes >/dev/null & yes >/dev/null & wait"])
def test_hang_up_kills_the_command(seat, box, how, command):
    c = seat.send_command(f"touch {box}/up; {command}")
    seat.wait_file(f"{box}/up")
    HANG_UPS[how](c)
    seat.wait_no_strangers()
    seat.wait_idle()
    c.close()


def test_hang_up_with_a_pipelined_request_behind(seat, box):
    c = seat.send_command(f"touch {box}/up; sleep 900")
    c.send(b"GET /healthz HTTP/1.1\r\nHost: t\r\n\r\n")
    seat.wait_file(f"{box}/up")
    c.close()
    seat.wait_no_strangers()
    seat.wait_idle()


def test_pipelined_bytes_are_no_hang_up(seat, box):
    c = seat.send_command(f"touch {box}/up; while [ ! -e {box}/go ]; do sleep 0.02; done; echo one")
    seat.wait_file(f"{box}/up")
    c.send(b"GET /healthz HTTP/1.1\r\nHost: t\r\n\r\n")
    assert seat.request("GET", "/healthz").status == 200
    (seat.ws / box / "go").touch()
    assert c.answer().json["stdout"] == "one\n"
    assert c.answer().json == {"status": "ok"}
    c.close()


def test_hang_up_before_the_body_is_whole(seat):
    with seat.conn() as c:
        c.send(b'POST /execute HTTP/1.1\r\nHost: t\r\nContent-Length: 40\r\n\r\n{"command":"touch no-body"}')
    seat.wait_idle()
    assert not (seat.ws / "no-body").exists()


def test_a_client_that_does_not_read_loses_nothing(seat):
    """5 MiB in each stream and a reader that starts late."""
    c = seat.send_command("head -c 1048576 /dev/zero | tr '\\0' x; touch late")
    seat.wait_file("late")
    assert len(c.answer().json["stdout"]) == 1 << 20
    c.close()


def test_exit_while_a_child_is_unkillable_by_term(seat):
    r = seat.run("sh -c 'trap \"\" TERM; while :; do sleep 1; done' & echo up")
    assert r["stdout"] == "up\n" and seat.strangers() == []


@pytest.mark.parametrize("shell,ok", [("/bin/sh", True), ("/bin/bash", True), ("/bin/cat", None)])
def test_shell_setting(start, shell, ok):
    d = start(env={names.SHELL: shell})
    r = d.run("echo $0 $SHELL")
    if ok:
        assert r["stdout"].split()[-1] == shell
    else:  # cat -c: an error of its own, not ours
        assert r["exit_code"] != 0 and r["stderr"]


def test_shell_gone_is_spawn_failed(start):
    """The shell is a file of the test's own folder that goes away after the start."""
    def prepare(d):
        shutil.copy("/bin/sh", d.ws / "shell")
        d.late_env = {names.SHELL: str(d.ws / "shell")}
    d = start(prepare=prepare)
    if d.run("echo ok")["stdout"] != "ok\n":
        pytest.skip("the policy runs nothing from the workspace")
    (d.ws / "shell").unlink()
    a = d.execute("echo ok")
    assert (a.status, a.code) == (500, "spawn_failed")
    a = d.execute("echo ok")  # and no stale 409
    assert (a.status, a.code) == (500, "spawn_failed")
    shutil.copy("/bin/sh", d.ws / "shell")
    assert d.run("echo ok")["stdout"] == "ok\n"


def test_two_clients_race_for_the_seat(seat, box):
    """Of many that start together one runs; the others get 409 and run nothing."""
    conns = [seat.send_command(f"echo x >> {box}/ran; while [ ! -e {box}/go ]; do sleep 0.02; done")
             for _ in range(20)]
    seat.wait_file(f"{box}/ran")
    answers = []
    done = threading.Event()

    def read(c):
        try:
            answers.append(c.answer().status)
        except Closed:
            answers.append(None)
        if len(answers) == 19:
            done.set()
    threads = [threading.Thread(target=read, args=(c,)) for c in conns]
    for t in threads:
        t.start()
    assert done.wait(30)
    (seat.ws / box / "go").touch()
    for t in threads:
        t.join(30)
    for c in conns:
        c.close()
    assert sorted(answers) == [200] + [409] * 19
    assert (seat.ws / box / "ran").read_text() == "x\n"


def test_zombies_do_not_pile_up(seat):
    for _ in range(20):
        seat.run("(sleep 0.01 &) ; (true &)")
    procs.wait_for("no zombie", lambda: not [p for p in seat.procs() if p.state == "Z"])


LOCKED = """
import errno, fcntl, os
def lock(fd, how):
    try:
        fcntl.flock(fd, how)
    except OSError as e:
        if e.errno != errno.ENOLCK:  # gVisor has no locks on devices
            raise
"""


def test_nothing_stays_at_the_standard_input(seat):
    """Without one it is /dev/null, the same opened file for all commands: its flags, and a lock."""
    leave = LOCKED + "fcntl.fcntl(0, fcntl.F_SETFL, os.O_NONBLOCK | os.O_ASYNC)\nlock(0, fcntl.LOCK_EX)"
    look = LOCKED + ("print(fcntl.fcntl(0, fcntl.F_GETFL) & (os.O_NONBLOCK | os.O_ASYNC))\n"
                     'lock(os.open("/dev/null", os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)')
    for _ in range(3):
        r = seat.run(f"/usr/bin/python3 -I -c '{leave}'")
        assert r["exit_code"] == 0, r
        r = seat.run(f"/usr/bin/python3 -I -c '{look}'")
        assert (r["exit_code"], r["stdout"]) == (0, "0\n"), r
