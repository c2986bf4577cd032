"""docs/configuration.md is what the binary's own table says, and the binary agrees on which are whose."""
import pathlib
import re
import subprocess

import pytest

from harness import names

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/configuration.md").read_text(encoding="utf-8")
SECTION = {name: part.splitlines()[0] for part in PAGE.split("\n## ")[1:] for name in re.findall(r"^\| `([A-Z_]+)`", part, re.M)}


def test_current():
    made = subprocess.run([ROOT / "docs/configuration.py", names.BIN], capture_output=True, text=True, check=True).stdout
    assert made == PAGE, "./dev docs makes it anew"
    assert len(SECTION) >= 50


@pytest.mark.parametrize("name", sorted(n for n in SECTION if n.startswith("SALLYPORT_")))
def test_whose(name):
    """A box without a key is refused whatever else it has; a setting that isn't its own is refused before."""
    said = subprocess.run([names.BIN, "box"], env={name: "1"}, capture_output=True, text=True, check=False)
    assert said.returncode == 2
    assert (f"{name} is no setting of the box" in said.stderr) == (SECTION[name] == "Of the seat alone"), said.stderr


def test_mentioned_settings_exist():
    """No page for operators names a setting that isn't there."""
    pages = ["README.md", "SECURITY.md", *(f"docs/{n}.md" for n in ("api", "box", "design", "images"))]
    for path in pages:
        for name in re.findall(r"\b(?:SALLYPORT|RUNBOX|SANDBOX)_[A-Z_]+[A-Z]\b", (ROOT / path).read_text(encoding="utf-8")):
            assert name in SECTION, (path, name)
