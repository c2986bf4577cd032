"""The contract image, built by buildah from Dockerfile on a root of mmdebstrap's, run by podman as people run
it: small, read-only, without a capability, under a user of its own."""
import json
import os
import socket
import subprocess
import tarfile

import pytest

from harness import names, procs
from harness.containers import ROOM
from harness.http import Conn

IMAGE = "localhost/sallyport-contract"
PODMAN = ["podman", "--root", str(ROOM / "storage"), "--runroot", "/run/sallyport-places", "--runtime", "runc",
          "--cgroup-manager", "cgroupfs"]
LIMITS = ["--ulimit", "nofile=4096:4096", "--ulimit", "nproc=4096:4096"]  # no higher than this machine's


def podman(*args, check=True):
    done = subprocess.run([*PODMAN, *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
                          check=False)
    assert not check or done.returncode == 0, f"{args}: {done.stderr}"
    return done


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Box:
    def __init__(self, *options):
        self.port = free_port()
        self.id = podman("run", "--detach", "--network", "host", *LIMITS, "--env", f"SANDBOX_PORT={self.port}",
                         "--env", "SALLYPORT_BIND=127.0.0.1", *options).stdout.strip()

    def request(self, method, target, body=None, headers=()):
        with Conn(("127.0.0.1", self.port)) as c:
            return c.request(method, target, body, headers)

    def wait_up(self):
        def up():
            try:
                return self.request("GET", "/healthz").status == 200
            except OSError:
                state = podman("inspect", "--format", "{{.State.Status}}", self.id).stdout.strip()
                assert state in ("created", "running", "initialized"), podman("logs", self.id).stderr
                return False
        procs.wait_for("the container serves", up, 30.0, 0.05)
        return self

    def run(self, command, **members):
        a = self.request("POST", "/execute", json.dumps({"command": command, **members}).encode())
        assert a.status == 200, a
        return a.json


@pytest.fixture
def run_image():
    made = []

    def make(*options):
        made.append(Box(*options))
        return made[-1].wait_up()
    yield make
    for box in made:
        podman("rm", "--force", "--time", "5", box.id)


# As the contract's own `docker run`: nobody, nothing, read-only.
HARD = ["--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--tmpfs", "/tmp"]


@pytest.fixture
def volume(tmp_path):
    """volume(uid): the options for a workspace of the host's that belongs to uid."""
    def make(uid):
        ws = tmp_path / "ws"
        ws.mkdir()
        os.chown(ws, uid, uid)
        for path in list(ws.parents)[:3]:  # pytest's folders are its own alone
            path.chmod(0o755)
        return ["--volume", f"{ws}:/workspace"]
    return make


def serves(box, uid):
    r = box.run("id -u; pwd; echo $0; for i in 1 2 3; do echo $i; done | sort -r | head -n 1")
    assert r["stdout"].split() == [str(uid), "/workspace", "sh", "3"], r
    assert box.request("PUT", "/files/a/b.txt", b"data").status == 201
    assert box.run("cat a/b.txt; rm a/b.txt")["stdout"] == "data"
    assert [e["name"] for e in box.request("GET", "/files").json["entries"]] == ["a"]
    assert box.request("DELETE", "/files/a?recursive=true").status == 204
    assert box.run("sleep 100", timeout=0.3)["timed_out"]
    assert box.run("(setsid sleep 1000 &); echo x")["stdout"] == "x\n"
    r = box.run("echo x > /etc/new; echo x > /usr/local/bin/other; kill 1; echo done")
    assert r["stdout"] == "done\n" and r["stderr"].count("\n") == 3, r


def test_its_size(tmp_path):
    archive = tmp_path / "image.tar"
    podman("save", "--output", str(archive), IMAGE)
    size = archive.stat().st_size
    print(f"{IMAGE}: {size} bytes")
    assert size <= 12 << 20
    with tarfile.open(archive) as t:
        layers = [m.name for m in t if m.name.endswith(".tar") and m.isreg()]
        assert len(layers) == 1, layers
        with tarfile.open(fileobj=t.extractfile(layers[0])) as layer:
            entries = {m.name.rstrip("/"): m for m in layer}
    assert not [m.name for m in entries.values() if m.mode & 0o6000 and m.isreg()]
    assert entries["usr/local/bin/sandbox"].linkname == "sallyport"
    files = [m.name for m in entries.values() if m.isreg()]
    assert set(files) == {"bin/busybox", "usr/local/bin/sallyport", "etc/passwd", "etc/group"}, files


def test_as_it_is(run_image):
    box = run_image(IMAGE)
    serves(box, 1000)


def test_hardened(run_image, volume):
    serves(run_image(*HARD, *volume(1000), IMAGE), 1000)


def test_any_user(run_image, volume):
    """An orchestrator's number that no passwd file knows."""
    serves(run_image(*HARD, *volume(123456789), "--user", "123456789:0", IMAGE), 123456789)


def test_six_capabilities(run_image, volume):
    caps = [o for c in ("CHOWN", "FOWNER", "SETUID", "SETGID", "DAC_OVERRIDE", "KILL") for o in ("--cap-add", c)]
    box = run_image("--read-only", "--cap-drop", "ALL", *caps, "--security-opt", "no-new-privileges",
                    "--user", "0:0", "--tmpfs", "/tmp", *volume(1000), IMAGE)
    assert box.run("id -u; echo x > f; ls")["stdout"] == "1000\nf\n"


def test_by_its_other_name(run_image, volume):
    serves(run_image(*HARD, *volume(1000), "--entrypoint", "/usr/local/bin/sandbox", IMAGE), 1000)


def test_health(run_image, volume):
    box = run_image(*HARD, *volume(1000), IMAGE)
    assert podman("healthcheck", "run", box.id).returncode == 0
    podman("stop", "--time", "20", box.id)
    assert podman("inspect", "--format", "{{.State.ExitCode}}", box.id).stdout.strip() == "0"


def test_health_of_none():
    """The same question to nobody."""
    done = podman("run", "--rm", "--network", "host", *LIMITS, "--env", f"SANDBOX_PORT={free_port()}", IMAGE,
                  "health", check=False)
    assert done.returncode == 1 and "no answer" in done.stderr


@pytest.mark.parametrize("start", [[], ["seat"]])
def test_pool_habit(run_image, tmp_path, volume, start):
    """The static file copied into a foreign image's workspace and started there, by a user that nobody knows,
    on a root without a writable place: what sandbox pools do. The foreign image is Debian's."""
    options = volume(4321)
    ws = tmp_path / "ws"
    agent = ws / ".sandbox-agent"
    agent.write_bytes(names.STATIC.read_bytes())
    agent.chmod(0o755)
    os.chown(agent, 4321, 4321)
    box = run_image("--read-only", "--read-only-tmpfs=false", "--cap-drop", "ALL", "--security-opt",
                    "no-new-privileges", "--user", "4321:4321", *options, "--workdir", "/",
                    "--entrypoint", "/workspace/.sandbox-agent", "localhost/sallyport-base", *start)
    assert box.run("id -u; pwd; echo $0")["stdout"].split() == ["4321", "/workspace", "bash"]
    assert box.request("PUT", "/files/a/b.txt", b"data").status == 201
    assert (ws / "a" / "b.txt").read_bytes() == b"data"
    r = box.run("python3 -c 'print(open(\"a/b.txt\").read())'; rm -r a; touch /etc/x; ls -A")
    assert r["stdout"] == "data\n.sandbox-agent\n" and "Read-only" in r["stderr"], r
    # a command can replace the file that it can write, and the daemon goes on
    assert box.run("echo x > .sandbox-agent; rm .sandbox-agent; echo ok")["stdout"] == "ok\n"
    assert box.run("kill -9 -1; echo gone")["exit_code"] in (0, 137)
    assert box.run("echo still here")["stdout"] == "still here\n"
