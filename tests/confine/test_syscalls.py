"""Kernel doors that stay shut for a command: one probe each, by number, through ctypes (x86-64)."""
import platform
import textwrap

import pytest

PROBES = {
    # name: (number, arguments as Python text)
    "unshare user": (272, "0x10000000"), "unshare mount": (272, "0x20000"), "unshare net": (272, "0x40000000"),
    "unshare pid": (272, "0x20000000"), "unshare uts": (272, "0x4000000"), "unshare ipc": (272, "0x8000000"),
    "unshare cgroup": (272, "0x2000000"), "unshare time": (272, "0x80"),
    "clone3 user": (435, "clone_args(0x10000000), 88"), "clone3 plain": (435, "clone_args(0), 88"),
    "clone user": (56, "0x10000011, 0, 0, 0, 0"), "clone mount": (56, "0x20011, 0, 0, 0, 0"),
    "clone pid": (56, "0x20000011, 0, 0, 0, 0"), "clone net": (56, "0x40000011, 0, 0, 0, 0"),
    "setns": (308, "own_ns, 0"), "setns user": (308, "user_ns, 0x10000000"),
    "mount tmpfs": (165, "b'x', b'/tmp', b'tmpfs', 0, 0"), "mount bind": (165, "b'/etc', b'/tmp', 0, 4096, 0"),
    "mount proc": (165, "b'p', b'/tmp', b'proc', 0, 0"), "umount2": (166, "b'/tmp', 2"),
    "pivot_root": (155, "b'.', b'.'"), "chroot": (161, "b'.'"), "open_tree": (428, "-100, b'/', 1"),
    "move_mount": (429, "-1, b'', -1, b'', 0"), "fsopen": (430, "b'tmpfs', 0"), "fspick": (433, "-100, b'/', 0"),
    "mount_setattr": (442, "-100, b'/', 0, clone_args(0), 32"),
    "bpf map": (321, "0, attr(1, 4, 4, 1), 72"), "bpf prog": (321, "5, attr(1, 0, 0, 0), 72"),
    "keyctl": (250, "0, -3, 1, 0, 0"), "keyctl session": (250, "1, 0, 0, 0, 0"),
    "add_key": (248, "b'user', b'sp', b'x', 1, -3"), "request_key": (249, "b'user', b'sp', 0, -3"),
    "io_uring_setup": (425, "4, big"), "userfaultfd": (323, "0"), "userfaultfd user": (323, "1"),
    "perf_event_open": (298, "perf, 0, -1, -1, 0"), "ptrace traceme": (101, "0, 0, 0, 0"),
    "process_vm_readv": (310, "pid, iov, 1, iov, 1, 0"), "process_vm_writev": (311, "pid, iov, 1, iov, 1, 0"),
    "kcmp": (312, "pid, pid, 0, 0, 1"), "pidfd_getfd": (438, "own_pidfd, 0, 0"),
    "open_by_handle_at": (304, "-100, big, 0"), "name_to_handle_at": (303, "-100, b'/', big, big, 0"),
    "fanotify_init": (300, "0, 0"), "init_module": (175, "big, 0, b''"), "finit_module": (313, "0, b'', 0"),
    "delete_module": (176, "b'x', 0"), "kexec_load": (246, "0, 0, 0, 0"), "reboot": (169, "0, 0, 0, 0"),
    "swapon": (167, "b'/tmp/x', 0"), "swapoff": (168, "b'/tmp/x'"), "acct": (163, "b'/tmp/x'"),
    "sethostname": (170, "b'x', 1"), "setdomainname": (171, "b'x', 1"), "settimeofday": (164, "big, 0"),
    "clock_settime": (227, "0, big"), "iopl": (172, "3"), "ioperm": (173, "0, 1, 1"),
    "modify_ldt": (154, "1, big, 16"), "syslog": (103, "3, big, 100"), "quotactl": (179, "0, 0, 0, 0"),
    "personality read implies exec": (135, "0x400000"), "memfd_secret": (447, "0"), "lookup_dcookie": (212, "0, 0, 0"),
    "vhangup": (153, ""), "unknown 500": (500, ""), "unknown 10000": (10000, ""), "mknod disk": (133, "b'blk', 0o60666, 0x700"),
    "mknod char": (133, "b'chr', 0o20666, 0x101"), "nfsservctl": (180, "0, 0, 0"),
}
SOCKETS = {"packet": (17, 3, 0), "packet dgram": (17, 2, 0), "vsock": (40, 1, 0), "raw": (2, 3, 1), "raw6": (10, 3, 58),
           "alg": (38, 5, 0), "bluetooth": (31, 3, 0), "can": (29, 3, 1), "netlink audit": (16, 3, 9),
           "netlink uevent": (16, 3, 15), "netlink crypto": (16, 3, 21), "netlink nft": (16, 3, 12), "xdp": (44, 3, 0),
           "key": (15, 3, 2), "tipc": (30, 1, 0), "smc": (43, 1, 0), "qipcrtr": (42, 2, 0), "rds": (21, 5, 0)}

SETUP = """
    import ctypes, os, struct
    libc = ctypes.CDLL(None, use_errno=True)
    big = ctypes.create_string_buffer(4096)
    pid = os.getppid()
    own_pidfd = os.pidfd_open(os.getpid())
    own_ns = os.open("/proc/self/ns/mnt", os.O_RDONLY)
    user_ns = os.open("/proc/self/ns/user", os.O_RDONLY)
    iov = (ctypes.c_size_t * 2)(ctypes.addressof(big), 8)
    perf = ctypes.create_string_buffer(struct.pack("IIQ", 1, 112, 0), 112)
    def clone_args(flags):
        return ctypes.create_string_buffer(struct.pack("QQQQQ", flags, 0, 0, 0, 17), 88)
    def attr(*words):
        return ctypes.create_string_buffer(struct.pack(f"{len(words)}I", *words), 72)
"""

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="numbers are x86-64's")
BOTH = pytest.mark.parametrize("seat", ["root-uid1000", "root-root"], indirect=True, scope="module")


def python(seat, code):
    r = seat.run("exec /usr/bin/python3 -I -", stdin=textwrap.dedent(code))
    return r


@BOTH
def test_calls_are_refused(seat):
    """All in one command; each in a child, which may be killed for it."""
    code = textwrap.dedent(SETUP)
    for name, (number, args) in PROBES.items():
        code += textwrap.dedent(f"""
            child = os.fork()
            if child == 0:
                ctypes.set_errno(0)
                r = libc.syscall({number}, {args})
                if r == 0 and {name!r}.startswith("clone"):
                    os._exit(200)
                os._exit(200 if r >= 0 else min(ctypes.get_errno(), 199))
            print({name!r}, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), sep="=")
            """)
    r = python(seat, code)
    assert r["exit_code"] == 0, r
    got = dict(line.split("=") for line in r["stdout"].splitlines())
    assert set(got) == set(PROBES), r
    allowed = {n for n, v in got.items() if v == "200"}
    assert allowed == set(), got
    # 14 and 22 would mean that the kernel's own code looked at the arguments
    reached = {n: v for n, v in got.items() if v in ("14", "22", "9", "2")}
    assert reached == {}, got


@BOTH
def test_sockets_are_refused(seat):
    code = "import socket\n" + "\n".join(
        f"try:\n    socket.socket{args}; print({name!r})\nexcept OSError: pass" for name, args in SOCKETS.items())
    r = python(seat, code)
    assert (r["exit_code"], r["stdout"]) == (0, ""), r


@BOTH
def test_ordinary_work_is_not(seat):
    """What programs do every day goes on: threads, fork, exec, sockets, mmap, signals, inotify."""
    r = python(seat, """
        import ctypes, mmap, os, socket, subprocess, threading, multiprocessing, tempfile, select, signal
        t = threading.Thread(target=lambda: None); t.start(); t.join()
        assert subprocess.run(["/bin/echo", "x"], capture_output=True).stdout == b"x\\n"
        a = socket.socket(); a.bind(("127.0.0.1", 0)); a.listen(1)
        b = socket.create_connection(a.getsockname()); c, _ = a.accept(); b.send(b"hi"); assert c.recv(2) == b"hi"
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM); socket.socketpair()
        m = mmap.mmap(-1, 4096); m[0:2] = b"ab"
        e = select.epoll(); e.register(c.fileno())
        with tempfile.NamedTemporaryFile() as f: f.write(b"x")
        os.memfd_create("x"); os.eventfd(1)
        p = multiprocessing.Process(target=print, args=("forked",)); p.start(); p.join(); assert p.exitcode == 0
        signal.setitimer(signal.ITIMER_REAL, 1000); os.getrandom(8)
        q, w = multiprocessing.Pipe(); w.send(1); assert q.recv() == 1
        """)
    assert r["exit_code"] == 0, r["stderr"]


@BOTH
def test_io_control_of_terminals(seat):
    """TIOCSTI and TIOCLINUX push bytes into other people's terminals."""
    r = python(seat, """
        import fcntl
        for op in (0x5412, 0x541C, 0x100005412):
            try:
                fcntl.ioctl(0, op & 0xffffffff, b"x"); print("done", op)
            except OSError as e:
                print(e.errno)
        """)
    assert r["stdout"].split() == ["1", "1", "1"], r


@BOTH
def test_no_core_and_no_dump(seat):
    r = seat.run("ulimit -c unlimited; sh -c 'kill -SEGV $$'; ls")
    assert "core" not in r["stdout"]


@pytest.mark.parametrize("command", ["unshare -Ur id", "unshare -m true", "mount -t tmpfs x /tmp", "nsenter -t 1 -a id",
                                     "chroot . /bin/true", "dmesg", "sysctl -w kernel.hostname=x", "hostname evil",
                                     "strace true", "date -s 2001-01-01"])
@BOTH
def test_tools(seat, command):
    r = seat.run(f"{command} && echo WORKED")
    assert "WORKED" not in r["stdout"], r
