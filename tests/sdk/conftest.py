"""conftest.py: lets the tests of the clients find what is beside them, and hands them a client."""
import itertools
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from clients import LANGUAGES, Driver  # noqa: E402
from harness.box import KEY, Box  # noqa: E402

_count = itertools.count()


@pytest.fixture(params=LANGUAGES)
def client(request, seat):
    """A driver of each language's client, on the module's seat."""
    d = Driver(request.param, f"http://127.0.0.1:{seat.port}")
    yield d
    d.close()


@pytest.fixture(scope="module")
def many(request):
    """A box that a module's tests share; a module may have BOX_ENV."""
    b = Box(env=getattr(request.module, "BOX_ENV", None))
    try:
        b.wait_up()
    except BaseException:
        print(b.tail())
        b.destroy()
        raise
    yield b
    b.stop()


@pytest.fixture(params=LANGUAGES)
def box_client(request, many):
    """A driver of each language's client, on the module's box, for an identity that nobody had before."""
    d = Driver(request.param, f"http://127.0.0.1:{many.port}", key=KEY, who=[f"client-{next(_count)}"])
    yield d
    d.close()
