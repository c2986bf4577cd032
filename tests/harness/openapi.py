"""openapi.py: one of docs/openapi*.yaml, and whether an answer is one that it has. Trusts the document, not the
answer. A mapping that has a key twice is refused: readers would take one or the other."""
import json

import jsonschema
import yaml

from . import names
from .http import build

METHODS = ("get", "head", "put", "post", "delete")
# On any operation, by what is wrong with the request around it.
COMMON = {400, 408, 414, 417, 431, 505}
BROKEN = {
    400: lambda m, t: build(m, t, host="a b"), 414: lambda m, t: build(m, t + "?" + "x" * 9000),
    417: lambda m, t: build(m, t, headers={"Expect": "x"}), 505: lambda m, t: build(m, t, version="2.0"),
    431: lambda m, t: build(m, t, headers={"X": "x" * 17000}), 408: lambda m, t: build(m, t)[:-2],
}


class Strict(yaml.CSafeLoader):
    def construct_mapping(self, node, deep=False):
        keys = [self.construct_object(k, deep=True) for k, _ in node.value]
        assert len(keys) == len(set(keys)), f"a key twice: {node.start_mark}"
        return super().construct_mapping(node, deep)


class Document:
    def __init__(self, name):
        self.doc = yaml.load((names.ROOT / "docs" / name).read_text(), Strict)
        self.operations = {(path, m): item[m] for path, item in self.doc["paths"].items() for m in METHODS
                           if m in item}

    def deref(self, node):
        while isinstance(node, dict) and "$ref" in node:
            found = self.doc
            for part in node["$ref"].removeprefix("#/").split("/"):
                found = found[part]
            node = found
        return node

    def fits(self, schema, value):
        jsonschema.Draft202012Validator({**schema, "components": self.doc["components"]}).validate(value)

    def check(self, path, method, a):
        """The answer is one that the document has for this operation."""
        responses = self.operations[path, method]["responses"]
        assert str(a.status) in responses, f"{method} {path}: {a.status} is not in the document"
        r = self.deref(responses[str(a.status)])
        for name, header in r.get("headers", {}).items():
            header, value = self.deref(header), a.get(name)
            # an entity tag and a range are of files; a folder, and an error before it was opened, have none
            if header.get("required"):
                assert value is not None, f"{method} {path} {a.status}: no {name}"
            if value is not None:
                jsonschema.Draft202012Validator(header["schema"]).validate(value)
        if method == "head" or not r.get("content"):
            return
        kind = a.get("content-type")
        assert kind in r["content"], f"{method} {path} {a.status}: {kind}"
        if kind == "application/json":
            self.fits(r["content"][kind]["schema"], json.loads(a.body))

    def codes(self):
        """code -> status, of all error responses."""
        said = {}
        for name, r in self.doc["components"]["responses"].items():
            if name.startswith("E"):
                codes = r["content"]["application/json"]["schema"]["properties"]["code"]["enum"]
                said |= dict.fromkeys(codes, int(name[1:4]))
        return said

    def unprobed(self, probes, more=()):
        """Statuses below operations that are neither probed, nor common, nor excused; and what is probed or
        excused without need."""
        want = {(p, m, int(s)) for (p, m), o in self.operations.items() for s in o["responses"]}
        common = {(p, m, s) for p, m in self.operations for s in COMMON} | set(more)
        excused = {(p, m, int(s)) for (p, m), o in self.operations.items() for s in o.get("x-untested", {})}
        return want - set(probes) - common - excused, (set(probes) | excused) - want, excused & set(probes)
