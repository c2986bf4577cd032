"""examples/forward: web services before a live box, each in an environment of its own by its lock file. Bodies go
through as they come, and a user who leaves takes the command along."""
import hashlib
import http.client
import io
import itertools
import json
import os
import select
import shutil
import subprocess
import tarfile

import pytest

import clients
import tools
from harness import names, procs
from harness.box import KEY

FOLDER = names.ROOT / "examples/forward"
_count = itertools.count()


def python(script):
    clients.python()
    wheel, = (tools.OUT / "python/dist").glob("*.whl")
    wanted = FOLDER / "requirements.txt"

    def make(folder):
        tools.install("/usr/bin/python3", folder, "--no-deps", "-r", wanted, wheel)
    return [tools.once("forward-python", [wanted, wheel], make) / "bin/python", FOLDER / script]


def node():
    packed, = clients.node().glob("runbox-sdk-*.tgz")
    inputs = [FOLDER / "express/package.json", FOLDER / "express/package-lock.json", packed]

    def make(folder):
        folder.mkdir()
        for path in inputs[:2]:
            shutil.copy(path, folder)
        tools.run("npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", cwd=folder)
        tools.run("npm", "install", "--no-save", "--offline", "--no-audit", "--no-fund", packed, cwd=folder)
    folder = tools.once("forward-node", inputs, make)
    shutil.copy(FOLDER / "express/app.mjs", folder)
    return ["node", folder / "app.mjs"]


def go():
    tools.OUT.mkdir(parents=True, exist_ok=True)
    env = {k: v for k, v in clients.GO_ENV.items() if k not in ("GOPROXY", "GOFLAGS")}
    tools.run("go", "build", "-mod=readonly", "-o", tools.OUT / "forward-gin", ".", cwd=FOLDER / "gin", env=env)
    return [tools.OUT / "forward-gin"]


APPS = {"flask": lambda: python("flask_app.py"), "fastapi": lambda: python("fastapi_app.py"), "express": node,
        "gin": go}


@pytest.fixture(scope="module", params=APPS)
def app(request, many):
    command = [str(a) for a in APPS[request.param]()]
    env = {**os.environ, "BOX_URL": f"http://127.0.0.1:{many.port}", "BOX_KEY": KEY, "PYTHONDONTWRITEBYTECODE": "1"}
    p = subprocess.Popen(command, env=env, stdout=subprocess.PIPE)
    try:
        assert select.select([p.stdout], [], [], 60)[0], "it doesn't say where it listens"
        yield p.stdout.readline().decode().strip().removeprefix("http://")
    finally:
        p.kill()
        p.wait()
        p.stdout.close()


@pytest.fixture
def user():
    return f"user-{next(_count)}"


def ask(app, user, method, path, body=None, headers=()):
    c = http.client.HTTPConnection(app, timeout=120)
    c.request(method, path, body, {"X-User": user, **dict(headers)})
    return c.getresponse()


def run(app, user, command):
    return ask(app, user, "POST", "/run", json.dumps({"command": command}), {"Content-Type": "application/json"})


def event(answer):
    lines = [answer.readline().decode().rstrip("\n") for _ in range(3)]
    assert lines[0].startswith("event: ") and lines[1].startswith("data: ") and lines[2] == "", lines
    return lines[0][7:], json.loads(lines[1][6:])


def test_output_as_it_comes(app, many, user):
    a = run(app, user, "for i in 1 2; do echo $i; while [ ! -e go$i ]; do sleep 0.02; done; done; echo e >&2; exit 4")
    assert a.status == 200 and a.getheader("content-type").startswith("text/event-stream")
    for i in (1, 2):
        assert event(a) == ("stdout", {"text": f"{i}\n"})
        (many.workspace("forward", user) / f"go{i}").touch()
    assert event(a) == ("stderr", {"text": "e\n"}) and event(a) == ("exit", {"exit_code": 4})
    assert a.read() == b""


def test_who_leaves_ends_the_command(app, many, user):
    a = run(app, user, "sleep 60610 & while :; do echo x; sleep 0.1; done")
    assert event(a)[0] == "stdout"
    a.close()  # and with it the connection, as it was the answer's
    procs.wait_for("it is gone", lambda: not [p for p in many.procs() if "60610" in p.cmdline])


@pytest.mark.parametrize("chunked", [False, True])
def test_files_both_ways(app, many, user, chunked):
    data = hashlib.shake_256(user.encode()).digest(3_000_000)
    body = iter([data[:1_000_000], data[1_000_000:]]) if chunked else data
    a = ask(app, user, "PUT", "/files/d/f", body, {"Content-Type": "application/octet-stream"})
    assert json.loads(a.read()) == {"path": "d/f", "size": len(data)}
    assert (many.workspace("forward", user) / "d/f").read_bytes() == data
    a = ask(app, user, "GET", "/archive")
    assert a.getheader("content-type") == "application/x-tar"
    with tarfile.open(fileobj=io.BytesIO(a.read())) as tar:
        one, = (m for m in tar if m.isfile())
        assert tar.extractfile(one).read() == data


def test_what_the_box_refuses(app, user):
    a = run(app, user, "")
    assert (a.status, json.loads(a.read())) == (400, {"code": "bad_field"})
    a = ask(app, user, "PUT", "/files/a//b", b"x", {"Content-Type": "application/octet-stream"})
    assert a.status in (400, 404, 308), a.status  # some tidy paths up before
