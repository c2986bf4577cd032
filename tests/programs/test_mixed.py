"""A thousand small programs in a fixed order, each inside and bare: same output, same errors, same end.
A call that the filter refuses and a program notices shows here; so does SIGSYS, which no script sends."""
import collections
import os
import random
import re

from harness.bare import compare

import mixed

RUNS = int(os.environ.get("SALLYPORT_MIXED_RUNS", "500"))  # for each plan
SEED = 20


def clean(text):
    """Process numbers in what shells say of their jobs, and the shell's name for a line."""
    return re.sub(r"(?m)^\S*bash: line \d+: +\d+ ", "bash: ", text)


def test_mixed_runs(twin):
    rng = random.Random(f"{SEED} {twin.seat.plan}")
    kinds, seen, different = collections.Counter(), collections.Counter(), []
    for n in range(RUNS):
        kind, script = mixed.make_script(rng)
        box = twin.box({})
        bare, inside = twin.bare.run(script, cwd=box), twin.inside(script, box)
        kinds[kind] += 1
        seen[inside["exit_code"]] += 1
        assert inside["signal"] != "SIGSYS" and "Bad system call" not in inside["stdout"] + inside["stderr"], (script, inside)
        try:
            compare(script, inside, bare, clean)
        except AssertionError as e:
            different.append(f"run {n}, {kind}: {e}")
    assert not different, f"{len(different)} differ\n" + "\n\n".join(different[:40])
    # The draw must go on covering everything, and most programs must succeed.
    if RUNS >= 250:
        assert set(kinds) == {k.__name__ for k, _ in mixed.KINDS}
        assert seen[0] > RUNS / 2 and len(seen) > 10
