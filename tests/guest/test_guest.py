"""`sallyport guest`: the static file as /init of an initramfs on Debian's cloud kernel, for both processors."""
import json
import os
import subprocess
import sys

import pytest

from harness import names
from harness.machine import USUAL

sys.path.insert(0, str(names.ROOT / "tests" / "sdk"))
from test_conformance import cases, run  # noqa: E402

MACHINE = {"line": f"{USUAL} SALLYPORT_MAX_MEMORY=100MiB SALLYPORT_MAX_UPLOAD=20MiB"}


def layers(log):
    found = dict(line.split(" layer ", 1)[1].split(": ", 1) for line in log.splitlines() if " layer " in line)
    return {name: why.startswith("on") for name, why in found.items()}, found


@pytest.fixture(scope="module")
def client(machine):
    """The Python client's driver, from the tree."""
    env = {**os.environ, "PYTHONPATH": str(names.ROOT / "sdk/python/src"), "PYTHONDONTWRITEBYTECODE": "1"}
    p = subprocess.Popen(["/usr/bin/python3", names.ROOT / "tests/sdk/drive.py", f"http://127.0.0.1:{machine.port}"],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)

    class Client:
        @staticmethod
        def ask(op, **args):
            p.stdin.write(json.dumps({"op": op, "args": args}).encode() + b"\n")
            p.stdin.flush()
            return json.loads(p.stdout.readline())
    yield Client
    p.stdin.close()
    p.wait(60)
    p.stdout.close()


def test_layers(machine):
    on, why = layers(machine.log())
    assert [n for n in names.LAYERS if not on[n]] == ["signal-scope", "net-ns"], why
    assert "their memory has one limit, their number has one" in why["cgroup"]
    assert " error " not in machine.log()


@cases("seat")
def test_contract(client, machine, case):
    """The table that the clients are held to."""
    box = "box-" + case["name"].replace(" ", "-").replace("'", "")
    assert machine.run(f"mkdir {box}")["exit_code"] == 0
    run(client, case, box)


def test_a_command_is_shut_in(machine):
    r = machine.run("id -u; grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status | tr -d '\\n'; echo; "
                    "ls -d /proc/[0-9]* | wc -l; ls /dev | wc -l; ls / | tr '\\n' ' '")
    uid, status, procs, devices, root = r["stdout"].split("\n")
    assert uid == "1000" and status == "CapEff:\t0000000000000000CapBnd:\t0000000000000000NoNewPrivs:\t1Seccomp:\t2", r
    assert int(procs) <= 6 and int(devices) <= 14, r
    assert not {"modules", "init", "run", "root"} & set(root.split()), r
    for refused in ("echo x > /bin/x", "echo x > /etc/x", "mount -t tmpfs x /tmp", "mknod b b 1 1", "cat /dev/mem",
                    "poweroff -f", "chroot / true", "unshare -U true",
                    "ip link set eth0 down", "hostname other", "dmesg", "cat /proc/kmsg", "insmod /modules/x.ko",
                    "date -s 2000-01-01; date +%Y | grep 2000", "kill -9 -1; exit 1"):
        r = machine.run(refused)
        assert r["exit_code"] != 0, (refused, r)
    machine.run("echo b > /proc/sysrq-trigger")  # leads nowhere
    assert machine.run("echo still here; hostname")["stdout"] == "still here\nguest\n"


def test_memory_has_a_limit(machine):
    r = machine.run("for i in 1 2 3 4; do dd if=/dev/zero bs=45M count=1 | sleep 30 & done; wait; echo survived", timeout=40)
    assert r.get("oom_killed") is True and "survived" not in r["stdout"], r
    assert machine.run("echo next")["stdout"] == "next\n"


def test_what_stays_in_memory_leaves_room(machine):
    """A command that fills /tmp and /dev/shm doesn't take the next one's memory."""
    r = machine.run("for f in /tmp/x /dev/shm/x; do dd if=/dev/zero of=$f bs=1M count=40; done 2>&1 | grep -c left; df -k /tmp /dev/shm | awk 'NR > 1 { print $2 }'")
    assert r["stdout"].split() == ["2", str(25 << 10), str(25 << 10)], r
    assert machine.run("rm /tmp/x /dev/shm/x; echo ok")["stdout"] == "ok\n"


def test_nothing_is_left_of_a_command(machine):
    r = machine.run("for i in 1 2 3; do (setsid sleep 1000 &); done; sleep 1000", timeout=0.5)
    assert r["timed_out"]
    assert machine.run("ps | grep -c '[s]leep 1000'")["stdout"] == "0\n"


def test_its_own_network(machine):
    r = machine.run("wget -q -O - http://127.0.0.1:8080/healthz; ip -4 addr show eth0; ip route")
    assert '{"status":"ok"}' in r["stdout"] and "inet 10.0.2.15/24" in r["stdout"], r
    assert "default via 10.0.2.2 dev eth0" in r["stdout"], r
    assert "ip=" not in machine.run("env")["stdout"]


def test_z_it_is_switched_off(machine):
    """The last of the module's: Ctrl-Alt-Del, as the host of a machine presses it."""
    with_command = machine.run("(sleep 1000 &); echo x")
    assert with_command["stdout"] == "x\n"
    machine.ctrl_alt_del()
    log = machine.wait_off()
    assert "the machine is asked to end" in log and "main info stopped" in log
    assert "the daemon ended with status 0: the machine is switched off" in log
    assert "Kernel panic" not in log
