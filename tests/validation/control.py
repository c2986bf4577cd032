"""control.py: the same attacks where nothing is in their way: naive.py in the tests' fence, once with commands of a
plain user and once, for what a plain user never may, of root. Tells which checks find no bypass even there."""
import pathlib

from harness.daemon import Daemon
from harness.names import USER

from . import suite
from .target import Target

KEY = "control-key-0123456789abcdef"
SOURCE = pathlib.Path(__file__).with_name("naive.py").read_text(encoding="utf-8")
# A bomb that nothing bounds is let loose on nobody.
NEVER = {"fork-bomb", "other-count"}
# Checks that find nothing in the control either, and why. What they show is less: that the instance serves on.
WITHOUT = {
    "the control makes no mistake there": """answers-valid archive-growing batch-backslash desync-by-continue env-large
        json-long-command json-surrogate link-loop name-backslash name-dash name-dots name-glob name-html name-longest
        name-override name-shell name-star-utf8 name-temporary range-overflow stdin-is-not-ours tree-deep uid-reuse-race
        folder-of-state forge-child-says-0 forge-code-137 forge-code-256 forge-code-minus forge-events forge-exec
        forge-false forge-later forge-signals forge-subshell forge-trap""",
    "they ask only that the instance serves on": """cpu descriptors disk inodes inotify memory memory-shared
        pipelined-flood threads""",
    "the host's kernel, or the fence around the control, has none or refuses it there, too": """call-alg-socket call-delete_module
        call-finit_module call-init_module call-ioperm call-iopl call-kexec_file_load call-kexec_load call-prctl-mm
        call-x32 daemon-socket hard-link own-setuid read-secrets terminal unpack-absolute unpack-device unpack-dots unpack-hard-link
        unpack-link-chain""",
}
NO_CONTROL = {name for text in WITHOUT.values() for name in text.split()} | NEVER
# For the rest a plain user is refused by the kernel: commands of root show that the attack is one.
AS_ROOT = ("call-", "not-root", "capabilities", "write-system-files")


def naive(kind, uid):
    """With the fence's own bounds on processes and disk."""
    def args(d):
        return ["/usr/bin/python3", "-I", "-c", SOURCE, kind, str(d.ws), KEY, str(uid)]
    return Daemon(binary="/usr/bin/env", plan="root-uid1000" if uid else "root-root", args=args, small_disk="128m", pids=400)


def some(kind, uid, checks, tell):
    """Results of these checks up to the first that the naive one doesn't survive."""
    d, results = naive(kind, uid), []
    try:
        d.wait_up()
        t = Target(f"http://127.0.0.1:{d.port}", KEY, True, patience=3.0, wait=4.0).begin()
        for c in checks:
            results += suite.run(t, {c.id}, tell)
            if suite.DEAD in results[-1]["detail"]:
                break
        return results
    finally:
        d.destroy()


def attack(kind, uid, wanted, tell=None):
    """Each check begins with a naive one that serves."""
    checks = [c for c in suite.CHECKS if c.id in wanted and c.where in ("both", kind) and c.id not in NEVER]
    results = []
    while len(results) < len(checks):
        results += some(kind, uid, checks[len(results):], tell)
    return results


def find(wanted, tell=None):
    """The ids that no bypass was found for in the control, of those that should have one. A race may be lost once:
    what is left over is tried again."""
    left = set(wanted) - NO_CONTROL
    for kind, uid in (("box", USER), ("box", USER), ("box", 0)):
        mine = {n for n in left if uid or n.startswith(AS_ROOT)}
        if mine:
            left -= {r["id"] for r in attack(kind, uid, mine, tell) if r["verdict"] == "bypass"}
    return left


def sample():
    """One check of each family, by the first word of its id."""
    families = {}
    for c in suite.CHECKS:
        if c.id not in NO_CONTROL:
            families.setdefault(c.id.partition("-")[0], c.id)
    return set(families.values())
