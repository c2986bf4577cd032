#!/usr/bin/python3
"""What a held shell saves: `./dev bench held [ROUNDS [PAUSE_MS]]`.

Starts two daemons on 127.0.0.1, with SALLYPORT_HELD_SHELL on and off, for each of dash and bash, and runs
bench/held.c against both. Prints a table. Trusts the daemons: they are ours.
"""
import os
import shutil
import subprocess
import sys
import tempfile

import layers


def main():
    rounds, pause = (*sys.argv[1:], *("400", "5")[len(sys.argv) - 1:])[:2]
    subprocess.run(["ninja", "-C", layers.ROOT / "build", "bench/bench-held"], check=True, stdout=subprocess.DEVNULL)
    base = tempfile.mkdtemp(prefix="sp-bench-", dir="/srv")
    os.chmod(base, 0o755)
    try:
        for shell in ("/bin/dash", "/bin/bash"):
            daemons = []
            try:
                for held in ("on", "off"):
                    daemons.append(layers.Daemon(base, f"{os.path.basename(shell)} {held}", "",
                                                 env={"SALLYPORT_HELD_SHELL": held, "SANDBOX_SHELL": shell}))
                print(f"{shell}: `true` {rounds} times, {pause} ms apart; then without pauses", flush=True)
                subprocess.run([layers.ROOT / "build/bench/bench-held", shell, rounds, pause,
                                *(str(d.port) for d in daemons)], check=True, env=layers.ENV)
            finally:
                for d in daemons:
                    d.stop()
    finally:
        shutil.rmtree(base)


main()
