#!/usr/bin/env python3
"""Runs gcc's -fanalyzer over src as it is built: analyze.py BUILD-FOLDER. Any warning fails.

Left out, with the reason: malloc-leak, as gcc 12 loses a pointer that is stored through another pointer or in
a flexible struct, which is how every owner here is written. Leaks are LeakSanitizer's, in all tests.
"""
import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys

FLAGS = ["-fanalyzer", "-g0", "-S", "-Wno-analyzer-malloc-leak", "-Werror", "-o", os.devnull]


def analyze(command):
    words = shlex.split(command["command"])
    at = words.index("-o")
    del words[at:at + 2]
    for word in ("-MD", "-MQ", "-MF"):  # no dependency files
        if word in words:
            at = words.index(word)
            del words[at:at + (1 if word == "-MD" else 2)]
    done = subprocess.run([*words, *FLAGS], cwd=command["directory"], capture_output=True, text=True)
    return done.stderr if done.returncode else ""


def main():
    build = pathlib.Path(sys.argv[1])
    seen = {c["file"]: c for c in json.loads((build / "compile_commands.json").read_text()) if c["file"].startswith("../src/")}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        faults = [text for text in pool.map(analyze, seen.values()) if text]
    print("\n".join(faults), end="", file=sys.stderr)
    if len(seen) < 50:
        sys.exit(f"analyze: only {len(seen)} files: is {build} a build folder?")
    return 1 if faults else 0


sys.exit(main())
