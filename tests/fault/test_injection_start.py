"""Each call of the start fails once, in turn: the daemon then serves all the same, or ends with status 2 and one
sentence, or with status 1 and a log that says what failed; and leaves no process. Needs `./dev build --faults`."""
import collections

import pytest

from harness import faults, procs
from harness.box import Box
from harness.daemon import LISTENING, Daemon
from harness.injection import ERROR, chosen
from harness.tls import LISTENING as TLS_LISTENING
from harness.tls import TlsConn, make_pair

ONCE = {"write"}  # to the log
KINDS = ("seat", "box", "tls")


def begin(kind, arm):
    """A daemon whose start has a fault."""
    made = []

    def prepare(d):
        made.append(faults.Faults(d))
        arm(made[0])
        if kind == "tls":
            d.cert, d.key = make_pair(d.base, "first", "first", "ec")
            d.late_env.update({"SALLYPORT_TLS_CERT": str(d.cert), "SALLYPORT_TLS_KEY": str(d.key)})
    d = (Box if kind == "box" else Daemon)(binary=faults.BIN, prepare=prepare)
    return d, made[0]


def outcome(d, kind):
    """"up", or the status."""
    pattern = TLS_LISTENING if kind == "tls" else LISTENING

    def seen():
        m = pattern.search(d.log_path.read_bytes())
        if m:
            d.port = int(m[1])
            return "up"
        return d.wait_exit(0)
    end = procs.wait_for("it is up or ended", seen, 120)
    return end if end == "up" else end["status"]


def served(d, kind):
    if kind == "tls":
        with TlsConn(d) as c:
            return c.request("GET", "/healthz").status == 200
    return (d.exec("true") if kind == "box" else d.execute("true")).status == 200


def wrong_with(d, kind):
    """None, or what was wrong."""
    end = outcome(d, kind)
    d.check_log()
    if end == "up":
        procs.wait_for("it serves", lambda: served(d, kind), 30)
        d.stop()
        return None
    if d.exit["left"]:
        return f"left {d.exit['left']}"
    lines = [line for line in d.log().splitlines() if line]
    if end == 2:
        if any("registry error" in line and "disk image is malformed" in line for line in lines):
            return None  # SQLite takes a disk that can't read for a damaged file
        said = [line for line in lines if line.startswith("sallyport: ")]
        return None if len(said) == 1 and said[0] == lines[-1] and said[0].endswith(".") else f"status 2 and {lines[-3:]}"
    if end == 1:
        return None if any(" error " in f" {line.lower()} " or "error:" in line for line in lines) else f"status 1 and {lines[-3:]}"
    return f"status {end}: {lines[-3:]}"


def counted(kind):
    d, f = begin(kind, lambda f: f.count())
    try:
        assert outcome(d, kind) == "up", d.tail()
        if kind == "box":  # its first cell may come up after it says that it listens
            assert served(d, kind)
        made = f.made()
        d.stop()
    finally:
        if not d.stopped:
            d.destroy()
    return {pair: n for pair, n in made.items() if pair[1] in ERROR and pair[1] not in ONCE}


@pytest.mark.slow
@pytest.mark.parametrize("kind,role", [(k, r) for k in KINDS for r in faults.ROLES if r != "registry" or k == "box"])
def test_each_call_of_the_start_fails_once(kind, role):
    made = {call: n for (r, call), n in counted(kind).items() if r == role}
    seen, wrong = collections.Counter(), []
    for call, n in sorted(made.items()):
        for nth in chosen(n, 3):
            d, f = begin(kind, lambda f: f.arm(role, call, nth, ERROR[call]))
            try:
                found = wrong_with(d, kind)
                seen[call, d.exit["status"] if d.exit else "up"] += f.hits()
            except AssertionError as e:
                found = str(e)
            finally:
                if not d.stopped:
                    d.destroy()
            if found:
                wrong.append(f"{role} {call} {nth} of {n}: {found}")
    assert seen, made
    print({f"{call}: {end}": n for (call, end), n in sorted(seen.items(), key=str)})
    assert not wrong, "\n".join(wrong)
