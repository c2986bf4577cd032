"""races.py: a command exchanges a folder or file with a link that leads outside, as fast as it can, while requests
go through that name. One command and its threads of requests serve all checks here; each has counters of its own."""
import collections
import threading
import time

from . import suite
from .suite import Cannot, Gone, expect

# Exchanges NAME and NAME.l (link) for each name, for so many seconds; tells how often. By renameat2(EXCHANGE).
SWAP = r"""
$| = 1; my ($seconds, @names) = @ARGV; my ($n, $end) = (0, time() + $seconds);
my $nr = `uname -m` =~ /x86_64/ ? 316 : 276;
while (time() < $end) { for my $p (@names) { my $q = "$p.l"; syscall($nr, -100, $p, -100, $q, 2) == 0 and $n++; } }
print "swapped $n\n";
"""
# Without EXCHANGE: over and over a link, a folder, a link.
SWAP_PYTHON = r"""
import os,sys,time
end=time.time()+float(sys.argv[1]); n=0
while time.time()<end:
    for p in sys.argv[2:]:
        os.rename(p,p+'.t'); os.rename(p+'.l',p); n+=1
        os.rename(p,p+'.l'); os.rename(p+'.t',p); n+=1
print('swapped',n)
"""
RACES = ("read-folder", "read-file", "write-folder", "write-file", "remove-recursive", "list", "archive", "head")


class Stage:
    """What the races of one run did."""

    def __init__(self, t):
        self.seen = {name: collections.Counter() for name in RACES}
        self.leaks = collections.Counter()
        self.out = f"/tmp/{t.nonce}-race"
        self.dir = t.folder()
        self.prepare(t)
        self.run(t)
        self.after = t.out(f"ls {self.out}/w; cat {self.out}/canary {self.out}/r/canary")
        self.log = t.out(f"cat {self.dir}/log")

    def prepare(self, t):
        t.run(f"mkdir -p {self.out}/w {self.out}/r; echo here >{self.out}/canary; echo here >{self.out}/r/canary;"
              f"cd {self.dir}; mkdir rf wf rr ls ar; for d in rf ls ar; do echo inside >$d/passwd; done; echo inside >ff;"
              f"echo inside >pf; ln -s /etc rf.l; ln -s /etc ls.l; ln -s /etc ar.l; ln -s /etc/passwd ff.l;"
              f"ln -s {self.out}/w wf.l; ln -s {self.out}/canary pf.l; mkdir rr/s; echo x >rr/s/f; ln -s {self.out}/r rr.l;"
              f"mkdir rm; mkdir rm/v; ln -s {self.out}/r rm/v.l")

    def run(self, t):
        seconds = 2 if t.quick else 15
        names = [f"{self.dir}/{n}" for n in ("rf", "ff", "wf", "pf", "ls", "ar", "rm/v")]
        if "perl" in t.tools:
            tool, text = "perl", f"perl -e \"$P\" {seconds} {' '.join(names)}"
            env = {"P": SWAP}
        else:
            t.need("python3")
            tool, text = "python3", f"python3 -c \"$P\" {seconds} {' '.join(names)}"
            env = {"P": SWAP_PYTHON}
        self.tool = tool
        with t.start(f"{text} >{self.dir}/log 2>&1", env=env, timeout=seconds + 60) as c:
            stop = time.monotonic() + seconds
            threads = [threading.Thread(target=self.hammer, args=(t, w, stop)) for w in (
                ("read-folder", "head"), ("read-file", "list"), ("write-folder", "write-file"), ("remove-recursive", "archive"))]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            c.answer()

    def hammer(self, t, names, stop):
        while time.monotonic() < stop:
            for name in names:
                if name == "archive" and t.kind == "seat":
                    continue
                try:
                    a = getattr(self, name.replace("-", "_"))(t)
                except Gone:
                    self.seen[name]["closed"] += 1
                    continue
                self.seen[name][a.status] += 1

    def leak(self, name, answer, held):
        if not held:
            self.leaks[name] += 1
        return answer

    def read_folder(self, t):
        a = t.read(f"{self.dir}/rf/passwd")
        return self.leak("read-folder", a, a.status != 200 or a.body == b"inside\n")

    def head(self, t):
        a = t.request("HEAD", t.address("read", f"{self.dir}/rf/passwd"))
        return self.leak("head", a, a.status != 200 or a.get("content-length") == "7")

    def read_file(self, t):
        a = t.read(f"{self.dir}/ff")
        return self.leak("read-file", a, a.status != 200 or a.body == b"inside\n")

    def list(self, t):
        a = t.listing(f"{self.dir}/ls")
        return self.leak("list", a, a.status != 200 or b'"shadow"' not in a.body)

    def archive(self, t):
        a = t.request("GET", t.address("archive", f"{self.dir}/ar"))
        return self.leak("archive", a, b"root:" not in a.body)

    def write_folder(self, t):
        return t.write(f"{self.dir}/wf/evil", b"evil")

    def write_file(self, t):
        return t.write(f"{self.dir}/pf", b"evil")

    def remove_recursive(self, t):
        t.write(f"{self.dir}/rm/v/s/canary", b"x")
        return t.remove(f"{self.dir}/rm/v", recursive=True)


def stage(t):
    if "races" not in t.stages:
        t.stages["races"] = Stage(t)
    return t.stages["races"]


# Where the race's link leads, and what tells that it was followed.
AFTER = {"write-folder": lambda s: "evil" not in s.after, "write-file": lambda s: s.after.count("here") == 2,
         "remove-recursive": lambda s: s.after.count("here") == 2}


def race_check(name):
    def work(t):
        s = stage(t)
        swapped = s.log.split()[1] if s.log.startswith("swapped") else "0"
        told = f"{swapped} exchanges by {s.tool}, answers {dict(sorted(s.seen[name].items(), key=str))}"
        expect(not s.leaks[name], f"{s.leaks[name]} times the outside: {told}")
        expect(AFTER.get(name, lambda _: True)(s), f"the outside was reached: {told}; {s.after!r}")
        if int(swapped) == 0 or len(s.seen[name]) < (1 if name in AFTER else 2):
            raise Cannot(f"the two never met: {told} {s.log[:200]}")
        return told
    return work


for _name in RACES:
    suite.add("race-" + _name, "deep", f"{_name.replace('-', ' ')} while a command exchanges it with a link to outside",
              "never the outside, in seconds of it", race_check(_name), "box" if _name == "archive" else "both")


@suite.check("race-cut-uploads", "deep", "50 uploads of one file at a time, cut at random bytes, and readers",
             "a reader sees one whole version")
def cut_uploads(t):
    d = t.folder()
    versions = [bytes([65 + i]) * (20000 + i) for i in range(10)]
    t.write(f"{d}/f", versions[0])
    bad, reads = [], [0]
    stop = time.monotonic() + (1 if t.quick else 5)

    def writer(k):
        n = k
        while time.monotonic() < stop:
            n += 1
            body = versions[n % 10]
            with t.conn() as c:
                cut = len(body) if n % 3 else (n * 977) % len(body)
                c.send(t.head("PUT", t.address("write", f"{d}/f"), more=[("Content-Length", str(len(body)))]) + b"\r\n" + body[:cut])
                if cut == len(body):
                    c.answer()

    def reader():
        while time.monotonic() < stop:
            a = t.read(f"{d}/f")
            reads[0] += 1
            if a.body not in versions:
                bad.append(a)
    threads = [threading.Thread(target=writer, args=(k,)) for k in range(3)] + [threading.Thread(target=reader)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expect(not bad, f"{len(bad)} of {reads[0]}: {bad[:1]}")
    if reads[0] < 10:
        raise Cannot(f"{reads[0]} reads only")
    return f"{reads[0]} reads"


@suite.check("race-commands", "deep", "40 commands asked for at once, on as many connections",
             "one at a time; each answer is its own command's")
def many_commands(t):
    got = collections.Counter()

    def ask(n):
        try:
            a = t.post({"command": f"echo {n} >{t.home}/now; sleep 0.01; cat {t.home}/now; echo {n}"})
        except Gone:
            got["closed"] += 1
            return
        got["right" if a.status == 200 and a.json["stdout"] == f"{n}\n{n}\n" else
            "wrong" if a.status == 200 else a.status] += 1
    threads = [threading.Thread(target=ask, args=(n,)) for n in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expect(not got["wrong"] and not got["closed"], f"{dict(got)}")
    return str(dict(got))
