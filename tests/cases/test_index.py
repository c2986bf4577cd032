"""The list of faults beside this file: numbered without gaps, each a sentence or two, each with a test that is there."""
import ast
import functools
import pathlib

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]


def rows():
    lines = (HERE / "index.tsv").read_text(encoding="utf-8").splitlines()
    return [line.split("\t") for line in lines if not line.startswith("#")]


@functools.cache
def names_in(path):
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


def test_form():
    assert [row[0] for row in rows()] == [str(n + 1) for n in range(len(rows()))]
    for row in rows():
        number, fault, node = row
        assert fault.endswith(".") and ". " in fault and fault == fault.strip(), f"{number}: a fault, and what is right"
    faults = [row[1] for row in rows()]
    assert len(set(faults)) == len(faults)


def test_each_has_its_test():
    for number, _, node in rows():
        path, _, name = node.partition("::")
        assert path.startswith("tests/") and pathlib.PurePath(path).name.startswith("test_"), f"{number}: {path}"
        assert name in names_in(path), f"{number}: there is no {node}"


def test_each_case_of_ours_is_listed():
    """A test that was written for a fault has a row."""
    listed = {row[2] for row in rows()}
    for path in sorted(HERE.glob("test_*.py")):
        if path.name != "test_index.py":
            missing = {f"tests/cases/{path.name}::{name}" for name in names_in(path.relative_to(ROOT))} - listed
            assert not missing
