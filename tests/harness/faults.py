"""faults.py: the table through which a faults build is told which call fails: see tests/fault/inject.c."""
import mmap
import os
import re
import struct

from . import names

BIN = names.ROOT / "build-faults" / "sallyport"
CALLS = re.findall(r"X\((\w+),", (names.ROOT / "tests" / "fault" / "calls.inc").read_text(encoding="ascii"))
ROLES = ("main", "front", "broker", "cell", "registry")
ORDER = "IIIII"  # role, call, nth, times, err
HITS = struct.calcsize(ORDER)
MADE = HITS + 4
SIZE = MADE + 4 * len(ROLES) * len(CALLS)


class Faults:
    def __init__(self, daemon):
        """As `prepare` of a Daemon's."""
        path = daemon.base / "sallyport.fault"
        path.write_bytes(b"\0" * SIZE)
        path.chmod(0o666)  # roles of any user
        with open(path, "r+b") as f:
            self.map = mmap.mmap(f.fileno(), SIZE)

    def arm(self, role, call, nth, err, times=1):
        """The nth call from now on, and those after it up to `times`, fail."""
        self.count()
        self.map[:12] = struct.pack("III", ROLES.index(role), CALLS.index(call), 0)
        self.map[12:HITS] = struct.pack("II", times, err)
        self.map[8:12] = struct.pack("I", nth)

    def hits(self):
        return struct.unpack_from("I", self.map, HITS)[0]

    def disarm(self):
        """How often it failed."""
        self.map[8:12] = struct.pack("I", 0)
        return self.hits()

    def count(self):
        self.disarm()
        self.map[HITS:] = bytes(SIZE - HITS)

    def made(self):
        """{(role, call): how many since count()}, of those made at all."""
        numbers = struct.unpack_from(f"{len(ROLES) * len(CALLS)}I", self.map, MADE)
        pairs = [(r, c) for r in ROLES for c in CALLS]
        return {pair: n for pair, n in zip(pairs, numbers) if n}
