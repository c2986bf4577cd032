"""plans.py: seats and boxes of our own to attack, fenced by tests/harness, in each way a host can start them. As
root, with the tree's build."""
import json
import os
import subprocess
import sys
import tempfile

from harness import places
from harness.box import KEY, Box
from harness.daemon import Daemon

from .target import Target

# Small and quick limits, so that exhausting them takes little of the machine.
SHORT = {"SALLYPORT_HEAD_TIMEOUT": "4s", "SALLYPORT_IDLE_TIMEOUT": "4s", "SALLYPORT_STALL_TIMEOUT": "4s",
         "SALLYPORT_TMP_SIZE": "64MiB", "SALLYPORT_MAX_MEMORY": "256MiB", "SALLYPORT_MAX_PROCS": "3000"}
PLACES = ("root", "six-caps", "user", "user-no-userns")
PATIENCE = 60.0


def a_seat(**kw):
    return Daemon(env=SHORT, small_disk="128m", pids=600, **kw)


def a_box(**kw):
    return Box(env={**SHORT, "RUNBOX_QUOTA": "64MiB", "RUNBOX_CELL_IDLE": "5s"}, pids=900, **kw)


def target(daemon, quick=True):
    return Target(f"http://127.0.0.1:{daemon.port}", KEY if isinstance(daemon, Box) else None, quick, PATIENCE)


def attack(daemon, validate, quick):
    """The daemon must end well afterwards, and leave nothing."""
    try:
        daemon.wait_up()
        found = validate(target(daemon, quick))
        daemon.stop()
        return found
    finally:
        if not daemon.stopped:
            daemon.destroy()


def here(validate, quick):
    """In the place that this process is for: see places.py."""
    reports = []
    for make in (a_seat, a_box):
        if make is a_box and "root-uid1000" not in places.HERE.plans:
            continue  # a box is started as root
        print(f"==== {make.__name__[2:]} in place {places.NAME}", flush=True)
        report = attack(make(), validate, quick)
        reports.append({"place": places.NAME, **report})
    return reports


def everywhere(validate, quick):
    """One process for each place, since the harness has one place a process."""
    if os.environ.get("SALLYPORT_TEST_PLACE"):
        return here(validate, quick)
    reports = []
    for place in PLACES:
        with tempfile.NamedTemporaryFile(suffix=".json") as f:
            more = [a for a in sys.argv[1:] if a not in ("--json", "--strict")]
            if "--json" in sys.argv:
                more.remove(sys.argv[sys.argv.index("--json") + 1])
            subprocess.run([sys.executable, "-m", "validation", *more, "--json", f.name], check=False,
                           env={**os.environ, "SALLYPORT_TEST_PLACE": place})
            reports += json.load(open(f.name, encoding="utf-8"))
    return reports
