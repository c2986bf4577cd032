"""boxes.py: what only a box has: keys, identities, multipart uploads, archives, user ids given again."""
import io
import json
import tarfile
import threading
import time
import unicodedata

from . import suite
from .suite import Bypass, Cannot, expect
from .target import quote

A, B = 1, 2  # two identities that the checks here have for their own


def box_check(name, group, tries, expected):
    return suite.check(name, group, tries, expected, "box")


# ---- keys ----
KEYS = {
    "none": lambda k: [], "empty": lambda k: [""], "bearer-only": lambda k: ["Bearer"], "bearer-space": lambda k: ["Bearer "],
    "wrong": lambda k: ["Bearer " + "x" * len(k)], "prefix": lambda k: ["Bearer " + k[:-1]], "longer": lambda k: ["Bearer " + k + "x"],
    "first-half": lambda k: ["Bearer " + k[:len(k) // 2]], "upper": lambda k: ["Bearer " + k.swapcase()],
    "basic": lambda k: ["Basic " + k], "twice": lambda k: ["Bearer wrong-key-0123456789", "Bearer " + k],
    "twice-good-first": lambda k: ["Bearer " + k, "Bearer wrong-key-0123456789"], "list": lambda k: ["Bearer x, Bearer " + k],
    "no-scheme": lambda k: [k], "quoted": lambda k: [f'Bearer "{k}"'], "null": lambda k: ["Bearer null"],
    "commas": lambda k: ["Bearer ,"], "inner-space": lambda k: ["Bearer " + k[:4] + " " + k[4:]],
    "huge": lambda k: ["Bearer " + "x" * 8000],
}


def key_check(name):
    def work(t):
        if not t.key:
            raise Cannot("no key was given")
        more = [("Authorization", v) for v in KEYS[name](t.key)] + [("X-Runbox-Identity", t.who(A))]
        more += [("X-Api-Key", t.key)] if name == "none" else []
        for method, target, body in (("POST", "/v1/exec", b'{"command":"echo ran"}'), ("GET", "/v1/list?path=", None),
                                     ("GET", "/v1/capabilities", None), ("GET", "/metrics", None), ("GET", "/v1/none", None),
                                     ("DELETE", "/v1/workspace", None), ("GET", f"/v1/usage?key={t.key}", None)):
            a = t.request(method, target, body, more, who=None, auth=False)
            expect(a.status in (400, 401), f"{method} {target.split('?')[0]}: {a!r}")
    return work


for _name in KEYS:
    suite.add("key-" + _name, "security", f"an Authorization that isn't right: {_name}", "401, everywhere", key_check(_name), "box")


# ---- identities ----
IDENTITIES = {
    "none": [], "empty": [("X-Runbox-Identity", "")], "twice": [("X-Runbox-Identity", "{a}"), ("X-Runbox-Identity", "{b}")],
    "both-forms": [("X-Runbox-Identity", "{a}"), ("X-Runbox-Tenant", "x"), ("X-Runbox-User", "y")],
    "half-pair": [("X-Runbox-Tenant", "{a}")], "other-half": [("X-Runbox-User", "{a}")],
    "tenant-twice": [("X-Runbox-Tenant", "x"), ("X-Runbox-Tenant", "y"), ("X-Runbox-User", "{a}")],
    "blank-inside": [("X-Runbox-Identity", "{a} {b}")], "tab-inside": [("X-Runbox-Identity", "{a}\t{b}")],
    "not-utf8": [("X-Runbox-Identity", "{a}\xff\xfe")], "overlong-utf8": [("X-Runbox-Identity", "{a}\xc0\xaf")],
    "surrogate": [("X-Runbox-Identity", "{a}\xed\xa0\x80")], "c1-control": [("X-Runbox-Identity", "{a}\xc2\x85")],
    "too-long": [("X-Runbox-Identity", "{a}" + "x" * 257)], "underscore": [("X_Runbox_Identity", "{a}")],
}


def identity_check(name):
    def work(t):
        more = [(k, v.format(a=t.who(A), b=t.who(B))) for k, v in IDENTITIES[name]]
        for method, target, body in (("POST", "/v1/exec", b'{"command":"echo ran"}'), ("GET", "/v1/list?path=", None)):
            a = t.request(method, target, body, more, who=None)
            expect(a.status == 400, f"{method} {target}: {a!r}")
    return work


for _name in IDENTITIES:
    suite.add("identity-" + _name, "security", f"identity headers that aren't right: {_name}", "400", identity_check(_name), "box")

PAIRS = {
    "shifted": ([("X-Runbox-Tenant", "{n}a"), ("X-Runbox-User", "bc")], [("X-Runbox-Tenant", "{n}ab"), ("X-Runbox-User", "c")]),
    "joined": ([("X-Runbox-Tenant", "{n}a"), ("X-Runbox-User", "b")], [("X-Runbox-Identity", "{n}a/b")]),
    "joined-colon": ([("X-Runbox-Tenant", "{n}a"), ("X-Runbox-User", "b")], [("X-Runbox-Identity", "{n}a:b")]),
    "case": ([("X-Runbox-Identity", "{n}x")], [("X-Runbox-Identity", "{n}X")]),
    "normal-forms": ([("X-Runbox-Identity", "{n}" + unicodedata.normalize("NFC", "é").encode().decode("latin-1"))],
                     [("X-Runbox-Identity", "{n}" + unicodedata.normalize("NFD", "é").encode().decode("latin-1"))]),
    "dots": ([("X-Runbox-Identity", "{n}y")], [("X-Runbox-Identity", "../{n}y")]),
    "slashes": ([("X-Runbox-Identity", "{n}z")], [("X-Runbox-Identity", "./{n}z")]),
    "percent": ([("X-Runbox-Identity", "{n}w")], [("X-Runbox-Identity", "{n}%77")]),
    "digest": ([("X-Runbox-Identity", "{n}v")], [("X-Runbox-Identity", "{digest}")]),
}


def pair_check(name):
    def work(t):
        one, other = PAIRS[name]
        digest = ""
        def ask(headers, command):
            more = [(k, v.format(n=t.nonce, digest=digest)) for k, v in headers] + [("Content-Type", "application/json")]
            return t.request("POST", "/v1/exec", json.dumps({"command": command}).encode(), more, who=None)
        a = ask(one, "echo of-one >mine; id -u; basename $PWD")
        uid, digest = a.json["stdout"].split()
        b = ask(other, "id -u; ls -A")
        for headers in (one, other):
            t.request("DELETE", "/v1/workspace", None, [(k, v.format(n=t.nonce, digest=digest)) for k, v in headers], who=None)
        if b.status == 400:
            return "the second name is refused"
        expect(b.json["stdout"].split() not in ([uid, "mine"],) and "mine" not in b.json["stdout"], f"they share: {b!r}")
        expect(b.json["stdout"].split()[0] != uid, "they share a user id")
    return work


for _name in PAIRS:
    suite.add("identities-" + _name, "security", f"two names that a careless join takes for one: {_name}",
              "two workspaces, two user ids", pair_check(_name), "box")


@box_check("other-files", "security", "another identity's workspace by its path: read, list, write, remove, link", "nothing")
def other_files(t):
    path = t.out("echo of-a >secret; pwd", A).strip()
    for command in (f"cat {path}/secret", f"ls {path}", f"cd {path}", f"touch {path}/x", f"rm {path}/secret", f"mv {path}/secret .",
                    f"ln {path}/secret l", f"ln -s {path}/secret l; cat l", f"cp -r {path} c", f"chmod 777 {path}", f"cat /proc/*/root{path}/secret",
                    f"cat /proc/*/cwd/secret", f"find {path}/../.. -name secret -readable 2>/dev/null | grep ."):
        r = t.run(command, B)
        expect(r["exit_code"] != 0 and "of-a" not in r["stdout"], f"{command}: {r}")
    expect(t.read("l", B).status in (403, 404), "through a link")
    expect(t.read(path.lstrip("/") + "/secret", B).status == 404, "by its path")
    expect(t.out("cat secret", A) == "of-a\n", "it was changed")


@box_check("other-processes", "security", "another identity's running command: seen, signalled, read", "nothing")
def other_processes(t):
    with t.start("echo up >up; sleep 2; echo survived", A, timeout=30, env={"OTHER": t.nonce}) as c:
        wait_file(t, "up", A)
        r = t.run("kill -9 -1; kill -STOP -1; for p in /proc/[0-9]*; do [ ${p#/proc/} = $$ ] || kill -9 ${p#/proc/}; done 2>/dev/null; true", B, timeout=10)
        got = t.out(f"cat /proc/[0-9]*/environ 2>/dev/null | grep -ac 'OTHER={t.nonce[:-1]}[{t.nonce[-1]}]'", B)
        a = c.answer()
    expect(got.strip() == "0", f"its environment is read: {got}")
    expect(a.json.get("stdout") == "survived\n", f"it was hit: {a!r}")
    return str(r["signal"])


def wait_file(t, name, who):
    until = time.monotonic() + 30
    while t.read(name, who).status != 200:
        if time.monotonic() > until:
            raise Cannot(f"{name} never came")
        time.sleep(0.05)


@box_check("other-shared", "security", "/tmp, /dev/shm, System V objects of another identity", "neither seen nor removed nor taken")
def other_shared(t):
    n = t.nonce
    with t.start(f"umask 077; for d in /tmp /dev/shm /var/tmp; do echo of-a >$d/{n}-s; done; ipcmk -M 4096 -p 0600; ipcmk -Q -p 0600;"
                 "echo up >up2; while [ ! -e go ]; do sleep 0.05; done; "
                 f"cat /tmp/{n}-s /dev/shm/{n}-s /var/tmp/{n}-s; ipcs -m -q | grep -c 0x", A, timeout=30) as c:
        wait_file(t, "up2", A)
        r = t.run(f"cat /tmp/{n}-s /dev/shm/{n}-s /var/tmp/{n}-s; rm -f /tmp/{n}-s /dev/shm/{n}-s /var/tmp/{n}-s; ipcrm -a 2>/dev/null; true", B)
        t.write("go", b"", A)
        a = c.answer()
    expect("of-a" not in r["stdout"], "read")
    expect("of-a\nof-a\nof-a\n" in a.json["stdout"], f"taken: {a!r}")
    expect(a.json["stdout"].strip().endswith("2") or "ipcmk" in a.json["stderr"], f"objects were removed: {a!r}")


@box_check("other-abstract", "security", "another identity's abstract socket", "no connection")
def other_abstract(t):
    t.need("python3")
    if not {"signal-scope", "net-ns"} & set(t.layers):
        raise Cannot("neither Landlock's scope nor an own network: SECURITY.md says so")
    listen = f"import socket\ns=socket.socket(socket.AF_UNIX);s.bind('\\0{t.nonce}');s.listen();open('up3','w').close();s.settimeout(10);s.accept()"
    with t.start("exec python3 -c \"$P\"", A, env={"P": listen}):
        wait_file(t, "up3", A)
        r = t.run("exec python3 -c \"$P\"", B, env={"P": f"import socket\ns=socket.socket(socket.AF_UNIX);s.connect('\\0{t.nonce}')"})
    expect(r["exit_code"] != 0, "connected")


@box_check("other-count", "security", "one identity at its limits: processes, files, queue", "another is served")
def other_count(t):
    with t.start("trap '' TERM; b() { b | b & }; b 2>/dev/null; sleep 3", A, timeout=1.5) as c:
        for n in range(5):
            expect(t.out(f"echo {n}", B, timeout=30) == f"{n}\n", "not served")
        c.answer()


# ---- a user id given again ----
@box_check("uid-reuse", "deep", "an identity that leaves files, processes and objects, is removed, and comes again, five times",
           "nothing is found of the one before, and no id comes again at once")
def uid_reuse(t):
    ids, who = [], 3
    for n in range(3 if t.quick else 8):
        mark = f"{t.nonce}-r"
        found = t.out(f"id -u; ls -A; ls -d /tmp/{mark}* /dev/shm/{mark}* /var/tmp/{mark}* /dev/mqueue/{mark}* 2>/dev/null; ipcs -m -q -s | grep 0x;"
                      f"grep -laz '^REUSE=' /proc/[0-9]*/environ 2>/dev/null", who).split()
        expect(found[0] not in ids and len(found) == 1, f"round {n}: {found}, before {ids}")
        ids.append(found[0])
        with t.start(f"echo of-{n} >f; mkdir -p a/b; chmod 0 a; for d in /tmp /dev/shm /var/tmp; do echo x >$d/{mark}; done; ipcmk -M 4096; ipcmk -Q; ipcmk -S 1;"
                     "setsid sh -c 'trap \"\" TERM HUP; while :; do echo x >>late; sleep 0.01; done' & echo up >up4; sleep 20", who,
                     env={"REUSE": "1"}, timeout=30):
            wait_file(t, "up4", who)
            a = t.request("DELETE", "/v1/workspace", who=who)
        expect(a.status in (204, 409), repr(a))
        until = time.monotonic() + 30
        while t.request("DELETE", "/v1/workspace", who=who).status not in (204, 404):
            expect(time.monotonic() < until, "the removal doesn't end")
            time.sleep(0.05)
        t.removed = found[0]
    other = t.out("id -u", 4).strip()
    expect(other not in ids, f"a new identity got {other} at once")
    return f"ids {ids}"


@box_check("uid-reuse-race", "deep", "an identity that is used and removed at once, by six clients", "every answer is whole, nothing is mixed")
def uid_race(t):
    wrong, done = [], [0]
    stop = time.monotonic() + (1 if t.quick else 5)

    def use(k):
        n = 0
        while time.monotonic() < stop:
            n += 1
            if k < 2:
                t.request("DELETE", "/v1/workspace", who=5)
                continue
            a = t.post({"command": f"echo {k}-{n}; stat -c %u . ; id -u"}, 5)
            done[0] += 1
            if a.status == 200:
                out = a.json["stdout"].split()
                killed = a.json["signal"] is not None or a.json["exit_code"] != 0
                if not killed and (len(out) != 3 or out[0] != f"{k}-{n}" or out[1] != out[2]):
                    wrong.append(a)
    threads = [threading.Thread(target=use, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expect(not wrong, f"{len(wrong)} of {done[0]}: {wrong[:1]}")
    return f"{done[0]} commands"


# ---- multipart ----
def form(*parts, boundary=b"sp-b", end=b"--sp-b--\r\n"):
    return b"".join(b"--" + boundary + b"\r\n" + head + b"\r\n\r\n" + body + b"\r\n" for head, body in parts) + end


def file_part(name, body=b"evil"):
    return b'Content-Disposition: form-data; name="f"; filename="' + name + b'"', body


FILES = {
    "dots": [file_part(b"../../x")], "dots-many": [file_part(b"../" * 12 + b"tmp/{n}")], "absolute": [file_part(b"/tmp/{n}")],
    "nul": [file_part(b"x\0.txt")], "dot": [file_part(b".")], "empty": [file_part(b"")],
    "dots-inside": [file_part(b"a/../../../x")], "double-slash": [file_part(b"a//b")], "newline": [file_part(b"x\r\ny")],
    "same-twice": [file_part(b"x"), file_part(b"x", b"other")], "below-another": [file_part(b"x"), file_part(b"x/y")],
    "good-then-bad": [file_part(b"good"), file_part(b"../bad")], "many": [file_part(b"f%d" % i) for i in range(2000)],
    "filename-star": [(b"Content-Disposition: form-data; name=\"f\"; filename=\"a\"; filename*=UTF-8''..%2f..%2fx", b"evil")],
    "filename-twice": [(b'Content-Disposition: form-data; name="f"; filename="a"; filename="../x"', b"evil")],
    "disposition-twice": [(b'Content-Disposition: form-data; name="f"; filename="a"\r\nContent-Disposition: form-data; name="f"; filename="../x"', b"evil")],
    "base64": [(b'Content-Disposition: form-data; name="f"; filename="a"\r\nContent-Transfer-Encoding: base64', b"ZXZpbA==")],
    "folded": [(b'Content-Disposition: form-data;\r\n name="f"; filename="../x"', b"evil")],
    "head-huge": [(b'Content-Disposition: form-data; name="f"; filename="' + b"x" * 100000 + b'"', b"evil")],
    "not-utf8": [file_part(b"\xff\xfe")],
}


def form_check(name):
    def work(t):
        d = t.folder(B)
        parts = [tuple(x.replace(b"{n}", t.nonce.encode() + b"-z") for x in p) for p in FILES[name]]
        a = t.request("POST", f"/v1/files/batch?path={d}/in", form(*parts), [("Content-Type", "multipart/form-data; boundary=sp-b")], B)
        found = t.out(f"find {t.nonce} -newer {d} -type f; ls -d /tmp/{t.nonce}-z x bad 2>/dev/null", B).split()
        expect(a.status >= 400, f"accepted: {a!r}, {found}")
        expect(not found, f"placed: {found}")
        return a.json.get("code", str(a.status))
    return work


for _name in FILES:
    suite.add("batch-" + _name, "deep", f"an upload of files whose names or heads are tricks: {_name}", "refused, none is placed",
              form_check(_name), "box")

BODIES = {
    "unfinished": form(file_part(b"a"), end=b""), "boundary-inside": b"--sp-b\r\n" + file_part(b"a")[0] + b"\r\n\r\nx\r\n--sp-bX\r\n\r\n--sp-b--\r\n",
    "lf-only": form(file_part(b"a")).replace(b"\r\n", b"\n"), "preamble": b"evil\r\n" + form(file_part(b"a")),
    "epilogue": form(file_part(b"a")) + form(file_part(b"b")), "no-parts": b"--sp-b--\r\n",
}


def body_check(name):
    def work(t):
        d = t.folder(B)
        a = t.request("POST", f"/v1/files/batch?path={d}/in", BODIES[name], [("Content-Type", "multipart/form-data; boundary=sp-b")], B)
        expect(a.status >= 400, f"accepted: {a!r}")
        expect(not t.out(f"find {d} -type f", B), "placed")
    return work


for _name in BODIES:
    suite.add("multipart-" + _name, "deep", f"a multipart body that two readers take differently: {_name}", "refused, none is placed",
              body_check(_name), "box")


@box_check("batch-backslash", "deep", "an upload of a file whose name climbs by backslashes", "refused, or a file of just that name")
def backslash(t):
    d = t.folder(B)
    t.request("POST", f"/v1/files/batch?path={d}", form(file_part(b"..\\\\..\\\\x")), [("Content-Type", "multipart/form-data; boundary=sp-b")], B)
    expect(t.out(f"ls {d}; ls x 2>/dev/null", B) in ("", "..\\..\\x\n"), "placed elsewhere")


@box_check("multipart-links", "deep", "files uploaded into folders that are links to outside", "refused, the outside is as before")
def form_links(t):
    d, out = t.folder(B), f"/tmp/{t.nonce}-mp"
    t.run(f"mkdir -p {out}; ln -s {out} {d}/l", B)
    for path, name in ((d, b"l/x"), (f"{d}/l", b"x"), (d, b"l/a/b")):
        a = t.request("POST", f"/v1/files/batch?path={path}", form(file_part(name)), [("Content-Type", "multipart/form-data; boundary=sp-b")], B)
        expect(a.status >= 400, repr(a))
    expect(not t.out(f"ls -A {out}", B), "written outside")


@box_check("query-twice", "security", "a path given twice, an unknown parameter, a fragment", "400")
def query_twice(t):
    t.write("q", b"x")
    for q in ("path=q&path=../../etc/passwd", "path=q&x=y", "path=../../etc/passwd&path=q", "path=q%26path=..%2f", "Path=q", "path=q;path=/etc/passwd",
              "path[]=/etc/passwd", "path=q&recursive=true&recursive=false"):
        a = t.request("GET", "/v1/files?" + q)
        expect(a.status >= 400, f"{q}: {a!r}")


# ---- archives ----
def tar_of(t, path):
    a = t.request("GET", t.address("archive", quote(path)))
    expect(a.status == 200, repr(a))
    return tarfile.open(fileobj=io.BytesIO(a.body), errors="surrogateescape")


@box_check("archive-links", "deep", "links, FIFOs, devices, names with newlines and dots in an archived folder",
           "links as links, nothing followed, no name leads out, nothing waits")
def archive_links(t):
    d = t.folder()
    t.run(f"cd {d}; ln -s /etc/passwd l; ln -s / r; mkfifo p; mkdir s; echo x >s/f; ln s/f h; : >\"$(printf 'a\\n../../b')\" ; : >'..x'; mkdir ...;"
          "ln -s ../../.. s/up; : >'-rf'; : >\"$(printf '20 path=/etc/x\\n')\"")
    tar = tar_of(t, d)
    names = tar.getnames()
    for m in tar.getmembers():
        parts = m.name.split("/")
        expect(not m.name.startswith("/") and ".." not in parts, f"a member {m.name!r}")
        expect(m.isreg() or m.isdir() or m.issym() or m.islnk(), f"{m.name!r} is of type {m.type!r}")
        if m.isreg():
            expect(b"root:" not in tar.extractfile(m).read(), f"{m.name} was followed")
    expect("l" not in [n for n in names if tar.getmember(n).isreg()], "the link was followed")
    return f"{len(names)} members"


@box_check("archive-growing", "deep", "an archive of files that grow, shrink and go while it is made", "a whole archive, or a cut connection")
def archive_growing(t):
    d = t.folder()
    with t.start(f"cd {d}; for i in $(seq 40); do head -c 100000 /dev/zero >f$i; done; echo up >up; e=$(($(date +%s)+2)); while [ $(date +%s) -lt $e ]; do "
                 "for i in $(seq 40); do echo x >>f$i; : >f$(((i*7)%40)); rm -f f$(((i*3)%40)); head -c 50000 /dev/zero >f$(((i*3)%40)); done; done", timeout=30) as c:
        wait_file(t, f"{d}/up", 0)
        whole = cut = 0
        for _ in range(10):
            try:
                a = t.request("GET", t.address("archive", d))
                tarfile.open(fileobj=io.BytesIO(a.body)).getmembers()
                whole += 1
            except (suite.Gone, tarfile.TarError) as e:
                cut += isinstance(e, suite.Gone)
                expect(isinstance(e, suite.Gone), f"a broken archive that looks whole: {e}")
        c.answer()
    return f"{whole} whole, {cut} cut"


@box_check("quota", "deep", "uploads and commands over the quota, by many files, sparse files, links", "what stays is bounded by the quota")
def quota(t):
    limit = t.limits.get("quota", 0)
    if not limit or limit > 1 << 28:
        raise Cannot(f"a quota of {limit} bytes: too large to fill, give the instance a small one")
    who = 6
    t.post({"command": f"head -c {2 * limit} /dev/zero >big; sleep 1", "timeout": 20}, who)
    for n in range(4):
        t.write(f"u{n}", b"x" * (limit // 3), who)
    used = t.request("GET", "/v1/usage", who=who).json["bytes"]
    a = t.write("last", b"x" * (limit // 2), who)
    expect(a.status == 507, f"over the quota: {a!r}")
    t.request("DELETE", "/v1/workspace", who=who)
    # A command's own writes are looked at between, not before: docs/box.md "Quota".
    expect(used < 4 * limit, f"{used} of {limit}")
    return f"{used} bytes at a quota of {limit}"
