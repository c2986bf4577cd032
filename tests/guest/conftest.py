"""conftest.py: machines for tests of the guest: one a processor that a module's tests share, and their own."""
import pytest

from harness.machine import QEMU, Machine


@pytest.fixture(scope="module", params=QEMU)
def machine(request, tmp_path_factory):
    m = Machine(request.param, tmp_path_factory.mktemp("machine"), **getattr(request.module, "MACHINE", {}))
    yield m
    m.destroy()


@pytest.fixture
def boot(tmp_path):
    made = []

    def make(arch, **how):
        made.append(Machine(arch, tmp_path, **how))
        return made[-1]
    yield make
    for m in made:
        m.destroy()
