#!/usr/bin/env python3
"""Checks the source tree's shape: which folder includes which, and how long things are.

The table is docs/design.md's "Folders, and which way includes point". Headers that cross a folder
are in include/sallyport; each belongs to the folder named here. Usage: includes.py [ROOT]
"""

import pathlib
import re
import sys

# Folder -> the folders whose headers it may use (besides its own and libc).
MAY = {
    "base": set(),
    "http": {"base"},
    "confine": {"base"},
    "cell": {"base", "confine"},
    "broker": {"base", "confine"},
    "front": {"base", "http", "confine"},
    "registry": {"base", "confine"},
    "main": {"base", "http", "confine", "cell", "broker", "front", "registry"},
}
OWNER = {"http": "http", "query": "http", "multipart": "http", "tls": "front", "confine": "confine", "view": "confine",
         "sweep": "broker", "uids": "broker"}  # the rest are base's
# Libraries that only some folders may touch.
LIBRARY = {
    "h2o.h": {"front"},
    "h2o/": {"front"},
    "jansson.h": {"front"},
    "openssl/": {"front"},
    "sqlite3.h": {"registry"},
    "seccomp.h": {"confine"},
    "cap-ng.h": {"confine", "main"},
    "archive.h": {"cell"},
    "archive_entry.h": {"cell"},
}
FILE_MAX = 450
FUNCTION_MAX = 80  # lines, the first and the last included: "under 80"

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.M)
# A definition's opening brace stands alone in the first column (BreakBeforeBraces: Linux).
NAME = re.compile(r"([A-Za-z_]\w*)\s*\(")


def include_faults(path, folder, text):
    for match in INCLUDE.finditer(text):
        quote, target = match.groups()
        line = text.count("\n", 0, match.start()) + 1
        if quote == "<":
            for library, users in LIBRARY.items():
                hit = target == library or (library.endswith("/") and target.startswith(library))
                if hit and folder not in users:
                    yield f"{path}:{line}: {folder} may not use <{target}>"
            continue
        if target.startswith("sallyport/"):
            owner = OWNER.get(target.removeprefix("sallyport/").removesuffix(".h"), "base")
        elif "/" in target:
            owner = target.split("/")[0]
            if owner != folder:
                yield f'{path}:{line}: "{target}" crosses a folder: put it in include/sallyport'
                continue
        else:
            owner = folder
        if owner != folder and owner not in MAY[folder]:
            yield f"{path}:{line}: {folder} may not include {owner}'s \"{target}\""


def stripped(line, in_comment):
    """The line without comments, strings and characters; and whether a comment goes on."""
    out, i = "", 0
    while i < len(line):
        if in_comment:
            end = line.find("*/", i)
            if end < 0:
                return out, True
            i, in_comment = end + 2, False
        elif line.startswith("/*", i):
            i, in_comment = i + 2, True
        elif line.startswith("//", i):
            break
        elif line[i] in "\"'":
            quote, i = line[i], i + 1
            while i < len(line) and line[i] != quote:
                i += 2 if line[i] == "\\" else 1
            i += 1
        else:
            out += line[i]
            i += 1
    return out, in_comment


def function_faults(path, text):
    depth, start, first, head_line, name, comment = 0, 0, 0, 0, "?", False
    head = ""
    for number, line in enumerate(text.splitlines(), 1):
        code, comment = stripped(line, comment)
        if depth == 0 and code.rstrip() == "{" and "(" in head:
            found = NAME.findall(head)
            start, name = number, found[0] if found else "?"
            first = head_line
        if depth == 0:
            if code.strip() and not head:
                head_line = number
            if code.strip():
                head += code + " "
            if code.rstrip().endswith((";", "}")) or code.startswith("#"):
                head = ""
        before = depth
        depth += code.count("{") - code.count("}")
        if before > 0 and depth == 0:
            if start and number - first + 1 >= FUNCTION_MAX:
                yield f"{path}:{first}: {name} has {number - first + 1} lines"
            start, head = 0, ""
    if depth != 0:
        yield f"{path}: braces don't match"


def file_faults(path, text):
    lines = text.count("\n")
    if lines > FILE_MAX:
        yield f"{path}: {lines} lines"
    if not text.startswith("/*"):
        yield f"{path}: doesn't open with a comment that says what it is for"


def table_faults(root):
    """The document and this file must not drift apart."""
    text = (root / "docs/design.md").read_text()
    rows = re.findall(r"^\| `(\w+)`[^|]*\| ([^|]+) \|", text, re.M)
    said = {name: cells.strip() for name, cells in rows}
    for folder, may in MAY.items():
        if folder not in said:
            yield f"docs/design.md: no row for {folder}"
            continue
        want = "libc" if not may else "all" if folder == "main" else None
        words = set(re.split(r",\s*", said[folder]))
        if said[folder] != want and words != may:
            yield f"docs/design.md: {folder} may include {said[folder]!r}, the test says {sorted(may)}"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    faults = list(table_faults(root))
    for folder in sorted(p.name for p in (root / "src").iterdir() if p.is_dir()):
        if folder not in MAY:
            faults.append(f"src/{folder}: not in the table")
            continue
        for path in sorted((root / "src" / folder).rglob("*.[ch]")):
            text, name = path.read_text(), path.relative_to(root)
            faults += include_faults(name, folder, text)
            faults += function_faults(name, text)
            faults += file_faults(name, text)
    for path in sorted((root / "include/sallyport").glob("*.h")):
        faults += file_faults(path.relative_to(root), path.read_text())
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
