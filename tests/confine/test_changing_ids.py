"""Where a role, or what starts it, takes the commands' user id: sysctl fs.suid_dumpable=1 would open its memory to
all of that user's. The order of its calls, by strace, is what keeps it shut under any value of the sysctl."""
import os
import re

import pytest

from harness import names

CALL = re.compile(r"^(\d+) +(\w+)\((.*)\) += (-?\d+)", re.M)
FEW = "setpriv --bounding-set=-all,+setuid,+setgid,+kill,+chown,+fowner,+dac_override "
WAYS = {"direct": "", "user namespace": FEW}


def traced(d, way):
    """The tracer is no parent of the daemon's: signals and its end are its own."""
    real, d.calls = d.base / "real", d.base / "calls"
    real.write_bytes(names.BIN.read_bytes())
    real.chmod(0o755)
    script = d.base / "start.sh"
    script.write_text("#!/bin/sh\n"
                      f"exec strace -D -f -qq -o {d.calls} -e trace=prctl,setresuid,execveat {WAYS[way]}{real} \"$@\"\n")
    script.chmod(0o755)
    d.source = script


@pytest.mark.parametrize("way", WAYS)
def test_never_open_to_the_new_id(start, way):
    options = "detect_leaks=0:" + os.environ.get("ASAN_OPTIONS", "")  # which can't run under a tracer
    d = start(prepare=lambda d: traced(d, way), env={"ASAN_OPTIONS": options})
    assert d.run("id -u")["stdout"] == f"{d.owner}\n"
    kind = "through a user namespace" if way == "user namespace" else "layer view: on"
    assert kind in d.log(), d.log()
    d.signal()
    assert d.wait_exit()["status"] == 0
    by_pid, changes = {}, 0
    started = d.calls.read_text().partition('"--role=broker"')[2]  # before, main only tries things
    for pid, call, args, result in CALL.findall(started):
        by_pid.setdefault(pid, []).append((call, args, result))
    for calls in by_pid.values():
        for n, (call, args, result) in enumerate(calls):
            if call != "setresuid" or result != "0" or args.split(", ")[0] != str(d.owner):
                continue
            changes += 1
            before = [c for c in calls[:n] if c[0] == "prctl" and "KEEPCAPS" in c[1]][-1:]
            assert before == [("prctl", "PR_SET_KEEPCAPS, 1", "0")], calls
            assert calls[n + 1] == ("prctl", "PR_SET_DUMPABLE, SUID_DUMP_DISABLE", "0"), calls
    assert changes == 1, d.calls.read_text()[-6000:]
