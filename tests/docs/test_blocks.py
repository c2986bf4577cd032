"""Every shell block of README and docs/*.md that can run, runs, in the page's order; those that can't say why."""
import re

import pytest

from blocks import ROOT, blocks, pages, run

KINDS = re.compile(r"serves https?://127\.0\.0\.1:[0-9]+/\S*|not run: \S.{9,}|")


def test_each_is_run_or_says_why_not():
    found = [(page.name, how) for page in pages() for how, _ in blocks(page)]
    fences = sum(len(re.findall(r"^```(?:sh|bash)$", page.read_text(encoding="utf-8"), re.M)) for page in pages())
    assert len(found) == fences >= 7
    assert [f for f in found if not KINDS.fullmatch(f[1])] == []
    assert len([f for f in found if not f[1].startswith("not run")]) >= 5


@pytest.mark.parametrize("page", [p for p in pages() if any(not how.startswith("not run") for how, _ in blocks(p))],
                         ids=lambda p: p.name)
def test_blocks(page):
    status, said = run(blocks(page))
    assert status == 0 and "== end" in said, said[-4000:]
    if page.name == "README.md":
        for line in ('{"status":"ok"}', '"stdout":"hello\\nLinux\\n"', 'data: {"text":"3\\n"}', "some bytes",
                     '"name":"a.txt"'):
            assert line in said, f"{line} isn't in\n{said[-4000:]}"


def test_a_block_that_fails_is_seen():
    assert run([("", "echo fine\n"), ("", "curl -sf http://127.0.0.1:1/\necho not here\n")])[0] != 0
    assert run([("not run: it would fail", "false\n"), ("", "test -w /etc && ! ping -c 1 -W 1 192.0.2.1 2>/dev/null\n")])[0] == 0
    assert not (ROOT / "left").exists()
    assert run([("", "touch left /etc/left\n")])[0] == 0
    assert not (ROOT / "left").exists()
