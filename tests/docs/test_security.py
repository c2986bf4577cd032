"""SECURITY.md says which test proves which sentence: they are there, and the layers it names are those of the daemon."""
import pathlib
import re

from harness import names

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "SECURITY.md").read_text(encoding="utf-8")


def rows(heading):
    """The cells of a section's table, without its head."""
    lines = [x for x in PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0].splitlines() if x.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def named(cell):
    """Files and folders below tests; one without a folder is beside the one before it."""
    folder = None
    for name in re.findall(r"`([\w/.]+)`", cell):
        path = ROOT / name if name.startswith("tests/") else folder / name
        folder = path.parent
        yield path


def test_every_sentence_has_tests_that_are_there():
    table = rows("Which test proves which sentence")
    assert len(table) >= 15
    for sentence, cell in table:
        found = list(named(cell))
        assert found, sentence
        for path in found:
            files = sorted(path.glob("test_*.py")) if path.is_dir() else [path]
            assert files and all(re.search(r"^def test_", f.read_text(encoding="utf-8"), re.M) for f in files), (sentence, path)


def test_the_number_of_probes():
    lines = (ROOT / "tests/confine/verdicts.txt").read_text(encoding="utf-8").splitlines()
    probes = [x for x in lines if x and x[0] != "#"][1:]  # the first names the columns
    said = re.search(r"(\d+) probes, tried for real", PAGE)
    assert int(said[1]) == len(probes) >= 120


def test_every_layer_is_in_the_table():
    said = {name for layer, *_ in rows("Layers") for name in re.findall(r"`([a-z0-9-]+)`", layer)}
    ways = {"signal-scope", "openat2"}  # of Landlock's row, and of the paths of clients
    assert said == set(names.LAYERS) - ways
