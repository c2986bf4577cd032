"""held.py: daemons that hold a shell for the next command: to wait until one is held, and to see it used."""
from . import procs

ENV = {"SALLYPORT_HELD_SHELL": "on", "SALLYPORT_LOG": "debug"}
READY, USED = "a shell is held", "the held shell has the command"


def traced(d):
    """The held shell, or None. Nothing else below a cell can be traced."""
    return next((p for p in d.procs() if p.state == "t" and p.status()["TracerPid"] == str(d.role("cell").pid)), None)


def hold(d):
    """The held shell. The first command of all is no reason to hold one, nor are those that come too fast."""
    def again():
        d.run(":")
        ready = d.log().count(READY)
        try:
            procs.wait_for("", lambda: d.log().count(READY) > ready, 0.5)
        except AssertionError:
            return None
        return traced(d)
    return procs.wait_for("a shell is held", again)
