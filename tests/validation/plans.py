"""plans.py: seats and boxes of our own to attack, fenced by tests/harness, in each way a host can start them. As
root, with the tree's build."""
import json
import os
import subprocess
import sys
import tempfile

from harness import places
from harness.containers import ROOTFS
from harness.box import KEY, Box
from harness.daemon import Daemon

from .target import Target

# Small and quick limits, so that exhausting them takes little of the machine.
SHORT = {"SALLYPORT_HEAD_TIMEOUT": "4s", "SALLYPORT_IDLE_TIMEOUT": "4s", "SALLYPORT_STALL_TIMEOUT": "4s",
         "SALLYPORT_TMP_SIZE": "64MiB", "SALLYPORT_MAX_MEMORY": "256MiB", "SALLYPORT_MAX_PROCS": "3000"}
PLACES = ("root", "six-caps", "user", "user-no-userns")
MORE_PLACES = ("pid1", "podman", "podman-six-caps", "gvisor", "guest")  # they need what ./dev places and guest make
PATIENCE = 60.0
SLIRP = "the emulated network keeps connections open that the daemon has closed, and loses new ones"
SPARED = {"gvisor": {"fork-bomb": "nothing bounds the number of processes there: it ends the instance"},
          "guest": dict.fromkeys(("slow-head", "slow-body", "slow-chunks", "slow-idle", "slow-reader", "connections-many"),
                                 SLIRP)}
# Where a layer is missing, and the start was told so, what only that layer refuses gets through: docs/validation.md.
OPEN = {"gvisor": ("disguise-", "signal-", "foreign-environ", "foreign-maps", "folder-of-state", "write-elsewhere",
                   "other-processes", "other-shared", "uid-reuse")}


def a_seat(**kw):
    disk = "128m" if places.HERE.box == "fence" else None  # a container's wouldn't be the user's
    return Daemon(env=SHORT, small_disk=disk, pids=600, **kw)


def a_box(**kw):
    # One identity's bomb isn't to take what all may have: that is how many processes the others find.
    return Box(env={**SHORT, "SALLYPORT_MAX_PROCS": "400", "RUNBOX_QUOTA": "64MiB", "RUNBOX_CELL_IDLE": "5s"}, pids=900, **kw)


def target(daemon, quick=True):
    return Target(f"http://127.0.0.1:{daemon.port}", KEY if isinstance(daemon, Box) else None, quick, PATIENCE,
                  spared=SPARED.get(places.NAME))


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


def told(report, place):
    """The report, with the bypasses of layers that this place can't have set apart."""
    report["place"], report["open"] = place, []
    for r in report["checks"]:
        if r["verdict"] == "bypass" and r["id"].startswith(OPEN.get(place, ())) and OPEN.get(place):
            r["verdict"] = "open"
            report["open"].append(r["id"])
    report["counts"]["bypass"] -= len(report["open"])
    if report["open"]:
        print(f"{len(report['open'])} of the bypasses are of layers that {place} doesn't have", flush=True)
    return report


def here(validate, quick):
    """In the place that this process is for: see places.py."""
    reports = []
    for make in (a_seat, a_box):
        if make is a_box and "root-uid1000" not in places.HERE.plans:
            continue  # a box is started as root
        print(f"==== {make.__name__[2:]} in place {places.NAME}", flush=True)
        reports.append(told(attack(make(), validate, quick), places.NAME))
    return reports


def guest(validate, _):
    """In a virtual machine of ./dev guest's, with the tools of the places' root. Emulated, and reached by a network that
    is, too, and brings some ten connections a second: always the quick form, else the checks' own clients are too slow."""
    from harness import machine
    reports = []
    for form in ("seat", "box"):
        print(f"==== {form} in place guest", flush=True)
        settings = {**SHORT, "SALLYPORT_TMP_SIZE": "32MiB"}
        files = {}
        if form == "box":
            settings |= {"RUNBOX_QUOTA": "64MiB", "RUNBOX_CELL_IDLE": "5s"}
            files = {"etc/sallyport.env": (f"RUNBOX_API_KEY={KEY}\n", 0o600)}
        line = " ".join([machine.USUAL, *(f"{k}={v}" for k, v in settings.items()), *(["-- box"] if files else [])])
        with tempfile.TemporaryDirectory(prefix="sallyport-guest-") as folder:
            m = machine.Machine("amd64", folder, line=line, files=files, memory="2G", root=ROOTFS)
            try:
                t = Target(f"http://127.0.0.1:{m.port}", KEY if files else None, True, PATIENCE, wait=180.0,
                           spared=SPARED["guest"])
                reports.append(told(validate(t), "guest"))
                m.ctrl_alt_del()
                assert "ended with status 0" in m.wait_off()
            finally:
                m.destroy()
    return reports


def everywhere(validate, quick, wanted=PLACES):
    """One process for each place, since the harness has one place a process."""
    place = os.environ.get("SALLYPORT_TEST_PLACE")
    if place:
        return here(validate, quick)
    if os.environ.get("SALLYPORT_VALIDATE_GUEST"):
        return guest(validate, quick)
    reports = []
    for place in wanted:
        with tempfile.NamedTemporaryFile(suffix=".json") as f:
            more = [a for a in sys.argv[1:] if a not in ("--json", "--strict", "--everywhere")]
            if "--json" in sys.argv:
                more.remove(sys.argv[sys.argv.index("--json") + 1])
            which = {"SALLYPORT_VALIDATE_GUEST": "1"} if place == "guest" else {"SALLYPORT_TEST_PLACE": place}
            subprocess.run([sys.executable, "-m", "validation", *more, "--json", f.name], check=False,
                           env={**os.environ, **which})
            reports += json.load(open(f.name, encoding="utf-8"))
    print(f"{'place':16} {'form':5} {'pass':>5} {'bypass':>7} {'open':>5} {'not performed':>14}")
    for r in reports:
        c = r["counts"]
        print(f"{r['place']:16} {r['kind']:5} {c['pass']:5} {c['bypass']:7} {len(r['open']):5} {c['not-performed']:14}")
    return reports
