"""The broker and the cell run from the small binary in the daemon's file; where the host executes nothing that
is in memory alone, from the daemon's file."""
import fcntl
import os
import pathlib

from harness import names


def exes(seat):
    assert seat.run("echo on")["stdout"] == "on\n"
    return {p.role: os.readlink(f"/proc/{p.pid}/exe") for p in seat.procs() if p.role}


def test_the_broker_and_the_cell_are_the_inner_binary(start):
    seat = start()
    exe = exes(seat)
    assert set(exe) == {"front", "broker", "cell"} and exe["front"] == str(seat.binary)
    carried = b"sallyport-inner" in pathlib.Path(names.BIN).read_bytes()  # not with a sanitizer
    for role in ("broker", "cell"):
        assert exe[role] == ("/memfd:sallyport-inner (deleted)" if carried else str(seat.binary))


def test_where_nothing_in_memory_may_be_executed(start):
    seat = start(noexec=2)
    exe = exes(seat)
    assert exe == {role: str(seat.binary) for role in ("front", "broker", "cell")}


def test_nobody_can_change_the_inner_binary(start):
    """Sealed, and its other name is the /proc of processes that are shut to commands."""
    seat = start()
    exes(seat)
    broker = next(p for p in seat.procs() if p.role == "broker")
    fd = os.open(f"/proc/{broker.pid}/exe", os.O_RDONLY)
    try:
        if os.readlink(f"/proc/{broker.pid}/exe").startswith("/memfd:"):
            seals = fcntl.fcntl(fd, fcntl.F_GET_SEALS)
            want = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
            assert seals & want == want
    finally:
        os.close(fd)
    assert seat.run("cat /proc/1/exe")["exit_code"] != 0
