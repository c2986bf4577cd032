"""The bill of materials, and the workflows that make a release: fit for actionlint, pinned, with no more rights
than they need, and with commands that this tree has."""
import json
import os
import pathlib
import re
import subprocess

import jsonschema
import pytest
import yaml

from harness import names
from wheels import ROOT, json_files

BUILD = names.BIN.parent
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
ACTIONLINT = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.7"  # which Debian's Go builds


def sbom(*args, **kw):
    return subprocess.run([ROOT / "deploy/sbom.py", BUILD, *args], capture_output=True, text=True, check=False, **kw)


@pytest.fixture(scope="module", name="bill")
def fixture_bill():
    done = sbom()
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_sbom_is_cyclonedx(bill):
    schemas = json_files("sbom", "cyclonedx/schema/_res")
    store = {f"http://cyclonedx.org/schema/{n}": schemas(n) for n in (
        "bom-1.5.SNAPSHOT.schema.json", "jsf-0.82.SNAPSHOT.schema.json", "spdx.SNAPSHOT.schema.json")}
    store |= {s["$id"]: s for s in store.values()}
    schema = schemas("bom-1.5.SNAPSHOT.schema.json")
    judge = jsonschema.Draft7Validator(schema, resolver=jsonschema.RefResolver.from_schema(schema, store=store))
    document = json.loads(bill)
    assert [e.message for e in judge.iter_errors(document)] == []
    document["components"][0]["type"] = "nonsense"
    assert list(judge.iter_errors(document))


def test_sbom_has_every_library(bill):
    document = json.loads(bill)
    files = {p["value"] for c in document["components"] for p in c["properties"] if p["name"] == "sallyport:file"}
    loaded = subprocess.run(["ldd", names.BIN], capture_output=True, text=True, check=True).stdout
    wanted = {pathlib.Path(p).resolve().name for p in re.findall(r"(/\S+) \(0x", loaded)}
    assert len(wanted) >= 5 and wanted <= files
    assert {"libseccomp", "libcap-ng", "libarchive", "libsqlite3", "libssl", "libjansson", "libh2o-evloop"} <= {
        f.split(".")[0] for f in files}
    for c in document["components"]:
        package = c["name"]
        version = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package], capture_output=True, text=True,
                                 check=True).stdout
        assert c["version"] == version and c["purl"].startswith(f"pkg:deb/debian/{package}@")
    digest = subprocess.run(["sha256sum", names.BIN], capture_output=True, text=True, check=True).stdout.split()[0]
    assert document["metadata"]["component"]["hashes"] == [{"alg": "SHA-256", "content": digest}]


def test_sbom_is_the_same_again(bill):
    assert sbom().stdout == bill
    assert '"timestamp": "1970-01-02T00:00:00Z"' in sbom(env={"PATH": "/usr/bin:/bin", "SOURCE_DATE_EPOCH": "86400"}).stdout


def test_sbom_of_an_image(bill):
    document = json.loads(sbom("--root", "/").stdout)
    mine = {c["name"] for c in document["components"]} - {c["name"] for c in json.loads(bill)["components"]}
    assert {"bash", "coreutils", "dpkg"} <= mine


@pytest.fixture(scope="module", name="actionlint")
def fixture_actionlint():
    folder = ROOT / "build" / "actionlint"
    if not (folder / "actionlint").exists():
        subprocess.run(["go", "install", ACTIONLINT], check=True, env={**os.environ, "GOBIN": str(folder)})
    return folder / "actionlint"


def test_actionlint(actionlint, tmp_path):
    assert len(WORKFLOWS) == 4
    done = subprocess.run([actionlint, "-shellcheck", "shellcheck", *WORKFLOWS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    wrong = tmp_path / "wrong.yml"  # the judges do judge
    wrong.write_text(WORKFLOWS[0].read_text().replace("runs-on:", "runson:").replace("bash .ci/run", "cd $X; bash .ci/run"))
    said = subprocess.run([actionlint, "-shellcheck", "shellcheck", wrong], capture_output=True, text=True, check=False).stdout
    assert "runson" in said and "shellcheck" in said


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda p: p.stem)
def test_pinned_and_with_few_rights(path):
    text = path.read_text(encoding="utf-8")
    uses = re.findall(r"uses: (.*)", text)
    assert uses and all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v[0-9.]+", u) for u in uses), uses
    work = yaml.safe_load(text)
    assert work["permissions"] == {}
    for job in work["jobs"].values():
        assert job["timeout-minutes"] <= 60
        writes = {k for k, v in job["permissions"].items() if v == "write"}
        assert writes <= {"id-token", "attestations"} | ({"contents"} if path.stem == "release" else set())
        for step in job["steps"]:
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False
            # What somebody else may have written reaches a shell by the environment alone.
            assert "${{" not in step.get("run", "")
    assert not re.search(r"https?://|\b[a-z0-9-]+\.(io|com|org|dev)\b", re.sub(r"# .*", "", text))


def test_their_commands_exist():
    help_text = subprocess.run([ROOT / "dev", "help"], capture_output=True, text=True, check=True).stdout
    said = "\n".join(p.read_text(encoding="utf-8") for p in WORKFLOWS)
    for verb in re.findall(r"\./dev ([a-z]+)", said):
        assert re.search(rf"^  {verb}\b", help_text, re.M), verb
    targets = re.search(r"target: \[(.*)\]", said)[1].split(", ")
    for target in targets:
        assert re.search(rf"^FROM .* AS {target}$", (ROOT / "Dockerfile").read_text(), re.M), target
