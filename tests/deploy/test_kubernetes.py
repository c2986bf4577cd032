"""The manifests of deploy/kubernetes: against Kubernetes' own schemas (strict: a word that it doesn't know is
an error) and agent-sandbox's API, hardened as they claim, and with settings that the daemon starts with."""
import copy
import json
import pathlib

import jsonschema
import pytest
import yaml

from harness.box import KEY, Box
from harness.daemon import Daemon
from wheels import json_files

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]
MANIFESTS = sorted((ROOT / "deploy/kubernetes").glob("*.yaml"))
OWN = json.loads((HERE / "agent_sandbox.json").read_text())


class Pointers(jsonschema.RefResolver):
    """Two documents and nothing else: the library's own way searches all of a document for each reference."""
    definitions = None

    def resolve(self, ref):
        name = ref.partition("#/$defs/")[2]
        return ref, (self.referrer.get("$defs", {}) | self.definitions["$defs"])[name]


@pytest.fixture(scope="module", name="schemas")
def fixture_schemas():
    return json_files("kubernetes", "kubernetes_validate/kubernetes-json-schema/v1.37.0-local-strict")


def documents():
    return [pytest.param(d, id=f"{path.stem}-{d['kind']}") for path in MANIFESTS
            for d in yaml.safe_load_all(path.read_text(encoding="utf-8"))]


def complaints(document, schemas):
    kind, api = document["kind"], document["apiVersion"]
    if kind in OWN:
        schema = {"type": "object", "required": ["apiVersion", "kind", "metadata", "spec"], "additionalProperties": False,
                  "properties": {"apiVersion": {"const": OWN[kind]["group"]}, "kind": {"const": kind},
                                 "metadata": {"type": "object", "required": ["name"]},
                                 "spec": {"type": "object", "required": OWN[kind]["required"],
                                          "additionalProperties": False, "properties": OWN[kind]["spec"]}},
                  "$defs": OWN["$defs"]}
    else:
        group = api.partition("/")[0].partition(".")[0] + "-" if "/" in api else ""
        schema = schemas(f"{kind.lower()}-{group}{api.rpartition('/')[2]}.json")
    resolver = Pointers("", schema)
    resolver.definitions = schemas("_definitions.json")
    return [f"{'/'.join(map(str, e.absolute_path))}: {e.message[:200]}" for e in
            jsonschema.Draft7Validator(schema, resolver=resolver).iter_errors(document)]


def pods():
    found = []
    for path in MANIFESTS:
        for d in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            template = d["spec"].get("podTemplate") or d["spec"].get("template")
            if template:
                found.append(pytest.param(template["spec"], id=f"{path.stem}-{d['kind']}"))
    return found


@pytest.mark.parametrize("document", documents())
def test_schema(document, schemas):
    assert complaints(document, schemas) == []


def test_the_schemas_do_judge(schemas):
    seen = set()
    for p in documents():
        wrong = copy.deepcopy(p.values[0])
        wrong["spec"]["nosuchword"] = 1
        assert any("nosuchword" in c for c in complaints(wrong, schemas)), p.id
        template = wrong["spec"].get("podTemplate") or wrong["spec"].get("template")
        if template:
            template["spec"]["containers"][0]["securityContext"]["readOnlyRootFS"] = True
            assert any("readOnlyRootFS" in c for c in complaints(wrong, schemas)), p.id
        seen.add(wrong["kind"])
    assert seen == {"Deployment", "StatefulSet", "Service", "NetworkPolicy", "PodDisruptionBudget", "Sandbox",
                    "SandboxTemplate", "SandboxWarmPool", "SandboxClaim"}


@pytest.mark.parametrize("spec", pods())
def test_hardened(spec):
    (c,) = spec["containers"]
    security, box = c["securityContext"], c["args"] == ["box"]
    assert spec["automountServiceAccountToken"] is False and spec["enableServiceLinks"] is False
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert security["readOnlyRootFilesystem"] is True and security["allowPrivilegeEscalation"] is False
    assert security["capabilities"]["drop"] == ["ALL"]
    assert security["capabilities"].get("add", []) == (["CHOWN", "SETUID", "SETGID", "KILL"] if box else [])
    assert box or spec["securityContext"]["runAsNonRoot"] is True
    assert c["livenessProbe"] and c["readinessProbe"] and c["resources"]["limits"]
    env = {e["name"]: e.get("value", "0s") for e in c["env"]}
    patience = int(env.get("SALLYPORT_SHUTDOWN_TIMEOUT", env.get("RUNBOX_SHUTDOWN_TIMEOUT", "10s"))[:-1])
    assert spec["terminationGracePeriodSeconds"] > patience


@pytest.mark.parametrize("spec", pods())
def test_the_daemon_starts_with_its_settings(spec):
    """All but where it listens and lives, which are the test's."""
    (c,) = spec["containers"]
    env = {e["name"]: e.get("value", KEY) for e in c["env"]}
    for name in ("SANDBOX_WORKSPACE", "SANDBOX_PORT", "RUNBOX_ROOT", "RUNBOX_PORT"):
        env.pop(name, None)
    d = Box(env=env) if c["args"] == ["box"] else Daemon(plan="user", env=env)
    try:
        d.wait_up()
        probe = c["readinessProbe"]["httpGet"]["path"]
        assert d.request("GET", probe).status == 200
    finally:
        d.stop()
