"""requests.py: what stands in a request's head and JSON: hostile bodies, the environment of commands, answers'
headers, browsers' requests; and what limits a request has."""
import gzip
import json
import re

from . import suite
from .suite import Bypass, Gone, expect

CMD = '"command":"echo ran"'
# Bodies that must not run a command. What a lenient reader makes of each is another thing than a strict one does.
BODIES = {
    "duplicate": '{"command":"echo no","command":"echo ran"}', "trailing": '{%s} {"command":"id"}' % CMD,
    "two-values": '{%s}{%s}' % (CMD, CMD), "unknown-member": '{%s,"user":"root"}' % CMD,
    "case-member": '{"Command":"echo ran"}', "array": '[{%s}]' % CMD, "command-array": '{"command":["echo","ran"]}',
    "nan-timeout": '{%s,"timeout":NaN}' % CMD, "inf-timeout": '{%s,"timeout":Infinity}' % CMD,
    "huge-timeout": '{%s,"timeout":1e308}' % CMD, "minus-timeout": '{%s,"timeout":-1}' % CMD,
    "string-timeout": '{%s,"timeout":"5"}' % CMD, "zero-timeout": '{%s,"timeout":0}' % CMD,
    "overflow-timeout": '{%s,"timeout_ms":18446744073709551617}' % CMD, "both-timeouts": '{%s,"timeout":5,"timeout_ms":1}' % CMD,
    "nul-command": '{"command":"echo ran\\u0000; id"}', "empty-command": '{"command":""}',
    "surrogate": '{"command":"echo ran \\ud800"}', "comment": '{/* a */%s}' % CMD, "single-quotes": "{'command':'echo ran'}",
    "trailing-comma": '{%s,}' % CMD, "bom": '\ufeff{%s}' % CMD, "depth": '{%s,"env":%s%s}' % (CMD, '{"a":' * 5000, "}" * 5000),
    "env-name-equals": '{%s,"env":{"A=B":"c"}}' % CMD, "env-name-empty": '{%s,"env":{"":"c"}}' % CMD,
    "env-name-function": '{%s,"env":{"BASH_FUNC_echo%%%%":"() { id; }"}}' % CMD,
    "env-name-newline": '{%s,"env":{"A\\nB":"c"}}' % CMD, "env-value-nul": '{%s,"env":{"A":"b\\u0000C=d"}}' % CMD,
    "env-value-number": '{%s,"env":{"A":1}}' % CMD, "env-many": '{%s,"env":{%s}}' % (CMD, ",".join(f'"A{i}":""' for i in range(5000))),
    "cwd-nul": '{%s,"cwd":"a\\u0000/.."}' % CMD, "cwd-root": '{%s,"cwd":"/"}' % CMD, "cwd-proc": '{%s,"cwd":"/proc/self/cwd"}' % CMD,
    "cwd-dots": '{%s,"cwd":"../"}' % CMD, "long-command": '{"command":"echo ran #%s"}' % ("x" * 400000),
}
RAW = {
    "not-utf8": b'{"command":"echo ran \xff"}', "overlong-utf8": b'{"command":"echo ran \xc0\xaf"}',
    "utf-16": ('{%s}' % CMD).encode("utf-16"), "empty": b"", "form": b"command=echo+ran",
    "nested-arrays": b"[" * 100000, "big-number": b'{"command":"echo ran","timeout":' + b"9" * 100000 + b"}",
}


def body_check(body):
    def work(t):
        a = t.request("POST", t.exec_route, body, [("Content-Type", "application/json")])
        expect(a.status >= 400 and "stdout" not in a.json, f"accepted: {a!r}")
        return a.json.get("code", str(a.status))
    return work


for _name, _body in {**{k: v.encode() for k, v in BODIES.items()}, **RAW}.items():
    suite.add("json-" + _name, "security", f"a request for a command: {_body[:44]!r}", "refused, nothing runs",
              body_check(_body))


@suite.check("type-browser", "security", "a page's POST without preflight: text/plain, form, multipart",
             "415, nothing runs")
def type_browser(t):
    body = b'{"command":"echo ran"}'
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x",
                 "text/plain;application/json", "application/jsonx"):
        a = t.request("POST", t.exec_route, body, [("Content-Type", kind), ("Origin", "http://evil.example")])
        expect(a.status >= 400, f"{kind}: {a!r}")


@suite.check("origin", "security", "requests that ask for cross-origin leave", "no Access-Control-Allow-* in any answer")
def origin(t):
    more = [("Origin", "http://evil.example"), ("Access-Control-Request-Method", "POST"),
            ("Access-Control-Request-Headers", "authorization")]
    for method in ("OPTIONS", "GET", "POST"):
        a = t.request(method, t.exec_route, b"{}" if method == "POST" else None, more)
        expect(not any(k.startswith("access-control-allow") for k, _ in a.fields), f"{method}: {a.fields}")


@suite.check("coding-bomb", "security", "a gzip bomb as an upload's and a command's Content-Encoding",
             "refused: nothing is unpacked")
def coding_bomb(t):
    bomb = gzip.compress(b'{"command":"echo ran"}' + b" " * (1 << 24))
    for method, target in (("PUT", t.address("write", f"{t.nonce}/bomb")), ("POST", t.exec_route)):
        a = t.request(method, target, bomb, [("Content-Encoding", "gzip"), ("Content-Type", "application/json")])
        expect(a.status >= 400, f"{method}: {a!r}")


@suite.check("ranges-many", "security", "1,000 overlapping ranges of one file", "the answer is not over the file's size")
def ranges(t):
    f = t.folder() + "/f"
    t.write(f, b"x" * 10000)
    a = t.read(f, more=[("Range", "bytes=" + ",".join("0-" for _ in range(1000)))])
    expect(len(a.body) <= 10000, f"{len(a.body)} bytes of a file of 10,000")


@suite.check("range-overflow", "security", "ranges at and over 2^63 and 2^64", "416 or the whole; no other bytes")
def range_overflow(t):
    f = t.folder() + "/f"
    t.write(f, b"0123456789")
    for r in ("9223372036854775807-", "18446744073709551615-18446744073709551616", "-18446744073709551617", "5-2", "-0",
              "0-18446744073709551626"):
        a = t.read(f, more=[("Range", "bytes=" + r)])
        expect(a.status in (416, 400) or (a.body and a.body in b"0123456789"), f"{r}: {a!r}")


@suite.check("header-splitting", "security", "CR and LF, encoded, in paths, queries and conditions",
             "no header of ours in any answer")
def splitting(t):
    evil = "%0d%0aSet-Cookie:%20evil=1%0d%0a%0d%0aHTTP/1.1%20200%20OK"
    for method in ("GET", "PUT", "DELETE"):
        for path in (evil, "a" + evil, "../" + evil):
            a = t.request(method, t.address("read" if method == "GET" else "write", path), b"" if method == "PUT" else None)
            expect(not a.get("set-cookie"), repr(a.fields))
        expect(not t.request(method, "/" + evil).get("set-cookie"), "in an unknown route's answer")
    t.remove("\r\nSet-Cookie: evil=1\r\n\r\nHTTP/1.1 200 OK")


@suite.check("reflected", "security", "a script in paths, methods and headers", "errors are JSON, with nosniff")
def reflected(t):
    evil = "%3Cscript%3Ealert(1)%3C/script%3E"
    for method, target in (("GET", "/" + evil), ("GET", t.address("read", evil)), ("FOO", "/healthz")):
        a = t.request(method, target)
        expect(a.get("content-type").startswith("application/json") and a.get("x-content-type-options") == "nosniff",
               repr(a.fields))


@suite.check("types-downloaded", "security", "a page and a script as workspace files, downloaded",
             "octet-stream and nosniff: no browser runs them")
def downloaded(t):
    d = t.folder()
    for name in ("x.html", "x.svg", "x.js"):
        t.write(f"{d}/{name}", b"<script>alert(1)</script>")
        a = t.read(f"{d}/{name}")
        expect(a.get("content-type") == "application/octet-stream", repr(a.fields))
        expect(a.get("x-content-type-options") == "nosniff" and a.get("cache-control") == "no-store", repr(a.fields))


@suite.check("methods", "security", "TRACE, CONNECT, PROPFIND, DEBUG and a made-up method", "4xx or 5xx; nothing is echoed")
def methods(t):
    for method in ("TRACE", "CONNECT", "PROPFIND", "DEBUG", "PURGE", "TRACK", "FOO"):
        for target in ("/healthz", "127.0.0.1:22", "*"):
            a = t.request(method, target, None, [("X-Secret", "echo-me")])
            expect(a.status >= 400 and b"echo-me" not in a.body, f"{method} {target}: {a!r}")


@suite.check("debug-routes", "security", "debug, metadata and administration addresses", "404, or the key is asked for")
def debug_routes(t):
    for path in ("/debug/pprof/", "/admin", "/.env", "/.git/config", "/server-status", "/actuator/env", "/v1/../execute",
                 "//execute", "/files/../execute", "/console", "/etc/passwd", "/proc/self/environ", "/v1/keys", "/state"):
        a = t.request("GET", path, auth=False)
        expect(a.status >= 400 and b"root:" not in a.body, f"{path}: {a!r}")


@suite.check("errors-tell-nothing", "security", "twenty kinds of refused requests", "no path, no key, no source in the answer")
def errors(t):
    asked = [("GET", t.address("read", x), None) for x in ("../x", "%00", "none", "a%2f..%2fb", "%ff")]
    asked += [("POST", t.exec_route, b) for b in (b"{", b"[]", b'{"command":1}', b'{"command":"x","cwd":"nope"}')]
    asked += [("PUT", t.address("write", "..%2fx"), b"x"), ("DELETE", t.address("remove", ""), None), ("GET", "/x", None)]
    for method, target, body in asked:
        a = t.request(method, target, body)
        expect(a.status >= 400, f"{target}: {a!r}")
        expect(t.ws.encode() not in a.body and (not t.key or t.key.encode() not in a.body), f"{target}: {a!r}")
        expect(not re.search(rb"\.[ch]:\d+|Traceback|errno", a.body), f"{target}: {a!r}")


@suite.check("upload-length", "security", "an upload that says it has 2^62 bytes", "refused before its body, nothing is kept")
def upload_length(t):
    d = t.folder()
    with t.conn() as c:
        c.send(t.head("PUT", t.address("write", f"{d}/f"), more=[("Content-Length", str(1 << 62))]) + b"\r\nx")
        c.sock.settimeout(20)
        try:
            a = c.answer()
        except Gone as e:
            raise Bypass(f"waits for it: {e}") from None
        expect(a.status >= 400, repr(a))
    expect(t.read(f"{d}/f").status == 404, "something was kept")


@suite.check("upload-cut", "security", "an upload whose client leaves in the middle, over an old file",
             "the old bytes, whole")
def upload_cut(t):
    d = t.folder()
    t.write(f"{d}/f", b"old")
    for coding, body in ((("Content-Length", "1000000"), b"n" * 5000),
                         (("Transfer-Encoding", "chunked"), b"1388\r\n" + b"n" * 5000)):
        with t.conn() as c:
            c.send(t.head("PUT", t.address("write", f"{d}/f"), more=[coding]) + b"\r\n" + body)
        t.wait_serving()
        expect(t.read(f"{d}/f").body == b"old", "the old file is gone or cut")


# ---- the environment ----
@suite.check("env-of-commands", "security", "what a command finds in its environment",
             "nothing of the daemon's settings, and no key")
def env_of_commands(t):
    env = t.out("tr '\\0' '\\n' </proc/$$/environ; env")
    for word in ("RUNBOX_", "SALLYPORT_", "SANDBOX_", "LISTEN_FDS", "NOTIFY_SOCKET", *([t.key] if t.key else [])):
        expect(word not in env, f"{word} is there")
    expect(not re.search(r"^\w*(SECRET|TOKEN|PASSWORD|API_KEY)\w*=", env, re.M), "a secret is there")


HOSTILE_ENV = {
    "LD_PRELOAD": "./evil.so", "LD_LIBRARY_PATH": ".", "LD_AUDIT": "./evil.so", "BASH_ENV": "./evil.sh", "ENV": "./evil.sh",
    "PATH": ".", "IFS": "/", "PS4": "$(touch pwned)", "SHELLOPTS": "xtrace", "PROMPT_COMMAND": "touch pwned", "HOME": "/root",
    "SHELL": "/bin/false", "TMPDIR": "/etc", "GCONV_PATH": ".", "MALLOC_CHECK_": "3", "PYTHONPATH": ".",
    "PERL5OPT": "-Mevil", "LC_ALL": "../../../../tmp", "TZ": ":/etc/passwd",
}


@suite.check("env-hostile", "deep", f"{len(HOSTILE_ENV)} variables that change how programs start, one at a time",
             "each changes its own command at most, never the next one, never the daemon")
def env_hostile(t):
    d = t.folder()
    before = t.out("env | sort | grep -v '^_='", cwd=d)
    for name, value in HOSTILE_ENV.items():
        t.post({"command": "echo x", "env": {name: value}, "cwd": d})
        expect(t.out("env | sort | grep -v '^_='", cwd=d) == before, f"{name} stays for the next command")


@suite.check("env-large", "deep", "an environment at and over what exec takes", "run or refused; nothing breaks")
def env_large(t):
    for n in (60, 64, 120, 1000):
        a = t.post({"command": "echo x", "env": {"A": "x" * n * 1000}})
        expect(a.status < 500 or a.json.get("code") == "spawn_failed", repr(a))


@suite.check("stdin-is-not-ours", "deep", "what a command without stdin reads from descriptor 0", "nothing, at once")
def stdin(t):
    expect(t.out("cat; cat <&0; read x; echo $x$?", timeout=20).strip() == "1", "something is there")


@suite.check("descriptors-inherited", "deep", "the descriptors that a command is born with", "0, 1 and 2, no other")
def descriptors(t):
    got = t.out('for f in /proc/$$/fd/*; do [ -L "$f" ] && echo "${f##*/}"; done').split()
    expect(got == ["0", "1", "2"], f"{got}")


@suite.check("answers-valid", "deep", "output with NUL, escapes, quotes, half characters", "valid JSON, repaired")
def answers(t):
    for out in (r"\000\001\033[2J", r'"}],\\', r"\303", r"\355\240\200", r"\364\220\200\200", r"\342\200\250</script>"):
        a = t.post({"command": f"printf '{out}' ; printf '{out}' >&2"})
        try:
            json.loads(a.body.decode("utf-8"))
        except ValueError as e:
            raise Bypass(f"{out}: {e}") from None
