"""A host that limits how long a file may be."""
import pytest

from harness import names


@pytest.mark.host("the daemon is started with a limit of its own")
@pytest.mark.parametrize("off", ["", "pid-ns"])
def test_the_host_limits_the_size_of_files(start, off):
    """LimitFSIZE= and ulimit -f: the kernel's signal for that would end a cell whose file threads took signals."""
    d = start(env={names.TEST_DISABLE: off, names.ACCEPT_MISSING: off} if off else {}, launch={"fsize": 16 << 20})
    cell = d.role("cell").pid
    for data in (b"x" * (20 << 20), b"y" * (16 << 20) + b"y"):
        a = d.put("big", data)
        assert (a.status, a.code) == (507, "no_space"), a
    assert d.put("small", b"z").status == 201
    assert d.role("cell").pid == cell
    assert not (d.ws / "big").exists()
