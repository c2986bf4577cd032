"""conftest.py: fixtures that hand a test its daemon. Nothing here starts one outside the fence."""
import ctypes
import itertools
import os
import tempfile

import pytest

from harness import launcher, names, places
from harness.box import Box
from harness.daemon import Daemon

_count = itertools.count()
LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWIPC = 0x08000000
MS_SLAVE, MNT_DETACH = 1 << 19, 2
LEAST_MEMORY = 6 << 30  # for all workers' files and all else
_folder = None


def folder_in_memory():
    """A tmpfs of this process's own for the daemons' folders, where there is the memory: some tests make 100,000
    files. What has no SALLYPORT_TEST_TMPFS, as ./dev test, has them where /run is."""
    global _folder
    with open("/proc/meminfo", encoding="ascii") as f:
        free = next(int(line.split()[1]) << 10 for line in f if line.startswith("MemAvailable:"))
    if free < LEAST_MEMORY:
        return
    launcher.check(LIBC.unshare(launcher.CLONE_NEWNS), "unshare")
    launcher.mount(None, "/", None, launcher.MS_REC | MS_SLAVE)
    _folder = tempfile.mkdtemp(prefix="sallyport-tmpfs-", dir=os.environ.get("SALLYPORT_TEST_DIR", "/run"))
    launcher.mount("tests", _folder, "tmpfs", 0, "mode=755,size=1g")
    try:
        os.setxattr(_folder, "user.test", b"")
    except OSError:  # a kernel before 6.6: programs expect them
        pytest_unconfigure()
    else:
        os.environ["SALLYPORT_TEST_DIR"] = _folder


def pytest_unconfigure():
    global _folder
    if _folder:
        LIBC.umount2(os.fsencode(_folder), MNT_DETACH)
        os.rmdir(_folder)
        _folder = None


def pytest_configure(config):
    if os.geteuid() == 0 and LIBC.unshare(CLONE_NEWIPC) != 0:  # what tests leave in it goes with this process
        raise OSError(ctypes.get_errno(), "unshare")
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        # ./dev gives the tests' own byte code a folder; what they start writes none, where it would be found or not.
        if os.environ.pop("PYTHONPYCACHEPREFIX", None):
            os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        if os.environ.get("SALLYPORT_TEST_TMPFS") and os.geteuid() == 0:
            folder_in_memory()
    config.addinivalue_line("markers", "slow: takes seconds by its nature")
    config.addinivalue_line("markers", "host(why, boxes=all): asks for what these containers don't give")
    config.addinivalue_line("markers", "layers(names): is about layers that a place may not have")
    config.addinivalue_line("markers", "every_layer: needs a host that gives every layer")
    config.addinivalue_line("markers", "plan(names): starts daemons of these plans in its body")


# Units of what one worker does when tests run side by side (pytest -n), longest first; any other file is one, too.
UNITS = (
    ("tests/sdk/test_conformance.py",), ("tests/sdk/test_lint.py",),
    ("tests/validation/test_validation.py::test_no_bypass[a_box]",), ("tests/validation/test_validation.py::test_the_control",),
    ("tests/sdk/", "tests/cases/test_clients.py"),  # they share what they build
    ("tests/confine/test_cgroup_limits.py",), ("tests/validation/",), ("tests/programs/test_builds.py",),
    ("tests/programs/test_python.py",), ("tests/box/test_box_setting_forms.py",),
    ("tests/confine/test_tree_matrix.py", "tests/confine/test_tree_kill.py"),  # one fork bomb at a time
    ("tests/programs/test_mixed.py",), ("tests/programs/test_held.py",), ("tests/programs/test_browser.py",),
    ("tests/programs/test_node.py",), ("tests/fault/test_crash.py",), ("tests/box/test_quota.py",),
    ("tests/box/test_lifecycle.py",), ("tests/programs/test_calls.py",), ("tests/host/test_layers.py",),
    ("tests/hostile/test_hostile.py",), ("tests/contract/test_settings.py",), ("tests/box/test_box_settings.py",),
    ("tests/contract/test_execute_events_life.py",), ("tests/box/test_routes.py",), ("tests/contract/test_files_delete.py",),
    ("tests/programs/test_explained.py",), ("tests/programs/test_git.py",), ("tests/programs/test_tools.py",),
    ("tests/confine/test_probes.py",), ("tests/contract/test_files_list.py",), ("tests/deploy/test_proxies.py",),
    ("tests/box/test_spare.py",), ("tests/contract/test_execute_events.py",), ("tests/docs/test_blocks.py",),
)


def unit(nodeid):
    for number, starts in enumerate(UNITS):
        if nodeid.startswith(starts):
            return number, starts[0]
    return len(UNITS), nodeid.split("::", 1)[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    from xdist.scheduler import LoadFileScheduling

    class Units(LoadFileScheduling):
        def _split_scope(self, nodeid):
            return unit(nodeid)[1]
    return Units(config, log)


def leave_out(config, items):
    """What this place can't have: see docs/places.md. Of tests/contract that is nothing."""
    out = [(item, why) for item in items if (why := places.why_not(item))]
    promised = [f"{item.nodeid}: {why}" for item, why in out if item.nodeid.startswith("tests/contract/")]
    if promised:
        raise pytest.UsageError("what the contract promises is tested in every place:\n" + "\n".join(promised))
    gone = {item for item, _ in out}
    config.hook.pytest_deselected(items=list(gone))
    items[:] = [item for item in items if item not in gone]
    if os.environ.get("SALLYPORT_TEST_LEFT_OUT"):
        with open(os.environ["SALLYPORT_TEST_LEFT_OUT"], "w", encoding="utf-8") as f:
            f.writelines(f"{item.nodeid}: {why}\n" for item, why in out)


def pytest_collection_modifyitems(config, items):
    leave_out(config, items)
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: unit(item.nodeid)[0])
    why = None
    if os.geteuid() != 0:
        why = "needs root: the fence is made of namespaces"
    elif not names.BIN.exists():
        why = f"no binary at {names.BIN}: set SALLYPORT_BIN"
    if why and any({"seat", "start", "box", "start_box"} & set(getattr(item, "fixturenames", ())) for item in items):
        raise pytest.UsageError(why)  # and not skipped: what isn't tested isn't known


@pytest.fixture(scope="module")
def seat(request):
    """A running daemon that a module's tests share. Parametrise indirectly with a plan's name;
    a module may have SEAT_ENV."""
    d = Daemon(plan=getattr(request, "param", None),
               env=getattr(request.module, "SEAT_ENV", None))
    try:
        d.wait_up()
    except BaseException:
        d.destroy()
        raise
    yield d
    d.stop()


@pytest.fixture
def start():
    """start(...) makes a daemon of this test's own; up=False doesn't wait for it."""
    made = []

    def make(up=True, **kw):
        d = Daemon(**kw)
        made.append(d)
        return d.wait_up() if up else d
    yield make
    errors = []
    for d in made:
        try:
            if not d.stopped:
                d.stop() if d.exit is None else d.check_log()
        except AssertionError as e:
            errors.append(e)
        finally:
            if not d.stopped:
                d.destroy()
    if errors:
        raise errors[0]


@pytest.fixture
def box(seat):
    """The name of a fresh folder in the shared workspace, owned by the user of commands."""
    name = f"box{next(_count)}"
    (seat.ws / name).mkdir()
    os.chown(seat.ws / name, seat.owner, seat.owner)
    return name


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
