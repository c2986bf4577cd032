#!/usr/bin/python3
"""Builds the libFuzzer targets and runs one or all: fuzz/run.py [TARGET] [SECONDS].

Findings land in fuzz/findings/ and make the exit status 1. New inputs go to build-fuzz/corpus, not into the
tree: `fuzz/run.py --merge` brings back those that add coverage. Trusts the tree.
"""
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build-fuzz"
FINDINGS = ROOT / "fuzz/findings"
FLAGS = ["-std=gnu17", "-D_GNU_SOURCE", "-DSP_SANITIZE=1", "-g", "-O1", "-fno-sanitize-recover=all",
         "-fsanitize=fuzzer,address,undefined", "-Iinclude", "-Isrc"]
BASE = ["src/base/" + f for f in ("err.c", "path.c", "utf8.c", "proto.c", "wire.c", "frame.c", "civil.c", "log.c",
                                  "units.c")]
HTTP = sorted(str(p.relative_to(ROOT)) for p in (ROOT / "src/http").glob("*.c"))
TARGETS = {  # name: (sources, libraries)
    "json": (["src/front/execreq.c"], ["-ljansson", "-lm"]),
    "head": (HTTP, []),
    "chunk": (HTTP, []),
    "query": (HTTP, []),
    "multipart": (HTTP, []),
    "proto": ([], []),
    "policy": (["src/confine/policy_parse.c", "src/confine/policy_names.c"], ["-lseccomp"]),
    "resolve": (["src/cell/resolve.c", "src/cell/walk.c"], []),
}


def build(name):
    sources, libs = TARGETS[name]
    BUILD.mkdir(exist_ok=True)
    out = BUILD / name
    subprocess.run(["clang-14", *FLAGS, f"fuzz/fuzz_{name}.c", *sources, *BASE, *libs, "-o", out], cwd=ROOT, check=True)
    return out


def dictionary(name):
    path = ROOT / f"fuzz/{name}.dict"
    return [f"-dict={path}"] if path.exists() else []


def fuzz(name, seconds):
    live = BUILD / "corpus" / name
    live.mkdir(parents=True, exist_ok=True)
    FINDINGS.mkdir(exist_ok=True)
    print(f"fuzz: {name} for {seconds} s", flush=True)
    r = subprocess.run([build(name), live, ROOT / "fuzz/corpus" / name, f"-max_total_time={seconds}",
                        "-max_len=20000", f"-artifact_prefix={FINDINGS}/{name}-", "-verbosity=0", *dictionary(name),
                        "-print_final_stats=1"])
    return r.returncode == 0


def merge(name):
    subprocess.run([build(name), "-merge=1", ROOT / "fuzz/corpus" / name, BUILD / "corpus" / name], check=True)


def main():
    args = sys.argv[1:]
    if args[:1] == ["--merge"]:
        for name in args[1:] or TARGETS:
            merge(name)
        return 0
    seconds = int(args.pop()) if args and args[-1].isdigit() else 60
    names = args or list(TARGETS)
    bad = [n for n in names if not fuzz(n, seconds)]
    print(f"fuzz: {len(names) - len(bad)} passed, {len(bad)} failed {' '.join(bad)}")
    return 1 if bad else 0


sys.exit(main())
