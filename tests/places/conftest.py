"""conftest.py: containers of images for the tests here, ended with them."""
import os

import pytest

from harness.images import Container


@pytest.fixture
def run_image():
    made = []

    def make(*options, **how):
        made.append(Container(*options, **how))
        return made[-1].wait_up()
    yield make
    for c in made:
        c.remove()


@pytest.fixture
def volume(tmp_path):
    """volume(uid): the options for a workspace of the host's that belongs to uid."""
    def make(uid, at="/workspace"):
        ws = tmp_path / "ws"
        ws.mkdir(exist_ok=True)
        os.chown(ws, uid, uid)
        for path in list(ws.parents)[:3]:  # pytest's folders are its own alone
            path.chmod(0o755)
        return ["--volume", f"{ws}:{at}"]
    return make
