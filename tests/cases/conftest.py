"""conftest.py: the box's fixtures for the cases, under names that don't hide the seat's."""
import pytest

from harness.box import Box


@pytest.fixture
def start_box():
    """start_box(...) makes a box of this test's own."""
    made = []

    def make(up=True, **kw):
        b = Box(**kw)
        made.append(b)
        return b.wait_up() if up else b
    yield make
    for b in made:
        try:
            if not b.stopped:
                b.stop() if b.exit is None else b.check_log()
        finally:
            if not b.stopped:
                b.destroy()
