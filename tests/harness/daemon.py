"""daemon.py: one fenced daemon: start, talk, look inside, stop, and check that it left nothing."""
import json
import os
import pathlib
import re
import select
import shutil
import signal
import tempfile

from . import launchers, names, places, procs
from .http import Closed, Conn, quote

START_WAIT = 20.0 * places.HERE.slow
STOP_WAIT = 60.0
LISTENING = re.compile(rb"listening on http://127\.0\.0\.1:([0-9]+)")
SANITIZER = re.compile(r"ERROR: \w+Sanitizer|WARNING: ThreadSanitizer|runtime error:|Sanitizer:DEADLYSIGNAL|AddressSanitizer"
                       r"|(?m:^==\d+== (?!could not unlink)\w)")
PIDS_MAX = 1500


def pids_cgroup(name, most=PIDS_MAX):
    """A folder that bounds how many processes a runaway test may have, or None."""
    for root in ("/sys/fs/cgroup/pids", "/sys/fs/cgroup"):
        path = pathlib.Path(root) / name
        try:
            path.mkdir()
        except OSError:
            continue
        try:
            (path / "pids.max").write_text(str(most))
            return path
        except OSError:
            path.rmdir()
    return None


def write_spec(path, spec):
    """For the launcher: readable by root alone."""
    path.unlink(missing_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as f:
        json.dump(spec, f)
    return str(path)


class Daemon:
    """plan: see names.PLANS. env: added to, or with None removed from, the usual ones; prepare(daemon) may
    set late_env and mounts, for values that hold the folder's name. binary: another program in the
    daemon's place; nodes: devices to add below /dev, (name, kind, major, minor); proc_open: leave /proc/sys
    as the kernel has it, for probes that open it and write nothing; files: paths made inside the fence for
    the user of commands. args: a list, or a function of the daemon that gives one. cgroup2: a folder of the
    host's cgroup2 tree that the daemon starts in and may write; pids: how many processes there may be; noexec:
    vm.memfd_noexec, which is of the daemon's process namespace alone; launch: for the launcher, as places.py has it."""

    def __new__(cls, *args, **kw):
        if cls is Daemon and places.HERE.box != "fence":
            from . import containers
            cls = containers.BOXES[places.HERE.box]
        return super().__new__(cls)

    def __init__(self, plan=None, env=None, args=("seat",), listen=(), tmpfs=(),
                 nofile=4096, prepare=None, small_disk=None, small_folder=None, binary=None, nodes=(), proc_open=False,
                 files=(), cgroup2=None, pids=PIDS_MAX, noexec=0, launch=None):
        self.plan = plan = places.plan_or_usual(plan)
        uid, self.owner = names.PLANS[plan]["daemon"], names.PLANS[plan]["owner"]
        self.base = pathlib.Path(tempfile.mkdtemp(
            prefix="sp-test-", dir=os.environ.get("SALLYPORT_TEST_DIR", "/run")))
        self.base.chmod(0o755)
        self.ws = self.base / "ws"
        self.ws.mkdir()
        os.chown(self.ws, self.owner, self.owner)
        self.outside = self.base / "outside"
        self.outside.mkdir()
        (self.outside / "secret").write_text("secret")
        for p in (self.outside, self.outside / "secret"):
            os.chown(p, self.owner, self.owner)
        self.binary = self.base / "sallyport"
        self.binary.touch()
        self.source = pathlib.Path(binary or names.BIN)
        self.log_path = self.base / "daemon.log"
        self.late_env, self.mounts = {}, []
        if prepare:
            prepare(self)
        self.nodes, self.proc_open, self.files = [list(n) for n in nodes], proc_open, files
        self.noexec, self.launch = noexec, {**places.HERE.launch, **(launch or {})}
        self.pids = pids
        self.cgroup = pids_cgroup(self.base.name, pids)
        full = {names.WORKSPACE: str(self.ws), names.PORT: "0", names.BIND: "127.0.0.1",
                "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
        full.update({k: v for k, v in os.environ.items() if k in ("ASAN_OPTIONS", "UBSAN_OPTIONS",
                                                                 "LSAN_OPTIONS")})
        full.update(places.HERE.env)
        full.update(env or {})
        # Refused without a word for it; a test of that gives one of its own.
        accept = [*places.HERE.accept, *(["uid"] if plan == "root-root" else [])]
        if accept:
            full[names.ACCEPT_MISSING] = ",".join(filter(None, (full.get(names.ACCEPT_MISSING), *accept)))
        full.update(self.late_env)
        self.env = {k: str(v) for k, v in full.items() if v is not None}
        self.port = None
        self.exit = None
        self.stopped = False
        tmpfs = [*tmpfs, *self.mounts]
        if small_disk:  # inside the fence only: the test can't see its files
            tmpfs = [*tmpfs, (self.ws, f"size={small_disk},mode=755,uid={self.owner},gid={self.owner}")]
        if small_folder:  # in the workspace, for any place
            (self.ws / small_folder[0]).mkdir()
            (self.ws / small_folder[0]).chmod(0o777)  # runc gives what it mounts the mode of what is below
            tmpfs = [*tmpfs, (self.ws / small_folder[0], f"size={small_folder[1]},mode=777")]
        self.cgroup2 = cgroup2
        self._start(uid, args(self) if callable(args) else args, listen, tmpfs, nofile)

    def _start(self, uid, args, listen, tmpfs, nofile):
        self._init = self._main = None  # their numbers, once known: each look at all of /proc costs milliseconds
        self.status_r, status_w = os.pipe()
        fds = [s.fileno() for s in listen]
        spec = {"base": str(self.base), "source": str(self.source), "binary": str(self.binary),
                "env": self.env, "args": list(args), "uid": uid, "nofile": nofile, "left_wait": 5.0,
                "nodes": self.nodes, "proc_open": self.proc_open, "memfd_noexec": self.noexec,
                "files": [str(f) for f in self.files], "owner": self.owner, **self.launch,
                "tmpfs": [{"path": str(p), "options": o} for p, o in tmpfs],
                "cgroups": [str(c / "cgroup.procs") for c in (self.cgroup, self.cgroup2) if c]}
        if self.cgroup2:
            (self.base / "cgroup2").mkdir(exist_ok=True)
            spec["cgroup2"] = str(self.base / "cgroup2")
        spec_path = write_spec(self.base / "spec.json", spec)
        with open(self.log_path, "wb") as log, open(self.base / "stdout", "wb") as out:
            self.outer = launchers.start(spec_path, out, log, status_w, fds)
        os.close(status_w)

    # ---- life ----
    def log(self):
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def wait_up(self, pattern=LISTENING):
        """Waits for the log line that says where it listens."""
        def seen():
            m = pattern.search(self.log_path.read_bytes())
            assert m or not self.wait_exit(0), f"ended at start: {self.exit}\n{self.log()}"
            return m
        m = procs.wait_for("the daemon listens", seen, START_WAIT)
        if m.re is LISTENING:
            self.port = int(m[1])
        return self

    def wait_exit(self, bound=STOP_WAIT):
        """The exit report, or None when it still runs after the bound."""
        if self.exit is None and select.select([self.status_r], [], [], bound)[0]:
            data = b""
            while not data.endswith(b"\n"):
                more = os.read(self.status_r, 65536)
                if not more:
                    break
                data += more
            self.exit = json.loads(data) if data else {"status": None, "left": [], "orphans": 0}
            self.outer.wait()
        return self.exit

    def signal(self, number=signal.SIGTERM):
        self.kill(self.main, number)

    def kill(self, proc, number=9):
        """Signals a process that this daemon's procs(), role() or main gave."""
        os.kill(proc.pid, number)

    def stop(self, expect=0):
        """SIGTERM, and what must hold afterwards."""
        if self.stopped:
            return
        self.stopped = True
        try:
            if self.exit is None and self.outer.poll() is None:
                self.signal()
            report = self.wait_exit()
            assert report is not None, f"no end after SIGTERM\n{self.tail()}"
            assert report["status"] == expect, f"exit {report}\n{self.tail()}"
            assert report["left"] == [], f"left behind: {report['left']}\n{self.tail()}"
            self.check_log()
        finally:
            self.destroy()

    def check_log(self):
        assert not SANITIZER.search(self.log()), self.log()[-20000:]

    def tail(self):
        return self.log()[-3000:]

    def destroy(self):
        self.stopped = True
        if self.outer.poll() is None:
            self.outer.kill()  # takes the namespace's first process along, and so everything
        self.outer.wait()
        os.close(self.status_r)
        if self.cgroup:
            def gone():
                try:
                    self.cgroup.rmdir()
                    return True
                except OSError:
                    return False
            procs.wait_for("the fence is empty", gone)
        self.remove()

    def remove(self):
        if not os.environ.get("SALLYPORT_TEST_KEEP"):
            shutil.rmtree(self.base, ignore_errors=True)

    # ---- inside ----
    @property
    def init_pid(self):
        if self._init is None:
            self._init = procs.wait_for("the fence's first process", lambda: procs.first_child(self.outer.pid))
        return self._init

    @property
    def main(self):
        init = self.init_pid

        def fits(pid):
            p = procs.read(pid)
            return p and p.role is None and p.state != "Z" and "launcher.py" not in "".join(p.cmdline)

        def find():
            if self._main is not None and (p := procs.read(self._main)) and p.ppid == init and p.state != "Z":
                return p
            self._main = procs.first_child(init, fits)
            return self._main and procs.read(self._main)
        return procs.wait_for("main", find)

    def procs(self):
        if places.HERE.launch.get("pid1"):  # the daemon leads a namespace of its own
            main = self.main
            return [main, *procs.in_namespace(main.pid)]
        return procs.in_namespace(self.init_pid)

    def role(self, name):
        """The live process of a role; waits for it."""
        return procs.wait_for(f"role {name}", lambda: next(
            (p for p in self.procs() if p.role == name and p.state != "Z"), None))

    def has_role(self, name):
        return any(p.role == name and p.state != "Z" for p in self.procs())

    def strangers(self):
        """Everything alive in the fence that is no process of the daemon's own, nor a shell that it holds."""
        main = self.main.pid
        return [p for p in self.procs()
                if p.pid != main and p.role is None and p.state != "Z" and not p.held]

    def wait_no_strangers(self):
        procs.wait_for("all of the command is gone", lambda: not self.strangers())

    # ---- talk ----
    def conn(self, **kw):
        return Conn(("127.0.0.1", self.port), **kw)

    def request(self, method, target, body=None, headers=(), **kw):
        with self.conn() as c:
            return c.request(method, target, body, headers, **kw)

    def get(self, path, **headers):
        return self.request("GET", quote(path), headers=_fields(headers))

    def head(self, path, **headers):
        return self.request("HEAD", quote(path), headers=_fields(headers))

    def put(self, path, body=b"", **headers):
        return self.request("PUT", quote(path), body, headers=_fields(headers))

    def delete(self, path, query=""):
        return self.request("DELETE", quote(path) + query)

    def execute(self, command, **members):
        body = json.dumps({"command": command, **members}).encode()
        return self.request("POST", "/execute", body, {"Content-Type": "application/json"})

    def run(self, command, **members):
        a = self.execute(command, **members)
        assert a.status == 200, f"{a!r}\n{self.tail()}"
        return a.json

    def send_command(self, command, **members):
        """A connection with a running command whose answer nobody has read yet. The command
        should make a file that the caller waits for."""
        c = self.conn()
        body = json.dumps({"command": command, **members}).encode()
        c.send(b"POST /execute HTTP/1.1\r\nHost: t\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        return c

    def wait_idle(self, bound=30.0):
        """Until a command is taken again."""
        def free():
            try:
                return self.execute(":").status == 200
            except (OSError, Closed):
                return False
        procs.wait_for("the seat is free", free, bound, 0.02)

    def wait_file(self, path):
        procs.wait_for(f"{path} exists", (self.ws / path).exists)


def _fields(headers):
    return [(k.replace("_", "-"), v) for k, v in headers.items()]
