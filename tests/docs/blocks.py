"""blocks.py: the shell blocks of the pages, and a room to run them in: an overlay over the host's files whose
upper layer is memory, with mounts, processes, IPC and a network (a loopback) of its own. What a block does is
gone with it. A comment before a block says how it is run:
  <!-- serves URL -->    goes on while those after it run, which wait until URL answers
  <!-- not run: WHY -->  not at all
Trusts the pages: they run as root in there."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from harness import names

ROOT = pathlib.Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"(?:^<!-- ([^\n]*?) -->\n\n?)?^```(?:sh|bash)\n(.*?)^```$", re.M | re.S)
BUILD = r'''
set -eu
mount --make-rprivate /
mount -t tmpfs tmpfs "$ROOM"
mkdir "$ROOM/up" "$ROOM/work" "$ROOM/up2" "$ROOM/work2" "$ROOM/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$ROOM/up,workdir=$ROOM/work" "$ROOM/root"
mkdir -p "$ROOM/root$TREE"
mount -t overlay overlay -o "lowerdir=$TREE,upperdir=$ROOM/up2,workdir=$ROOM/work2" "$ROOM/root$TREE"
cp "$BINARY" "$ROOM/root/usr/local/bin/sallyport"
cp "$ROOM.sh" "$ROOM/root/blocks.sh"
cd "$ROOM/root"
mount -t proc proc proc
mount -t sysfs sysfs sys -o ro
mount --rbind /dev dev
mount -t tmpfs tmpfs run -o mode=755
pivot_root . mnt
umount -l /mnt
ip link set lo up
cd "$TREE"
exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb bash -eu /blocks.sh
'''
WAIT = r'''for _ in $(seq 3000); do curl -sf -o /dev/null '{url}' && break; kill -0 $! || exit 1; sleep 0.1; done
curl -sf -o /dev/null '{url}'
'''


def pages():
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page):
    """(how, text) of each."""
    return [(m[1] or "", m[2]) for m in BLOCK.finditer(page.read_text(encoding="utf-8"))]


def script(found):
    out = []
    for n, (how, text) in enumerate(found):
        if how.startswith("not run: "):
            continue
        out.append(f"echo '== block {n}' >&2\n")
        if how.startswith("serves "):
            out.append(f"(\n{text}) &\n" + WAIT.format(url=how.removeprefix("serves ")))
        else:
            out.append(text)
    return "".join(out) + "echo '== end' >&2\n"


def run(found):
    """(exit status, all that was printed)."""
    room = pathlib.Path(tempfile.mkdtemp(prefix="sp-blocks-", dir="/run"))
    steps = room.with_suffix(".sh")
    steps.write_text(script(found), encoding="utf-8")
    try:
        done = subprocess.run(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--net", "--ipc", "--uts", "bash", "-c", BUILD],
            env={**os.environ, "ROOM": str(room), "TREE": str(ROOT), "BINARY": str(names.BIN)}, timeout=600,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        return done.returncode, done.stdout.decode("utf-8", "replace")
    finally:
        steps.unlink()
        shutil.rmtree(room, ignore_errors=True)
