"""Devices in a workspace: no command can make one, the host's root can. gVisor hands none in."""
import os

import pytest


@pytest.mark.host("puts devices of the host's into the workspace", boxes=("gvisor",))
@pytest.mark.parametrize("kind,major,minor", [(0o020666, 1, 3), (0o060666, 7, 0)], ids=["null", "disk"])
def test_a_device_is_no_file(seat, box, kind, major, minor):
    os.mknod(seat.ws / box / "node", kind, os.makedev(major, minor))
    a = seat.get(f"{box}/node")
    assert (a.status, a.code) == (409, "not_a_file")
    a = seat.get(f"{box}/node/")
    assert (a.status, a.code) == (400, "not_a_directory")
