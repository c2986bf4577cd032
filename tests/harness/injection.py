"""injection.py: makes each call that some work needs fail once, in turn, in a faults build (tests/fault/inject.c),
and says what was wrong afterwards. What is worked on, a Form, is the tests' own."""
import collections
import errno
import time

from . import faults, procs
from .http import Closed

MANY = 12  # of one call in one role, and as many again spread over the rest: a loop is the same after that
ERRORS = {
    errno.EMFILE: "open64 openat64 fopen64 fdopendir opendir pipe2 socketpair accept4 dup dup2 dup3 fcntl64 eventfd "
                  "signalfd memfd_create epoll_create1 socket",
    errno.ENOMEM: "malloc calloc realloc reallocarray strdup strndup mmap64 mprotect sendmsg recvmsg poll epoll_ctl "
                  "fstat64 fstatat64 stat64 statx execve prctl realpath setgroups",
    errno.EAGAIN: "clone fork pthread_create setresuid setresgid",
    errno.EIO: "pread64 readlinkat sendfile64 syscall pwrite64 fchownat sqlite3_open_v2",
    errno.ENOSPC: "splice mkdirat mkdir linkat renameat renameat2 unlinkat ftruncate64",
    errno.EPERM: "kill fchmod fchdir chdir chroot prlimit64 setrlimit64 getrandom mount umount2 chown flock",
    errno.ESRCH: "ptrace",
    errno.EADDRINUSE: "bind listen",
    errno.EINTR: "read write epoll_wait waitpid",  # what else they give for these descriptors and children is a bug
    errno.EPIPE: "send recv",
    10: "sqlite3_exec sqlite3_step sqlite3_prepare_v2 sqlite3_prepare_v3",  # SQLITE_IOERR
}
ERROR = {call: err for err, calls in ERRORS.items() for call in calls.split()}
# No memory for a connection, or for more of an answer that has begun; or the connection itself fails.
CLOSES = {("front", call) for call in ("malloc", "calloc", "realloc", "send", "recv", "sendfile64")}


def unknown(a):
    """Whoever did it was lost: it may have been done."""
    return a.status == 503 and a.code == "cell_lost"


def check(holds, a, told="wrong"):
    """As assert, which this file's kind isn't rewritten for."""
    if not holds:
        raise AssertionError(f"{told}: {a!r}")


class Form:
    """What is worked on. WORK: {name: function of the daemon that gives an answer, or fails}."""
    roles = ("broker", "cell", "front", "main")
    closes = CLOSES
    many = MANY
    errors = ERROR
    WORK = {}

    def __init__(self, start):
        self.make = start

    def start(self, prepare):
        return self.make(binary=faults.BIN, prepare=prepare)

    def prepare(self, d):
        """The same for each work."""

    def after(self, d):
        """What must be served after a fault."""

    def may_lose(self, lost, told):
        return lost == ["cell"] and told.startswith(("503 cell_lost", "2"))

    def settle(self, d):
        """Until what a work left to be done is done."""
        d.wait_no_strangers()

    def pids(self, d):
        """{role: pid} of those whose descriptors are compared."""
        return {p.role or "main": p.pid for p in [d.main, *d.procs()]
                if p.state != "Z" and (p.role in self.roles or p.pid == d.main.pid)}


def descriptors(who):
    """What each has open; the program's own file may have been built anew meanwhile."""
    return {role: sorted(t.split(":")[0].removesuffix(" (deleted)") for t in procs.read(pid).fds().values())
            for role, pid in who.items()}


def chosen(n, many=MANY):
    """Which of n calls fail."""
    return sorted({*range(1, min(n, many) + 1), *(1 + i * (n - 1) // many for i in range(many + 1))})


class Run:
    """One daemon after the other: a new one where a role was lost, as a lost one's next start waits."""

    def __init__(self, form):
        self.form, self.d = form, None
        self.seen = collections.Counter()

    def fresh(self):
        if self.d:
            self.d.stop()
        made = []
        self.d = self.form.start(lambda d: made.append(faults.Faults(d)))
        self.faults = made[0]
        for name, work in self.form.WORK.items():
            self.form.prepare(self.d)
            a = work(self.d)
            check(a.status < 300, a, name)
        self.form.prepare(self.d)
        self.form.after(self.d)
        self.form.settle(self.d)
        self.who = self.form.pids(self.d)
        check(sorted(self.who) == sorted(self.form.roles), self.who)
        self.fds = descriptors(self.who)

    def made(self, name):
        """{(role, call): how often one such work makes it}."""
        self.form.prepare(self.d)
        self.form.settle(self.d)
        self.faults.count()
        a = self.form.WORK[name](self.d)
        check(a.status < 300, a, name)
        time.sleep(0.05)  # what a role does after its answer
        made = self.faults.made()
        made.pop(("cell", "write"), None)  # to its eventfd, which never fails
        return {pair: n for pair, n in made.items() if pair[1] in self.form.errors}

    def one(self, work, role, call, nth):
        """What was wrong, or None."""
        d, form = self.d, self.form
        form.prepare(d)
        self.faults.arm(role, call, nth, form.errors[call])
        try:
            a = work(d)
            told = f"{a.status} {a.code}" if a.status >= 400 else str(a.status)
        except Closed:
            told = "closed"
        except AssertionError as e:
            return f"wrong answer: {e}"
        if not self.faults.disarm():
            return None
        self.seen[role, call, told] += 1
        try:
            form.after(d)
            form.settle(d)
        except (AssertionError, Closed, OSError) as e:
            return f"{told}, then no service: {e}"
        now = form.pids(d)
        lost = [r for r in self.who if self.who[r] != now.get(r)]
        if not lost:
            try:
                procs.wait_for("descriptors", lambda: descriptors(now) == self.fds, bound=5)
            except AssertionError:
                after = descriptors(now)
                return f"{told}, " + "; ".join(f"{r}'s descriptors {self.fds[r]} became {after[r]}"
                                               for r in after if after[r] != self.fds[r])
            return f"{told} by no lost role" if told == "closed" and (role, call) not in form.closes else None
        try:
            d.check_log()
        finally:
            log = d.tail()
            self.fresh()
        if not form.may_lose(lost, told):
            return f"{told}, lost {lost}\n{log}"
        return None

    def all(self, name):
        """Each call of a work fails once, and as the tests' last word nothing was wrong."""
        self.fresh()
        wrong = []
        for (role, call), n in sorted(self.made(name).items()):
            for nth in chosen(n, self.form.many):
                found = self.one(self.form.WORK[name], role, call, nth)
                if found:
                    wrong.append(f"{role} {call} {nth} of {n}: {found}")
                    print(wrong[-1], flush=True)
                    self.fresh()
        check(self.seen, name, "nothing failed at all")
        for (role, call, told), n in sorted(self.seen.items()):  # with pytest -s
            print(f"{name}: {role} {call}: {told} ({n})")
        check(not wrong, name, "\n".join(wrong))
