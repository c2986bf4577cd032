"""conftest.py: lets the tests of the clients find what is beside them, and hands them a client."""
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from clients import LANGUAGES, Driver  # noqa: E402


@pytest.fixture(params=LANGUAGES)
def client(request, seat):
    """A driver of each language's client, on the module's seat."""
    d = Driver(request.param, f"http://127.0.0.1:{seat.port}")
    yield d
    d.close()
