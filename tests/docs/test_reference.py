"""The tables of docs/api.md and docs/box.md are what the OpenAPI documents say, and the words around them name no
code or address that isn't there."""
import importlib.util
import re

import pytest

from harness import names

spec = importlib.util.spec_from_file_location("reference", names.ROOT / "docs/reference.py")
reference = importlib.util.module_from_spec(spec)
spec.loader.exec_module(reference)
PAGES = {name: (names.ROOT / "docs" / name).read_text(encoding="utf-8") for name in reference.PAGES}


@pytest.mark.parametrize("name", PAGES)
def test_current(name):
    document = reference.Document(reference.PAGES[name])
    assert reference.page(PAGES[name], document) == PAGES[name], "./dev docs makes it anew"
    for path, method, _ in document.operations():
        assert f"`{method.upper()} {path}`" in PAGES[name] or f"`GET {path}`, `HEAD`" in PAGES[name]


def test_it_would_be_seen():
    """A member, a status and a code that are new or gone make another page."""
    document = reference.Document("openapi.yaml")
    del document.doc["components"]["schemas"]["Command"]["properties"]["cwd"]
    document.doc["paths"]["/execute"]["post"]["responses"]["418"] = {"description": "New."}
    document.doc["components"]["responses"]["E404"]["content"]["application/json"]["schema"]["properties"]["code"][
        "enum"].append("mislaid")
    made = reference.page(PAGES["api.md"], document)
    assert "| `cwd` |" in PAGES["api.md"] and "| `cwd` |" not in made
    assert " 418 " in made and "`mislaid`" in made


@pytest.mark.parametrize("name", PAGES)
def test_codes_in_words(name):
    """A code that is named with a status has that one."""
    said = re.findall(r"`([45][0-9]{2}) ([a-z_]+)`", PAGES[name])
    assert len(said) >= 5
    for status, code in said:
        assert names.CODES.get(code) == int(status), (code, status)
