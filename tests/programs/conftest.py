"""conftest.py: the twin: one daemon and one bare runner that a module's tests share, for each plan."""
import os

import pytest

from harness.bare import Twin
from harness.daemon import Daemon

# With the sanitizers one will do: see ./dev.
PLANS = tuple(filter(None, os.environ.get("SALLYPORT_TEST_PROGRAM_PLANS", "").split(","))) or ("root-uid1000", "user")


@pytest.fixture(scope="module", params=PLANS)
def twin(request):
    d = Daemon(plan=request.param)
    t = None
    try:
        d.wait_up()
        t = Twin(d)
        yield t
    except BaseException:
        d.destroy()
        raise
    finally:
        if t is not None:
            t.close()
    d.stop()
