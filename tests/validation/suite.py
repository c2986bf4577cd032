"""suite.py: the table of checks, how one is run, and what is told of it. A check attacks; it passes by
returning, and tells what came of it by Bypass or Cannot. It trusts no byte of the instance."""
import dataclasses
import json
import time
import traceback

GROUPS = ("security", "deep", "obfuscation")
CHECKS = []
DEAD = "the instance doesn't serve any more"


class Bypass(Exception):
    """The attack did what it shouldn't be able to do."""


class Cannot(Exception):
    """The attack couldn't be performed here; the text says why."""


class Gone(Exception):
    """The instance closed, or said nothing, where an answer was due; data has what came."""

    def __init__(self, why, data=b""):
        super().__init__(f"{why} after {data[:120]!r}" if data else why)
        self.data = data


@dataclasses.dataclass
class Check:
    id: str
    group: str
    tries: str
    expected: str
    work: callable
    where: str  # "both", "seat" or "box"


def add(name, group, tries, expected, work, where="both"):
    assert group in GROUPS and where in ("both", "seat", "box")
    assert all(c.id != name for c in CHECKS), name
    CHECKS.append(Check(name, group, tries, expected, work, where))


def check(name, group, tries, expected, where="both"):
    """Decorator: the function gets the target, and may return a text about what it saw."""
    def register(work):
        add(name, group, tries, expected, work, where)
        return work
    return register


def expect(held, why):
    if not held:
        raise Bypass(why)


def run_one(c, target):
    """verdict, detail. Whatever a check does, the instance must serve afterwards."""
    try:
        verdict, detail = "pass", c.work(target) or ""
    except Bypass as e:
        verdict, detail = "bypass", str(e)
    except Cannot as e:
        verdict, detail = "not-performed", str(e)
    except Gone as e:
        verdict, detail = "bypass", f"no answer where one was due: {e}"
    except Exception:  # a check's own fault is nobody's pass
        verdict, detail = "not-performed", "the check failed: " + traceback.format_exc(limit=-2)
    try:
        target.wait_serving()
    except Gone as e:
        return "bypass", f"{DEAD}: {e}; {detail}"
    return verdict, detail


def run(target, wanted=None, tell=None):
    """A list of results, in the table's order. wanted: a set of ids, or None for all."""
    results = []
    for c in CHECKS:
        if c.where not in ("both", target.kind) or (wanted is not None and c.id not in wanted):
            continue
        begun = time.monotonic()
        verdict, detail = run_one(c, target) if c.id not in target.spared else ("not-performed", target.spared[c.id])
        results.append({"id": c.id, "group": c.group, "tries": c.tries, "expected": c.expected, "verdict": verdict,
                        "detail": detail, "seconds": round(time.monotonic() - begun, 2)})
        if tell:
            tell(results[-1])
    return results


def line(r):
    text = f"{r['verdict']:13} {r['group']:11} {r['id']:28} {r['seconds']:6.2f}  {r['tries']}"
    if r["verdict"] != "pass":
        text += f"\n{'':13} {r['detail']}"
    return text


def count(results, verdict):
    return sum(r["verdict"] == verdict for r in results)


def summary(results):
    lines = [f"{'group':12} {'checks':>7} {'pass':>7} {'bypass':>7} {'not performed':>14}"]
    for group in (*GROUPS, "all"):
        part = [r for r in results if group in (r["group"], "all")]
        lines.append(f"{group:12} {len(part):7} {count(part, 'pass'):7} {count(part, 'bypass'):7} "
                     f"{count(part, 'not-performed'):14}")
    return "\n".join(lines)


def report(target, results):
    return {"instance": target.url, "kind": target.kind, "layers": target.layers, "quick": target.quick,
            "counts": {v: count(results, v) for v in ("pass", "bypass", "not-performed")}, "checks": results}


def write_json(path, reports):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(reports, f, indent=1)
        f.write("\n")
