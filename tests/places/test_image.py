"""The contract image, built by buildah from Dockerfile on a root of mmdebstrap's, run by podman as people run
it: small, read-only, without a capability, under a user of its own."""
import os
import tarfile

import pytest

from harness import names
from harness.images import HARD, LIMITS, SIX, free_port, podman

IMAGE = "localhost/sallyport-contract"


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
    box = run_image(*HARD, *SIX, "--user", "0:0", *volume(1000), IMAGE)
    assert box.run("id -u; echo x > f; ls")["stdout"] == "1000\nf\n"


def test_by_its_other_name(run_image, volume):
    serves(run_image(*HARD, *volume(1000), "--entrypoint", "/usr/local/bin/sandbox", IMAGE), 1000)


def test_health(run_image, volume):
    box = run_image(*HARD, *volume(1000), IMAGE)
    assert podman("healthcheck", "run", box.id).returncode == 0
    assert box.stop() == 0


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
