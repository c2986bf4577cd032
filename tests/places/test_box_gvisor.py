"""The box inside gVisor, on the static file: commands, files, two identities apart, an identity's end. The tests of
tests/box that need no layer that gVisor lacks are run as they stand. docs/places.md tells what is lacking."""
import time

import pytest

from box.test_isolation import (  # noqa: F401 - collected here, with this file's box
    test_each_has_a_user_of_its_own, test_environment_tells_nothing, test_files, test_state_is_out_of_sight,
    test_the_daemon_is_closed)
from harness import procs
from harness.box import KEY, Box
from harness.containers import Gvisor

A, B = ("gv-a",), ("gv-b",)


class GvisorBox(Box, Gvisor):
    pass


@pytest.fixture(scope="module")
def box():
    b = GvisorBox(env={"SALLYPORT_ACCEPT_MISSING": "view,landlock,signal-scope", "SALLYPORT_USER": None})
    b.wait_up()
    yield b
    b.stop()


def test_keys_are_nowhere_to_read(box):
    """Debian's gVisor lets anybody read any process's environment."""
    out = box.sh("cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline; echo end", who=A)["stdout"]
    assert "end" in out and KEY not in out


def test_kill_all_stays_at_home(box):
    """Without Landlock's scope it reaches the identity's own cell, and nobody else's."""
    c = box.send_exec("echo $$ > pid; sleep 3; echo survived", who=A)
    file = box.workspace(*A) / "pid"
    procs.wait_for("the command runs", lambda: file.exists() and file.read_text().strip())
    for command in (f"kill -9 {file.read_text().strip()}; echo $?", "kill -9 -1; echo on"):
        a = box.exec(command, who=B)
        assert a.status == 200 or (a.status, a.code) == (503, "cell_lost"), a
    assert c.answer().json["stdout"] == "survived\n"
    c.close()
    assert box.sh("echo again", who=B)["stdout"] == "again\n"


def test_what_runs_on_ends(box):
    """A command's leftovers are ended with it, and another identity's go on."""
    c = box.send_exec("touch up; sleep 3; echo on", who=B)
    procs.wait_for("the other runs", (box.workspace(*B) / "up").exists)
    r = box.sh("(setsid sleep 4321 &) ; (while :; do sleep 0.1; echo x >> grows; done) >/dev/null 2>&1 &", who=A)
    assert r["exit_code"] == 0
    assert c.answer().json["stdout"] == "on\n"
    c.close()
    out = box.sh("cat /proc/[0-9]*/cmdline; wc -c < grows", who=A)["stdout"]
    assert "4321" not in out.replace("cat /proc", "")
    size = box.sh("wc -c < grows 2>/dev/null || echo 0", who=A)["stdout"]
    time.sleep(0.5)
    assert box.sh("wc -c < grows 2>/dev/null || echo 0", who=A)["stdout"] == size


def test_a_time_limit(box):
    r = box.sh("sleep 60 & sleep 60", who=A, timeout_ms=500)
    assert r["timed_out"] and r["exit_code"] != 0


def test_quota(box):
    a = box.exec("dd if=/dev/zero of=big bs=1M count=4 2>/dev/null; ls -s big", who=A)
    assert a.status == 200
    use = box.call("GET", "/v1/usage", who=A)
    assert use.status == 200 and use.json["bytes"] >= 4 << 20


def test_an_identity_ends(box):
    """Its folder is gone; the next that comes by that name has an empty one, and another id."""
    before = int(box.sh("id -u; echo here > f; chmod 000 .", who=A)["stdout"])
    assert box.call("DELETE", "/v1/workspace", who=A).status in (200, 204)
    r = box.sh("id -u; ls -A", who=A)
    assert int(r["stdout"]) != before
