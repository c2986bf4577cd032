"""kernel.py: what a command asks of the kernel: system calls that confinement refuses, tried by perl or Python
without any compiler; privileges, set-user-id programs, sockets, foreign processes and the daemon's own."""
import re

from . import suite
from .suite import Cannot, Gone, Bypass, expect

REFUSED = {1: "EPERM", 13: "EACCES", 38: "ENOSYS", 97: "EAFNOSUPPORT"}
# Numbers on x86-64 and arm64, and arguments that do no harm where they are taken. `SELF` and `PARENT` are process
# numbers, `PAIR` two times 8 bytes that are no valid time, `ZERO` 256 bytes.
CALLS = {
    "mount": (165, 40, ["none", ".", "tmpfs", 0, 0]), "umount": (166, 39, ["/sp-none", 0]),
    "pivot_root": (155, 41, ["/sp-none", "/sp-none"]), "chroot": (161, 51, ["."]),
    "unshare-user": (272, 97, [0x10000000]), "unshare-mount": (272, 97, [0x10020000]), "unshare-pid": (272, 97, [0x30000000]),
    "unshare-net": (272, 97, [0x50000000]), "unshare-ipc": (272, 97, [0x18000000]), "unshare-uts": (272, 97, [0x14000000]),
    "unshare-cgroup": (272, 97, [0x12000000]), "unshare-time": (272, 97, [0x10000080]),
    "clone-user": (56, 220, [0x10000011, 0, 0, 0, 0]), "clone3": (435, 435, ["ZERO", 64]),
    "setns": (308, 268, ["NSFD", 0]), "ptrace": (101, 117, [0, 0, 0, 0]), "ptrace-parent": (101, 117, [0x4206, "PARENT", 0, 0]),
    "process_vm_readv": (310, 270, ["SELF", 0, 0, 0, 0, 0]), "process_vm_writev": (311, 271, ["SELF", 0, 0, 0, 0, 0]),
    "kcmp": (312, 272, ["SELF", "SELF", 0, 0, 0]), "pidfd_getfd": (438, 438, [-1, 0, 0]),
    "process_madvise": (440, 440, [-1, 0, 0, 0, 0]), "bpf": (321, 280, [0, "ZERO", 72]),
    "perf_event_open": (298, 241, [0, 0, -1, -1, 0]), "userfaultfd": (323, 282, [1]),
    "io_uring_setup": (425, 425, [1, 0]), "io_uring_enter": (426, 426, [-1, 0, 0, 0, 0, 0]),
    "io_uring_register": (427, 427, [-1, 0, 0, 0]), "add_key": (248, 217, ["user", "sp", "x", 1, -3]),
    "request_key": (249, 218, ["user", "sp", 0, -3]), "keyctl": (250, 219, [0, -3, 1, 0, 0]),
    "init_module": (175, 105, [0, 0, "x"]), "finit_module": (313, 273, [-1, "x", 0]), "delete_module": (176, 106, ["sp_none", 0x800]),
    "kexec_load": (246, 104, [0, 0, 0, 0xfff0]), "kexec_file_load": (320, 294, [-1, -1, 0, 0, 0xfff0]),
    "reboot": (169, 142, [0, 0, 0, 0]), "swapon": (167, 224, ["/sp-none", 0]), "swapoff": (168, 225, ["/sp-none"]),
    "acct": (163, 89, ["/sp-none"]), "quotactl": (179, 60, [0, "/sp-none", 0, 0]), "sethostname": (170, 161, ["x", -1]),
    "setdomainname": (171, 162, ["x", -1]), "settimeofday": (164, 170, ["PAIR", 0]), "clock_settime": (227, 112, [0, "PAIR"]),
    "adjtimex": (159, 171, ["ZERO"]), "iopl": (172, None, [0]), "ioperm": (173, None, [0x80, 1, 0]), "modify_ldt": (154, None, [0, "ZERO", 16]),
    "syslog": (103, 116, [10, 0, 0]), "vhangup": (153, 58, []), "name_to_handle_at": (303, 264, [-100, ".", "ZERO", "ZERO", 0]),
    "open_by_handle_at": (304, 265, [-1, "ZERO", 0]), "fanotify_init": (300, 262, [0x200, 0]),
    "open_tree": (428, 428, [-100, ".", 0]), "move_mount": (429, 429, [-1, "x", -1, "y", 0]), "fsopen": (430, 430, ["tmpfs", 0]),
    "fsconfig": (431, 431, [-1, 0, 0, 0, 0]), "fsmount": (432, 432, [-1, 0, 0]), "fspick": (433, 433, [-100, ".", 0]),
    "mount_setattr": (442, 442, [-1, "", 0, 0, 0]), "set_mempolicy": (238, 237, [0, 0, 0]), "move_pages": (279, 239, [0, 0, 0, 0, 0, 0]),
    "migrate_pages": (256, 238, [0, 0, 0, 0]), "personality": (135, 92, [0x0400000]), "prlimit-parent": (302, 261, ["PARENT", 4, "ZERO", 0]),
    "setpriority-parent": (141, 140, [0, "PARENT", 0]), "sched-parent": (144, 119, ["PARENT", 0, "ZERO"]),
    "prctl-mm": (157, 167, [35, 99, 0, 0, 0]), "tiocsti": (16, 29, [0, 0x5412, "x"]), "tioclinux": (16, 29, [0, 0x541c, "x"]),
    "setuid-root": (105, 146, [0]), "setgid-root": (106, 144, [0]), "setresuid-root": (117, 147, [0, 0, 0]),
    "setgroups": (116, 159, [1, "ZERO"]), "mknod-disk": (259, 33, [-100, "sp-disk", 0o60600, 0x800]),
    "chown-root": (260, 54, [-100, ".", 0, 0, 0]), "packet-socket": (41, 198, [17, 3, 0]), "raw-socket": (41, 198, [2, 3, 1]),
    "netlink-audit": (41, 198, [16, 3, 9]), "netlink-uevent": (41, 198, [16, 3, 15]), "netlink-netfilter": (41, 198, [16, 3, 12]),
    "alg-socket": (41, 198, [38, 5, 0]), "vsock-socket": (41, 198, [40, 1, 0]), "x32": (0x40000000 + 39, None, []),
}
PERL = r"""my ($E,$Z,$P)=("","\0"x256,pack("qq",0,2000000000)); open(my $N,"<","/proc/self/ns/user"); my $nsfd=$N?fileno($N):-1;
$!=0; my $r=syscall(%s); print $r==-1 ? "errno ".($!+0)."\n" : "did $r\n";"""
PYTHON = r"""import ctypes,os
l=ctypes.CDLL(None,use_errno=True); Z=ctypes.create_string_buffer(256); P=ctypes.create_string_buffer((0).to_bytes(8,'little')+(2000000000).to_bytes(8,'little'))
try: nsfd=os.open('/proc/self/ns/user',0)
except OSError: nsfd=-1
L=ctypes.c_long
r=l.syscall(%s)
os.write(1,(('errno %%d\n'%%ctypes.get_errno()) if r==-1 else 'did %%d\n'%%r).encode())"""


def perl_word(a):
    return {"SELF": "$$", "PARENT": "getppid()", "ZERO": "$Z", "PAIR": "$P", "NSFD": "$nsfd"}.get(
        a, f'$E."{a}"' if isinstance(a, str) else str(a))  # a literal is read-only to perl's syscall


def python_word(a):
    return {"SELF": "L(os.getpid())", "PARENT": "L(os.getppid())", "ZERO": "Z", "PAIR": "P", "NSFD": "L(nsfd)"}.get(
        a, f"{a.encode()!r}" if isinstance(a, str) else f"L({a})")


def program(t, number, args):
    if "perl" in t.tools:
        return "perl", "-e", PERL % ",".join(map(perl_word, [number, *args]))
    t.need("python3")
    return "python3", "-c", PYTHON % ",".join(map(python_word, [number, *args]))


def machine(t):
    if "machine" not in t.stages:
        t.stages["machine"] = t.out("uname -m").strip()
    return t.stages["machine"]


def system_call(t, number, args, cwd):
    """The line that was printed, or the signal's name."""
    tool, flag, text = program(t, number, args)
    r = t.run(f'exec {tool} {flag} "$PROGRAM"', env={"PROGRAM": text}, cwd=cwd)
    lines = r["stdout"].split("\n")
    if re.match(r"did |errno ", lines[0]):
        return lines[0]
    if r["signal"]:
        return r["signal"]
    raise Cannot(f"not tried: {r}")


def call_check(name):
    x86, arm, args = CALLS[name]

    def work(t):
        number = {"x86_64": x86, "aarch64": arm}.get(machine(t))
        if number is None:
            raise Cannot(f"no number of it for {machine(t)}")
        got = system_call(t, number, args, t.folder())
        refused = got.startswith("SIG") or (got.startswith("errno") and int(got[6:]) in (
            *REFUSED, *([22] if name.endswith("-root") else [])))  # EINVAL: no such id in this user namespace
        expect(refused, f"{name}: {got}")
        return got
    return work


for _name in CALLS:
    suite.add("call-" + _name, "deep", f"the system call {_name} by number", "EPERM, EACCES, ENOSYS, or a signal",
              call_check(_name))


@suite.check("call-32-bit", "deep", "a call through the 32-bit table (int 0x80)", "a signal or ENOSYS, EPERM")
def call_32(t):
    t.need("python3")
    if machine(t) != "x86_64":
        raise Cannot("not x86-64")
    r = t.run("exec python3 -c \"$P\"", env={"P": "import mmap,ctypes\nm=mmap.mmap(-1,4096,prot=7)\n"
              "m.write(b'\\xb8\\x14\\0\\0\\0\\xcd\\x80\\xc3')\nf=ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof("
              "ctypes.c_char.from_buffer(m)))\nprint('got',f(),flush=True)\n"})
    got = re.search(r"got (-?\d+)", r["stdout"])
    expect(not got or int(got[1]) < 0, f"it gave {r['stdout']!r}")
    return r["stdout"].strip() or str(r["signal"])


@suite.check("families", "deep", "sockets of every family but local, IP and netlink", "none is given")
def families(t):
    t.need("perl")
    got = t.out("exec perl -e \"$P\"", env={"P": "for my $f (3..15,17..45) { for my $k (1,2,3,5) "
                "{ print \"$f/$k \" if socket(my $s,$f,$k,0) } }"}).split()
    got = [f for f in got if not f.startswith("10/")]
    expect(not got, f"family/type {got}")


# ---- privileges ----
def status(t, *wanted):
    """What of it is there: gVisor's has fewer lines."""
    s = dict(x.split(":", 1) for x in t.out("cat /proc/self/status").splitlines() if ":" in x)
    if not s.keys() & set(wanted) and wanted:
        raise Cannot(f"/proc/self/status has no {' '.join(wanted)}")
    return s


@suite.check("not-root", "security", "the user and group ids of a command", "not 0, no extra groups that are")
def not_root(t):
    s = status(t)
    ids = {*s["Uid"].split(), *s["Gid"].split(), *s.get("Groups", "").split()}
    expect("0" not in ids, f"{ids}")


@suite.check("capabilities", "security", "capabilities a command has or can get", "none")
def capabilities(t):
    names = ("CapInh", "CapPrm", "CapEff", "CapAmb")
    s = status(t, *names)
    for name in s.keys() & set(names):
        expect(int(s[name], 16) == 0, f"{name} {s[name]}")


@suite.check("no-new-privileges", "security", "the no_new_privs bit of a command", "set")
def no_new_privs(t):
    expect(status(t, "NoNewPrivs")["NoNewPrivs"].strip() == "1", "not set")


@suite.check("filter", "security", "the seccomp mode of a command", "2: a filter")
def filtered(t):
    expect(status(t, "Seccomp")["Seccomp"].strip() == "2", "no filter")


@suite.check("setuid-programs", "security", "each set-user-id program that is there, run", "none gains an id")
def setuid_programs(t):
    t.need("find", "perl")
    found = t.out("find / /usr /bin /sbin /opt /lib -xdev -perm /6000 -type f 2>/dev/null | sort -u").split()
    if not found:
        raise Cannot("there is none")
    # Stopped as soon as it is started: its ids are what exec gave it.
    text = ("for my $f (@ARGV) { my $p=fork(); if(!$p){ open(STDIN,'<','/dev/null'); open(STDOUT,'>','/dev/null'); "
            "open(STDERR,'>','/dev/null'); exec {$f} $f,'--help'; exit 1 } select(undef,undef,undef,0.002); "
            "for (1..50) { if (open(my $s,'<',\"/proc/$p/status\")) { my @l=grep {/^[UG]id:/} <$s>; "
            "print \"$f @l\" if grep {/\\b0\\b/} @l; } } kill 9,$p; waitpid($p,0); }")
    gained = t.out("exec perl -e \"$P\" " + " ".join(found), env={"P": text})
    expect(not gained, gained)
    return f"{len(found)} programs"


@suite.check("own-setuid", "security", "a copy of id with set-user-id and set-group-id bits of another", "no other id")
def own_setuid(t):
    d = t.folder()
    got = t.out(f"cd {d}; cp $(command -v id) x; chown 0:0 x 2>/dev/null; chmod 6755 x 2>/dev/null; ./x -u; id -u").split()
    expect(len(got) == 2 and got[0] == got[1] != "0", f"{got}")


@suite.check("sudo", "security", "su, sudo, pkexec, newuidmap, doas without a password", "no other id")
def sudo(t):
    got = t.out("for c in 'su -c id' 'sudo -n id' 'pkexec id' 'doas -n id' 'newgrp root' 'sg root id'; do "
                "$c </dev/null 2>/dev/null; done; unshare -r id -u 2>/dev/null", timeout=30)
    expect("uid=0" not in got and got.strip() != "0", got)


# ---- writing and reading elsewhere ----
@suite.check("write-elsewhere", "security", "a file in each folder of the system",
             "none but in the workspace, /tmp, /var/tmp and /dev/shm")
def write_elsewhere(t):
    t.need("find")
    text = ("for d in $(find / /usr /etc /opt /var /srv /run /home /mnt -xdev -maxdepth 3 -type d 2>/dev/null) /dev /proc/self /sys /sys/fs/cgroup "
            "\"$(dirname \"$PWD\")\" \"$(dirname \"$PWD\")/..\"; do [ -w \"$d\" ] || continue; "
            "case $d/ in /tmp/*|/var/tmp/*|/dev/shm/*|/dev/mqueue/*|\"$PWD\"/*) continue;; esac; "
            f"( : > \"$d\"/{t.nonce} ) 2>/dev/null && echo $d && rm -f \"$d\"/{t.nonce}; done; echo end")
    got = t.out(text, timeout=60).split()
    expect(got[-1:] == ["end"] and len(got) == 1, f"written to {got[:-1]}")


@suite.check("write-system-files", "security", "passwd, shadow, cron, profile, the shell and libc opened for writing",
             "none opens")
def write_system(t):
    got = t.out("for f in /etc/passwd /etc/shadow /etc/profile /etc/ld.so.preload /etc/ld.so.cache /etc/crontab /bin/sh "
                "/usr/bin/env /lib/x86_64-linux-gnu/libc.so.6 /proc/sysrq-trigger /proc/sys/kernel/core_pattern "
                "/proc/sys/kernel/modprobe /sys/kernel/uevent_helper /proc/1/mem /proc/1/oom_score_adj /dev/mem /dev/kmsg "
                "/dev/sda /dev/vda; do ( exec 3<>$f ) 2>/dev/null && echo $f; done")
    expect(not got, f"open for writing: {got!r}")


@suite.check("read-secrets", "security", "shadow, root's home, ssh keys, the host's sockets and disks", "none can be read")
def read_secrets(t):
    got = t.out("for f in /etc/shadow /etc/gshadow /root/.bash_history /root/.ssh/* /etc/ssh/*_key /root/.bashrc "
                "/proc/kcore /dev/mem /dev/vda /dev/sda /dev/kmsg /proc/kmsg /sys/kernel/debug/x "
                "/proc/sys/kernel/unprivileged_bpf_disabled_x; do head -c 1 $f 2>/dev/null | grep -aq . && echo $f; done; "
                "for s in /run/docker.sock /var/run/docker.sock /run/containerd/containerd.sock /run/dbus/system_bus_socket "
                "/run/systemd/private /run/podman/podman.sock; do [ -S $s ] && echo $s; done")
    expect(not got, f"{got!r}")


@suite.check("folder-of-state", "security", "files beside and above the workspace", "no other workspace, no state, no log")
def state(t):
    t.need("find")
    got = t.out('d=$(dirname "$PWD"); for x in "$d" "$d/.." "$d/../state"; do find "$x" -maxdepth 2 -type f -readable 2>/dev/null | '
                'grep -v "^$PWD" | grep -E "registry|\\.db|\\.log|secret|token|key$" ; done | head -5')
    expect(not got, f"{got!r}")


# ---- foreign processes ----
def foreign(text):
    """A command that sets $p to each process that isn't the command's own (its mark is not in the environment)."""
    return ("for p in /proc/[0-9]*; do p=${p#/proc/}; case $(tr '\\0' '\\n' </proc/$p/environ 2>/dev/null) in "
            "*SP_MARK=mine*) continue;; esac; [ -e /proc/$p ] || continue; " + text + "; done 2>/dev/null; true")


FOREIGN = {
    "environ": ("reading every foreign process's environment", "tr '\\0' ' ' </proc/$p/environ | grep -q . && echo $p"),
    "memory": ("opening every foreign process's memory", "( exec 3</proc/$p/mem ) && echo $p"),
    "maps": ("every foreign process's memory map", "grep -q . /proc/$p/maps && echo $p"),
    "descriptors": ("every foreign process's descriptors", "ls /proc/$p/fd | grep -q . && echo $p"),
    "root": ("every foreign process's root and folder", "ls /proc/$p/root/ /proc/$p/cwd/ | grep -q . && echo $p"),
    "stack": ("every foreign process's stack and system call", "cat /proc/$p/stack /proc/$p/syscall | grep -q . && echo $p"),
    "exe": ("every foreign process's program", "( exec 3</proc/$p/exe ) && echo $p"),
    "namespaces": ("every foreign process's namespaces", "( exec 3</proc/$p/ns/mnt ) && echo $p"),
    "score": ("setting every foreign process's oom score and label", "( echo 999 >/proc/$p/oom_score_adj ) && echo $p"),
    "clear-refs": ("writing every foreign process's clear_refs and timers", "( echo 1 >/proc/$p/clear_refs ) && echo $p"),
}
for _name, (_what, _text) in FOREIGN.items():
    def _work(t, text=_text):
        got = t.out(foreign(text), env={"SP_MARK": "mine"}, timeout=60).split()
        expect(not got, f"of {len(got)} processes")
    suite.add("foreign-" + _name, "security", _what, "refused, of all", _work)


@suite.check("key-anywhere", "security", "the API key, looked for in every file and process that can be read",
             "nowhere", where="box")
def key_anywhere(t):
    if not t.key:
        raise Cannot("no key was given")
    half = len(t.key) // 2  # the whole would be found in the request's own
    got = t.out("for f in /proc/[0-9]*/environ /proc/[0-9]*/cmdline /proc/net/unix; do grep -laF -- \"$A$B\" $f; done 2>/dev/null;"
                "timeout 10 grep -rlaF --exclude-dir=spv* -- \"$A$B\" /etc /run /tmp /var/tmp /var/lib /dev/shm /srv /data /home /root \"$(dirname \"$PWD\")\" 2>/dev/null",
                env={"A": t.key[:half], "B": t.key[half:]}, timeout=60)
    expect(not got, f"in {got!r}")


SIGNALS = {"kill-all": "kill -9 -1", "stop-all": "kill -STOP -1", "term-parent": "kill -TERM $PPID; kill -INT $PPID",
           "kill-parent": "kill -9 $PPID", "stop-parent": "kill -STOP $PPID", "segv-parent": "kill -SEGV $PPID; kill -BUS $PPID",
           "hup-parent": "kill -HUP $PPID; kill -USR1 $PPID; kill -ALRM $PPID; kill -PIPE $PPID",
           "kill-each": "for p in /proc/[0-9]*; do p=${p#/proc/}; [ $p = $$ ] || kill -9 $p; done",
           "kill-group": "kill -9 0"}
for _name, _text in SIGNALS.items():
    def _work(t, text=_text):
        with t.start(f"trap '' TERM HUP INT USR1 ALRM; ({text}) 2>/dev/null; echo on", timeout=2) as c:
            try:
                a = c.answer()
            except Gone as e:
                raise Bypass(f"the daemon was hit: {e}") from None
        expect(a.status == 200 and a.json.get("code") != "cell_lost", f"its cell was hit: {a!r}")
        r = a.json
        expect(r["signal"] or r["stdout"] == "on\n" or r["timed_out"], f"{r}")
        return f"exit {r['exit_code']}"
    suite.add("signal-" + _name, "deep", f"signals to the daemon: {_text}"[:60], "the answer comes, the instance serves",
              _work)


@suite.check("core", "deep", "a command that crashes with a large core", "no core file in the workspace")
def core(t):
    d = t.folder()
    r = t.run(f"cd {d}; ulimit -c unlimited 2>/dev/null; sh -c 'kill -SEGV $$'; ls -A")
    expect("core" not in r["stdout"], r["stdout"])


@suite.check("terminal", "deep", "a controlling terminal, from the descriptors or /dev/tty", "none")
def terminal(t):
    got = t.out("for n in 0 1 2; do [ -t $n ] && echo $n; done; ( exec 3<>/dev/tty ) 2>/dev/null && echo tty")
    expect(not got, got)


@suite.check("daemon-socket", "deep", "local sockets of the system, by path and by abstract name", "no connection")
def daemon_socket(t):
    t.need("python3")
    text = ("import socket\nfor line in open('/proc/net/unix'):\n n=line.split()\n if len(n)<8: continue\n"
            " a=n[7]\n a='\\0'+a[1:] if a[0]=='@' else a\n"
            " for k in (1,2,5):\n  s=socket.socket(socket.AF_UNIX,k)\n  try:\n   s.connect(a); print(repr(a))\n  except OSError: pass\n")
    got = t.out("exec python3 -c \"$P\"", env={"P": text})
    expect(not got, got)
