"""conftest.py: fixtures of the tests of deploy/."""
import pytest

from harness import names
from proxied import Pool


@pytest.fixture(scope="module", params=["nginx", "haproxy"])
def pool(request):
    assert names.BIN.exists(), names.BIN
    p = Pool(request.param)
    try:
        p.wait_up()
        yield p
    except BaseException:
        print((p.folder / "log").read_text(encoding="utf-8", errors="replace"))
        raise
    finally:
        p.close()
