#!/usr/bin/env python3
"""How the binary was hardened, read from the file itself: hardening.py BINARY [SECURITY.md].

Prints SECURITY.md's table; with that file, fails where the two differ. The binary must have its symbols and
debug information: build/src/main/sallyport, build-static/src/main/sallyport.
"""
import re
import subprocess
import sys

FLAGS = ["-fstack-clash-protection", "-fcf-protection=full", "-ftrivial-auto-var-init=zero",
         "-fno-delete-null-pointer-checks", "-fno-strict-overflow", "-fno-strict-aliasing"]


def readelf(*args):
    return subprocess.run(["readelf", "-W", *args], capture_output=True, text=True, check=True).stdout


def rows(binary):
    head, segments, dynamic = readelf("-h", binary), readelf("-l", binary), readelf("-d", binary)
    symbols, notes = readelf("-s", binary), readelf("-n", binary)
    made = re.findall(r"GNU C17 (.*)", readelf("-p", ".debug_str", binary))
    loads = re.findall(r"^\s+LOAD .* ([R ][W ][E ]) 0x", segments, re.M)
    stack = re.search(r"GNU_STACK .* ([R ][W ][E ]) 0x", segments)
    now = "BIND_NOW" in dynamic and "GNU_RELRO" in segments
    marked = "IBT" in notes and "SHSTK" in notes
    yield "position-independent (PIE)", "DYN" in head and "PIE" in dynamic
    yield "full RELRO: relocated data read-only, all bound at start", now
    yield "stack not executable", stack is not None and "E" not in stack[1]
    yield "no segment both writable and executable", bool(loads) and not any("W" in f and "E" in f for f in loads)
    yield "no text relocations", "TEXTREL" not in dynamic
    yield "no RPATH or RUNPATH", "RPATH" not in dynamic and "RUNPATH" not in dynamic
    yield "stack protector (`-fstack-protector-strong`)", "__stack_chk_fail" in symbols and all(
        "-fstack-protector-strong" in flags for flags in made)
    yield "checked libc calls (`_FORTIFY_SOURCE=3`)", bool(re.search(r"__mem\w+_chk", symbols))
    for flag in FLAGS:
        yield f"`{flag}` in each of our objects", bool(made) and all(flag in flags for flags in made)
    yield "marked for CET (IBT, SHSTK); Debian 12's start files aren't, so no file linked there is", marked


def main():
    table = ["| property | in the file |", "|---|---|", *(f"| {name} | {'yes' if has else 'no'} |" for name, has in rows(sys.argv[1]))]
    print("\n".join(table))
    if len(sys.argv) > 2 and (text := open(sys.argv[2], encoding="utf-8").read()) and "\n".join(table) not in text:
        sys.exit(f"hardening: {sys.argv[2]} says something else")


main()
