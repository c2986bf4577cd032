"""Each call that a role makes for a request to the seat fails once, in turn: the client is told, nothing dies that
must not, nothing is left over, and the next request is served. Needs `./dev build --faults`."""
import json
import os

import pytest

from harness.http import chunked
from harness.injection import Form, Run, unknown


def post(d, **members):
    return d.request("POST", "/execute", json.dumps(members).encode())


def put_new(d):
    a = d.put("new", b"n" * 3000)
    there = (d.ws / "new").exists()
    assert not there or (d.ws / "new").read_bytes() == b"n" * 3000
    assert there == (a.status == 201) or unknown(a), a
    return a


def put_old(d):
    a = d.put("old", b"n" * 3000)
    body = (d.ws / "old").read_bytes()
    assert body == (b"n" * 3000 if a.status == 200 else b"o" * 100000) or body == b"n" * 3000 and unknown(a), a
    return a


def put_chunked(d):
    a = d.request("PUT", "/files/a/b/c", chunked(b"x" * 100, b"y" * 100), {"Transfer-Encoding": "chunked"})
    assert (a.status < 300) == (d.ws / "a/b/c").exists() or unknown(a), a
    return a


def get(d):
    a = d.get("old")
    assert a.status != 200 or a.body == b"o" * 100000
    return a


def listing(d):
    a = d.request("GET", "/files/")
    assert a.status != 200 or "old" in a.body.decode()
    return a


def execute(d):
    a = post(d, command="echo out; echo err >&2; exit 3")
    if a.status == 200:
        r = a.json
        assert r["exit_code"] == 3, r
        for name, text in (("stdout", "out\n"), ("stderr", "err\n")):
            assert r[name] == text or r[name + "_truncated"] and text.startswith(r[name]), r
    return a


def execute_stdin(d):
    a = post(d, command="cat; (sleep 1000 &)", stdin="x" * 5000, env={"A": "b"}, cwd="dir")
    if a.status == 200:
        r = a.json
        assert r["stdout"] == "x" * 5000 or r["stdout_truncated"] and ("x" * 5000).startswith(r["stdout"]), r
    return a


def execute_events(d):
    return d.request("POST", "/execute", json.dumps({"command": "echo out; exit 3"}).encode(),
                     {"Accept": "text/event-stream"})


def delete(d):
    a = d.delete("old")
    assert (a.status == 204) != (d.ws / "old").exists() or unknown(a), a
    return a


def delete_tree(d):
    a = d.delete("dir", "?recursive=true")
    assert a.status >= 400 or not (d.ws / "dir").exists(), a
    return a


WORK = {f.__name__: f for f in (put_new, put_old, put_chunked, get, listing, execute, execute_stdin, execute_events,
                                delete, delete_tree)}


def prepare(d):
    """The same workspace for each."""
    for top, dirs, files in os.walk(d.ws, topdown=False):
        for name in files:
            os.unlink(os.path.join(top, name))
        for name in dirs:
            os.rmdir(os.path.join(top, name))
    (d.ws / "old").write_bytes(b"o" * 100000)
    (d.ws / "dir").mkdir()
    (d.ws / "dir" / "in").write_bytes(b"in")
    for name in ("old", "dir", "dir/in"):
        os.chown(d.ws / name, d.owner, d.owner)


class Seat(Form):
    WORK = WORK
    prepare = staticmethod(prepare)

    def after(self, d):
        d.wait_idle()
        prepare(d)
        for work in (put_new, get, execute, delete_tree):
            assert work(d).status < 300, work.__name__


@pytest.mark.slow
@pytest.mark.parametrize("name", WORK)
def test_each_call_fails_once(start, name):
    Run(Seat(start)).all(name)
