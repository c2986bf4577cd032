"""paths.py: ways to spell a path that leads out of the workspace, in every place where a path is taken; links that
lead out; names that a listing, a header or a shell could trip over."""
import json

from . import suite
from .suite import Cannot, expect
from .target import quote

UP = 12  # enough to climb out of any workspace
# `{}` stands for a name at the root: etc/passwd is read, tmp/NONCE is written and removed.
SPELLINGS = {
    "dots": "../" * UP + "{}", "dots-encoded": "%2e%2e/" * UP + "{}", "all-encoded": "%2e%2e%2f" * UP + "{}",
    "slash-encoded": "..%2f" * UP + "{}", "twice-encoded": "%252e%252e%252f" * UP + "{}",
    "thrice-encoded": "%25252e%25252e%25252f" * UP + "{}", "upper-hex": "%2E%2E%2F" * UP + "{}",
    "overlong-slash": "..%c0%af" * UP + "{}", "overlong-dot": "%c0%ae%c0%ae/" * UP + "{}",
    "overlong-three": "%e0%80%ae%e0%80%ae/" * UP + "{}", "overlong-four": "%f0%80%80%ae%f0%80%80%ae/" * UP + "{}",
    "backslash": "..%5c" * UP + "{}", "backslash-mixed": "..%5c/" * UP + "{}", "full-width": "%ef%bc%8e%ef%bc%8e/" * UP + "{}",
    "u-escape": "%u002e%u002e/" * UP + "{}", "doubled-dots": "....//" * UP + "{}", "semicolon": "..;/" * UP + "{}",
    "nul-end": "../" * UP + "{}%00", "nul-suffix": "../" * UP + "{}%00.txt", "nul-in-dots": ".%00./" * UP + "{}",
    "cr-in-dots": ".%0d./" * UP + "{}", "dot-dot-inside": "a/b/" + "../" * (UP + 2) + "{}",
    "dot-slash": "./" + "../" * UP + "{}", "absolute": "/{}", "absolute-encoded": "%2f{}", "absolute-twice": "//{}",
    "proc-root": "/proc/self/root/{}", "file-url": "file:///{}", "tilde": "~root/../{}", "home": "$HOME/../../{}",
    "long": "a/../" * 500 + "../" * UP + "{}",
}


def spelled(t, name, inner):
    return SPELLINGS[name].format(inner)


def path_check(name):
    """Read /etc/passwd; write and remove a file in /tmp; archive and list /etc; be a command's folder."""
    def work(t):
        seen = []
        for what in ("read", "archive") if t.kind == "box" else ("read",):
            for method in ("GET", "HEAD") if what == "read" else ("GET",):
                inner = "etc/passwd" if what == "read" else "etc"
                a = t.request(method, t.address(what, spelled(t, name, inner)))
                expect(b"root:" not in a.body, f"{method} gave /etc/passwd")
                expect(method != "HEAD" or a.status >= 400, f"HEAD: {a!r}")
                seen.append(a.status)
        a = t.request("GET", t.address("list", spelled(t, name, "etc" if t.kind == "box" else "etc/")))
        expect(b'"passwd"' not in a.body, "a listing of /etc")
        victim = f"{t.nonce}-victim"
        t.run(f"echo here > /tmp/{victim}")
        for method, what in (("PUT", "write"), ("DELETE", "remove")):
            a = t.request(method, t.address(what, spelled(t, name, f"tmp/{victim}")),
                          b"evil" if method == "PUT" else None)
            expect(t.out(f"cat /tmp/{victim}") == "here\n", f"{method} reached /tmp: {a!r}")
            seen.append(a.status)
        a = t.post({"command": "pwd -P", "cwd": json_path(spelled(t, name, "etc"))})
        expect(a.status >= 400 or a.json.get("stdout", "").strip() != "/etc", f"cwd: {a!r}")
        return " ".join(map(str, [*seen, a.status]))
    return work


def json_path(text):
    """In JSON nothing is percent-encoded: the plain spelling behind the first level."""
    return text.replace("%2e", ".").replace("%2f", "/").replace("%2E", ".").replace("%2F", "/").replace("%5c", "\\")


for _name in SPELLINGS:
    suite.add("path-" + _name, "security", f"a path spelled {SPELLINGS[_name][:36]!r}..., in every route and cwd",
              "nothing outside is read, listed, written, removed or entered", path_check(_name))


@suite.check("path-absolute-form", "security", "an absolute URI of another host as the target",
             "no request goes anywhere else, nothing outside is read")
def absolute_form(t):
    for target in ("http://169.254.169.254/latest/meta-data/", "file:///etc/passwd", "http://x/../../etc/passwd"):
        a = t.request("GET", target)
        expect(a.status >= 400 and b"root:" not in a.body, f"{target}: {a!r}")


@suite.check("path-headers", "security", "the path again in X-Original-URL and the like",
             "only the request line's target counts")
def path_headers(t):
    out = quote("../" * UP) + "etc/passwd"
    more = [(k, t.address("read", out)) for k in ("X-Original-URL", "X-Rewrite-URL", "X-Forwarded-Prefix",
                                                 "X-Forwarded-Uri", "Content-Location", "Destination")]
    a = t.request("GET", "/healthz", None, more)
    expect(a.status == 200 and b"root:" not in a.body, repr(a))


@suite.check("method-override", "security", "GET with X-HTTP-Method-Override: DELETE", "the file is still there")
def method_override(t):
    f = t.folder() + "/f"
    t.write(f, b"kept")
    for name in ("X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"):
        t.read(f, more=[(name, "DELETE")])
    t.request("GET", t.address("read", f, "_method=DELETE"))
    expect(t.read(f).body == b"kept", "removed")


# ---- links: made by a command, followed by the file routes ----
LINKS = {
    "absolute": ("/etc/passwd", "an absolute link to a file"),
    "relative": ("../" * UP + "etc/passwd", "a relative link that climbs out"),
    "proc-root": ("/proc/self/root/etc/passwd", "a link through /proc/self/root"),
    "proc-environ": ("/proc/self/environ", "a link to the reader's own environment"),
    "proc-cwd": ("/proc/self/cwd", "a link to the reader's own folder"),
    "proc-maps": ("/proc/self/maps", "a link to the reader's own memory map"),
    "proc-fd": ("/proc/self/fd/0", "a link to one of the reader's descriptors"),
    "dev-stdin": ("/dev/stdin", "a link to /dev/stdin"),
    "dev-zero": ("/dev/zero", "a link to an endless device"),
}


def link_check(name):
    goal = LINKS[name][0]

    def work(t):
        d = t.folder()
        t.run(f"cd {d} && ln -s {goal} l && ln -s l l2 && mkdir s && ln -s ../l2 s/l3")
        seen = []
        for path in ("l", "l2", "s/l3"):
            a = t.read(f"{d}/{path}")
            expect(a.status >= 400 and b"root:" not in a.body, f"{path}: {a!r}")
            seen.append(a.status)
        return " ".join(map(str, seen))
    return work


for _name, (_goal, _what) in LINKS.items():
    suite.add("link-" + _name, "deep", _what + ", plain and through two more", "refused", link_check(_name))


@suite.check("link-folder", "deep", "a link to a folder outside: read, list, write, remove, enter through it",
             "refused, and the folder outside is as before")
def link_folder(t):
    d, out = t.folder(), f"/tmp/{t.nonce}-out"
    t.run(f"mkdir -p {out}; echo here > {out}/f; ln -s {out} {d}/l")
    seen = [t.read(f"{d}/l/f"), t.write(f"{d}/l/new", b"evil"), t.write(f"{d}/l/deep/new", b"evil"),
            t.remove(f"{d}/l/f"), t.listing(f"{d}/l"), t.post({"command": "pwd -P", "cwd": f"{d}/l"})]
    expect(all(a.status >= 400 for a in seen), f"accepted: {seen}")
    expect(t.out(f"cd {out} && echo * && cat f") == "f\nhere\n", "the folder outside was changed")  # not every kernel does ls
    return " ".join(str(a.status) for a in seen)


@suite.check("link-replaced", "deep", "an upload onto a link that leads outside",
             "the link is replaced, the file outside is as before")
def link_replaced(t):
    d, out = t.folder(), f"/tmp/{t.nonce}-kept"
    t.run(f"echo here > {out}; ln -s {out} {d}/l")
    a = t.write(f"{d}/l", b"new")
    expect(t.out(f"cat {out}") == "here\n", f"written through the link: {a!r}")
    return str(a.status)


@suite.check("link-remove-recursive", "deep", "a recursive removal of a folder with links that lead outside",
             "links are removed, what they lead to is not")
def link_remove(t):
    d, out = t.folder(), f"/tmp/{t.nonce}-kept2"
    t.run(f"mkdir -p {out}; echo here > {out}/f; cd {d}; mkdir a; ln -s {out} a/l; ln -s {out}/f a/g")
    expect(t.remove(f"{d}/a/l", recursive=True).status in (204, 400, 403, 404), "odd answer")
    a = t.remove(f"{d}/a", recursive=True)
    expect(t.out(f"cat {out}/f") == "here\n", "what a link leads to was removed")
    return str(a.status)


@suite.check("link-loop", "deep", "links in a circle, a chain of 100, and one to its own folder", "refused, at once")
def link_loop(t):
    d = t.folder()
    t.run(f"cd {d}; ln -s b a; ln -s a b; ln -s . me; echo x > f; p=f; for i in $(seq 100); do ln -s $p c$i; p=c$i; done")
    for path in ("a", "c100", "me/" * 60 + "f"):
        a = t.read(f"{d}/{path}")
        expect(a.status >= 400, f"{path}: {a!r}")


@suite.check("hard-link", "deep", "hard links to files outside, made in the workspace", "none can be made, or read")
def hard_link(t):
    d = t.folder()
    done = t.out(f"cd {d}; for f in /etc/passwd /etc/hostname /bin/sh /proc/self/environ; do "
                 "ln $f h$$ 2>/dev/null && echo $f; rm -f h$$; done")
    expect(not done, f"hard links to {done!r}")


@suite.check("special-files", "deep", "reading a FIFO, a socket and a folder as files", "refused; nothing waits")
def special_files(t):
    t.need("mkfifo")
    d = t.folder()
    t.run(f"cd {d}; mkfifo p; mkdir e")
    for path in ("p", "e/x/y"):
        a = t.read(f"{d}/{path}")
        expect(a.status >= 400, f"{path}: {a!r}")
    expect(t.write(f"{d}/p/under", b"x").status >= 400, "a file below a FIFO")


# ---- names ----
NAMES = {
    "newline": "a\nb", "cr-lf-header": "a\r\nSet-Cookie: evil=1\r\n\r\nx", "escape": "\x1b[2J\x1b]0;x\x07",
    "quotes": "a\"b'c", "shell": "$(touch PWNED)`touch PWNED`;touch PWNED", "dash": "-rf", "backslash": "a\\..\\b",
    "not-utf8": b"\xff\xfe\x80", "override": "a\u202etxt.exe", "percent": "%2e%2e%2fx", "dots": "...", "blank": " ",
    "longest": "n" * 255, "glob": "*", "temporary": ".sallyport-put-x", "json": '"},{"name":"evil"', "surrogate":
    b"\xed\xa0\x80", "html": "<script>alert(1)</script>", "star-utf8": "\U0001f3f4" * 30,
}


def name_check(name):
    def work(t):
        value = NAMES[name]
        raw = value if isinstance(value, bytes) else value.encode()
        d = t.folder()
        path = d.encode() + b"/" + raw
        a = t.write(path, b"of this name")
        expect(a.status == 201, f"not written: {a!r}") if name != "longest" else None
        for answer in (a, t.read(path)):
            expect(not answer.get("set-cookie"), "a header by a name")
        expect(t.read(path).body == b"of this name", "another file")
        listed = t.listing(d)
        try:
            entries = json.loads(listed.body.decode())["entries"]
        except ValueError as e:
            raise suite.Bypass(f"the listing is no JSON: {e}") from None
        expect(len(entries) == 1, f"{len(entries)} entries of one file")
        made = t.out(f"cd {d}; ls -A | wc -c; ls -d PWNED 2>/dev/null").split()
        expect(len(made) == 1, "a name was run")
        if t.kind == "box":
            expect(t.request("GET", t.address("archive", quote(d))).status == 200, "no archive")
        expect(t.remove(path).status == 204 and t.read(path).status == 404, "not removed")
    return work


for _name in NAMES:
    suite.add("name-" + _name, "deep", f"a file called {NAMES[_name]!r}"[:60],
              "it alone is written, listed, read, removed", name_check(_name))


@suite.check("name-nul-split", "deep", "a name with a NUL, upload and removal", "refused, the shorter name is as before")
def name_nul(t):
    d = t.folder()
    t.write(f"{d}/f", b"kept")
    for method, what in (("PUT", "write"), ("DELETE", "remove"), ("GET", "read")):
        a = t.request(method, t.address(what, f"{d}/f%00.txt"), b"evil" if method == "PUT" else None)
        expect(a.status >= 400, f"{method}: {a!r}")
    expect(t.read(f"{d}/f").body == b"kept", "the shorter name was hit")


@suite.check("tree-deep", "deep", "a tree of 3,000 folders, one in the other: list, remove", "it goes, nothing breaks")
def tree_deep(t):
    d = t.folder()
    t.need("perl")
    r = t.run(f"cd {d} && exec perl -e \"$P\"", env={
        "P": f"my $i=0; while ($i<{1000 if t.quick else 3000}) {{ mkdir 'd' and chdir 'd' or last; $i++ }} print $i"})
    made = r["stdout"].strip()
    t.listing(d)
    if t.kind == "box":
        t.request("GET", t.address("list", d, "recursive=true"))
        t.request("GET", t.address("archive", d))
    a = t.remove(f"{d}/d", recursive=True)
    left = t.out(f"ls -A {d}").strip()
    expect(a.status != 204 or not left, "removed, it said")
    t.run(f"rm -rf {d}")
    if made in ("", "0"):
        raise Cannot("no folders could be made")
    return f"{made} folders, {a.status}"


@suite.check("tree-wide", "deep", "5,000 hostile names in one folder: list, archive, remove", "all are listed")
def tree_wide(t):
    d = t.folder()
    t.run(f"cd {d}; i=0; while [ $i -lt 5000 ]; do : > \"$i\"$'\\n\\\"\\377'; i=$((i+1)); done")
    a = t.listing(d)
    expect(len(a.json.get("entries", ())) == 5000, f"{len(a.json.get('entries', ()))} of 5000")
    expect(t.remove(d, recursive=True).status == 204, "not removed")
