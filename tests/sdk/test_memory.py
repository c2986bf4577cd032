"""A large file through each client, both ways, as a stream: under 64 MiB of memory over what the
language's runtime has by itself (Node: 45 MiB), and under 16 MiB more in the daemon. 256 MiB;
SALLYPORT_TEST_LARGE=1 makes it 1 GiB."""
import os

import pytest

from harness import procs

SIZE = (1 << 30) if os.environ.get("SALLYPORT_TEST_LARGE") else 256 << 20
MIB = 1 << 10  # of KiB


def daemon_kib(seat):
    return sum(int(p.status()["VmRSS"].split()[0]) for p in seat.procs() if p.role)


def peak_kib(client):
    """Not getrusage: what a child's parent had at the fork counts there, too."""
    return int(procs.status(client.proc.pid)["VmHWM"].split()[0])


@pytest.mark.slow
@pytest.mark.parametrize("how", ["sized", "chunked"])
def test_large_file(client, seat, how, record_property):
    assert client.ask("health") == {"status": "ok"}
    before, runtime = daemon_kib(seat), peak_kib(client)
    try:
        assert client.ask("upload", path="large", size=SIZE, how=how)["size"] == SIZE
        assert client.ask("download", path="large")["bytes"] == SIZE
        used, grown = peak_kib(client), daemon_kib(seat) - before
    finally:
        seat.delete("large")
    record_property("client_kib", used)
    print(f"{client.language} {how}: {SIZE >> 20} MiB with {runtime} + {used - runtime} KiB; "
          f"the daemon grew by {grown} KiB")
    assert used - runtime < 64 * MIB
    assert grown < 16 * MIB
