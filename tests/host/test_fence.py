"""What the other tests rest on where the harness's fence holds the daemon: the host is read-only in it."""
import os

import pytest


@pytest.mark.host("is about the fence of mount namespaces")
@pytest.mark.plan("root-root")
def test_the_fence_holds(start):
    """Even for root."""
    d = start(plan="root-root")
    root = f"/proc/{d.main.pid}/root"
    for path in ("/etc/sp-fence", "/usr/sp-fence", "/sp-fence", "/root/sp-fence"):
        with pytest.raises(OSError):
            with open(root + path, "w", encoding="ascii"):
                pass
    assert not os.path.exists(root + "/dev/vda") and not os.path.exists(root + "/dev/mem")
