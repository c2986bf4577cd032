"""What the kernel counts by user id: a command that uses all of it up takes nothing from the daemon."""
import pytest

from harness import names, procs

# Fills sockets with descriptors that nobody receives, until the kernel refuses.
STUFF = """
import array, os, resource, socket, time
resource.setrlimit(resource.RLIMIT_NOFILE, [resource.getrlimit(resource.RLIMIT_NOFILE)[1]] * 2)
some = array.array("i", [0] * 250)
pairs = []
full = False
while not full:
    pairs.append(socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))
    pairs[-1][0].setblocking(False)
    while not full:
        try:
            pairs[-1][0].sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, some)])
        except BlockingIOError:
            break
        except OSError as e:
            full = str(e.errno)
open("full", "w").write(full)
time.sleep(1000)
"""


@pytest.mark.parametrize("plan", list(names.PLANS))
def test_descriptors_on_their_way(start, plan):
    d = start(plan=plan)
    d.put("x", b"hello")
    before = [d.role(r).pid for r in ("front", "broker", "cell")]
    with d.send_command("exec /usr/bin/python3 -I -", stdin=STUFF) as c:
        d.wait_file("full")
        procs.wait_for("the reason", lambda: (d.ws / "full").read_text() == "109")  # ETOOMANYREFS
        assert d.get("x").body == b"hello"
        assert d.put("y", b"there").status == 201
        assert d.get("").status == 200
        c.close()
    d.wait_idle()
    assert d.run("echo ok")["stdout"] == "ok\n"
    assert [d.role(r).pid for r in ("front", "broker", "cell")] == before
