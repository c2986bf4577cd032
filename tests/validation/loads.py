"""loads.py: too much of everything, and too slow: connections, slow clients, output, descriptors, processes,
memory, disk, time; each bounded, and the instance must serve afterwards. And commands that lie about how they ended."""
import re
import socket
import ssl
import threading
import time

from . import suite
from .suite import Bypass, Cannot, Gone, expect

MIB = 1 << 20


# ---- slow clients: all kinds at a time, as each takes as long as the instance's time limits ----
def upload_start(t):
    return t.head("PUT", t.address("write", f"{t.nonce}/slow"), more=[("Content-Length", "100000000")]) + b"\r\n"


def chunk_start(t):
    return t.head("PUT", t.address("write", f"{t.nonce}/slow"), more=[("Transfer-Encoding", "chunked")]) + b"\r\n"


def ask_large(t):
    return t.head("GET", t.address("read", f"{t.nonce}/large")) + b"\r\n"


LARGE = 16 * MIB  # more than sockets hold
# How it begins, what it goes on with, what it is.
SLOW = {
    "head": (lambda t: t.head("GET", "/healthz"), b"X", "send a head byte by byte, without end"),
    "body": (upload_start, b"x", "send a body byte by byte"),
    "chunks": (chunk_start, b"1\r\nx\r\n", "send chunks of one byte"),
    "idle": (lambda t: b"", b"", "connect and say nothing"),
    "reader": (ask_large, b"", "ask for a large file and don't read it"),
}


def ended(c):
    """Whether the server closed."""
    c.sock.setblocking(False)
    try:
        while c.sock.recv(65536):
            pass
        return True
    except (BlockingIOError, InterruptedError, ssl.SSLWantReadError):
        return False
    except OSError:
        return True
    finally:
        c.sock.settimeout(2)


def cut(c):
    """Reads what a slow reader's connection still gives: true when that isn't the whole."""
    got = 0
    c.sock.settimeout(20)
    try:
        while data := c.sock.recv(MIB):
            got += len(data)
            if got > LARGE:
                return False
    except socket.timeout:
        return False
    except OSError:
        pass
    return True


def wait_cut(conns, until):
    """A reader can't see the close before it reads: so one of them looks, then the next."""
    while conns and time.monotonic() < until:
        time.sleep(1)
        if cut(conns.pop()):
            return [c for c in conns if not cut(c)]
    return conns


def wait_closed(conns, piece, until):
    while conns and time.monotonic() < until:
        for c in conns:
            c.send(piece)
        time.sleep(0.25)
        conns = [c for c in conns if not ended(c)]
    return conns


def be_slow(t, name):
    begin, piece, _ = SLOW[name]
    conns = []
    try:
        for _ in range(40 if t.quick else 300):
            c = t.conn(timeout=2)
            conns.append(c)
            c.send(begin(t))
        begun = time.monotonic()
        until = begun + t.patience
        open_ = wait_cut(list(conns), until) if name == "reader" else wait_closed(list(conns), piece, until)
        expect(not open_, f"{len(open_)} of {len(conns)} are still open after {time.monotonic() - begun:.0f} s")
        return f"{len(conns)} connections, all closed after {time.monotonic() - begun:.0f} s"
    finally:
        for c in conns:
            c.sock.close()


class SlowStage:
    """All kinds at a time; meanwhile others must be served."""

    def __init__(self, t):
        t.write(f"{t.nonce}/large", b"x" * LARGE)
        self.told, self.others = {}, []
        threads = [threading.Thread(target=self.one, args=(t, name)) for name in SLOW]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            try:
                if t.request("GET", "/healthz").status != 200 or t.out("echo up", timeout=20) != "up\n":
                    self.others.append("a wrong answer")
            except (Gone, Cannot) as e:
                self.others.append(str(e))
            time.sleep(0.1)

    def one(self, t, name):
        try:
            self.told[name] = be_slow(t, name)
        except (Bypass, Gone) as e:
            self.told[name] = e


def slow_check(name):
    def work(t):
        if "slow" not in t.stages:
            t.stages["slow"] = SlowStage(t)
        s = t.stages["slow"]
        if isinstance(s.told[name], Exception):
            raise s.told[name]
        expect(not s.others, f"others: {s.others[:2]}")
        return s.told[name]
    return work


for _name in SLOW:
    suite.add("slow-" + _name, "deep", f"many slow clients that {SLOW[_name][2]}", "others are served; closed in time",
              slow_check(_name))


@suite.check("connections-many", "deep", "1,000 connections at once, then gone", "others are served, then and after")
def many_connections(t):
    conns = []
    try:
        for _ in range(300 if t.quick else 1000):
            try:
                conns.append(t.conn(timeout=5))
            except Gone:
                break
        expect(t.request("GET", "/healthz").status == 200, "/healthz isn't served")
    finally:
        for c in conns:
            c.sock.close()
    return f"{len(conns)} connections"


@suite.check("requests-left", "deep", "200 commands and uploads whose clients leave at once", "no process, no file is left")
def left(t):
    d = t.folder()
    for _ in range(100):
        with t.start(f"cd {d}; sleep 300 & sleep 300", timeout=100):
            pass
        with t.conn() as c:
            c.send(t.head("PUT", t.address("write", f"{d}/f"), more=[("Content-Length", "1000")]) + b"\r\nx")
    t.wait_serving()
    got = t.out(f"ls -A {d}; for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline; echo; done 2>/dev/null | grep -c '^sleep 300'").split()
    expect(got == ["0"], f"left: {got}")


@suite.check("pipelined-flood", "deep", "20,000 pipelined requests, unread", "the instance serves others; no endless buffer")
def pipelined(t):
    n = 3000 if t.quick else 20000
    with t.conn(timeout=3) as c:
        c.send((t.head("GET", "/healthz") + b"\r\n") * n)
        expect(t.request("GET", "/healthz").status == 200, "/healthz isn't served")


# ---- output ----
def flood_check(command, stream="stdout"):
    def work(t):
        n = (48 if t.quick else 512) * MIB
        a = t.post({"command": command % n, "timeout": 60})
        r = a.json
        if a.status != 200:
            raise Cannot(repr(a))
        kept = len(r[stream].encode("utf-8", "surrogatepass"))
        expect(r[f"{stream}_truncated"] and kept < n, f"{kept} of {n} bytes kept, truncated: {r[f'{stream}_truncated']}")
        return f"{kept} of {n} bytes kept, {len(a.body)} sent"
    return work


for _name, _what, _command, _stream in (
        ("lines", "lines", "yes | head -c %d", "stdout"), ("one-line", "one line without end", "head -c %d /dev/zero | tr '\\0' x", "stdout"),
        ("stderr", "stderr", "yes | head -c %d >&2", "stderr"), ("nul", "NUL bytes, six bytes each in JSON", "head -c %d /dev/zero", "stdout"),
        ("not-utf8", "bytes that are no UTF-8", "head -c %d /dev/zero | tr '\\0' '\\377'", "stdout"),
        ("background", "a process in the background", "(yes | head -c %d) & wait", "stdout")):
    suite.add("flood-" + _name, "deep", f"output flooding: {_what}", "cut at the limit, and told", flood_check(_command, _stream))


@suite.check("flood-events", "deep", "live output flooded at a client that doesn't read, for seconds",
             "the command waits; the instance serves others; it ends with its client")
def flood_events(t):
    with t.start("exec yes", timeout=20) as c:
        c.sock.close()
    body = b'{"command":"exec yes flood","timeout":20}'
    with t.conn(timeout=5) as c:
        c.send(t.head("POST", t.exec_route, more=[("Accept", "text/event-stream"), ("Content-Length", str(len(body)))]) + b"\r\n" + body)
        if b"text/event-stream" not in c.until(b"\r\n\r\n"):
            raise Cannot("no live output")
        for _ in range(20):
            expect(t.request("GET", "/healthz").status == 200, "/healthz isn't served")
            time.sleep(0.02)
    t.wait_serving()
    expect(t.out("grep -al '^yes.flood' /proc/[0-9]*/cmdline 2>/dev/null | wc -l").strip() == "0", "the writer is left")


# ---- time ----
ESCAPES = {
    "background": "sleep 300 & echo x", "setsid": "setsid sleep 300 & echo x", "nohup": "nohup sleep 300 >/dev/null 2>&1 & echo x",
    "double-fork": "( ( sleep 300 & ) & ) ; echo x", "ignores-signals": "(trap '' TERM HUP INT; sleep 300 & wait) & echo x",
    "stopped": "sleep 300 & kill -STOP $!; echo x", "closed-descriptors": "setsid sleep 300 </dev/null >/dev/null 2>&1 & echo x",
    "keeps-pipes": "setsid sleep 300 & exec true", "shell-replaced": "sleep 300 & exec sleep 0",
    "renamed": "cp $(command -v sleep) ./kworker; ./kworker 300 & echo x",
    "forker": "(while :; do sleep 300 & sleep 0.01; done) & sleep 0.1; echo x",
    "signal-death": "sleep 300 & kill -9 $$",
}


def outlive_check(name):
    def work(t):
        d = t.folder()
        r = t.run(f"cd {d}; {ESCAPES[name]}", env={"SP_LEFT": t.nonce + name}, timeout=30)
        expect(r["duration_ms"] < 25000, f"waited for it: {r['duration_ms']} ms")
        got = t.out("grep -laz \"^SP_LEFT=$A$B\\$\" /proc/[0-9]*/environ 2>/dev/null | wc -l", env={"A": t.nonce, "B": name}).strip()
        expect(got == "0", f"{got} processes outlive their command")
    return work


for _name in ESCAPES:
    suite.add("outlive-" + _name, "deep", f"a process to outlive its command: {ESCAPES[_name]}"[:64], "gone with the command",
              outlive_check(_name))


@suite.check("timeout-ignored", "deep", "a command and children that ignore signals, over its timeout",
             "killed, all of it, and told")
def timeout_ignored(t):
    r = t.run("trap '' TERM INT HUP ALRM; echo x; (trap '' TERM; sleep 301) & while :; do sleep 301; done", timeout=0.5)
    expect(r["timed_out"] and r["stdout"] == "x\n" and r["exit_code"] == 124, f"{r}")
    expect(t.out("grep -laz '^301$' /proc/[0-9]*/cmdline 2>/dev/null | wc -l").strip() == "0", "something is left")


# ---- exhaustion ----
@suite.check("descriptors", "deep", "a command that opens descriptors until it gets no more", "its own limit; the instance serves")
def descriptors(t):
    t.need("perl")
    n = t.out("exec perl -e \"$P\"", env={"P": "my @f; for (1..200000) { open(my $f,'<','/dev/null') or last; push @f,$f } print scalar @f"})
    return f"{n} descriptors"


@suite.check("processes", "deep", "a command that starts up to 2,000 processes, then ends", "none is left; the instance serves")
def processes(t):
    t.need("perl")
    most = 250 if t.quick else 2000
    n = t.out("exec perl -e \"$P\"", env={"P": f"my $n=0; for (1..{most}) {{" " my $p=fork(); last unless defined $p; "
                                              "if (!$p) { exec 'sleep','302' or exit } $n++ } print $n"}, timeout=30)
    expect(t.out("grep -laz '^302$' /proc/[0-9]*/cmdline 2>/dev/null | wc -l").strip() == "0", "processes are left")
    return f"{n} processes"


@suite.check("fork-bomb", "deep", "a fork bomb that ignores signals, ended by its timeout", "all of it is killed; the instance serves")
def fork_bomb(t):
    a = t.post({"command": "trap '' TERM INT HUP; b() { b | b & }; b 2>/dev/null; sleep 303", "timeout": 1.5 if t.quick else 5})
    if a.status != 200:
        raise Bypass(f"no result: {a!r}")
    t.wait_serving()
    got = t.out("ls -d /proc/[0-9]* | wc -l").strip()
    left_ = t.out("grep -laz 'b | b [&]' /proc/[0-9]*/cmdline 2>/dev/null | wc -l").strip()
    expect(int(left_) == 0, f"{left_} of it are left")
    return f"{got} processes seen after it"


@suite.check("threads", "deep", "a process with as many threads as it gets", "its own limit; the instance serves")
def threads(t):
    t.need("python3")
    n = t.out("exec python3 -c \"$P\"", env={"P": "import threading,time\nthreading.stack_size(65536)\nn=0\ntry:\n for i in range(3000):\n"
              "  threading.Thread(target=time.sleep,args=(9,),daemon=True).start(); n+=1\nexcept RuntimeError: pass\n"
              "import os\nos.write(1,str(n).encode()); os._exit(0)"}, timeout=40)
    return f"{n} threads"


@suite.check("memory", "deep", "a command that takes memory, 256 MiB and more, and touches it", "its own limit; the instance serves")
def memory(t):
    t.need("perl")
    most = 192 if t.quick else 1024
    r = t.run("exec perl -e \"$P\"", env={"P": f"$|=1; my @m; for my $i (1..{most}) {{ push @m, chr(65) x {MIB}; print \"$i \" }}"}, timeout=40)
    return f"{(r['stdout'].split() or ['0'])[-1]} of {most} MiB, {r['signal'] or r['exit_code']}"


@suite.check("memory-shared", "deep", "memory that outlives its process: /dev/shm, /tmp, memfd, System V", "bounded; the instance serves")
def memory_shared(t):
    n = 40 if t.quick else 400
    got = t.out(f"for f in /dev/shm/{t.nonce} /tmp/{t.nonce}-m; do head -c {n * MIB} /dev/zero >$f 2>/dev/null; "
                f"wc -c <$f; rm -f $f; done; for i in 1 2 3; do ipcmk -M {n * MIB}; done 2>/dev/null | grep -c id")
    t.run("ipcrm -a 2>/dev/null; true")
    return " ".join(got.split())


@suite.check("disk", "deep", "a command that fills the workspace, up to a bound, and uploads on top", "bounded by quota or disk; the instance serves; room comes back")
def disk(t):
    d = t.folder()
    n = 96 if t.quick else 1200
    a = t.post({"command": f"cd {d}; head -c {n * MIB} /dev/zero >big 2>/dev/null; stat -c %s big", "timeout": 60})
    b = t.write(f"{d}/upload", b"x" * (4 * MIB))
    t.remove(f"{d}/big")  # no command may run where there is far more than the quota allows (docs/box.md)
    t.remove(f"{d}/upload")
    until = time.monotonic() + 20  # a quota counts again
    while t.write(f"{d}/after", b"x" * 1000).status not in (200, 201):
        expect(time.monotonic() < until, "no room after all of it was removed")
        time.sleep(0.1)
    return f"{a.json.get('stdout', '').strip()} bytes, {'quota' if a.json.get('quota_exceeded') else a.status}, upload {b.status}"


@suite.check("inodes", "deep", "a command that makes 20,000 files and 20,000 links", "the instance serves; they go")
def inodes(t):
    t.need("perl")
    d, n = t.folder(), 1000 if t.quick else 20000
    t.run(f"cd {d}; exec perl -e \"$P\"", env={"P": f"for (1..{n}) {{ open(my $f,'>',\"f$_\") or last; symlink('/etc',\"l$_\") }}"})
    t.listing(d)
    a = t.remove(d, recursive=True)
    expect(a.status == 204, repr(a))


@suite.check("inotify", "deep", "a command that holds ten thousand pipes, timers and watches", "the instance serves")
def pipes(t):
    t.need("perl")
    return t.out("exec perl -e \"$P\"", env={"P": "my @p; for (1..10000) { pipe(my $r,my $w) or last; push @p,$r,$w; } print scalar @p, ' ends'"})


@suite.check("sparse", "deep", "a sparse file of 1 TiB in the workspace: asked for, listed, counted", "no memory of its size; the instance serves")
def sparse(t):
    t.need("truncate")
    d = t.folder()
    r = t.run(f"cd {d}; truncate -s 1T f && echo made")
    if "made" not in r["stdout"]:
        raise Cannot(r["stderr"])
    a = t.request("HEAD", t.address("read", f"{d}/f"))
    a = t.read(f"{d}/f", more=[("Range", "bytes=1000000000000-1000000000010")])
    expect(a.status in (200, 206) and len(a.body) <= 11, repr(a))
    t.listing(d)
    t.remove(f"{d}/f")


@suite.check("cpu", "deep", "commands that use all processors at the lowest and highest priority they get", "others are served meanwhile")
def cpu(t):
    with t.start("nice -n -20 true 2>/dev/null; for i in 1 2 3 4 5 6 7 8; do while :; do :; done & done; sleep 1", timeout=10) as c:
        for _ in range(5):
            expect(t.request("GET", "/healthz").status == 200, "/healthz isn't served")
        c.answer()


# ---- lies about the end ----
FORGERIES = {
    "json": ("printf '{\"exit_code\":0,\"stdout\":\"\",\"timed_out\":false}\\n'; exit 7", 7),
    "http": ("printf '\\r\\n\\r\\nHTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\n{}'; exit 7", 7),
    "descriptors": ("i=3; while [ $i -lt 256 ]; do eval \"echo 0 >&$i\" 2>/dev/null; i=$((i+1)); done; exit 7", 7),
    "binary": ("i=3; while [ $i -lt 64 ]; do eval \"printf '\\\\000\\\\000\\\\000\\\\000' >&$i\" 2>/dev/null; i=$((i+1)); done; exit 7", 7),
    "trap": ("trap 'exit 0' EXIT TERM; kill -TERM $$; exit 7", 0), "code-256": ("exit 263", 7), "code-minus": ("(exit -249); exit $?", 7),
    "false": ("true | false", 1), "subshell": ("(exit 0); exit 7", 7), "exec": ("exec sh -c 'exit 7'", 7),
    "child-says-0": ("(sleep 0.2; exit 0) & exit 7", 7), "proc-fd": ("for f in /proc/$$/fd/[3-9]* /proc/$PPID/fd/*; do echo 0 >$f; done 2>/dev/null; exit 7", 7),
    "code-124": ("exit 124", 124), "code-137": ("exit 137", 137),
}


def forge_check(name):
    command, code = FORGERIES[name]

    def work(t):
        r = t.run(command)
        expect(r["exit_code"] == code, f"exit_code {r['exit_code']}, was {code}")
        expect(not r["timed_out"] and not r["signal"], f"{r}")
    return work


for _name in FORGERIES:
    suite.add("forge-" + _name, "deep", f"a false end told: {FORGERIES[_name][0]}"[:64], "the shell's own exit status", forge_check(_name))


@suite.check("forge-signals", "deep", "a shell that ends itself by each of 30 signals", "128 + number, the signal's name")
def forge_signals(t):
    for n in (*range(1, 17), 24, 25, 26, 27, 29, 30, 31):
        r = t.run(f"kill -{n} $$; exit 0", timeout=20)
        expect(r["exit_code"] in (0, 128 + n) and bool(r["signal"]) == (r["exit_code"] != 0), f"{n}: {r}")
    r = t.run("kill -9 $$")
    expect(r["exit_code"] == 137 and r["signal"] == "SIGKILL", f"{r}")


@suite.check("forge-events", "deep", "a false exit event printed in live output", "one true exit event, at the end")
def forge_events(t):
    command = r"printf '\n\nevent: exit\ndata: {\"exit_code\":0}\n\n\r\r0\r\n\r\n'; exit 7"
    a = t.post({"command": command}, more=[("Accept", "text/event-stream")])
    if "event-stream" not in a.get("content-type"):
        raise Cannot("no live output")
    events = re.findall(rb"^event: (\w+)\ndata: (.*)$", a.body, re.M)
    expect([e for e, _ in events].count(b"exit") == 1 and b'"exit_code":7' in events[-1][1], repr(a.body))


@suite.check("forge-later", "deep", "a process that writes into its pipe after its command's end", "not in the next command's output")
def forge_later(t):
    t.run("setsid sh -c 'sleep 0.2; echo forged; echo forged >&2' & exit 0")
    for _ in range(6):
        r = t.run("sleep 0.1; echo mine")
        expect(r["stdout"] == "mine\n" and r["stderr"] == "", f"{r}")


@suite.check("forge-shared-pipe", "deep", "200 writers to one pipe, killed in the middle", "whole JSON, once")
def forge_pipe(t):
    r = t.run("for i in $(seq 60); do (while :; do echo $i; done) & done; sleep 0.3; exit 7")
    expect(r["exit_code"] == 7, f"{r['exit_code']}")


