"""control.py: the same attacks where nothing is in their way: naive.py in the tests' fence, once with commands of a
plain user and once, for what a plain user never may, of root. Tells which checks find no bypass even there."""
import pathlib

from harness.daemon import Daemon

from .target import Target

KEY = "control-key-0123456789abcdef"
SOURCE = pathlib.Path(__file__).with_name("naive.py").read_text(encoding="utf-8")
# A bomb that nothing bounds is let loose on nobody.
NEVER = {"fork-bomb", "other-count"}


def naive(kind, uid):
    """With the fence's own bounds on processes and disk."""
    def args(d):
        return ["/usr/bin/python3", "-I", "-c", SOURCE, kind, str(d.ws), KEY, str(uid)]
    return Daemon(binary="/usr/bin/env", plan="root-uid1000" if uid else "root-root", args=args, small_disk="128m", pids=400)


def attack(kind, uid, run):
    d = naive(kind, uid)
    try:
        d.wait_up()
        t = Target(f"http://127.0.0.1:{d.port}", KEY, True, patience=3.0, wait=4.0)
        t.begin()
        return run(t)
    finally:
        d.destroy()
