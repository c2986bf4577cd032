"""That a place is what its name says, seen from inside it."""
import pytest

from harness import names, places

SIX = sum(1 << n for n in (0, 1, 3, 5, 6, 7))
BOUNDING = {"six-caps": SIX, "podman-six-caps": SIX, "podman": 0}  # nobody in these can lower it


def test_who_the_daemon_is(start):
    main = start().main
    status = {k: v.split() for k, v in main.status().items()}
    root = places.HERE.plans != ("user",)
    assert status["Uid"] == ["0" if root else str(names.USER)] * 4
    assert (int(status["CapPrm"][0], 16) & 0xe0 == 0xe0) is root  # SETUID, SETGID, KILL
    assert (main.nspid == 1) is (places.NAME == "pid1" or places.HERE.box != "fence")


def test_what_it_was_given(start):
    d = start()
    r = d.run("grep CapBnd /proc/self/status; touch /etc/x; uname -r")
    bound = int(r["stdout"].split()[1], 16)
    assert bound & ~BOUNDING.get(places.NAME, bound) == 0  # a namespace of its own leaves less
    assert (r["stdout"].split()[-1] == "4.4.0") is (places.HERE.box == "gvisor")  # what gVisor says of itself
    assert r["stderr"]
    if places.HERE.box == "gvisor":  # its root is the host's, and only the fence makes that read-only
        done = d.runsc("exec", d.container(), "/usr/bin/touch", "/usr/sp-place")
        assert done.returncode != 0 and b"Read-only file system" in done.stderr, done


@pytest.mark.host("runs another program in the daemon's place")
def test_user_namespaces(start):
    d = start(up=False, binary="/usr/bin/unshare", args=["--user", "true"])
    assert (d.wait_exit()["status"] == 0) is (places.NAME != "user-no-userns"), d.log()
