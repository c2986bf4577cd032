"""names.py: the daemon's settings and codes as the tests spell them, in one place.
CODES is docs/api.md "All codes"; test_codes compares the two."""
import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("SALLYPORT_BIN", ROOT / "build" / "sallyport")).resolve()
STATIC = pathlib.Path(os.environ.get("SALLYPORT_STATIC", ROOT / "build-static" / "sallyport")).resolve()

WORKSPACE = "SANDBOX_WORKSPACE"
PORT = "SANDBOX_PORT"
SHELL = "SANDBOX_SHELL"
BIND = "SALLYPORT_BIND"
SOCKET = "SALLYPORT_SOCKET"
DEFAULT_TIMEOUT = "SALLYPORT_DEFAULT_TIMEOUT"
MAX_TIMEOUT = "SALLYPORT_MAX_TIMEOUT"
MAX_OUTPUT = "SALLYPORT_MAX_OUTPUT"
MAX_UPLOAD = "SALLYPORT_MAX_UPLOAD"
MAX_CONNECTIONS = "SALLYPORT_MAX_CONNECTIONS"
HEAD_TIMEOUT = "SALLYPORT_HEAD_TIMEOUT"
IDLE_TIMEOUT = "SALLYPORT_IDLE_TIMEOUT"
STALL_TIMEOUT = "SALLYPORT_STALL_TIMEOUT"
SHUTDOWN_TIMEOUT = "SALLYPORT_SHUTDOWN_TIMEOUT"
ENV_PASS = "SALLYPORT_ENV_PASS"
ACCEPT_MISSING = "SALLYPORT_ACCEPT_MISSING"
TEST_DISABLE = "SALLYPORT_TEST_DISABLE"
ISOLATION = "SALLYPORT_ISOLATION"
NETWORK = "SALLYPORT_NETWORK"

LAYERS = ("no-new-privs", "caps", "uid", "seccomp", "landlock", "signal-scope", "openat2", "cgroup",
          "view", "pid-ns", "ipc-ns", "net-ns", "front-root")

CODES = {
    "bad_request": 400, "bad_json": 400, "bad_field": 400, "bad_path": 400, "bad_query": 400,
    "link_loop": 400, "not_a_directory": 400, "forbidden": 403, "outside_workspace": 403,
    "no_route": 404, "not_found": 404, "bad_method": 405, "timeout": 408, "busy": 409,
    "not_empty": 409, "is_a_directory": 409, "not_a_directory_conflict": 409, "not_a_file": 409,
    "precondition_failed": 412, "body_too_large": 413, "command_too_long": 413,
    "uri_too_long": 414, "bad_media_type": 415, "bad_range": 416, "bad_expectation": 417,
    "headers_too_large": 431, "internal": 500, "spawn_failed": 500, "unknown_method": 501,
    "cell_lost": 503, "draining": 503, "overloaded": 503, "bad_version": 505, "no_space": 507,
    "unauthorized": 401, "bad_identity": 400, "is_directory": 400, "quota_exceeded": 507,
}

# The kernel counts processes, pipes and descriptors by user id, so tests that run beside others have ids of
# their own: 1000 and up for commands, a thousand from 210000 up for the box. A lane has ten workers: places/run.py.
WORKER = (10 * int(os.environ.get("SALLYPORT_TEST_LANE", "0"))
          + int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")))
USER = 1000 + WORKER
UID_MIN = 210000 + 1000 * WORKER

# How the daemon is started and who owns the workspace.
PLANS = {
    "root-uid1000": {"daemon": 0, "owner": USER},
    "user": {"daemon": USER, "owner": USER},
    "root-root": {"daemon": 0, "owner": 0},
}
