"""deploy/docker-compose.yml, read by podman-compose: it needs a key, and starts the containers with just the rights
that the tests of the images give them."""
import os
import re
import shlex
import shutil
import subprocess

import pytest

from harness import names
from harness.images import HARD, SIX

DEPLOY = names.ROOT / "deploy"


@pytest.fixture
def commands(tmp_path):
    """commands(lines of .env): what it would run: service -> podman's arguments; and what it said."""
    podman = tmp_path / "podman"  # with a store that goes with the test, as a dry run makes volumes
    podman.write_text(f"#!/bin/sh\nexec podman --root {tmp_path}/store --runroot {tmp_path}/run --runtime runc \"$@\"\n")
    podman.chmod(0o755)
    shutil.copy(DEPLOY / "docker-compose.yml", tmp_path)

    def ask(*lines):
        env = (DEPLOY / ".env.example").read_text(encoding="utf-8")
        (tmp_path / ".env").write_text(env + "".join(f"{line}\n" for line in lines), encoding="utf-8")
        done = subprocess.run(["podman-compose", "--podman-path", podman, "--dry-run", "up", "-d"], cwd=tmp_path,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False,
                              env={k: v for k, v in os.environ.items() if k in ("PATH", "HOME")})
        said = done.stdout + done.stderr
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


def test_the_example_names_what_the_file_asks_for():
    asked = re.findall(r"\$\{([A-Z_]+)", (DEPLOY / "docker-compose.yml").read_text(encoding="utf-8"))
    given = re.findall(r"^#?([A-Z_]+)=", (DEPLOY / ".env.example").read_text(encoding="utf-8"), re.M)
    assert set(asked) == set(given)
