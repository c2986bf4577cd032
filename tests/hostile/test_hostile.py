"""A front that was taken over, against the real main, broker and cell: nothing is granted, nothing grows,
hangs or is lost, and the next front serves."""
import os
import pathlib
import re

import pytest

from harness import names
from harness.box import Box
from harness.daemon import Daemon

HOSTILE = names.BIN.parent / "tests" / "hostile" / "sallyport-hostile"
LIVES = 8


def lay_out(d):
    """What noise asks for: files, folders, links inside and out."""
    (d.ws / "d").mkdir()
    (d.ws / "f").write_text("bytes")
    (d.ws / "out").symlink_to(d.outside)
    (d.ws / "file-out").symlink_to(d.outside / "secret")
    for p in (d.ws / "d", d.ws / "f"):
        os.chown(p, d.owner, d.owner)


def drive(*args, plan="root-uid1000", bound=300, **kw):
    d = Daemon(plan=plan, binary=HOSTILE, args=["drive", *map(str, args)], prepare=lay_out, **kw)
    try:
        report = d.wait_exit(bound)
        said = (d.base / "stdout").read_text()
        assert report is not None, f"it hangs\n{said}\n{d.tail()}"
        assert report["status"] == 0, f"{report}\n{said}\n{d.tail()}"
        assert report["left"] == [], report
        assert f"{args[0]}: held" in said, said
        assert (d.outside / "secret").read_text() == "secret"
        assert sorted(p.name for p in d.outside.iterdir()) == ["secret"]
        d.check_log()
        return int(re.search(r", (\d+) breaches", said)[1])
    finally:
        d.destroy()


PLANS = pytest.mark.parametrize("plan", list(names.PLANS))


@PLANS
def test_every_message_in_every_state(plan):
    """Every kind in 8 states, and every pair of kinds, each by a front of its own."""
    assert drive("orders", plan=plan) > 100


def test_wrong_lengths_and_numbers():
    assert drive("lengths") > 500


def test_stray_descriptors():
    """8 kinds, 1 to 64 of them, with every message."""
    assert drive("descriptors") > 18 * 8 * 6


@pytest.mark.parametrize("nofile", [4096, 256])
def test_floods(nofile):
    """Also where the broker could soon have no descriptor left: then it used to lose the cell."""
    assert drive("floods", nofile=nofile) >= 2


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_noise(seed):
    """Deterministic; 1,500 fronts a seed."""
    assert drive("noise", seed, 1500) > 100


class Driven(Box):
    """The driver in the place of a box."""

    def __init__(self, *args):
        self.drive_args = args
        super().__init__(binary=HOSTILE)

    def _start(self, uid, args, *rest):
        super()._start(uid, ["drive", *self.drive_args], *rest)


@pytest.mark.parametrize("seed", [4, 5])
def test_noise_in_the_box(seed):
    """Three workspaces, whose files and commands never mix; whole workspaces go meanwhile."""
    d = Driven("box-noise", str(seed), "800")
    try:
        report = d.wait_exit(300)
        said = (d.base / "stdout").read_text()
        assert report and report["status"] == 0 and report["left"] == [], f"{report}\n{said}\n{d.tail()}"
        assert "box-noise: held" in said, said
        d.check_log()
    finally:
        d.destroy()


@PLANS
def test_main_ends_each_hostile_front_and_the_next_one_serves(start, plan):
    d = start(plan=plan, binary=HOSTILE, prepare=lay_out,
              env={"HOSTILE": "attack", names.ENV_PASS: "HOSTILE"})
    d.wait_idle(120)
    log = d.log()
    for life in range(LIVES):
        assert f"hostile life {life}" in log, log
    assert log.count("breach by the front") == 6, log  # the other two broke main's rules
    assert log.count("sent what isn't its to send") == 2, log
    assert "the cell" not in re.sub(r"hostile life \d", "", log), log
    assert d.run("echo still here")["stdout"] == "still here\n"
    assert d.put("a", b"bytes").status == 201 and d.get("a").body == b"bytes"
    assert pathlib.Path(d.outside / "secret").read_text() == "secret"
