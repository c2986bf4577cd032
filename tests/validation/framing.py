"""framing.py: heads and bodies that two readers could take differently, with a second request behind them. What is
ambiguous must be refused and the connection closed; the second request must never be taken for one."""
from . import suite
from .suite import Bypass, Gone, expect

CHUNK = b"0\r\n\r\n"
# Fields of a PUT whose body is CHUNK and the second request. Each has no framing that all readers agree on.
HEADS = {
    "cl-and-te": b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
    "te-and-cl": b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
    "cl-0-and-te": b"Content-Length: 0\r\nTransfer-Encoding: chunked\r\n",
    "cl-twice-small-last": b"Content-Length: 200\r\nContent-Length: 5\r\n",
    "cl-twice-small-first": b"Content-Length: 5\r\nContent-Length: 40\r\n",
    "cl-twice-equal": b"Content-Length: 5\r\nContent-Length: 5\r\n",
    "cl-list": b"Content-Length: 5, 5\r\n",
    "cl-list-differs": b"Content-Length: 200, 5\r\n",
    "cl-plus": b"Content-Length: +5\r\n",
    "cl-minus": b"Content-Length: -5\r\n",
    "cl-hex": b"Content-Length: 0x5\r\n",
    "cl-exponent": b"Content-Length: 5e0\r\n",
    "cl-point": b"Content-Length: 5.0\r\n",
    "cl-underscore": b"Content-Length: 0_5\r\n",
    "cl-2-64": b"Content-Length: 18446744073709551621\r\n",
    "cl-quoted": b'Content-Length: "5"\r\n',
    "cl-other-digits": "Content-Length: ٥\r\n".encode(),
    "cl-empty": b"Content-Length:\r\n",
    "cl-inner-space": b"Content-Length: 0 5\r\n",
    "cl-space-before-colon": b"Content-Length : 5\r\n",
    "cl-folded": b"Content-Length:\r\n 5\r\n",
    "cl-nul": b"Content-Length: 5\0\r\n",
    "te-identity": b"Transfer-Encoding: identity\r\nContent-Length: 5\r\n",
    "te-gzip-chunked": b"Transfer-Encoding: gzip, chunked\r\n",
    "te-chunked-gzip": b"Transfer-Encoding: chunked, gzip\r\n",
    "te-chunked-identity": b"Transfer-Encoding: chunked, identity\r\n",
    "te-twice": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
    "te-twice-differs": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
    "te-xchunked": b"Transfer-Encoding: xchunked\r\n",
    "te-quoted": b'Transfer-Encoding: "chunked"\r\n',
    "te-parameter": b"Transfer-Encoding: chunked;q=1\r\n",
    "te-vertical-tab": b"Transfer-Encoding: \x0bchunked\r\n",
    "te-nul": b"Transfer-Encoding: chunked\0\r\n",
    "te-space-before-colon": b"Transfer-Encoding : chunked\r\n",
    "te-folded": b"Transfer-Encoding:\r\n chunked\r\n",
    "te-folded-in-other": b"X: a\r\n Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
    "te-behind-lf": b"X: a\nTransfer-Encoding: chunked\r\n",
    "te-behind-cr": b"X: a\rTransfer-Encoding: chunked\r\n",
    "lf-head": b"X: a\nContent-Length: 5\n",
    "nul-in-name": b"X\0: a\r\nContent-Length: 5\r\n",
    "control-in-value": b"X: a\x01\r\nContent-Length: 5\r\n",
    "no-colon": b"Transfer-Encoding chunked\r\nContent-Length: 5\r\n",
    "no-name": b": chunked\r\nContent-Length: 5\r\n",
    "space-in-name": b"X Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
    "host-twice": b"Host: other\r\nContent-Length: 5\r\n",
}
# Bodies after `Transfer-Encoding: chunked`; readers differ on where each ends, or it never ends.
CHUNKS = {
    "size-hex-prefix": b"0x3\r\nabc\r\n0\r\n\r\n", "size-plus": b"+3\r\nabc\r\n0\r\n\r\n",
    "size-minus": b"-3\r\nabc\r\n0\r\n\r\n", "size-space-first": b" 3\r\nabc\r\n0\r\n\r\n",
    "size-underscore": b"0_3\r\nabc\r\n0\r\n\r\n", "size-empty": b"\r\nabc\r\n0\r\n\r\n",
    "size-2-64": b"10000000000000003\r\nabc\r\n0\r\n\r\n", "size-lf": b"3\nabc\r\n0\r\n\r\n",
    "size-cr": b"3\rabc\r\n0\r\n\r\n", "data-lf": b"3\r\nabc\n0\r\n\r\n", "data-longer": b"3\r\nabcd\r\n0\r\n\r\n",
    "extension-nul": b"3;a=\0\r\nabc\r\n0\r\n\r\n", "extension-lf": b"3;a\nb\r\nabc\r\n0\r\n\r\n",
    "extension-huge": b"3;" + b"a" * 300000 + b"\r\nabc\r\n0\r\n\r\n",
    "last-lf": b"3\r\nabc\r\n0\n\n", "trailer-folded": b"3\r\nabc\r\n0\r\nX: a\r\n b\r\n\r\n",
    "trailer-huge": b"3\r\nabc\r\n0\r\nX: " + b"a" * 300000 + b"\r\n\r\n",
    "trailers-endless": b"3\r\nabc\r\n0\r\n" + b"X: a\r\n" * 60000 + b"\r\n",
}
LINES = {
    "lf-only": (b"GET /healthz HTTP/1.1\nHost: t\n\n", "a head whose lines end in LF alone"),
    "version-absent": (b"GET /healthz\r\n\r\n", "an HTTP/0.9 request"),
    "two-spaces": (b"GET  /healthz HTTP/1.1\r\nHost: t\r\n\r\n", "two spaces in the request line"),
    "tab": (b"GET\t/healthz HTTP/1.1\r\nHost: t\r\n\r\n", "a tab in the request line"),
    "cr-in-line": (b"GET /healthz\rX HTTP/1.1\r\nHost: t\r\n\r\n", "a CR in the request line"),
    "nul-in-target": (b"GET /healthz\0x HTTP/1.1\r\nHost: t\r\n\r\n", "a NUL in the target"),
    "host-missing": (b"GET /healthz HTTP/1.1\r\n\r\n", "HTTP/1.1 without Host"),
    "host-with-path": (b"GET /healthz HTTP/1.1\r\nHost: a/b\r\n\r\n", "a Host with a slash"),
    "version-2": (b"GET /healthz HTTP/2.0\r\nHost: t\r\n\r\n", "a request line of HTTP/2.0"),
    "h2-preface": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/2's preface"),
    "method-nul": (b"G\0T /healthz HTTP/1.1\r\nHost: t\r\n\r\n", "a NUL in the method"),
    "head-endless": (b"GET /healthz HTTP/1.1\r\nHost: t\r\nX: " + b"v" * 300000 + b"\r\n\r\n", "a head of 300 kB"),
    "fields-many": (b"GET /healthz HTTP/1.1\r\nHost: t\r\n" + b"X: y\r\n" * 2000 + b"\r\n", "2,000 fields"),
    "target-endless": (b"GET /" + b"a" * 300000 + b" HTTP/1.1\r\nHost: t\r\n\r\n", "a target of 300 kB"),
}


def second(t, name):
    """A whole request that a reader who was led astray would take for one."""
    return t.head("PUT", t.address("write", f"{t.nonce}/{name}"), more=[("Content-Length", "4")]) + b"\r\nevil"


def refused(t, sent, name):
    """One refusal, then the end; and the second request wasn't taken for one."""
    seen = ""
    with t.conn() as c:
        c.send(sent + second(t, name))
        try:
            a = c.answer()
            seen = str(a.status)
            expect(a.status >= 400, f"accepted: {a!r}")
            more = c.rest()
            expect(b"HTTP/1." not in more, f"a second answer: {more[:200]!r}")
        except Gone as e:
            if "silence" in str(e):
                raise Bypass(f"neither refused nor closed: {e}") from None
            seen += " closed"
    expect(t.read(f"{t.nonce}/{name}").status == 404, "the second request was done")
    return seen


def head_check(name):
    def work(t):
        start = t.head("PUT", t.address("write", f"{t.nonce}/framed"))
        return refused(t, start + HEADS[name] + b"\r\n" + CHUNK, "smuggled-" + name)
    return work


def chunk_check(name):
    def work(t):
        start = t.head("PUT", t.address("write", f"{t.nonce}/framed"), more=[("Transfer-Encoding", "chunked")])
        return refused(t, start + b"\r\n" + CHUNKS[name], "smuggled-" + name)
    return work


def line_check(name):
    def work(t):
        return refused(t, LINES[name][0], "smuggled-" + name)
    return work


for _name, _fields in HEADS.items():
    suite.add("head-" + _name, "security", f"request smuggling: {_fields!r}"[:70], "400, closed", head_check(_name))
for _name, _body in CHUNKS.items():
    suite.add("chunk-" + _name, "security", f"request smuggling: chunks {_body[:30]!r}", "400, closed",
              chunk_check(_name))
for _name, (_raw, _what) in LINES.items():
    suite.add("line-" + _name, "security", _what, "4xx or 505, closed", line_check(_name))


@suite.check("chunked-in-1.0", "security", "chunked coding in an HTTP/1.0 request", "400, closed")
def chunked_in_old(t):
    start = t.head("PUT", t.address("write", f"{t.nonce}/framed"), more=[("Transfer-Encoding", "chunked")])
    return refused(t, start.replace(b"HTTP/1.1", b"HTTP/1.0", 1) + b"\r\n" + CHUNK, "smuggled-old")


@suite.check("body-of-get", "security", "a request in the body of a GET", "it is a body or refused, never a request")
def body_of_get(t):
    inner = second(t, "smuggled-get")
    with t.conn() as c:
        c.send(t.head("GET", "/healthz", more=[("Content-Length", str(len(inner)))]) + b"\r\n" + inner)
        try:
            c.answer()
            c.send(t.head("GET", "/healthz", more=[("Connection", "close")]) + b"\r\n")
            rest = c.rest()
            expect(rest.count(b"HTTP/1.1 2") <= 1, f"the body was taken for a request: {rest[:200]!r}")
        except Gone as e:
            if "silence" in str(e):
                raise Bypass(str(e)) from None
    expect(t.read(f"{t.nonce}/smuggled-get").status == 404, "the body was done as a request")


@suite.check("body-of-refused", "security", "a request as the body of an upload that is refused before it",
             "the connection closes; it isn't taken for a request")
def body_of_refused(t):
    inner = second(t, "smuggled-refused")
    start = t.head("PUT", t.address("write", "a/../b"), more=[("Content-Length", str(len(inner)))])
    with t.conn() as c:
        c.send(start + b"\r\n" + inner)
        a = c.answer()
        expect(a.status >= 400, f"accepted: {a!r}")
        try:
            expect(b"HTTP/1." not in c.rest(), "a second answer")
        except Gone as e:
            raise Bypass(str(e)) from None
    expect(t.read(f"{t.nonce}/smuggled-refused").status == 404, "the body was done as a request")


@suite.check("desync-by-continue", "security", "Expect: 100-continue, no body sent, then another request",
             "the other request is body bytes, or refused")
def desync(t):
    start = t.head("PUT", t.address("write", f"{t.nonce}/waits"), more=[("Content-Length", "400"),
                                                                        ("Expect", "100-continue")])
    with t.conn() as c:
        c.send(start + b"\r\n")
        c.send(second(t, "smuggled-continue").ljust(400, b"x"))
        a = c.answer()
        expect(a.status in (200, 201) or a.status >= 400, repr(a))
    expect(t.read(f"{t.nonce}/smuggled-continue").status == 404, "it was done as a request")
