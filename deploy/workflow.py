#!/usr/bin/env python3
"""workflow.py FOLDER: the shell steps of .github/workflows that need no service of GitHub's and no registry of
images, one after the other, in a fresh clone in FOLDER, as a runner does it: `bash -e -o pipefail`, with
GITHUB_ENV handed on, at a tag that is set in the clone alone. Prints what it runs and what it leaves out, with why.
As root: steps install packages. Trusts the tree."""
import os
import pathlib
import re
import subprocess
import sys

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Steps in whose text this stands.
LEFT_OUT = {"docker ": "a registry of images", "cosign ": "the signing service", "gh release": "GitHub",
            "npm publish": "the registry of packages, to write", ".ci/run": "it is ./dev's verbs, which are run by hand"}


def tag(clone, workflow):
    """The tag that a workflow's jobs expect: the version that is in the tree."""
    if workflow == "sdk":
        text = (clone / "sdk/python/pyproject.toml").read_text(encoding="utf-8")
        return "sdk-v" + re.search(r'^version = "(.*)"', text, re.M)[1]
    return "v" + re.search(r"version: '([^']*)'", (clone / "meson.build").read_text(encoding="utf-8"))[1]


def run_job(clone, workflow, name, job):
    state = clone.parent / "env"
    state.write_text("", encoding="utf-8")
    where = job.get("defaults", {}).get("run", {}).get("working-directory", ".")
    ran = 0
    for step in job["steps"]:
        text = step.get("run")
        why = next((w for part, w in LEFT_OUT.items() if part in (text or "")), None)
        what = step.get("name") or (text or step["uses"]).strip().splitlines()[0]
        if text is None or why:
            print(f"{workflow}/{name}: left out: {what} ({why or 'an action'})", flush=True)
            continue
        given = dict(line.split("=", 1) for line in state.read_text(encoding="utf-8").splitlines())
        env = {**os.environ, **given, "CI": "true", "GITHUB_REF_NAME": tag(clone, workflow), "GITHUB_ENV": str(state),
               "GIT_CONFIG_GLOBAL": str(clone.parent / "gitconfig")}  # a step adds to it
        done = subprocess.run(["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", text], cwd=clone / where,
                              env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        print(f"{workflow}/{name}: status {done.returncode}: {what}", flush=True)
        if done.returncode != 0:
            raise SystemExit(done.stdout.decode("utf-8", "replace")[-4000:])
        ran += 1
    return ran


def main():
    folder = pathlib.Path(sys.argv[1]).resolve()
    ran = 0
    for path in sorted((ROOT / ".github/workflows").glob("*.yml")):
        for name, job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].items():
            clone = folder / f"{path.stem}-{name}" / "clone"
            clone.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run([ROOT / "deploy/clear.sh", clone.parent], check=True)
            subprocess.run(["git", "clone", "-q", ROOT, clone], check=True)
            ran += run_job(clone, path.stem, name, job)
            for made in sorted((clone / "dist").glob("*")) if (clone / "dist").exists() else ():
                print(f"  {made.name}: {made.stat().st_size} bytes")
    print(f"{ran} steps")


if __name__ == "__main__":
    main()
