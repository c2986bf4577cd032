"""deploy/docker-compose.yml, by podman-compose: it needs a key, starts the containers with just the rights that the
tests of the images give them, and is started as it is, in a network of its own, on the images of ./dev places. What
podman keeps elsewhere than in its store is in namespaces that end with the test."""
import json
import os
import re
import shlex
import shutil
import subprocess

import pytest

from harness import names
from harness.containers import ROOM
from harness.images import HARD, SIX

DEPLOY = names.ROOT / "deploy"


PRIVATE = """
set -e
mount --make-rprivate /
for d in /etc/cni/net.d /var/lib/cni /run; do mount -t tmpfs tmpfs $d; done
ip link set lo up
"""


def compose(folder, script, *lines):
    """Runs script in a folder with the file and .env, the example's and these lines: all that was said."""
    podman = folder / "podman"
    podman.write_text(f"#!/bin/sh\nexec podman --root {folder}/store --runroot /run/compose --tmpdir /run/libpod --runtime runc "
                      "--storage-driver overlay --cgroup-manager cgroupfs "
                      f"--storage-opt additionalimagestore={ROOM}/storage \"$@\"\n")
    podman.chmod(0o755)
    shutil.copy(DEPLOY / "docker-compose.yml", folder)
    env = (DEPLOY / ".env.example").read_text(encoding="utf-8")
    (folder / ".env").write_text(env + "".join(f"{line}\n" for line in lines), encoding="utf-8")
    done = subprocess.run(["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c",
                           f"{PRIVATE}compose() {{ podman-compose --podman-path {podman} \"$@\" >&2; }}\n{script}"], cwd=folder,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False,
                          env={k: v for k, v in os.environ.items() if k in ("PATH", "HOME")})
    return done


@pytest.fixture
def commands(tmp_path):
    """commands(lines of .env): what it would run: service -> podman's arguments; and what it said."""
    def ask(*lines):
        said = compose(tmp_path, "compose --dry-run up -d", *lines).stderr
        runs = [shlex.split(line) for line in said.splitlines() if " run --name=" in line]
        return {next(a[27:] for a in r if a.startswith("com.docker.compose.service=")): r for r in runs}, said
    return ask


def values(run, option):
    return [b for a, b in zip(run, run[1:]) if a == option]


def test_rights(commands):
    runs, said = commands("RUNBOX_API_KEY=0123456789abcdef", "BOX_PORT=9999")
    assert set(runs) == {"seat", "box"}, said
    for service, run in runs.items():
        assert "--read-only" in run and "--privileged" not in run
        assert values(run, "--cap-drop") == ["ALL"] and values(run, "--security-opt") == ["no-new-privileges:true"]
        assert "/tmp" in values(run, "--tmpfs") and all(p.startswith("127.0.0.1:") for p in values(run, "-p"))
        assert sorted(values(run, "--cap-add")) == sorted(values(SIX, "--cap-add") if service == "box" else [])
        assert run[-1] == service
    assert values(runs["seat"], "-u") == ["1000:1000"] and values(runs["box"], "-u") == ["0:0"]
    assert values(runs["box"], "-p") == ["127.0.0.1:9999:8080"]
    assert "RUNBOX_API_KEY=0123456789abcdef" in values(runs["box"], "-e")
    assert {"--read-only", "ALL", "no-new-privileges", "/tmp"} < set(HARD)  # of the tests of the images


def test_not_without_a_key(commands):
    runs, said = commands()
    assert not runs and "set it in .env" in said


STARTED = """
post() {
    from=$1 && shift
    curl -sS "http://127.0.0.1:$from" -H 'Content-Type: application/json' "$@"
    echo
}
up() {
    compose up -d
    for url in 8080/healthz 8081/ready; do
        for _ in $(seq 300); do curl -sf -o /dev/null "http://127.0.0.1:$url" && break; sleep 0.1; done
    done
}
up
post 8080/execute -d '{"command":"id -u; cat kept; echo data >kept; cat kept"}'
post 8081/v1/exec -d '{"command":"true"}'
post 8081/v1/exec -H "Authorization: Bearer $KEY" -H 'X-Runbox-Identity: alice' -d '{"command":"id -u; pwd; touch /etc/x"}'
for service in seat box; do ./podman healthcheck run "$(./podman ps -q --filter "name=_${service}_")" >&2; done
compose stop
./podman ps -a --format '{{.Names}}: {{.Status}}' | sort
compose down
up
post 8080/execute -d '{"command":"cat kept"}'
compose down -v
./podman ps -aq
"""


def test_it_starts_and_keeps_its_volumes(tmp_path):
    key = "0123456789abcdef"
    done = compose(tmp_path, f"KEY={key}\n{STARTED}", f"RUNBOX_API_KEY={key}", "SALLYPORT_SEAT_IMAGE=localhost/sallyport-contract",
                   "SALLYPORT_BOX_IMAGE=localhost/sallyport-minimal")
    assert done.returncode == 0, done
    seat, refused, box, *ended, again = filter(None, done.stdout.splitlines())
    assert json.loads(seat)["stdout"] == "1000\ndata\n", done
    assert json.loads(refused)["code"] == "unauthorized"
    uid, where = json.loads(box)["stdout"].splitlines()
    assert 200000 <= int(uid) <= 265535 and where.startswith("/data/workspaces/") and "/etc/x" in json.loads(box)["stderr"]
    assert [re.search(r"_([a-z]+)_1: Exited \((\d+)\) ", line).groups() for line in ended] == [("box", "0"), ("seat", "0")], done
    assert json.loads(again)["stdout"] == "data\n"


def test_the_example_names_what_the_file_asks_for():
    asked = re.findall(r"\$\{([A-Z_]+)", (DEPLOY / "docker-compose.yml").read_text(encoding="utf-8"))
    given = re.findall(r"^#?([A-Z_]+)=", (DEPLOY / ".env.example").read_text(encoding="utf-8"), re.M)
    assert set(asked) == set(given)
