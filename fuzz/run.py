#!/usr/bin/python3
"""Builds the fuzz targets and runs them: what `./dev fuzz` does.

  run.py [all | TARGET ...] [SECONDS]   libFuzzer with ASan and UBSan, 60 seconds each by default
  run.py --coverage [TARGET ...]        lines of its modules that a target's corpus reaches
  run.py --merge [TARGET ...]           brings back to the tree what adds coverage
  run.py --afl TARGET [SECONDS]         the same target under AFL++
  run.py --build FOLDER                 for other engines, from CC, CFLAGS and LIB_FUZZING_ENGINE

A target is fuzz_NAME.c; its comment's "Covers:" names the modules. Findings land in fuzz/findings and make
the exit status 1. New inputs go to build-fuzz/corpus, not into the tree. Trusts the tree.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build-fuzz"
CORPUS = ROOT / "fuzz/corpus"
FINDINGS = ROOT / "fuzz/findings"
TARGETS = sorted(p.stem.removeprefix("fuzz_") for p in (ROOT / "fuzz").glob("fuzz_*.c"))
MAX_LEN = 20000
COVERAGE_GOAL = 90  # percent of a target's modules' lines
SANITIZE = ["-Db_sanitize=address,undefined", "-Db_lundef=false", "-Doptimization=1"]
FLAGS = "-fsanitize=fuzzer-no-link -gline-tables-only"


def build(folder, compiler, engine, c_args, link_args="", options=(), names=None):
    """The targets' folder. werror is gcc's matter: ./dev build."""
    meson = ["meson", "setup", folder, "-Dtests=disabled", "-Dwerror=false", f"-Dfuzz={engine}", f"-Dc_args={c_args}",
             f"-Dc_link_args={link_args}", *options]
    env = os.environ | ({"CC": compiler} if compiler else {})
    if not (folder / "build.ninja").exists():
        subprocess.run(meson, cwd=ROOT, env=env, check=True, stdout=subprocess.DEVNULL)
    ninja = ["ninja", "-C", folder, *(f"fuzz/fuzz_{n}" for n in names or TARGETS)]
    done = subprocess.run(ninja, cwd=ROOT, env=env, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stdout[-4000:] + done.stderr)
    return folder / "fuzz"


def build_libfuzzer(names):
    return build(BUILD / "libfuzzer", "clang-14", "-fsanitize=fuzzer", f"{FLAGS} -fno-sanitize-recover=all",
                 options=SANITIZE, names=names)


def arguments(name):
    words = ROOT / f"fuzz/{name}.dict"
    return [f"-max_len={MAX_LEN}", "-timeout=20", "-rss_limit_mb=1024"] + ([f"-dict={words}"] if words.exists() else [])


def stat(text, name):
    found = re.search(rf"stat::{name}:\s+(\d+)", text)
    return int(found[1]) if found else 0


def fuzz_one(folder, name, seconds):
    live = BUILD / "corpus" / name
    live.mkdir(parents=True, exist_ok=True)
    r = subprocess.run([folder / f"fuzz_{name}", live, CORPUS / name, f"-max_total_time={seconds}", "-print_final_stats=1",
                        f"-artifact_prefix={FINDINGS}/{name}-", *arguments(name)], capture_output=True, text=True,
                       errors="replace")
    (BUILD / f"{name}.log").write_text(r.stdout + r.stderr)
    runs, cover = stat(r.stderr, "number_of_executed_units"), re.findall(r"cov: (\d+)", r.stderr)
    verdict = "held" if r.returncode == 0 else "FOUND"
    print(f"fuzz: {name:10} {verdict}  {seconds} s  {runs} runs  {cover[-1] if cover else '?'} edges  "
          f"{stat(r.stderr, 'peak_rss_mb')} MB", flush=True)
    if r.returncode != 0:
        print((r.stdout + r.stderr)[-6000:], flush=True)
    return r.returncode == 0


def fuzz(names, seconds):
    folder = build_libfuzzer(names)
    FINDINGS.mkdir(exist_ok=True)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        held = list(pool.map(lambda n: fuzz_one(folder, n, seconds), names))
    print(f"fuzz: {sum(held)} held, {len(held) - sum(held)} found something")
    return 0 if all(held) else 1


def merge(names):
    """Keeps the corpus in the tree and adds to it what reaches new code, small inputs first."""
    folder = build_libfuzzer(names)
    for name in names:
        live = BUILD / "corpus" / name
        live.mkdir(parents=True, exist_ok=True)
        subprocess.run([folder / f"fuzz_{name}", "-set_cover_merge=1", "-max_len=4096", "-timeout=20", CORPUS / name, live],
                       check=True, capture_output=True)
        files = list((CORPUS / name).iterdir())
        print(f"merge: {name}: {len(files)} inputs, {sum(f.stat().st_size for f in files)} bytes")
    return 0


# ---- coverage ----

def modules(name):
    text = (ROOT / f"fuzz/fuzz_{name}.c").read_text()
    found = re.search(r"Covers:((?:[\s*]+src/\S+\.c)+)", text)
    return re.findall(r"src/\S+\.c", found[1]) if found else []


def coverage_of(folder, name):
    """[(file, line, count)] of its modules."""
    with tempfile.TemporaryDirectory() as t:
        raw, data = f"{t}/raw", f"{t}/data"
        live = BUILD / "corpus" / name
        corpora = [CORPUS / name] + ([live] if live.exists() else [])
        subprocess.run([folder / f"fuzz_{name}", "-runs=0", *corpora], check=True, capture_output=True,
                       env=os.environ | {"LLVM_PROFILE_FILE": raw})
        subprocess.run(["llvm-profdata-14", "merge", "-o", data, raw], check=True)
        out = subprocess.run(["llvm-cov-14", "export", "-format=lcov", f"-instr-profile={data}", folder / f"fuzz_{name}"],
                             check=True, capture_output=True, text=True).stdout
    of = [(pathlib.Path(os.path.normpath(file)).relative_to(ROOT), body)
          for file, body in re.findall(r"SF:(.*?)\n(.*?)end_of_record", out, re.S)]
    return [(file, int(line), int(count)) for file, body in of if str(file) in modules(name)
            for line, count in re.findall(r"^DA:(\d+),(\d+)", body, re.M)]


def coverage(names, show):
    folder = build(BUILD / "coverage", "clang-14", "-fsanitize=fuzzer",
                   f"{FLAGS} -fprofile-instr-generate -fcoverage-mapping", "-fprofile-instr-generate", names=names)
    low = 0
    for name in names:
        lines = coverage_of(folder, name)
        hit = sum(count > 0 for _, _, count in lines)
        percent = 100 * hit / max(len(lines), 1)
        low += percent < COVERAGE_GOAL
        short = " ".join(pathlib.PurePath(m).name for m in modules(name))
        print(f"coverage: {name:10} {percent:5.1f} %  {hit} of {len(lines)} lines of {short}", flush=True)
        if show:
            for file, line, count in lines:
                if count == 0:
                    print(f"  {file}:{line}: {(ROOT / file).read_text().splitlines()[line - 1]}")
    return 1 if low else 0


# ---- other engines ----

def afl(name, seconds):
    folder = build(BUILD / "afl", "afl-clang-fast", "-fsanitize=fuzzer", "", options=SANITIZE, names=[name])
    out = BUILD / "afl-out" / name
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    words = ROOT / f"fuzz/{name}.dict"
    env = os.environ | {"AFL_NO_UI": "1", "AFL_I_DONT_CARE_ABOUT_MISSING_CRASHES": "1", "AFL_SKIP_CPUFREQ": "1",
                        "AFL_NO_AFFINITY": "1"}
    subprocess.run(["afl-fuzz", "-i", CORPUS / name, "-o", out, "-V", str(seconds), "-m", "none", "-t", "5000+",
                    *(["-x", words] if words.exists() else []), "--", folder / f"fuzz_{name}"], env=env, check=True,
                   stdout=open(BUILD / f"{name}.afl.log", "w"))
    stats = dict(re.findall(r"(\w+)\s+: (.*)", (out / "default/fuzzer_stats").read_text()))
    print("afl: " + json.dumps({k: stats[k] for k in ("execs_done", "corpus_count", "saved_crashes", "saved_hangs",
                                                      "bitmap_cvg")}))
    return 0 if stats["saved_crashes"] == "0" and stats["saved_hangs"] == "0" else 1


def build_for(out):
    """As OSS-Fuzz's engines want it: each target, its dictionary and a zip of its corpus."""
    folder = build(BUILD / "engine", None, os.environ["LIB_FUZZING_ENGINE"], "", options=["-Dprefer_static=true"])
    for name in TARGETS:
        shutil.copy(folder / f"fuzz_{name}", out)
        shutil.make_archive(str(out / f"fuzz_{name}_seed_corpus"), "zip", CORPUS / name)
        if (ROOT / f"fuzz/{name}.dict").exists():
            shutil.copy(ROOT / f"fuzz/{name}.dict", out / f"fuzz_{name}.dict")
    return 0


def main(args):
    verb = args.pop(0) if args and args[0].startswith("--") else ""
    if verb == "--build":
        return build_for(pathlib.Path(args[0]))
    seconds = int(args.pop()) if args and args[-1].isdigit() else 60
    show = "-v" in args
    names = [a for a in args if a not in ("all", "-v")] or TARGETS
    if strangers := set(names) - set(TARGETS):
        sys.exit(f"fuzz: no target {' '.join(strangers)}; there are {' '.join(TARGETS)}")
    if verb == "":
        return fuzz(names, seconds)
    if verb == "--merge":
        return merge(names)
    if verb == "--coverage":
        return coverage(names, show)
    if verb == "--afl":
        return max(afl(n, seconds) for n in names)
    sys.exit(__doc__)


sys.exit(main(sys.argv[1:]))
