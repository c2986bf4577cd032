"""As test_injection.py, for the box: the registry and its SQLite, cells that wait for an identity and cells that are
started, multipart, archives, removals. Needs `./dev build --faults`."""
import io
import itertools
import json
import tarfile

import pytest

from harness import procs
from harness.box import Box, canonical
from harness.faults import BIN
from harness.http import Closed
from harness.injection import CLOSES, Form, Run, unknown

B = "bOuNdArY-xyz"
MULTIPART = ("Content-Type", f"multipart/form-data; boundary={B}")
ALICE = ("alice",)
ENV = {"RUNBOX_CELL_IDLE": "1h", "RUNBOX_SWEEP_INTERVAL": "1h", "RUNBOX_SPARE_CELLS": "1"}
_names = itertools.count()


def parts(*given):
    text = b""
    for name, filename, data in given:
        more = f'; filename="{filename}"' if filename else ""
        text += f'--{B}\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n'.encode() + data + b"\r\n"
    return text + f"--{B}--\r\n".encode()


def newcomer(d):
    """An identity that nobody had before, and that retire() removes."""
    who = (f"new-{next(_names)}",)
    d.newcomers.append(who)
    return who


def read(d, path, who=ALICE):
    p = d.workspace(*who) / path
    return p.read_bytes() if p.exists() else None


def exec_known(d):
    a = d.exec("echo out; exit 3")
    assert a.status != 200 or a.json["exit_code"] == 3 and a.json["stdout"] in ("out\n", "") and (
        a.json["stdout"] or a.json["stdout_truncated"]), a
    return a


def exec_new(d):
    """NAME, a folder, the spare cell, ADOPT."""
    who = newcomer(d)
    a = d.exec("id -u; pwd", who)
    if a.status == 200 and not a.json["stdout_truncated"]:
        uid, folder = a.json["stdout"].split()
        key, _ = d.table().get(int(uid), (None, None))
        assert key == canonical(*who) and folder.endswith(key), (a, key)
    return a


def exec_new_no_spare(d):
    """The same with the spare taken: a cell is started for it."""
    a = d.exec("true", newcomer(d))
    return exec_new(d) if a.status == 200 else a


def exec_files(d):
    a = d.call("POST", "/v1/exec", parts(("request", None, json.dumps({"command": "cat x y"}).encode()),
                                         ("f", "x", b"x" * 9000), ("f", "y", b"y")), ALICE, [MULTIPART])
    if a.status == 200 and a.json["exit_code"] == 0 and not a.json["stdout_truncated"]:
        assert a.json["stdout"] == "x" * 9000 + "y", a
    return a


def upload(d):
    a = d.call("POST", "/v1/files", parts(("f", "old", b"n" * 3000)), ALICE, [MULTIPART], path="dir")
    body = read(d, "dir/old")
    assert body == (b"n" * 3000 if a.status < 300 else b"old") or unknown(a) and body == b"n" * 3000, (a, body)
    return a


def batch(d):
    """All or none, up to the moment at which names are given: then those before the one that failed."""
    a = d.call("POST", "/v1/files/batch", parts(("f", "one", b"1" * 3000), ("f", "dir/old", b"2"), ("f", "k/three", b"3")),
               ALICE, [MULTIPART], path=".")
    found = [read(d, p) for p in ("one", "dir/old", "k/three")]
    want, before = [b"1" * 3000, b"2", b"3"], [None, b"old", None]
    if a.status < 300:
        assert found == want, (a, found)
    else:
        n = sum(f != b for f, b in zip(found, before))
        assert found == want[:n] + before[n:], (a, found)
    return a


def archive(d):
    a = d.call("GET", "/v1/archive", path=".")
    if a.status == 200:
        assert set(tarfile.open(fileobj=io.BytesIO(a.body)).getnames()) >= {"dir", "dir/old", "large"}, a
    return a


def listing(d):
    a = d.call("GET", "/v1/list", path=".", recursive="true")
    assert a.status != 200 or {e["name"] for e in a.json["entries"]} == {"dir", "dir/old", "large"}, a
    return a


def usage(d):
    a = d.call("GET", "/v1/usage")
    assert a.status != 200 or a.json["bytes"] >= 300000, a
    return a


def remove(d):
    """Of an identity with a command's leftovers and files."""
    who = newcomer(d)
    a = d.exec("mkdir -p a/b; echo x > a/b/c; touch /tmp/mine; (sleep 1000 &)", who)
    if a.status != 200:
        return a
    a = d.call("DELETE", "/v1/workspace", who=who)
    there = d.workspace(*who).exists()
    assert (a.status == 204) != there or a.status >= 500 and not there, a  # what is gone may not be known to be
    return a


def batch_new(d):
    """Files before the identity's cell."""
    who = newcomer(d)
    a = d.call("POST", "/v1/files/batch", parts(("f", "one", b"1"), ("f", "two", b"2")), who, [MULTIPART], path=".")
    assert a.status >= 300 or read(d, "one", who) == b"1" and read(d, "two", who) == b"2", a
    return a


WORK = {f.__name__: f for f in (exec_known, exec_new, exec_new_no_spare, exec_files, upload, batch, archive, listing, usage,
                                remove, batch_new)}


class TheBox(Form):
    roles = ("broker", "front", "main", "registry")
    closes = CLOSES | {(role, call) for role in ("cell", "front") for call in Form.errors}  # of an archive that has begun
    many = 4
    WORK = WORK

    def start(self, prepare):
        d = Box(binary=BIN, env=ENV, prepare=prepare)
        d.newcomers = []
        self.make.append(d)
        return d.wait_up()

    def retire(self, d):
        """The newcomers go."""
        for who in d.newcomers:
            procs.wait_for("a removal is over",
                           lambda: d.call("DELETE", "/v1/workspace", who=who).status in (204, 404), 30)
        d.newcomers.clear()

    def prepare(self, d):
        self.retire(d)
        a = d.exec("rm -rf -- * ; mkdir dir; printf old >dir/old; head -c 300000 /dev/zero >large")
        assert a.status == 200 and a.json["exit_code"] == 0, a

    def after(self, d):
        def served():
            try:
                return d.exec("true").status == 200
            except (OSError, Closed):
                return False
        procs.wait_for("commands are taken", served, 30)
        self.prepare(d)
        assert exec_new(d).status == 200 and upload(d).status < 300 and archive(d).status == 200
        self.retire(d)
        self.prepare(d)

    def may_lose(self, lost, told):
        return lost == ["registry"]  # what it answered is on disk; a new one is asked what it didn't

    def settle(self, d):
        """One spare, and one cell: that of the identity that stays."""
        self.retire(d)

        def quiet():
            alive = [p.role for p in d.procs() if p.state != "Z" and p.role in ("cell", "idle")]
            return sorted(alive) == ["cell", "idle"] and not d.strangers()
        procs.wait_for("a spare cell, and nothing of the newcomers", quiet, 30)


@pytest.mark.slow
@pytest.mark.parametrize("name", WORK)
def test_each_call_fails_once(boxes, name):
    Run(TheBox(boxes)).all(name)


@pytest.fixture(name="boxes")
def fixture_boxes():
    made = []
    yield made
    for d in made:
        if not d.stopped:
            d.stop()
