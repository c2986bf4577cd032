#!/usr/bin/python3
"""Measures the daemon beside the machine's limits and beside a plain server in Go, and prints a table.

`./dev bench [--write] [--rounds N] [--long] [--one-cpu]`. --write replaces the figures in docs/performance.md; --long adds the rows
that take minutes (1 GiB, 10,000 connections, 1,000 identities); --one-cpu sets SALLYPORT_ONE_CPU. Each row does the daemon's work, the peer's and the bare
work in turn, so that whatever else the machine does meets all alike. As root.
"""
import argparse
import os
import re
import shutil
import statistics
import subprocess
import tempfile
import time

import identity
import rows
from layers import ENV, KEY, ROOT
from machine import SHELL, Box, Peer, Seat, memory

GOALS = {  # of the ratio to bare at p50, or (p50, p95)
    "exec-true": (1.15, 1.3), "get-32m": 1 / 0.8, "put-32m": 1 / 0.6, "list-100000": 2, "archive-10000-files": 1 / 0.7,
    "identity-first-call": 2}


def quantile(values, percent):
    return statistics.quantiles(values, n=100)[percent - 1] if len(values) > 1 else values[0]


def summary(times):
    return [quantile(times[w], p) if times.get(w) else 0 for w in ("ours", "peer", "bare") for p in (50, 95)]


def line(name, v):
    o50, o95, p50, p95, b50, b95 = v
    cell = lambda x: f"{x:.0f}" if x else ""
    ratio = lambda a, b: f"{a / b:.2f}" if b else ""
    goal = GOALS.get(name, "")
    goal = ", ".join(f"{g:.2f}" for g in goal) if isinstance(goal, tuple) else goal and f"{goal:.2f}"
    return "| " + " | ".join([name, cell(o50), cell(o95), cell(p50), cell(b50), cell(b95), ratio(o50, b50),
                              ratio(o95, b95), goal, ratio(o50, p50)]) + " |"


def starts(base):
    """Milliseconds from a seat's start to its first answer, of nine starts, in order of size."""
    found = []
    for i in range(9):
        seat = Seat(base, f"start{i}")
        found.append(seat.ready)
        seat.stop()
    return sorted(found)


def seat_rows(base, peer, args):
    seat = Seat(base, SALLYPORT_MAX_CONNECTIONS="12000", SALLYPORT_ONE_CPU=args.one_cpu)
    out, text = [], []
    try:
        idle = memory(seat.p.pid)
        run = subprocess.run([ROOT / "build/bench/bench", str(seat.port), seat.folder, str(peer.port), peer.folder, SHELL,
                              str(args.rounds), "1024" if args.long else "32"], check=True, stdout=subprocess.PIPE, text=True, env=ENV)
        out += [(r.split()[0], [float(x) for x in r.split()[1:]]) for r in run.stdout.splitlines()]
        few = max(5, args.rounds // 20)
        out.append(rows.events(seat, peer, few))
        out += rows.lists(seat, peer, (10, 10000, 100000), few)
        name, times = rows.health(seat, peer, 10 if args.long else 5)
        out.append((name, times))
        text.append("`/healthz` under mixed load (a command's output, an upload and two downloads at all times), p99: " + ", ".join(
            f"{w} {quantile(t, 99) / 1000:.1f} ms" for w, t in times.items()) + f" of {len(times['ours'])} calls; goal 20 ms.")
        text += rows.big_transfers(seat)
        text += rows.idle_connections(seat, (2000, 10000) if args.long else (2000,))
        after = {m[0]: m for m in memory(seat.p.pid)}
        ready = starts(base)
        text += ["", f"Start to first answer: {ready[4]:.0f} ms, of nine starts {ready[0]:.0f} to {ready[8]:.0f} (goal 50).", "",
                 "| process | PSS idle KiB | PSS after all KiB | peak resident KiB |", "|---|---|---|---|"]
        text += [f"| {n} | {p} | {after[n][1]} | {after[n][2]} |" for n, p, _ in idle if n in after]
        text.append(f"| all (goal 8192) | {sum(m[1] for m in idle)} | {sum(m[1] for m in after.values())} | |")
    finally:
        seat.stop()
    return out, text


def box_rows(base, peer, args):
    out, rates = [], []
    box = Box(base, "box", SALLYPORT_ONE_CPU=args.one_cpu)
    try:
        first, second, bare = identity.measure(box, max(20, args.rounds // 10), 0.05, SHELL)
        out.append(("identity-first-call", {"ours": first, "bare": bare}))
        out.append(("identity-second-call", {"ours": second, "bare": bare}))
        for n in (1, 4, 16, 64):
            run = subprocess.run([ROOT / "build/bench/bench-many", str(box.port), str(peer.port), SHELL, KEY, str(n),
                                  "9" if args.long else "5"], check=True, stdout=subprocess.PIPE, text=True, env=ENV)
            ours, go, limit = (float(x) for x in run.stdout.split()[1:])
            rates.append(f"| {n} | {ours:.0f} | {go:.0f} | {limit:.0f} | {ours / limit:.2f} | {'0.90' if n == 16 else ''} | {ours / go:.2f} |")
        out.append(rows.archive(box, base, 5))
        out.append(rows.multipart(box, base, 10))
    finally:
        box.stop()
    return out, rates


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--rounds", type=int, default=400)
    ap.add_argument("--long", action="store_true")
    ap.add_argument("--one-cpu", action="store_const", const="on", default="off")
    ap.add_argument("--write", action="store_true", help="write docs/performance.md")
    args = ap.parse_args()
    subprocess.run(["ninja", "-C", ROOT / "build", "bench/bench", "bench/bench-many", "bench/bench-mixed"], check=True, stdout=subprocess.DEVNULL)
    base = tempfile.mkdtemp(prefix="sp-bench-", dir="/srv")
    os.chmod(base, 0o755)
    peer = Peer(base)
    try:
        table, text = seat_rows(base, peer, args)
        more, rates = box_rows(base, peer, args)
        growth = rows.growth(base, 1000) if args.long else []
    finally:
        peer.stop()
        shutil.rmtree(base, ignore_errors=True)
    lines = ["| work | daemon p50 µs | p95 | Go peer p50 | bare p50 | p95 | daemon / bare p50 | p95 | goal | daemon / peer |",
             "|---|---|---|---|---|---|---|---|---|---|"]
    lines += [line(name, summary(v) if isinstance(v, dict) else v) for name, v in table + more]
    lines += ["", "Commands a second (`true`) of so many clients at once, each an identity of its own:", "",
              "| clients | daemon | Go peer | bare spawn | daemon / bare | goal | daemon / peer |", "|---|---|---|---|---|---|---|",
              *rates, "", *text]
    if growth:
        lines += ["", "From one identity to many:", "", *growth]
    page = "\n".join(lines)
    print(page)
    if args.write:
        path = ROOT / "docs/performance.md"
        head, _, rest = path.read_text().partition("<!-- figures -->")
        tail = rest.partition("<!-- end of figures -->")[2]
        path.write_text(head + "<!-- figures -->\n\n" + page + "\n\n<!-- end of figures -->" + (tail or "\n"))


main()
