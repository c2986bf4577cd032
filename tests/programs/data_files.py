"""data_files.py: the programs that the tests build and run, from tests/programs/data."""
import pathlib

HERE = pathlib.Path(__file__).with_name("data")


def tree(folder, pattern="*"):
    """The files of a folder: name -> text."""
    found = {str(f.relative_to(HERE / folder)): f.read_text() for f in (HERE / folder).rglob(pattern) if f.is_file()}
    assert found, folder
    return found
