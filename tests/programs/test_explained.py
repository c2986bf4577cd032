"""What doesn't work inside and does bare: docs/programs.md explains each. The refusal must be the one that is told there."""
import pathlib
import re

import pytest

from harness import names

SOCKET = 'python3 -c "import socket as s; s.socket({})"'
LEAK = "#include <stdlib.h>\nint main(void) { void *volatile p = malloc(7); p = 0; return p != 0; }\n"
I386 = "int main(void) { int r; __asm__ volatile(\"int $0x80\" : \"=a\"(r) : \"a\"(20) : \"memory\"); return r <= 0; }\n"
CALL = "#include <errno.h>\n#include <unistd.h>\nint main(void) { return syscall(%s) < 0 ? errno : 0; }\n"

# name: script, files, the exit status inside, what it says inside (a pattern), the exit status bare (None where hosts differ)
DIFFERENT = {
    "strace": ("strace -o log true", {}, 1, "Operation not permitted", 0),
    "leak": ("gcc -g -fsanitize=address -o a a.c && ./a", {"a.c": LEAK}, 1,
        "LeakSanitizer has encountered a fatal error", 1),
    "renice": ("sleep 9 & renice -n 5 $! 2>&1; r=$?; kill $!; exit $r", {}, 1, "Operation not permitted", 0),
    "oom_score_adj": ("echo 100 >/proc/self/oom_score_adj", {}, 1, "Permission denied|Read-only file system",
        0),
    "device": ("mknod b b 8 0", {}, 1, "Permission denied", 1),
    "namespaces": ("unshare -r true", {}, 1, "Operation not permitted", None),
    "browser-sandbox": ("timeout -s KILL 60 chromium --headless --disable-gpu --dump-dom data:text/html,x", {},
        None, "", None),
    "i386": ("gcc -o a a.c && ./a", {"a.c": I386}, 159, "", None),
    "io_uring": ("gcc -o a a.c && ./a", {"a.c": CALL % "425, 0, 0"}, 1, "", None),
    "perf": ("gcc -o a a.c && ./a", {"a.c": CALL % "298, 0, 0, -1, -1, 0"}, 1, "", None),
    "keys": ("gcc -o a a.c && ./a", {"a.c": CALL % "250, 0, -3, 0"}, 1, "", None),
    "numa": ("gcc -o a a.c && ./a", {"a.c": CALL % "239, 0, 0, 0, 0, 0"}, 1, "", None),
    "packet": (SOCKET.format("s.AF_PACKET, s.SOCK_RAW"), {}, 1, "Address family not supported", 1),
    "vsock": (SOCKET.format("s.AF_VSOCK, s.SOCK_STREAM"), {}, 1, "Address family not supported", None),
    "kernel-crypto": (SOCKET.format("s.AF_ALG, s.SOCK_SEQPACKET"), {}, 1, "Address family not supported", None),
    "odd-protocols": (SOCKET.format("s.AF_INET, s.SOCK_STREAM, 262"), {}, 1, "Protocol not supported", None),
    "aio": ("gcc -o a a.c && ./a", {"a.c": CALL % "206, 1, &(unsigned long){0}"}, 38, "", 0),
    "lease": ('python3 -c "import fcntl; fcntl.fcntl(open(\'f\', \'w+\'), fcntl.F_SETLEASE, fcntl.F_WRLCK)"', {}, 1,
        "Operation not permitted", 0),
    "chattr": ("touch f && chattr +d f", {}, 1, "Operation not permitted", None),
    "huge-pages": ('python3 -c "import mmap; mmap.mmap(-1, 1 << 21, 0x40022)"', {}, 1, "Cannot allocate memory", None),
    "device-news": (SOCKET.format("s.AF_NETLINK, s.SOCK_RAW, 15"), {}, 1, "Address family not supported", 0),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_refused_as_told(twin, name):
    script, files, status, text, bare_status = DIFFERENT[name]
    box = twin.box(files)
    inside, bare = twin.inside(script, box), twin.bare.run(script, cwd=box)
    if status is None:
        assert inside["exit_code"] != 0, inside
    else:
        assert inside["exit_code"] == status, inside
    assert re.search(text, inside["stdout"] + inside["stderr"]), inside
    assert bare_status is None or bare["exit_code"] == bare_status, bare
    if bare_status is not None:
        assert any(inside[k] != bare[k] for k in bare), "no longer different: take it out, here and in docs/programs.md"


def test_the_page_tells_each():
    page = (pathlib.Path(names.ROOT) / "docs" / "programs.md").read_text()
    told = re.findall(r"^\| `([a-z0-9_-]+)` \|", page, re.M)
    assert sorted(told) == sorted(DIFFERENT)
