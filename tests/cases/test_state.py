"""Faults that services of this kind have had with their own state, against the box's: a table of user ids that is lost,
older than the folders, damaged, or held by somebody. tests/cases/index.tsv has the list."""
import os
import shutil
import sqlite3

import pytest

from harness import procs
from harness.box import KINDS


def forget(p):
    db = sqlite3.connect(p)
    with db:
        db.execute("DELETE FROM workspace")
    db.close()


LOST = {"an empty file": lambda p: p.write_bytes(b""), "no rows": forget,
        "an older one": lambda p: shutil.copyfile(p.with_name("backup"), p)}
DAMAGE = {"noise": lambda data: os.urandom(len(data)), "its beginning": lambda data: data[:100],
          "one page": lambda data: data[:4096], "zeros": lambda data: bytes(len(data)),
          "noise behind the first page": lambda data: data[:4096] + os.urandom(len(data) - 4096)}


def table(b):
    return b.root / "state" / "registry.db"


@pytest.mark.parametrize("kind", ["root", "basic"])
@pytest.mark.parametrize("how", LOST)
def test_a_table_that_does_not_know_the_folders(start_box, how, kind):
    """Its next ids are those of workspaces that are there: whoever got one would own somebody's files."""
    b = start_box(**KINDS[kind])
    b.sh("true", ("first",))
    b.end()
    shutil.copyfile(table(b), table(b).with_name("backup"))
    b.again()
    old = [int(b.sh("echo secret > f; chmod 700 .; id -u", (w,))["stdout"]) for w in ("first", "a", "b", "c")]
    b.end()
    LOST[how](table(b))
    b.again(up=False)
    if b.wait_exit(2) is None:
        b.wait_up()
        for n in range(8):
            a = b.exec("id -u; cat ../*/f", (f"new{n}",))
            assert a.status == 200 or a.status >= 500, a
            assert a.status != 200 or int(a.json["stdout"].split()[0]) not in old, "somebody's user id was given again"
            assert b"secret" not in a.body
    for who, uid in zip(("first", "a", "b", "c"), old):
        assert (b.workspace(who) / "f").read_text() == "secret\n" and b.workspace(who).stat().st_uid == uid
    owners = [p.stat().st_uid for p in (b.root / "workspaces").iterdir()]
    assert len(owners) == len(set(owners))


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_table(start_box, how):
    """Refused with a word why; neither made anew nor changed."""
    b = start_box()
    b.sh("echo kept > f", ("a",))
    b.end()
    data = DAMAGE[how](table(b).read_bytes())
    table(b).write_bytes(data)
    b.again(up=False)
    assert b.wait_exit()["status"] == 2 and "registry" in b.log()
    assert table(b).read_bytes() == data and (b.workspace("a") / "f").read_text() == "kept\n"


def test_a_table_that_somebody_holds(start_box):
    """As a backup does: who is known is served, who isn't is told, and later both are."""
    b = start_box()
    b.sh("true", ("known",))
    db = sqlite3.connect(table(b), isolation_level=None)
    db.execute("BEGIN EXCLUSIVE")
    assert b.exec("echo x", ("known",)).json["stdout"] == "x\n"
    a = b.exec("touch ran", ("unknown",))
    assert a.status >= 500 and b.request("GET", "/healthz").status == 200
    db.execute("ROLLBACK")
    db.close()
    procs.wait_for("it is known", lambda: b.exec("true", ("unknown",)).status == 200)
    assert b.sh("ls", ("unknown",))["stdout"] == "" and b.integrity() == ["ok"]
