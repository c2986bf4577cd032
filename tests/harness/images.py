"""images.py: containers of images, run by podman as people run them, from the store that ./dev places and
./dev images fill. Trusts podman and runc."""
import json
import socket
import subprocess

from . import procs
from .containers import ROOM
from .http import Conn

PODMAN = ["podman", "--root", str(ROOM / "storage"), "--runroot", f"/run/{ROOM.name}", "--runtime", "runc",
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


class Container:
    """A running one. options: of podman run, with the image and what follows it; prefix: of its settings."""

    def __init__(self, *options, prefix="SANDBOX"):
        self.port = free_port()
        bind = "SALLYPORT_BIND" if prefix == "SANDBOX" else f"{prefix}_BIND"
        self.id = podman("run", "--detach", "--network", "host", *LIMITS, "--env", f"{prefix}_PORT={self.port}",
                         "--env", f"{bind}=127.0.0.1", *options).stdout.strip()

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

    def stop(self):
        """SIGTERM; the exit status."""
        podman("stop", "--time", "20", self.id)
        return int(podman("inspect", "--format", "{{.State.ExitCode}}", self.id).stdout)

    def remove(self):
        podman("rm", "--force", "--time", "5", self.id)


# As the contract's own `docker run`: nobody, nothing, read-only.
HARD = ["--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--tmpfs", "/tmp"]
SIX = [o for c in ("CHOWN", "FOWNER", "SETUID", "SETGID", "DAC_OVERRIDE", "KILL") for o in ("--cap-add", c)]
