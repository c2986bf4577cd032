"""A large file through each client, both ways, as a stream: what memory it takes, and under 16 MiB more in the
daemon. 256 MiB; SALLYPORT_TEST_LARGE=1 makes it 1 GiB, -s prints the figures. A client has under 64 MiB in all, its
runtime's among them. Node 20 of nodejs.org has 46 by itself; Debian's 18, a shared library with 7 MiB of relocations,
has 53 and isn't held to it."""
import os

import pytest

from harness import procs

SIZE = (1 << 30) if os.environ.get("SALLYPORT_TEST_LARGE") else 256 << 20
MIB = 1 << 10  # of KiB
OVER = {"python": 16, "go": 16, "node": 24}
ALL = 64

BOX_ENV = {"RUNBOX_QUOTA": "4GiB", "RUNBOX_MAX_UPLOAD": "2GiB"}


def daemon_kib(seat):
    return sum(int(p.status()["VmRSS"].split()[0]) for p in seat.procs() if p.role)


def peak_kib(client):
    """Not getrusage: what a child's parent had at the fork counts there, too."""
    return int(procs.status(client.proc.pid)["VmHWM"].split()[0])


class Watch:
    """What a client and a daemon take more than before."""

    def __init__(self, client, daemon):
        self.client, self.daemon = client, daemon
        self.before, self.runtime = daemon_kib(daemon), peak_kib(client)

    def check(self, what):
        used, grown = peak_kib(self.client), daemon_kib(self.daemon) - self.before
        print(f"{self.client.language} {what}: {SIZE >> 20} MiB with {self.runtime} + {used - self.runtime} KiB; "
              f"the daemon grew by {grown} KiB")
        assert used - self.runtime < OVER[self.client.language] * MIB
        assert used < ALL * MIB or self.runtime > 50 * MIB
        assert grown < 16 * MIB


@pytest.mark.slow
@pytest.mark.parametrize("how", ["sized", "chunked"])
def test_large_file(client, seat, how):
    assert client.ask("health") == {"status": "ok"}
    watch = Watch(client, seat)
    try:
        assert client.ask("upload", path="large", size=SIZE, how=how)["size"] == SIZE
        assert client.ask("download", path="large")["bytes"] == SIZE
        watch.check(how)
    finally:
        seat.delete("large")


@pytest.mark.slow
def test_from_a_file_and_into_one(client, seat, tmp_path):
    """As most will: what reads and writes files keeps pieces in hand, too."""
    assert client.ask("health") == {"status": "ok"}
    with open(tmp_path / "source", "wb") as f:
        f.truncate(SIZE)
    watch = Watch(client, seat)
    try:
        assert client.ask("upload", path="large", how="file", source=str(tmp_path / "source"))["size"] == SIZE
        assert client.ask("download", path="large", to="/dev/null")["bytes"] == SIZE
        watch.check("from and into a file")
    finally:
        seat.delete("large")


@pytest.mark.slow
def test_large_file_in_a_box(box_client, many):
    """And as an archive, which nobody knows the length of."""
    assert box_client.ask("write", path="d/small", text="x")["created"]  # its process is there now
    watch = Watch(box_client, many)
    try:
        assert box_client.ask("upload", path="d/large", size=SIZE, how="chunked")["size"] == SIZE
        assert box_client.ask("download", path="d/large")["bytes"] == SIZE
        assert SIZE < box_client.ask("pull", path="d")["bytes"] < SIZE + 100_000
        watch.check("in a box")
    finally:
        box_client.ask("delete_workspace")
