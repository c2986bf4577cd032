#!/usr/bin/python3
"""What the number of processes costs by itself: `./dev bench chain [ROUNDS]`.

Starts a seat on 127.0.0.1, for each of dash and bash, and runs bench/chain.c against it: the same request through one,
two and three processes that only pass it on. Prints a table. Trusts the daemon: it is ours.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import layers


def main():
    rounds = sys.argv[1] if len(sys.argv) > 1 else "400"
    subprocess.run(["ninja", "-C", layers.ROOT / "build", "bench/bench-chain"], check=True, stdout=subprocess.DEVNULL)
    base = pathlib.Path(tempfile.mkdtemp(prefix="sp-bench-", dir="/srv"))
    base.chmod(0o755)
    try:
        for shell in ("/bin/dash", "/bin/bash"):
            d = layers.Daemon(base, os.path.basename(shell), "", env={"SANDBOX_SHELL": shell})
            try:
                (base / ("seat" + d.name) / "k1").write_bytes(b"x" * 1024)
                out = subprocess.run([layers.ROOT / "build/bench/bench-chain", shell, rounds, str(d.port)],
                                     check=True, env=layers.ENV, stdout=subprocess.PIPE, text=True).stdout
            finally:
                d.stop()
            table(shell, [line.split() for line in out.splitlines()])
    finally:
        shutil.rmtree(base)


def table(shell, rows):
    """The first of each work is what the others are held against."""
    print(f"\n| {shell} | p50 µs | p95 | of the first, p50 | p95 |\n|---|---|---|---|---|")
    first = {}
    for work, way, *t in rows:
        p50, p95 = first.setdefault(work, [int(x) for x in t])
        print(f"| {work}: {way} | {t[0]} | {t[1]} | {int(t[0]) / p50:.2f} | {int(t[1]) / p95:.2f} |")


main()
