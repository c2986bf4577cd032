"""Faults that services of this kind have had with their own state, against the box's: a table of user ids that is lost,
older than the folders, damaged, or held by somebody. tests/cases/index.tsv has the list."""
import os
import pathlib
import shutil
import sqlite3
import subprocess

import pytest

from harness import procs
from harness.box import KINDS, UID_MIN


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
    assert b.wait_exit()["status"] == 2 and f"user id {max(old)} has a workspace, but the registry's table ends" in b.log()
    for who, uid in zip(("first", "a", "b", "c"), old):
        assert (b.workspace(who) / "f").read_text() == "secret\n" and b.workspace(who).stat().st_uid == uid
    owners = [p.stat().st_uid for p in (b.root / "workspaces").iterdir()]
    assert len(owners) == len(set(owners))


def test_an_id_at_rest_that_has_a_folder(start_box):
    """As in a table older than the folder. Once all others are given, it is the next: to nobody."""
    b = start_box(env={"RUNBOX_UID_MAX": UID_MIN + 2})
    old = {w: int(b.sh("echo secret > f; id -u", (w,))["stdout"]) for w in "abc"}
    b.end()
    db = sqlite3.connect(table(b))
    with db:
        db.execute("UPDATE workspace SET state = 2, key = NULL, used = 0 WHERE uid = ?", (old["a"],))
    db.close()
    b.again()
    a = b.exec("cat ../*/f", ("new",))
    assert a.status >= 500 and b"secret" not in a.body
    assert f"user id {old['a']} has a workspace that the registry doesn't know of" in b.log()
    assert (b.workspace("a") / "f").read_text() == "secret\n" and b.workspace("a").stat().st_uid == old["a"]
    assert b.sh("cat f", ("b",))["stdout"] == "secret\n"


def test_a_table_made_again_from_the_folders(start_box):
    """As docs/production.md tells."""
    page = (pathlib.Path(__file__).parents[2] / "docs" / "production.md").read_text(encoding="utf-8")
    recipe = page.partition("runs it on one -->\n```sh\n")[2].partition("```")[0]
    b = start_box()
    old = {w: b.sh(f"echo {w} > f; id -u", (w,))["stdout"] for w in "abc"}
    b.end()
    forget(table(b))
    b.again(up=False)
    assert b.wait_exit()["status"] == 2
    subprocess.run(["bash", "-euc", recipe], check=True, env={**os.environ, "RUNBOX_ROOT": str(b.root)})
    b.again()
    for w, uid in old.items():
        assert b.sh("cat f; id -u", (w,))["stdout"] == f"{w}\n{uid}"
    assert int(b.sh("id -u", ("new",))["stdout"]) not in map(int, old.values()) and b.integrity() == ["ok"]


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
