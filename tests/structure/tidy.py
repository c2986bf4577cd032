#!/usr/bin/env python3
"""Runs clang-tidy over src by .clang-tidy: tidy.py BUILD-FOLDER [--deep]. Prints what it finds, and nothing else.

Each file once, though some are built for several programs: those have the same defines. The largest first, so that no
processor is alone at the end: nearly all of it is clang's analyzer, which gives a function up, and goes on to the next,
at a number of states. Its own is 225,000; here 50,000, 120 s of a processor (174 with 100,000), unless --deep is given.
What that gives up is what lies on the paths of a long function that are looked at last: on those gcc's -fanalyzer looks
too, and fuzzers and sanitizers run many of them. --deep before a release."""
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys

UNKNOWN = re.compile(r"-ftrivial-auto-var-init=zero|-Wtrampolines|-Wbidi-chars=any")  # gcc's, and not clang 14's

STATES = 50_000


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

    limit = [] if sys.argv[2:] == ["--deep"] else [
        f"--extra-arg={word}" for word in ("-Xclang", "-analyzer-config", "-Xclang", f"max-nodes={STATES}")]

    def tidy(path):
        done = subprocess.run(["clang-tidy-14", "-p", str(folder), "--quiet", *limit, path], capture_output=True, text=True)
        return (done.stdout or done.stderr) if done.returncode else ""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        faults = [text for text in pool.map(tidy, sorted(sources, key=os.path.getsize, reverse=True)) if text]
    print("\n".join(faults), end="", file=sys.stderr)
    return 1 if faults else 0


sys.exit(main())
