"""python3 -m validation URL [--key KEY] ...: attacks one instance; without a URL, seats and boxes of its own in every
plan (as root, from the tree). Status: 0 no bypass, 1 a bypass, 2 not started, 3 with --strict: some not performed."""
import argparse
import os

from . import suite
from .suite import Gone
from .table import load
from .target import Target


def options():
    p = argparse.ArgumentParser(prog="./dev validate", description=__doc__)
    p.add_argument("url", nargs="?", help="http://HOST:PORT, https://HOST:PORT or unix:PATH")
    p.add_argument("--key", default=os.environ.get("RUNBOX_API_KEY"), help="the box's API key (or RUNBOX_API_KEY)")
    p.add_argument("--json", metavar="FILE", help="write a report there")
    p.add_argument("--strict", action="store_true", help="status 3 where a check couldn't be performed")
    p.add_argument("--quick", action="store_true", help="races of 2 s, small floods")
    p.add_argument("--only", metavar="WORD", help="checks whose group or id has this in it")
    p.add_argument("--patience", type=float, default=80.0, metavar="SECONDS",
                   help="in which slow clients must be hung up on (80)")
    p.add_argument("--control", action="store_true",
                   help="attack, as root in the tests' fence, a server that guards nothing: each check should find its bypass")
    p.add_argument("--everywhere", action="store_true",
                   help="without a URL: in containers, gVisor and a virtual machine too; takes half an hour")
    p.add_argument("--list", action="store_true", help="the checks, and no attack")
    return p.parse_args()


def wanted(only):
    return None if not only else {c.id for c in suite.CHECKS if only in c.id or only == c.group}


def validate(target, only=None):
    target.begin()
    results = suite.run(target, wanted(only), lambda r: print(suite.line(r), flush=True))
    target.end()
    print(f"\n{target.url}, a {target.kind}\n{suite.summary(results)}\n", flush=True)
    return suite.report(target, results)


def main():
    o = options()
    load()
    if o.list:
        for c in suite.CHECKS:
            print(f"{c.group:12} {c.where:5} {c.id:28} {c.tries}: {c.expected}")
        return 0
    if o.control:
        from . import control
        names = wanted(o.only) or {c.id for c in suite.CHECKS}
        left = control.find(names, lambda r: print(suite.line(r), flush=True))
        print(f"\n{len(names - control.NO_CONTROL - left)} of {len(names)} checks find their bypass where nothing is guarded")
        for why, text in control.WITHOUT.items():
            print(f"none is looked for in {len(names & set(text.split()))}: {why}")
        if left:
            print(f"none found: {' '.join(sorted(left))}")
        return 1 if left else 0
    try:
        if o.url:
            reports = [validate(Target(o.url, o.key, o.quick, o.patience), o.only)]
        else:
            from . import plans
            reports = plans.everywhere(lambda t: validate(t, o.only), o.quick,
                                       plans.PLACES + plans.MORE_PLACES if o.everywhere else plans.PLACES)
    except Gone as e:
        print(f"validate: {e}")
        return 2
    if o.json:
        suite.write_json(o.json, reports)
    counts = [r["counts"] for r in reports]
    if any(c["bypass"] for c in counts):
        return 1
    return 3 if o.strict and any(c["not-performed"] for c in counts) else 0


if __name__ == "__main__":
    raise SystemExit(main())
