"""The blocks of docs/sdk.md, one program a language, against a live seat and a live box. Whatever a block prints of
what it found must not be false."""
import re
import shutil

import pytest

import clients
import tools
from harness import names
from harness.box import KEY

PAGE = (names.ROOT / "docs/sdk.md").read_text(encoding="utf-8")
GO = """package main

import (
{imports})

func check(err error) {{
	if err != nil {{
		panic(err)
	}}
}}

func main() {{
{body}}}
"""
PACKAGES = ("context", "errors", "fmt", "io", "os", "strings", "time")


def blocks(language):
    found = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.M | re.S)
    assert len(found) >= 7, language
    return "".join(found)


def python(tmp_path):
    (tmp_path / "page.py").write_text(blocks("python"))
    return [clients.python(), "-I", tmp_path / "page.py"]


def node(tmp_path):
    folder = clients.node()
    text = blocks("js")
    seen = re.findall(r"^import .*$", text, re.M)
    (tmp_path / "page.mjs").write_text("\n".join(seen) + "\n" + re.sub(r"^import .*$", "", text, flags=re.M))
    shutil.copy(tmp_path / "page.mjs", folder)
    return ["node", folder / "page.mjs"]


def go(tmp_path):
    body = blocks("go")
    used = [p for p in PACKAGES if re.search(rf"\b{p}\.", body)]
    imports = "".join(f'\t"{p}"\n' for p in used) + '\n\t"sallyport.example/sandbox"\n'
    (tmp_path / "main.go").write_text(GO.format(imports=imports, body=body))
    (tmp_path / "go.mod").write_text("module sallyport.example/page\n\ngo 1.19\n\n"
                                     "require sallyport.example/sandbox v0.0.0\n\n"
                                     f"replace sallyport.example/sandbox => {names.ROOT}/sdk/go\n")
    tools.run("go", "build", "-o", tmp_path / "page", ".", cwd=tmp_path, env=clients.GO_ENV)
    return [tmp_path / "page"]


@pytest.mark.parametrize("language", [python, node, go], ids=lambda f: f.__name__)
def test_blocks(seat, many, tmp_path, language):
    out = tools.run(*language(tmp_path), env={"SEAT_URL": f"http://127.0.0.1:{seat.port}", "BOX_KEY": KEY,
                                              "BOX_URL": f"http://127.0.0.1:{many.port}"})
    assert "stdout out\n" in out and not re.search(r"\b[Ff]alse\b", out), out
    assert language is python or out.count("true") >= 8
    assert not many.workspace("alice").exists() and seat.wait_idle() is None
