"""examples/ as their readers run them, against a live seat or a live box. Those of forward: test_forward.py."""
import shutil

import clients
import tools
from harness import names, procs
from harness.box import KEY

EXAMPLES = names.ROOT / "examples"
WALK = ("health: ok", "exit code: 3 stdout: hello world", "stdout: step 3", "ended with 0", "read: some bytes",
        "big: 1000000", "refused: precondition_failed 412", "done")


def run(seat, *args, cwd=None, expect=()):
    out = tools.run(*args, cwd=cwd, env={"SEAT_URL": f"http://127.0.0.1:{seat.port}", **clients.GO_ENV,
                                         "PYTHONDONTWRITEBYTECODE": "1"}, bound=600)
    at = 0
    for text in expect:
        assert text in out[at:], (text, out)
        at = out.index(text, at)
    assert not (seat.ws / "example").exists()
    seat.wait_no_strangers()
    return out


BOX_WALK = ("version is there", "commands at a time: 16", "sorted:", "ada", "ben", "stdout: step 3", "b/c.txt",
            "big: 1000000", "refused: ", "done")


def walk(many, *args, cwd=None, expect=BOX_WALK):
    out = tools.run(*args, cwd=cwd, bound=600, env={"BOX_URL": f"http://127.0.0.1:{many.port}", "BOX_KEY": KEY,
                                                    **clients.GO_ENV, "PYTHONDONTWRITEBYTECODE": "1"})
    at = 0
    for text in expect:
        assert text in out[at:], (text, out)
        at = out.index(text, at)
    for user in ("alice", "bob"):
        procs.wait_for("the workspace is gone", lambda u=user: not many.workspace("example", u).exists())


def test_curl(seat):
    run(seat, EXAMPLES / "curl/seat.sh",
        expect=('{"status":"ok"}', '"stdout":"hello world\\n"', "event: start", 'data: {"text":"step 3\\n"}',
                "event: exit", '{"path":"example/notes/a.txt","size":11}', "some bytes", "some\n",
                '"name":"a.txt"', '"code":"not_found"', "done"))


def test_curl_and_a_box(many):
    walk(many, EXAMPLES / "curl/box.sh",
         expect=('{"status":"ok"}', '{"status":"ready"}', '"max_concurrency":16', "sallyport_start_time_seconds",
                 '"stdout":"hello\\n"', "event: start", 'data: {"text":"step 3\\n"}', "event: exit",
                 '"stdout":"ada\\nben\\n"', '{"path":"notes/a.txt","size":8}', '{"path":"notes/b.txt","size":8}',
                 '"path":"many/y/z"', "ben\nada\n", "ben\n", '"name":"b.txt"', '"name":"many/y/z"', "y/z\n",
                 '"quota":1073741824', "done"))


def test_python_and_a_box(many):
    walk(many, clients.python(), EXAMPLES / "python/box.py")


def test_go_and_a_box(many):
    walk(many, "go", "run", "./box", cwd=EXAMPLES / "go")


def test_node_and_a_box(many):
    folder = clients.node()
    shutil.copy(EXAMPLES / "node/box.mjs", folder)
    walk(many, "node", folder / "box.mjs")


def test_python(seat):
    run(seat, clients.python(), EXAMPLES / "python/seat.py", expect=WALK)


def test_go(seat):
    run(seat, "go", "run", "./seat", cwd=EXAMPLES / "go", expect=WALK)


def test_node(seat):
    folder = clients.node()
    shutil.copy(EXAMPLES / "node/seat.mjs", folder)
    run(seat, "node", folder / "seat.mjs", expect=WALK)


def test_an_agent_mends_a_build(seat):
    run(seat, clients.python(), EXAMPLES / "agent/build.py",
        expect=("build 1:", "error: expected", "build 2:", "it says: hello"))


def test_every_example_is_named():
    text = (EXAMPLES / "README.md").read_text()
    for path in EXAMPLES.rglob("*"):
        if path.suffix in (".sh", ".py", ".go", ".mjs"):
            assert f"`{path.relative_to(EXAMPLES)}`" in text, path
