"""conftest.py: fixtures of the box's tests. `box` is shared by a module, so its tests use identities
of their own; start_box(...) makes one for a test that ends or changes it."""
import itertools

import pytest

from harness.box import Box

_count = itertools.count()


@pytest.fixture(scope="module")
def box(request):
    b = Box(env=getattr(request.module, "BOX_ENV", None))
    try:
        b.wait_up()
    except BaseException:
        print(b.tail())
        b.destroy()
        raise
    yield b
    b.stop()


@pytest.fixture
def who():
    """An identity that nobody had before."""
    return (f"who-{next(_count)}",)
