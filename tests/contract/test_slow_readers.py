"""A client that takes an answer slowly, but takes it, isn't one that stopped (docs/api.md, time limits)."""
import os
import time

import pytest

from harness import names

SEAT_ENV = {names.STALL_TIMEOUT: "1500ms"}
MB = 1 << 20


@pytest.mark.slow
def test_a_slow_download_goes_on(seat):
    """Its socket holds megabytes by then, and has room for us only when a third of them is gone."""
    with open(seat.ws / "big", "wb") as f:
        f.truncate(300 * MB)

    def held():
        return any(os.path.basename(t.split(" ")[0]) == "big" for t in seat.role("front").fds().values())
    with seat.conn() as c:
        c.send(b"GET /files/big HTTP/1.1\r\nHost: t\r\n\r\n")
        got = 0
        while got < 100 * MB:  # fast at first, so that the sockets grow
            got += len(c.sock.recv(MB))
        until = time.monotonic() + 8
        while time.monotonic() < until:
            got += len(c.sock.recv(65536))
            time.sleep(0.05)
        assert held(), f"given up, {got - 100 * MB} bytes later"
