"""The static file for arm64 under qemu-user, which translates one process and has no seccomp: what can be run of it
there. That it serves is what tests/guest/test_guest.py shows, in a machine."""
import http.server
import json
import os
import struct
import subprocess
import threading

import pytest

from harness import names

FILE = names.ROOT / "build-arm64" / "sallyport"


def arm64(*args, **env):
    return subprocess.run(["qemu-aarch64-static", FILE, *args], env={"PATH": os.environ["PATH"], **env},
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)


def test_the_file():
    data = FILE.read_bytes()
    kind, machine = struct.unpack_from("<HH", data, 16)
    assert data[:5] == b"\x7fELF\x02" and (kind, machine) == (3, 183)  # position independent, AArch64
    assert len(data) <= 8 << 20
    said = subprocess.run(["readelf", "-lW", FILE], capture_output=True, text=True, check=True).stdout
    assert "INTERP" not in said and "GNU_RELRO" in said and "RWE" not in said


def test_its_version_is_the_others():
    mine, other = arm64("--version"), subprocess.run([names.STATIC, "--version"], capture_output=True, text=True, check=True)
    assert mine.returncode == 0 and mine.stdout == other.stdout


@pytest.mark.parametrize("role", ["front", "broker", "cell", "command", "registry", "paths"])
def test_its_policies(role):
    done = arm64("policy", "show", role)
    assert done.returncode == 0 and done.stdout == (
        subprocess.run([names.STATIC, "policy", "show", role], capture_output=True, text=True, check=True).stdout)


def test_it_refuses_to_start_without_seccomp(tmp_path):
    tmp_path.chmod(0o755)
    os.chown(tmp_path, 1000, 1000)
    done = arm64("check", "--json", SANDBOX_WORKSPACE=str(tmp_path))
    told = json.loads(done.stdout)
    on = {layer["name"]: layer["active"] for layer in told["layers"]}
    assert done.returncode == 2 and told["starts"] is False and "seccomp" in told["refusal"], done
    assert on["no-new-privs"] and on["caps"] and not on["seccomp"] and not on["landlock"]


def test_it_asks_for_health():
    class Fine(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200 if self.path == "/healthz" else 404)
            self.end_headers()

        def log_message(self, *_):
            pass
    with http.server.HTTPServer(("127.0.0.1", 0), Fine) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        assert arm64("health", url).returncode == 0
        server.shutdown()
    assert arm64("health", url).returncode == 1
