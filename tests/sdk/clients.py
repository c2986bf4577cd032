"""clients.py: the three clients as their users get them, built, packed and installed into fresh
environments below build/sdk, each behind a driver that takes JSON lines. Trusts this tree."""
import functools
import json
import os
import select
import shutil
import subprocess

import tools

SDK = tools.ROOT / "sdk"
WAIT = 120.0
LANGUAGES = ("python", "go", "node")
GO_ENV = {"GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local",
          "GOPROXY": "off", "CGO_ENABLED": "0"}


def sources(folder, *patterns):
    skip = {"node_modules", "dist", "build"}
    found = [p for pattern in patterns for p in folder.rglob(pattern)
             if not skip & set(p.relative_to(folder).parts) and p.is_file()]
    assert found, folder
    return sorted(found)


@functools.cache
def python():
    """An interpreter that has the built wheel and nothing else."""
    inputs = [*sources(SDK / "python", "*.py", "*.toml", "*.md", "py.typed"), tools.HERE / "requirements.txt"]
    tool = tools.venv()

    def make(folder):
        folder.mkdir()
        shutil.copytree(SDK / "python", folder / "tree")
        tools.run(tool / "python", "-m", "build", "--no-isolation", "--outdir", folder / "dist", folder / "tree")
        assert len(list((folder / "dist").glob("*.tar.gz"))) == 1
        wheels = list((folder / "dist").glob("runbox_sdk-*-py3-none-any.whl"))
        assert len(wheels) == 1
        tools.fresh_venv("python-app", *wheels)
    tools.once("python", inputs, make)
    return tools.OUT / "python-app/bin/python"


@functools.cache
def node_modules():
    """A copy of sdk/node with its development tools, by the lock file."""
    lock = SDK / "node/package-lock.json"
    folder = tools.OUT / "node-dev"

    def make(folder):
        folder.mkdir()
        for name in ("package.json", "package-lock.json"):
            shutil.copy(SDK / "node" / name, folder)
        tools.run("npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", cwd=folder)
    tools.once("node-dev", [lock, SDK / "node/package.json"], make)

    def copy(mark):
        for old in ("src", "dist"):
            shutil.rmtree(folder / old, ignore_errors=True)
        for path in (SDK / "node").iterdir():
            if path.is_file():
                shutil.copy(path, folder)
        shutil.copytree(SDK / "node/src", folder / "src")
        mark.mkdir()
    tools.once("node-dev-copy", sources(SDK / "node", "*"), copy)
    return folder


@functools.cache
def node():
    """A folder whose node_modules has the packed package and nothing else."""
    dev = node_modules()

    def make(folder):
        folder.mkdir()
        tools.run("npm", "pack", "--pack-destination", folder, cwd=dev)
        packed = list(folder.glob("runbox-sdk-*.tgz"))
        assert len(packed) == 1
        (folder / "package.json").write_text('{"private": true, "type": "module"}')
        tools.run("npm", "install", "--offline", "--no-audit", "--no-fund", packed[0], cwd=folder)
        assert [p.name for p in (folder / "node_modules").iterdir() if p.name[0] != "."] == ["runbox-sdk"]
    folder = tools.once("node", sources(SDK / "node", "*.ts", "*.json", "*.md"), make)
    return folder


@functools.cache
def go():
    """The driver's program, from a module that requires the client's."""
    def make(folder):
        folder.mkdir()
        tools.run("go", "build", "-o", folder / "drive", ".", cwd=tools.HERE / "godrive", env=GO_ENV)
    inputs = [*sources(SDK / "go", "*.go", "go.mod"), *sources(tools.HERE / "godrive", "*.go", "go.*")]
    return tools.once("godrive", inputs, make) / "drive"


@functools.cache
def command(language):
    if language == "python":
        return [python(), "-I", tools.HERE / "drive.py"]
    if language == "go":
        return [go()]
    new, script = node() / f"drive.{os.getpid()}", node() / "drive.mjs"
    os.replace(shutil.copy(tools.HERE / "drive.mjs", new), script)  # others may be reading it
    return ["node", script]


class Driver:
    """One client process. ask() runs an operation and waits for its result. With a key it is a client of the
    box, and works for `who`: an identity, or a tenant and a user."""

    def __init__(self, language, url, *more, key=None, who=()):
        self.language, self.who = language, who
        env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **({"DRIVE_KEY": key} if key else {})}
        self.proc = subprocess.Popen([*map(str, [*command(language), url, *more])], stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, env=env)

    def begin(self, op, **args):
        self.proc.stdin.write(json.dumps({"op": op, "who": self.who, "args": args}).encode() + b"\n")
        self.proc.stdin.flush()

    def line(self):
        # a line is written whole, and each is read before the next is due: nothing hides in the buffer
        assert select.select([self.proc.stdout], [], [], WAIT)[0], f"{self.language}: no answer"
        line = self.proc.stdout.readline()
        assert line, f"{self.language}: the driver ended, {self.proc.wait()}"
        return json.loads(line)

    def ask(self, op, **args):
        self.begin(op, **args)
        return self.line()

    def close(self):
        self.proc.stdin.close()
        try:
            assert self.proc.wait(30) == 0
        finally:
            self.proc.kill()
            self.proc.stdout.close()
