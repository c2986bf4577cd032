"""places.py: where a daemon under test runs: as whom, with which rights, in what. One table.
SALLYPORT_TEST_PLACE names the one for this run; docs/places.md tells what each stands for. A place
gives what it gives: it trusts no test, and no test should ask which place it is in."""
import dataclasses
import os

from . import names

SIX = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SETGID", "SETUID")
ROOT_PLANS = ("root-uid1000", "root-root")


@dataclasses.dataclass(frozen=True)
class Place:
    """plans: the names.PLANS that it can have, its usual one first. launch: added to the launcher's spec.
    box: what holds the daemon: "fence", or a container of that name. accept: layers it can't have.
    env: settings that it needs, for each plan."""
    plans: tuple
    launch: dict = dataclasses.field(default_factory=dict)
    box: str = "fence"
    caps: tuple = ()
    accept: tuple = ()
    env: dict = dataclasses.field(default_factory=dict)
    slow: float = 1.0  # how many times as long things may take
    needs: tuple = ()  # layers that it can't be started without
    every_layer: bool = False  # it has them all, when commands have a user of their own


PLACES = {
    "root": Place(("root-uid1000", "user", "root-root"), every_layer=True),
    "six-caps": Place(ROOT_PLANS, {"caps": SIX, "no_new_privs": True}),
    "user": Place(("user",)),
    "user-no-userns": Place(("user",), {"deny_userns": True}),
    "pid1": Place(("root-uid1000", "user", "root-root"), {"pid1": True}, every_layer=True),
    "podman": Place(("user",), box="podman"),
    "podman-six-caps": Place(ROOT_PLANS, box="podman", caps=SIX),
    # Its kernel gives orphans to the first process alone: commands need a user of their own.
    "gvisor": Place(("root-uid1000",), box="gvisor", accept=("view", "landlock", "signal-scope"), env={"SALLYPORT_USER": f"{names.USER}:{names.USER}"}, needs=("uid",)),
    # The real daemon under memcheck, built for it: see run_valgrind in dev. It knows no call of these layers.
    "valgrind": Place(("root-uid1000",), {"under": os.environ.get("SALLYPORT_TEST_UNDER", "").split()},
                      accept=("seccomp", "landlock", "view"), slow=6.0),
}
NAME = os.environ.get("SALLYPORT_TEST_PLACE") or "root"
if NAME not in PLACES:
    raise SystemExit(f"SALLYPORT_TEST_PLACE={NAME}: there is {', '.join(PLACES)}")
HERE = PLACES[NAME]


def plan_or_usual(plan):
    """A test that names no plan gets the place's usual one."""
    if plan is None:
        return HERE.plans[0]
    if plan not in HERE.plans:
        raise AssertionError(f"{NAME} has no plan {plan}: mark the test with @pytest.mark.plan({plan!r})")
    return plan


def why_not(item):
    """Why a collected test can't be in this place, or None."""
    for mark in item.iter_markers("host"):
        if HERE.box in mark.kwargs.get("boxes", ("podman", "gvisor")):
            return mark.args[0]
    asked = {a for mark in item.iter_markers("plan") for a in mark.args}
    params = getattr(getattr(item, "callspec", None), "params", {})
    asked |= {v for v in params.values() if isinstance(v, str) and v in names.PLANS}
    lacking = sorted(asked - set(HERE.plans))
    if lacking:
        return f"no plan {', '.join(lacking)} here"
    asked = {a for mark in item.iter_markers("layers") for a in mark.args}
    asked |= {part for v in params.values() if isinstance(v, str) for part in v.split(",")}
    if item.get_closest_marker("every_layer") and not HERE.every_layer:
        return "not every layer is here"
    lacking = sorted(asked & {*HERE.accept, *HERE.needs})
    return f"no layer {', '.join(lacking)} here" if lacking else None
