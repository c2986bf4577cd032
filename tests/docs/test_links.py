"""Every link of the pages to a file of this tree, and to a heading of one, leads somewhere."""
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "sdk").glob("*.md"), *(ROOT / "examples").glob("*.md")])


def anchors(page):
    found = re.findall(r"^#+ (.*)", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in found}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        where = (page.parent / path).resolve() if path else page
        assert where.exists() and where.is_relative_to(ROOT), f"{page.name}: {target}"
        if anchor:
            assert anchor in anchors(where), f"{page.name}: {target}"


def test_every_page_is_reached_from_the_readme():
    seen, ahead = set(), [ROOT / "README.md"]
    while ahead:
        page = ahead.pop()
        if page in seen or page.suffix != ".md":
            continue
        seen.add(page)
        ahead += [(page.parent / t).resolve() for t in re.findall(r"\]\(([^)#:]+)", page.read_text(encoding="utf-8"))]
    assert set((ROOT / "docs").glob("*.md")) <= seen
