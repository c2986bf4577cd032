"""The probes as a command, as the front, and as controls without the daemon, against verdicts.txt. Every cell
is compared with a live run; the table itself must explain what is allowed and what can't be controlled."""
import pytest
import stage

COLUMNS, ROWS = stage.read_table()
LIVE = {}


def live(situation):
    if situation not in LIVE:
        LIVE[situation] = stage.SITUATIONS[situation]()
    return LIVE[situation]


def fits(cell, verdict):
    return verdict in cell.split("|")


def fits_live(name, cell, verdict, situation):
    """A sanitizer's run-time gets calls of its own (policy/sanitizer.seccomp), with which the front isn't killed
    for some of what it tries; it must get nothing more by them than those calls."""
    if stage.SANITIZED and situation.startswith("front") and cell == "killed:SYS":
        return verdict != "did" or name.startswith(stage.SANITIZER_MAY)
    return fits(cell, verdict)


@pytest.mark.parametrize("situation", list(stage.SITUATIONS))
def test_verdicts(situation):
    got = live(situation)
    want = {name: cells[situation] for name, (cells, _) in ROWS.items() if cells[situation] != "-"}
    wrong = [f"{name}: {got.get(name, 'not run')}, the table says {want.get(name, '-')}"
             for name in {**want, **got} if not fits_live(name, want.get(name, "-"), got.get(name, "-"), situation)]
    assert not wrong, f"as {situation}:\n" + "\n".join(wrong)
    assert len(got) > 120


def test_every_column_is_a_situation():
    assert COLUMNS == list(stage.SITUATIONS)


def test_what_is_allowed_has_a_reason():
    for name, (cells, remark) in ROWS.items():
        if any(fits(cells[c], "did") for c in stage.WHOLE):
            assert "ok:" in remark or "known:" in remark, f"{name} is allowed; say why"


def test_what_has_no_control_has_a_reason():
    """Where a probe can't work at all, its refusal shows nothing: those are few, and named."""
    vain = {name for name, (cells, _) in ROWS.items() if not any(fits(cells[c], "did") for c in stage.CONTROLS)}
    for name in vain:
        assert "no-control:" in ROWS[name][1], f"{name} works in no control; say why"
    assert len(vain) < len(ROWS) / 6


def test_no_probe_is_broken():
    for name, (cells, _) in ROWS.items():
        for column, cell in cells.items():
            assert "broken" not in cell and "hangs" not in cell, (name, column)
