"""`sallyport guest`: what a machine of its own is told, and what it does then."""
import json
import os
import subprocess

import pytest

from harness import names
from harness.machine import QEMU, USUAL

KEY = "test-key-0123456789abcdef"
SMALL = "amd64"  # of what doesn't depend on the processor


@pytest.mark.parametrize("arch", QEMU)
def test_the_box(boot, arch):
    """Many identities; the key is in a file that is gone before anybody could read it."""
    m = boot(arch, line=f"{USUAL} SALLYPORT_MAX_MEMORY=0 -- box",
             files={"etc/sallyport.env": (f"# keys\nRUNBOX_API_KEY={KEY}\n\n", 0o600)})
    who = [("Authorization", f"Bearer {KEY}"), ("Content-Type", "application/json")]

    def run(name, command):
        a = m.request("POST", "/v1/exec", json.dumps({"command": command}).encode(), [*who, ("X-Runbox-Identity", name)])
        assert a.status == 200, a
        return a.json
    assert m.request("POST", "/v1/exec", b'{"command":"true"}').status == 401
    a = run("alice", "echo secret > f; id -u; cat /proc/cmdline; ls -A /etc; env")
    b = run("bob", "id -u; cat f; ls -A /data/workspaces/*")
    assert int(a["stdout"].split()[0]) != int(b["stdout"].split()[0]) and "secret" not in b["stdout"], (a, b)
    assert KEY not in a["stdout"] and "sallyport.env" not in a["stdout"], a
    assert run("alice", "cat f")["stdout"] == "secret\n"
    m.ctrl_alt_del()
    assert "ended with status 0" in m.wait_off()


@pytest.mark.parametrize("line,files,said", [
    (f"{USUAL} SALLYPORT_NO_SUCH=1", {}, "SALLYPORT_NO_SUCH"),
    (f"{USUAL} sallyport.end=fire", {}, "sallyport.end= is poweroff or reboot"),
    ("ip=10.0.2.15:::::eth7:", {}, "no device eth7"),
    ("ip=dhcp", {}, "no IPv4 address in \"dhcp\""),
    ("ip=10.0.2.15:::255.255.255.0::eth0:dhcp", {}, "may only ask for an address that it gives"),
    (USUAL, {"etc/sallyport.env": ("A=1\n", 0o644)}, "open to nobody else"),
    (f"{USUAL} sallyport.disk={'x' * 300}", {}, "more than 255 characters"),
    (USUAL, {"etc/sallyport.env": ("no setting\n", 0o600)}, "isn't NAME=VALUE"),
])
def test_refused(boot, line, files, said):
    log = boot(SMALL, line=line, files=files, wait=False).wait_off()
    assert said in log and "the daemon ended with status 2: the machine is switched off" in log, log
    assert "Kernel panic" not in log and "listening" not in log


def test_a_disk_for_the_workspace(boot, tmp_path):
    disk = tmp_path / "disk"
    disk.touch()
    os.truncate(disk, 16 << 20)
    subprocess.run(["/sbin/mkfs.ext4", "-q", "-E", "root_owner=1000:1000", disk], check=True)
    for n in (1, 2):
        m = boot(SMALL, line=f"{USUAL} sallyport.disk=/dev/vda", disk=disk)
        r = m.run(f"echo {n} >> kept; cat kept; df . | tail -n 1")
        assert r["stdout"].startswith("1\n/dev/vda " if n == 1 else "1\n2\n/dev/vda "), r
        m.ctrl_alt_del()
        assert "ended with status 0" in m.wait_off()
    check = subprocess.run(["/sbin/e2fsck", "-n", disk], capture_output=True, text=True, check=False)
    assert check.returncode == 0 and "clean" in check.stdout, check
    log = boot(SMALL, line=f"{USUAL} sallyport.disk=/dev/vdb", disk=disk, wait=False).wait_off()
    assert "can't mount the disk /dev/vdb" in log


def test_it_can_restart_instead(boot):
    """What Firecracker takes for the end. -no-reboot makes it qemu's, too."""
    m = boot(SMALL, line=f"{USUAL} sallyport.end=reboot word")
    assert "a word for nobody: word" in m.log()
    m.ctrl_alt_del()
    assert "the machine restarts" in m.wait_off()


def test_only_for_the_first_process():
    done = subprocess.run([names.STATIC, "guest"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
                          check=False)
    assert done.returncode == 2 and "the first process of a machine" in done.stderr
