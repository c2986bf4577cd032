"""http.py: an HTTP/1.1 client that hides nothing, and checks what every answer must hold.
It sends exactly the bytes it is given. It trusts no byte of the server: any answer that
breaks RFC 9112's framing or docs/api.md "Common" fails the test that asked."""
import json
import re
import socket
import urllib.parse

from . import names

WAIT = 300.0  # for a hang only: gVisor on a busy machine lists 100,000 names in minutes
STATUS_LINE = re.compile(rb"HTTP/1\.1 ([1-5][0-9][0-9]) [\x20-\x7e]*\Z")
FIELD = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([\x20-\x7e\x80-\xff\t]*?)[ \t]*\Z")


class Closed(Exception):
    """The server closed where an answer's bytes were due; data has what came."""

    def __init__(self, data=b""):
        super().__init__(f"closed after {data[:200]!r}")
        self.data = data


class Answer:
    def __init__(self, status, fields, body, interim):
        self.status, self.fields, self.body, self.interim = status, fields, body, interim
        self.trailers = []

    def __repr__(self):
        return f"<{self.status} {self.fields} {self.body[:300]!r}>"

    def all(self, name):
        return [v for k, v in self.fields if k == name.lower()]

    def get(self, name, default=None):
        found = self.all(name)
        assert len(found) <= 1, f"{name} given twice: {self!r}"
        return found[0] if found else default

    @property
    def json(self):
        assert self.get("content-type", "").split(";")[0] == "application/json", repr(self)
        return json.loads(self.body.decode("utf-8"))

    @property
    def code(self):
        return self.json["code"]

    @property
    def closes(self):
        return "close" in self.get("connection", "").lower()


def check_answer(a, head_only, target):
    assert a.get("x-content-type-options") == "nosniff", f"no nosniff: {a!r}"
    assert a.get("cache-control") == "no-store", f"no no-store: {a!r}"
    lower = [k for k, _ in a.fields]
    for single in ("content-length", "content-type", "etag", "connection", "location", "server"):
        assert lower.count(single) <= 1, f"{single} given twice: {a!r}"
    if a.status >= 400 and not head_only:
        if a.status == 503 and ("healthz" in target or target == "/ready"):
            return
        obj = a.json
        assert set(obj) == {"error", "code"}, repr(a)
        assert names.CODES.get(obj["code"]) == a.status, repr(a)
        assert isinstance(obj["error"], str) and obj["error"] and "\n" not in obj["error"], repr(a)


class Conn:
    def __init__(self, address, timeout=WAIT):
        family = socket.AF_INET if isinstance(address, tuple) else socket.AF_UNIX
        self.sock = socket.socket(family, socket.SOCK_STREAM)
        self.sock.settimeout(timeout)
        self.sock.connect(address)
        if family == socket.AF_INET:
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buf = b""

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()

    def close(self):
        self.sock.close()

    def reset(self):
        """Closes with RST."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.sock.close()

    def send(self, data):
        self.sock.sendall(data)

    def send_lenient(self, data):
        """Sends what the server lets us: it may have refused already."""
        try:
            self.sock.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def fill(self):
        try:
            data = self.sock.recv(262144)
        except ConnectionResetError:
            data = b""
        if not data:
            raise Closed(self.buf)
        self.buf += data

    def take(self, n):
        parts, have = [self.buf[:n]], min(n, len(self.buf))
        self.buf = self.buf[n:]
        while have < n:
            try:
                self.fill()
            except Closed:
                raise Closed(b"".join(parts)) from None
            parts.append(self.buf[:n - have])
            self.buf = self.buf[n - have:]
            have += len(parts[-1])
        return b"".join(parts)

    def line(self):
        while b"\r\n" not in self.buf:
            assert len(self.buf) < 65536, "endless line"
            self.fill()
        line, _, self.buf = self.buf.partition(b"\r\n")
        return line

    def _head(self):
        first = self.line()
        m = STATUS_LINE.match(first)
        assert m, f"status line {first!r}"
        fields = []
        while True:
            line = self.line()
            if not line:
                return int(m[1]), fields
            f = FIELD.match(line)
            assert f, f"field {line!r}"
            fields.append((f[1].decode().lower(), f[2].decode("latin-1")))

    def _body(self, a, head_only):
        te, length = a.get("transfer-encoding"), a.get("content-length")
        assert not (te and length), repr(a)
        if a.status == 204 or a.status == 304 or head_only:
            assert te is None or head_only, repr(a)
            return b""
        if te is not None:
            assert te == "chunked", repr(a)
            parts = []
            while True:
                size = int(self.line().split(b";")[0], 16)
                if size == 0:
                    break
                parts.append(self.take(size))
                assert self.take(2) == b"\r\n"
            while line := self.line():
                f = FIELD.match(line)
                assert f, f"trailer {line!r}"
                a.trailers.append((f[1].decode().lower(), f[2].decode("latin-1")))
            return b"".join(parts)
        if length is not None:
            assert re.fullmatch(r"[0-9]+", length), repr(a)
            return self.take(int(length))
        assert a.closes, f"no framing and no close: {a!r}"
        return self.rest()

    def rest(self):
        """All bytes up to the server's close."""
        parts = [self.buf]
        self.buf = b""
        while True:
            try:
                data = self.sock.recv(262144)
            except ConnectionResetError:
                data = b""
            if not data:
                return b"".join(parts)
            parts.append(data)

    def answer(self, head_only=False, target=""):
        interim = []
        while True:
            status, fields = self._head()
            if status >= 200:
                break
            interim.append(status)
        a = Answer(status, fields, b"", interim)
        a.body = self._body(a, head_only)
        check_answer(a, head_only, target)
        return a

    def closed(self):
        """True when the server closes without another byte."""
        return self.rest() == b""

    def request(self, method, target, body=None, headers=(), version="1.1", host="t"):
        self.send(build(method, target, body, headers, version, host))
        return self.answer(head_only=method == "HEAD", target=target)


def build(method, target, body=None, headers=(), version="1.1", host="t"):
    fields = list(headers.items()) if isinstance(headers, dict) else list(headers)
    given = {k.lower() for k, _ in fields}
    if "host" not in given and host is not None:
        fields.insert(0, ("Host", host))
    if body is not None and not given & {"content-length", "transfer-encoding"}:
        fields.append(("Content-Length", str(len(body))))
    head = f"{method} {target} HTTP/{version}\r\n".encode("latin-1")
    head += b"".join(f"{k}: {v}\r\n".encode("latin-1") for k, v in fields)
    return head + b"\r\n" + (body or b"")


def chunked(*parts, last=b"0\r\n\r\n"):
    return b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in parts) + last


def quote(path):
    """A workspace path (str or bytes) as a request target."""
    return "/files/" + urllib.parse.quote(path, safe="/")
