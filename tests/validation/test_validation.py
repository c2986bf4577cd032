"""The adversarial suite against a seat and a box of ours, quickly: no bypass. And against a control that guards
nothing, where nearly each check must find one: else its pass would mean nothing."""
import pytest

from validation import control, plans, suite
from validation.table import load

load()


def told(results, verdict):
    return [f"{r['id']}: {r['detail']}" for r in results if r["verdict"] == verdict]


def attacked(t):
    t.begin()
    results = suite.run(t)
    t.end()
    return results


@pytest.mark.host("a limit of the fence keeps its bombs small")
@pytest.mark.parametrize("make", [plans.a_seat, plans.a_box])
def test_no_bypass(make):
    results = plans.attack(make(), attacked, True)
    assert not told(results, "bypass")
    performed = suite.count(results, "pass")
    assert performed >= 400, told(results, "not-performed")
    for group in suite.GROUPS:
        assert any(r["group"] == group and r["verdict"] == "pass" for r in results)


@pytest.mark.host("the control is a program of the fence's")
def test_the_control_is_found():
    """One check of each family; all of them: ./dev validate --control."""
    names = control.sample()
    assert len(names) >= 55
    seen = {}
    left = control.find(names, lambda r: seen.update({r["id"]: f"{r['verdict']}: {r['detail']}"}))
    assert not left, {name: seen[name] for name in left}


def test_every_exception_is_a_check():
    assert control.NO_CONTROL <= {c.id for c in suite.CHECKS}
