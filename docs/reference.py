#!/usr/bin/python3
"""reference.py [--check]: the tables of docs/api.md and docs/box.md that stand between `<!-- openapi: WHAT -->` and
`<!-- openapi: end -->`, made from docs/openapi.yaml and docs/openapi-box.yaml. With --check nothing is written, and the
status tells whether all were right. tests/docs/test_reference.py holds the pages to it. Trusts the documents."""
import pathlib
import re
import sys

import yaml

HERE = pathlib.Path(__file__).resolve().parent
PAGES = {"api.md": "openapi.yaml", "box.md": "openapi-box.yaml"}
METHODS = ("get", "head", "post", "put", "delete")
BODIES = {"application/json": "JSON", "application/octet-stream": "bytes", "multipart/form-data": "a form"}
MARK = re.compile(r"(<!-- openapi: ([a-zA-Z ]+) -->\n)(.*?)(<!-- openapi: end -->)", re.S)


class Document:
    def __init__(self, name):
        self.doc = yaml.safe_load((HERE / name).read_text(encoding="utf-8"))

    def deref(self, node):
        """What a $ref points at, with what is said beside it."""
        while isinstance(node, dict) and "$ref" in node:
            found = self.doc
            for part in node["$ref"].removeprefix("#/").split("/"):
                found = found[part]
            node = {**found, **{k: v for k, v in node.items() if k != "$ref"}}
        return node

    def operations(self):
        return [(path, m, {"parameters": [], **item[m], "also": item.get("parameters", [])})
                for path, item in self.doc["paths"].items() for m in METHODS if m in item]

    def common(self):
        """Statuses that every operation has."""
        return set.intersection(*(set(o["responses"]) for _, _, o in self.operations()))


def cell(text):
    return " ".join(str(text).split()).replace("|", "\\|")


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cell(c) for c in row)} |\n" for row in lines)


def takes(d, o):
    """Parameters and body. Who asks is said once for all, in words."""
    said = []
    for p in map(d.deref, [*o["also"], *o["parameters"]]):
        if p["in"] == "path" or p["name"].startswith("X-Runbox-"):
            continue
        name = f"?{p['name']}=" if p["in"] == "query" else p["name"]
        said.append(f"`{name}`" + (" (needed)" if p.get("required") else ""))
    content = o.get("requestBody", {}).get("content", {})
    if content:
        said.append("body: " + " or ".join(BODIES[kind] for kind in content))
    return ", ".join(said) or "-"


def operations(d, _):
    common, rows = d.common(), []
    have = {(path, method) for path, method, _ in d.operations()}
    for path, method, o in d.operations():
        if method == "head" and (path, "get") in have:
            continue
        name = f"`{method.upper()} {path}`" + (", `HEAD`" if method == "get" and (path, "head") in have else "")
        statuses = [s for s in o["responses"] if s not in common]
        rows.append([name, o["summary"], takes(d, o), " ".join(statuses) or "-"])
    every = ", ".join(sorted(common))
    return f"Every one may answer {every}, too.\n\n" + table(["request", "does", "takes", "answers"], rows)


def kind(d, s):
    """A schema's type in words."""
    if "const" in s:
        return f"`{str(s['const']).lower() if isinstance(s['const'], bool) else s['const']}`"
    if "enum" in s:
        return " or ".join(f"`{v}`" for v in s["enum"])
    if s["type"] == "array":
        return f"list of {kind(d, d.deref(s['items']))}s"
    if isinstance(s.get("additionalProperties"), dict):
        return f"object of {kind(d, d.deref(s['additionalProperties']))}s"
    name = " or ".join(s["type"]) if isinstance(s["type"], list) else s["type"]
    return name + (f", {s['minimum']} to {s['maximum']}" if "maximum" in s else "")


def members(d, schema, before=""):
    schema = d.deref(schema)
    for name, s in schema["properties"].items():
        s = d.deref(s)
        needed = "always" if name in schema.get("required", ()) else "may"
        yield [f"`{before}{name}`", kind(d, s), needed, s.get("description", "")]
        inner = d.deref(s["items"]) if s.get("type") == "array" else s
        if inner.get("properties"):
            yield from members(d, inner, f"{before}{name}{'[]' if inner is not s else ''}.")


def schema(d, what):
    return table(["member", "type", "there", "meaning"], members(d, d.doc["components"]["schemas"][what]))


def errors(d):
    """status -> (codes, description): of the answers E409, E409Busy, ... the first one's."""
    said = {}
    for name, r in sorted(d.doc["components"]["responses"].items()):
        if re.match("E[0-9]{3}", name):
            found = r["content"]["application/json"]["schema"]["properties"]["code"]["enum"]
            have, when = said.get(name[1:4], ([], r["description"]))
            said[name[1:4]] = (list(dict.fromkeys([*have, *found])), when)
    return said


def codes(d, _):
    """Of both documents: a code of the box alone says so."""
    seat, box = errors(d), errors(Document("openapi-box.yaml"))
    rows = []
    for status in sorted({*seat, *box}):
        mine, when = seat.get(status, ([], box.get(status, ([], ""))[1]))
        every = dict.fromkeys([*mine, *box.get(status, ([], ""))[0]])
        rows.append([status, ", ".join(f"`{c}`" + ("" if c in mine else " (box)") for c in every), when])
    return table(["status", "codes", "when"], rows)


def page(text, d):
    def made(m):
        make = {"operations": operations, "codes": codes}.get(m[2], schema)
        return f"{m[1]}{make(d, m[2])}{m[4]}"
    return MARK.sub(made, text)


def main(check):
    right = True
    for name, document in PAGES.items():
        old = (HERE / name).read_text(encoding="utf-8")
        new = page(old, Document(document))
        right = right and new == old
        if not check and new != old:
            (HERE / name).write_text(new, encoding="utf-8")
    return 0 if right or not check else 1


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
