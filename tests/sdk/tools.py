"""tools.py: the programs that the tests of the clients need beyond Debian's, in build/sdk. Each is
installed once, by its lock file, and again when that changes. A tool that is missing fails the test."""
import contextlib
import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "build" / "sdk"
HERE = pathlib.Path(__file__).parent
# That the Python client is tried with: SALLYPORT_TEST_PYTHON names another one, say the oldest that it knows.
PYTHON = os.environ.get("SALLYPORT_TEST_PYTHON", "/usr/bin/python3")


def run(*args, cwd=None, env=None, bound=600):
    """Runs it to its end; what it printed is in the failure."""
    done = subprocess.run([str(a) for a in args], cwd=cwd, env={**os.environ, **(env or {})}, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=bound, check=False)
    assert done.returncode == 0, f"{' '.join(map(str, args))}: {done.returncode}\n{done.stdout[-8000:]}"
    return done.stdout


@contextlib.contextmanager
def alone(name):
    """Two test runs may share a tree."""
    OUT.mkdir(parents=True, exist_ok=True)
    with open(OUT / f"{name}.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def once(name, inputs, make):
    """make(folder) fills OUT/name, unless it was made from the same inputs before."""
    digest = hashlib.sha256(b"".join(pathlib.Path(p).read_bytes() for p in inputs)
                            + (sys.version + PYTHON).encode()).hexdigest()
    folder, stamp = OUT / name, OUT / f"{name}.made"
    with alone(name):
        if not stamp.exists() or stamp.read_text() != digest:
            stamp.unlink(missing_ok=True)
            shutil.rmtree(folder, ignore_errors=True)
            make(folder)
            stamp.write_text(digest)
    return folder


def install(python, folder, *what):
    """An environment of that Python's, filled by Debian's pip: one of its own would take 8 s of a processor to make."""
    run(python, "-m", "venv", "--without-pip", folder)
    run("/usr/bin/python3", "-m", "pip", "--python", folder / "bin/python", "install", "-q",
        "--disable-pip-version-check", *what)


def venv():
    """bin/ of an environment with what requirements.txt pins."""
    wanted = HERE / "requirements.txt"

    def make(folder):
        install("/usr/bin/python3", folder, "--no-deps", "--no-compile", "-r", wanted)
    return once("venv", [wanted], make) / "bin"


def fresh_venv(name, *wheels):
    """bin/ of an empty environment with these files installed and no network asked."""
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    install(os.environ.get("SALLYPORT_SDK_PYTHON", PYTHON), folder, "--no-index", *wheels)
    return folder / "bin"
