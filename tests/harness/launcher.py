"""launcher.py: runs one daemon where it can hurt nobody.
Started as root with the path of a JSON spec in argv[1] (not the spec: where there is no /proc of its own a command
could read it there, key and all); or by harness.launchers with --serve, for many: starting Python anew for each would
be a third of what a run costs. It makes a mount namespace in
which all of the host is read-only but spec["base"], and a process namespace of which it is the
first process, so that a stray kill(-1) ends at the fence and every orphan shows. It trusts the
spec and nothing that it starts. Reports one JSON line on spec["status_fd"] when the daemon ends."""
import ctypes
import errno
import json
import os
import resource
import signal
import socket
import stat
import struct
import sys
import time

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID = 0x20000, 0x10000000, 0x20000000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18
AT_FDCWD, AT_RECURSIVE, MOUNT_ATTR_RDONLY = -100, 0x8000, 1
SYS_MOUNT_SETATTR = 442
PR_SET_PDEATHSIG, PR_CAPBSET_READ, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 23, 24, 38
CAPS = {"CHOWN": 0, "DAC_OVERRIDE": 1, "FOWNER": 3, "KILL": 5, "SETGID": 6, "SETUID": 7}


def check(result, what):
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def mount(source, target, kind, flags, data=None):
    enc = [None if v is None else os.fsencode(v) for v in (source, target, kind, data)]
    check(LIBC.mount(enc[0], enc[1], enc[2], ctypes.c_ulong(flags), enc[3]), f"mount {target}")


def set_readonly(path, recursive, on):
    attr = (ctypes.c_uint64 * 4)(MOUNT_ATTR_RDONLY if on else 0, 0 if on else MOUNT_ATTR_RDONLY)
    check(LIBC.syscall(SYS_MOUNT_SETATTR, AT_FDCWD, os.fsencode(path),
                       AT_RECURSIVE if recursive else 0, attr, 32), f"mount_setattr {path}")


def make_dev(nodes):
    """A /dev without block devices: root may write those through a read-only mount."""
    mount("dev", "/dev", "tmpfs", 0, "mode=755,size=1m")
    old = os.umask(0)
    for name, minor in (("null", 3), ("zero", 5), ("full", 7), ("random", 8), ("urandom", 9)):
        os.mknod(f"/dev/{name}", stat.S_IFCHR | 0o666, os.makedev(1, minor))
    os.mknod("/dev/tty", stat.S_IFCHR | 0o666, os.makedev(5, 0))
    for name, kind, major, minor in nodes:
        os.makedirs(os.path.dirname(f"/dev/{name}"), exist_ok=True)
        os.mknod(f"/dev/{name}", (stat.S_IFBLK if kind == "b" else stat.S_IFCHR) | 0o666, os.makedev(major, minor))
    os.umask(old)
    os.symlink("/proc/self/fd", "/dev/fd")
    for n, name in enumerate(("stdin", "stdout", "stderr")):
        os.symlink(f"/proc/self/fd/{n}", f"/dev/{name}")
    os.mkdir("/dev/pts")
    mount("pts", "/dev/pts", "devpts", 0, "newinstance,ptmxmode=0666,mode=620")
    os.symlink("pts/ptmx", "/dev/ptmx")
    os.mkdir("/dev/mqueue")
    mount("mqueue", "/dev/mqueue", "mqueue", 0)
    os.mkdir("/dev/shm")
    mount("shm", "/dev/shm", "tmpfs", 0, "mode=1777,size=256m")


def fence(spec):
    base = spec["base"]
    mount(None, "/", None, MS_REC | MS_PRIVATE)
    mount(base, base, None, MS_BIND)
    mount(spec["source"], spec["binary"], None, MS_BIND)
    set_readonly("/", True, True)
    set_readonly(base, False, False)
    mount("tmp", "/var/tmp", "tmpfs", 0, "mode=1777,size=256m")
    mount("tmp", "/tmp", "tmpfs", 0, "mode=1777,size=256m")
    make_dev(spec.get("nodes", ()))
    mount("proc", "/proc", "proc", 0)
    if spec.get("memfd_noexec"):
        with open("/proc/sys/vm/memfd_noexec", "w", encoding="ascii") as f:
            f.write(str(spec["memfd_noexec"]))
    if spec.get("cgroup2"):  # the one tree of the kernel, from where the daemon is put
        mount("cg", spec["cgroup2"], "cgroup2", 0)
    # For root alone: nobody else may write there, and over a masked /proc the kernel gives them no
    # other of their own.
    open_proc = spec.get("proc_open") or (spec["uid"] != 0 and not spec.get("masked_proc"))
    for path in filter(os.path.exists, () if open_proc else ("/proc/sys", "/proc/sysrq-trigger")):
        mount(path, path, None, MS_BIND)
        set_readonly(path, False, True)
    for extra in spec.get("tmpfs", ()):
        os.makedirs(extra["path"], exist_ok=True)
        mount("extra", extra["path"], "tmpfs", 0, extra["options"])
    for extra in spec.get("binds", ()):
        mount(extra["source"], extra["path"], None, MS_BIND)
    for path in spec.get("files", ()):
        with open(path, "w", encoding="ascii") as f:
            f.write("secret")
        os.chown(path, spec["owner"], spec["owner"])
    if os.statvfs("/").f_flag & os.ST_RDONLY == 0:
        raise SystemExit("launcher: the host is still writable")


def keep_caps(names):
    """After the exec, root has what the bounding set leaves."""
    keep = {CAPS[n] for n in names}
    for cap in range(64):
        if LIBC.prctl(PR_CAPBSET_READ, cap, 0, 0, 0) == 1 and cap not in keep:
            check(LIBC.prctl(PR_CAPBSET_DROP, cap, 0, 0, 0), f"drop capability {cap}")


def deny_user_namespaces():
    """As a host does that doesn't allow them: EPERM, and no clone3, whose flags a filter can't see."""
    def op(code, k, jt=0, jf=0):
        return struct.pack("<HBBI", code, jt, jf, k)
    ld, jeq, jset, ret = 0x20, 0x15, 0x45, 0x06
    allow, eperm, enosys = 0x7fff0000, 0x50000 | errno.EPERM, 0x50000 | errno.ENOSYS
    program = b"".join((
        op(ld, 0), op(jeq, 435, 6), op(jeq, 272, 1), op(jeq, 56, 0, 3),
        op(ld, 16), op(jset, CLONE_NEWUSER, 0, 1), op(ret, eperm), op(ret, allow), op(ret, enosys)))
    code = ctypes.create_string_buffer(program, len(program))
    fprog = struct.pack("<HxxxxxxQ", len(program) // 8, ctypes.addressof(code))
    check(LIBC.syscall(317, 1, 0, fprog), "seccomp")


def become_daemon(spec):
    os.setsid()
    os.chdir("/")
    os.umask(0o022)
    resource.setrlimit(resource.RLIMIT_NOFILE, (spec["nofile"], spec["nofile"]))
    if spec.get("fsize"):
        resource.setrlimit(resource.RLIMIT_FSIZE, (spec["fsize"], spec["fsize"]))
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it
    env = dict(spec["env"])
    listen = spec.get("listen_fds", [])
    if listen:
        held = [os.dup(fd) for fd in listen]
        held = [fd if fd >= 3 + len(held) else os.dup(fd) for fd in held]
        for n, fd in enumerate(held):
            os.dup2(fd, 3 + n, inheritable=True)
        env.setdefault("LISTEN_PID", str(os.getpid()))
        env.setdefault("LISTEN_FDS", str(len(held)))
    os.closerange(3 + len(listen), 4096)
    if spec.get("deny_userns"):
        deny_user_namespaces()
    if "caps" in spec:
        keep_caps(spec["caps"])
    if spec.get("no_new_privs"):
        check(LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    if spec["uid"] != 0:
        os.setgroups([])
        os.setresgid(spec["uid"], spec["uid"], spec["uid"])
        os.setresuid(spec["uid"], spec["uid"], spec["uid"])
    argv = [*spec.get("under", ()), spec["binary"], *spec["args"]]
    os.execve(argv[0], argv, env)


def own_proc():
    check(LIBC.unshare(CLONE_NEWNS), "unshare")
    mount("proc", "/proc", "proc", 0)
    for path in filter(os.path.exists, ("/proc/sys", "/proc/sysrq-trigger")):
        mount(path, path, None, MS_BIND)
        set_readonly(path, False, True)


def others():
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as f:
                state = f.read().rpartition(b")")[2].split()[0]
            with open(f"/proc/{name}/cmdline", "rb") as f:
                line = f.read()
        except OSError:
            continue
        if state not in (b"Z", b"X"):
            found.append(line.replace(b"\0", b" ").decode("utf-8", "replace")[:200])
    return found


def reap():
    count = 0
    try:
        while os.waitpid(-1, os.WNOHANG)[0] > 0:
            count += 1
    except ChildProcessError:
        pass
    return count


def init(spec):
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for path in spec.get("cgroups", ()):
        with open(path, "w", encoding="ascii") as f:
            f.write("0")
    fence(spec)
    if spec.get("pid1"):  # the next child leads a namespace below ours
        check(LIBC.unshare(CLONE_NEWPID), "unshare")
    pid = os.fork()
    if pid == 0:
        try:
            if spec.get("pid1"):
                own_proc()
            become_daemon(spec)
        except BaseException as e:
            os.write(2, f"launcher: {e}\n".encode())
        os._exit(125)
    for fd in spec.get("listen_fds", []):
        os.close(fd)
    orphans = 0
    while True:
        done, status = os.waitpid(-1, 0)
        if done == pid:
            break
        orphans += 1
    until = time.monotonic() + spec["left_wait"]
    reap()
    left = others()
    while left and time.monotonic() < until:
        time.sleep(0.01)
        reap()
        left = others()
    report = {"status": os.waitstatus_to_exitcode(status), "left": left, "orphans": orphans}
    os.write(spec["status_fd"], json.dumps(report).encode() + b"\n")
    os._exit(0)


def read_spec(path):
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def launch(spec):
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    check(LIBC.unshare(CLONE_NEWNS | CLONE_NEWPID), "unshare")
    pid = os.fork()
    if pid == 0:
        try:
            init(spec)
        except BaseException as e:
            os.write(2, f"launcher: {e}\n".encode())
        os._exit(124)
    os.close(spec["status_fd"])
    for fd in spec.get("listen_fds", []):
        os.close(fd)
    raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) & 255)


def serve(sock):
    """Each message is a spec's path, with stdout, stderr, the status descriptor and what it listens on; the answer
    is a descriptor of the process that launches. When nobody can ask any more this one ends, and all of them with it."""
    os.set_inheritable(sock.fileno(), False)
    while True:
        path, fds, _, _ = socket.recv_fds(sock, 4096, 64)
        if not path:
            return
        reap()
        pid = os.fork()
        if pid == 0:
            try:
                sock.close()
                os.set_inheritable(os.open(os.devnull, os.O_RDONLY), True)  # is 0, as the socket was
                for at, fd in enumerate((fds[0], fds[1])):
                    os.dup2(fd, 1 + at)
                    os.close(fd)
                launch({**read_spec(path), "status_fd": fds[2], "listen_fds": fds[3:]})
            except SystemExit as e:
                os._exit(e.code)
            except BaseException as e:
                os.write(2, f"launcher: {e}\n".encode())
            os._exit(125)
        for fd in fds:
            os.close(fd)
        pidfd = os.pidfd_open(pid)  # before it is reaped: its number is still its own
        socket.send_fds(sock, [str(pid).encode()], [pidfd])
        os.close(pidfd)


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        serve(socket.socket(fileno=0))
    else:
        launch(read_spec(sys.argv[1]))
