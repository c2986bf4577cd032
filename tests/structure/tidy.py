#!/usr/bin/env python3
"""Runs clang-tidy over src by .clang-tidy: tidy.py BUILD-FOLDER. Prints what it finds, and nothing else.

Each file once, though some are built for several programs: those have the same defines. The largest first, so that no
processor is alone at the end: nearly all of it is clang's analyzer."""
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys

UNKNOWN = re.compile(r"-ftrivial-auto-var-init=zero|-Wtrampolines|-Wbidi-chars=any")  # gcc's, and not clang 14's


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    commands = json.loads((build / "compile_commands.json").read_text())
    seen = {}
    for c in commands:
        if c["file"].startswith("../src/") and c["file"].endswith(".c"):
            seen.setdefault(c["file"], {**c, "command": UNKNOWN.sub("", c["command"])})
    sources = {str(p) for p in (build.parent / "src").rglob("*.c")}
    if strangers := sources - {str((build / f).resolve()) for f in seen}:
        sys.exit(f"tidy: built nowhere: {' '.join(sorted(strangers))}")
    folder = build / "tidy"
    folder.mkdir(exist_ok=True)
    (folder / "compile_commands.json").write_text(json.dumps(list(seen.values())))

    def tidy(path):
        done = subprocess.run(["clang-tidy-14", "-p", str(folder), "--quiet", path], capture_output=True, text=True)
        return (done.stdout or done.stderr) if done.returncode else ""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        faults = [text for text in pool.map(tidy, sorted(sources, key=os.path.getsize, reverse=True)) if text]
    print("\n".join(faults), end="", file=sys.stderr)
    return 1 if faults else 0


sys.exit(main())
