"""The clients' sources by their languages' own checkers; the versions are pinned in requirements.txt and
sdk/node/package-lock.json. That they build and install is what every other test here stands on."""
import json
import re
import sys

import clients
import tools
from harness import names

SDK = names.ROOT / "sdk"


def test_python():
    tool = tools.venv()
    scripts = [tools.HERE, names.ROOT / "examples"]
    tools.run(tool / "ruff", "check", "--no-cache", SDK / "python")
    tools.run(tool / "ruff", "format", "--no-cache", "--check", SDK / "python/src")
    tools.run(tool / "ruff", "check", "--no-cache", "--isolated", "--line-length", 120, "--select", "E,F,W,B",
              *scripts)
    for version in ("3.10", "3.13"):  # the oldest that mypy knows is newer than the oldest that we do
        tools.run(tool / "mypy", "--strict", "--python-version", version, "--cache-dir", tools.OUT / "mypy",
                  SDK / "python/src", cwd=SDK / "python")


def test_python_39():
    """Its grammar and its names: what 3.10 brought must not be there."""
    source = "".join(p.read_text() for p in clients.sources(SDK / "python/src", "*.py"))
    assert not re.search(r"^\s*match .*:$|\bzip\(.*strict=|slots=True|kw_only=True", source, re.M)
    for path in clients.sources(SDK / "python/src", "*.py"):
        text = path.read_text()
        compile(text, str(path), "exec", dont_inherit=True)
        if re.search(r"\b(Optional|Union)\[|\btype\[|\btuple\[", text):
            assert "from __future__ import annotations" in text, path
    assert sys.version_info >= (3, 9)


def staticcheck():
    """Newer ones don't build with Debian's Go, older ones don't read what newer Go has compiled."""
    language = re.search(r"go1\.([0-9]+)", tools.run("go", "env", "GOVERSION"))[1]
    version = "v0.4.7" if int(language) < 25 else "v0.8.2"

    def make(folder):
        folder.mkdir()
        tools.run("go", "install", f"honnef.co/go/tools/cmd/staticcheck@{version}",
                  env={"GOBIN": str(folder), "GOTOOLCHAIN": "local", "GOFLAGS": "", "CGO_ENABLED": "0"})
    return tools.once(f"staticcheck-{version}-go{language}", [tools.HERE / "test_lint.py"], make) / "staticcheck"


def test_go():
    check = staticcheck()
    forward = names.ROOT / "examples/forward/gin"
    for folder in (SDK / "go", tools.HERE / "godrive", names.ROOT / "examples/go", forward):
        env = {**clients.GO_ENV, "GOFLAGS": "-mod=readonly"}
        if folder == forward:
            del env["GOPROXY"]
        assert tools.run("gofmt", "-l", ".", cwd=folder) == ""
        tools.run("go", "vet", "./...", cwd=folder, env=env)
        tools.run(check, "./...", cwd=folder, env=env)
    assert "require" not in (SDK / "go/go.mod").read_text()


def test_node():
    folder = clients.node_modules()
    tools.run(folder / "node_modules/.bin/tsc", "--strict", "--noEmit", "-p", ".", cwd=folder)
    tools.run(folder / "node_modules/.bin/eslint", "--max-warnings", 0, ".", cwd=folder)
    package = json.loads((SDK / "node/package.json").read_text())
    assert "dependencies" not in package and package["engines"] == {"node": ">=18"}


def test_node_types_for_its_users():
    """The installed package's types, from a project of its own."""
    folder = clients.node()
    (folder / "use.mts").write_text("""
import { ApiError, Seat, type Exit, type Output } from "runbox-sdk";
const seat: Seat = new Seat("http://127.0.0.1:1");
export async function use(): Promise<string> {
  const parts: string[] = [];
  for await (const e of await seat.stream("x", { env: { A: "1" } })) {
    const one: Output | Exit = e;
    parts.push(one.kind === "output" ? one.text : String(one.exitCode));
  }
  try { await seat.read("x"); } catch (e) { if (e instanceof ApiError) parts.push(e.code); }
  return parts.join("");
}
""")
    dev = clients.node_modules()
    tools.run(dev / "node_modules/.bin/tsc", "--noEmit", "--strict", "--module", "nodenext", "--target", "es2022",
              "--typeRoots", dev / "node_modules/@types", "--types", "node", "use.mts", cwd=folder)


def test_python_types_for_its_users(tmp_path):
    python = clients.python()
    use = tmp_path / "use.py"
    use.write_text("""
from runbox import ApiError, Exit, Output, Seat
def use(seat: Seat) -> str:
    parts: list[str] = []
    with seat.stream("x", env={"A": "1"}) as live:
        for e in live:
            parts.append(e.text if isinstance(e, Output) else str(e.exit_code))
    last: Exit | None = live.exit
    try:
        data: bytes = seat.read("x")
    except ApiError as err:
        parts.append(err.code)
    return "".join(parts)
""")
    tools.run(tools.venv() / "mypy", "--strict", "--python-executable", python, "--cache-dir", tools.OUT / "mypy",
              use, cwd=tmp_path)
