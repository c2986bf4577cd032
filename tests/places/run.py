#!/usr/bin/env python3
"""run.py [--ci | PLACE ...]: tests/places, and the contract tests in each place, some at a time; with --ci fewer of
them where FEWER says so. Prints a line for each place, and the whole log of one that fails. What a place leaves out
is listed in its log."""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from harness import places  # noqa: E402

# Most of what they do is wait: two for each processor, up to four.
LANES = min(2 * (os.cpu_count() or 1), 4)
WORKERS = {"gvisor": "3"}  # of two each; its start is the slowest
# Longest first, so that lanes end together. "root" is what ./dev test runs.
ORDER = ["gvisor", "podman-six-caps", "podman", "pid1", "six-caps", "user", "user-no-userns"]
assert set(ORDER) == set(places.PLACES) - {"root", "valgrind"}
# With --ci: places that have the kernel that ./dev test asked all of the contract on, which gVisor's is not; and of the
# contract what whom the daemon runs as, with which rights, in which container and as which process, could change: commands,
# their processes, files and owners.
FEWER = {"pid1", "podman", "podman-six-caps", "six-caps", "user", "user-no-userns"}
OF_THE_PLACE = ["check", "drain", "execute", "execute_life", "execute_output", "files_delete", "files_get", "files_put",
                "files_upload", "paths", "sequences"]
# Which rights are `six-caps`'s, and what a container changes `podman`'s: of both together what each could take from the other.
OF_BOTH = ["check", "drain", "execute", "files_put", "paths"]
# What main settles before it looks at the place, and what the front reads without asking the kernel, is ./dev test's. Where
# each is a file of gVisor's, 100,001 links are 41 s of a processor, and 20 lists of 6,000 files 49: shorter ones are listed
# there, and these by ./dev test.
LESS = {"gvisor": ["settings.py", "tls_files.py", "openapi.py", "framing.py", "framing_split.py", "conditions.py",
                   "execute_json.py", "files_list.py::test_more_than_the_limit",
                   "files_list.py::test_many_that_change_while_they_are_read"]}


def tests_of(place, ci):
    few = OF_BOTH if place == "podman-six-caps" else OF_THE_PLACE
    contract = [f"tests/contract/test_{n}.py" for n in few] if ci and place in FEWER else ["tests/contract"]
    less = [f"--deselect=tests/contract/test_{t}" for t in (LESS.get(place, []) if ci else [])]
    return [*contract, "tests/host", "tests/places/test_place.py", *less]


def pytest(place, folder, paths):
    # Below /run the folders' own path is a user's, too.
    with tempfile.TemporaryDirectory(prefix="sallyport-places-", dir="/run") as room:
        os.chmod(room, 0o755)
        left_out = pathlib.Path(room) / "left-out"
        env = {**os.environ, "SALLYPORT_TEST_PLACE": place, "SALLYPORT_TEST_DIR": room,
               "SALLYPORT_TEST_LANE": str(1 + list(places.PLACES).index(place)),
               "SALLYPORT_TEST_LEFT_OUT": str(left_out), "SALLYPORT_BIN": str(ROOT / "build" / "sallyport"),
               "SALLYPORT_TEST_TMPFS": "" if place == "root" else "1"}  # the images' are on disk
        begun = time.monotonic()
        log = folder / f"{place}.log"
        # As ./dev test: what fails is tried once more, alone, and has failed if it fails twice.
        again = ["--last-failed", "--last-failed-no-failures", "none", "-n", "0"]
        with open(log, "wb") as out:
            for more in (["-n", WORKERS.get(place, "2"), "--dist", "loadfile"], again):
                code = subprocess.run(["/usr/bin/python3", "-m", "pytest", "--rootdir=.", "-q", "-o",
                                       f"cache_dir={room}/cache", *more, *paths], cwd=ROOT, env=env,
                                      stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                                      check=False).returncode
                if code == 0:
                    break
        text = log.read_text(encoding="utf-8", errors="replace")
        log.write_text(text + left_out.read_text(), encoding="utf-8")
    counts = re.search(r"^(\d+ .*) in [0-9.]+s", text.splitlines()[-1] if text else "")
    print(f"{place:16} {time.monotonic() - begun:5.0f} s  {counts[1] if counts else 'no result'}", flush=True)
    return code, log, text


def main():
    ci = sys.argv[1:] == ["--ci"]
    wanted = ORDER if ci else sys.argv[1:] or ORDER
    unknown = set(wanted) - set(places.PLACES)
    if unknown:
        raise SystemExit(f"there is no place {', '.join(sorted(unknown))}; there is {', '.join(places.PLACES)}")
    folder = ROOT / "build" / "places"
    folder.mkdir(parents=True, exist_ok=True)
    failed = []
    with concurrent.futures.ThreadPoolExecutor(LANES) as lanes:
        jobs = [lanes.submit(pytest, p, folder, tests_of(p, ci)) for p in wanted if not (ci and p in FEWER)]
        if ci or not sys.argv[1:]:
            # The images of languages are ./dev images'.
            jobs.append(lanes.submit(pytest, "root", folder,
                                     ["tests/places", "--ignore=tests/places/test_image_language.py"]))
        jobs += [lanes.submit(pytest, p, folder, tests_of(p, ci)) for p in wanted if ci and p in FEWER]
        for job in jobs:
            code, log, text = job.result()
            if code != 0:
                failed.append((log, text))
    for log, text in failed:
        print(f"---- {log}\n{text[-20000:]}")
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
