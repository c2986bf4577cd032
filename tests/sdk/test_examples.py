"""examples/ as their readers run them, against a live seat."""
import shutil

import clients
import tools
from harness import names

EXAMPLES = names.ROOT / "examples"
WALK = ("health: ok", "exit code: 3 stdout: hello world", "stdout: step 3", "ended with 0", "read: some bytes",
        "big: 1000000", "refused: precondition_failed 412", "done")


def run(seat, *args, cwd=None, expect=()):
    out = tools.run(*args, cwd=cwd, env={"SEAT_URL": f"http://127.0.0.1:{seat.port}", **clients.GO_ENV,
                                         "PYTHONDONTWRITEBYTECODE": "1"}, bound=120)
    at = 0
    for text in expect:
        assert text in out[at:], (text, out)
        at = out.index(text, at)
    assert not (seat.ws / "example").exists()
    seat.wait_no_strangers()
    return out


def test_curl(seat):
    run(seat, EXAMPLES / "curl/seat.sh",
        expect=('{"status":"ok"}', '"stdout":"hello world\\n"', "event: start", 'data: {"text":"step 3\\n"}',
                "event: exit", '{"path":"example/notes/a.txt","size":11}', "some bytes", "some\n",
                '"name":"a.txt"', '"code":"not_found"', "done"))


def test_python(seat):
    run(seat, clients.python(), EXAMPLES / "python/seat.py", expect=WALK)


def test_go(seat):
    run(seat, "go", "run", ".", cwd=EXAMPLES / "go", expect=WALK)


def test_node(seat):
    folder = clients.node()
    shutil.copy(EXAMPLES / "node/seat.mjs", folder)
    run(seat, "node", folder / "seat.mjs", expect=WALK)


def test_an_agent_mends_a_build(seat):
    run(seat, clients.python(), EXAMPLES / "agent/build.py",
        expect=("build 1:", "error: expected", "build 2:", "it says: hello"))


def test_every_example_is_named(seat):
    text = (EXAMPLES / "README.md").read_text()
    for path in EXAMPLES.rglob("*"):
        if path.suffix in (".sh", ".py", ".go", ".mjs"):
            assert f"`{path.relative_to(EXAMPLES)}`" in text, path
