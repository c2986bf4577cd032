"""The probes as a command that a held shell runs: they must find what every command finds."""
import pytest
import stage

from harness import held, names

# What says as whom and how the daemon runs, and whose column of verdicts.txt holds.
SITUATIONS = {
    "command": {"plan": "root-uid1000"},
    "user": {"plan": "user"},
    "basic": {"plan": "root-uid1000", "env": {names.ISOLATION: "basic"}},
    "no-pid-ns": {"plan": "root-uid1000", "off": "pid-ns"},
}


@pytest.mark.parametrize("column", SITUATIONS)
def test_a_held_shell_gives_no_more(column):
    _, rows = stage.read_table()
    kw = SITUATIONS[column]
    used = []

    def before(d):
        held.hold(d)
        used.append(d.log().count(held.USED))

    def after(d):
        used.append(d.log().count(held.USED))

    got = stage.as_command(kw["plan"], kw.get("off", ""), {**kw.get("env", {}), **held.ENV}, before, after)
    assert used[1] == used[0] + 1, "another shell ran them"
    wrong = [f"{name}: {got.get(name, 'not run')}, the table says {cells[column]}" for name, (cells, _) in rows.items()
             if cells[column] != "-" and got.get(name) not in cells[column].split("|")]
    assert not wrong, "\n".join(wrong)
