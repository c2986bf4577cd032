"""events.py: reads an answer of server-sent events as it comes, chunk by chunk, and fails on
whatever docs/api.md "Live output" doesn't allow. It trusts no byte of the server."""
import json
import re

EVENT = re.compile(r"event: ([a-z]+)\ndata: (\{[^\n]*\})\Z")
LINE_MAX = 65536


class Stream:
    """conn: a harness.http.Conn. open() sends the request and reads the head."""

    def __init__(self, conn):
        self.conn = conn
        self.status = self.fields = None
        self.text = b""
        self.chunked = self.over = False
        self.comments = 0

    def open(self, command, version="1.1", accept="text/event-stream", **members):
        body = json.dumps({"command": command, **members}).encode()
        self.conn.send((f"POST /execute HTTP/{version}\r\nHost: t\r\nAccept: {accept}\r\n"
                        f"Content-Length: {len(body)}\r\n\r\n").encode() + body)
        self.head()
        assert self.status == 200, self.status
        return self

    def head(self):
        self.over = False
        self.status, self.fields = self.conn._head()
        names = [k for k, _ in self.fields]
        fields = dict(self.fields)
        if self.status == 200:
            assert fields["content-type"] == "text/event-stream"
            assert fields["cache-control"] == "no-store" and fields["x-content-type-options"] == "nosniff"
            assert "content-length" not in names
            self.chunked = fields.get("transfer-encoding") == "chunked"
            assert self.chunked or fields["connection"] == "close"

    def fill(self):
        """One chunk more; the end sets over."""
        if not self.chunked:
            data = self.conn.buf or self.conn.sock.recv(65536)
            self.conn.buf = b""
            self.over = not data
            self.text += data
            return
        size = int(self.conn.line(), 16)
        self.text += self.conn.take(size)
        assert self.conn.take(2) == b"\r\n"
        self.over = size == 0

    def next(self):
        """(name, data) or, at the end, None."""
        while True:
            while b"\n\n" not in self.text:
                if self.over:
                    assert self.text == b"", self.text
                    return None
                self.fill()
            one, _, self.text = self.text.partition(b"\n\n")
            assert max(map(len, one.split(b"\n"))) < LINE_MAX
            if one == b":":
                self.comments += 1
                continue
            m = EVENT.match(one.decode("utf-8"))  # whole characters only
            assert m, one
            return m[1], json.loads(m[2])

    def __iter__(self):
        while (one := self.next()) is not None:
            yield one

    def all(self):
        """(stdout, stderr, exit) of a stream that ends as it should."""
        got = {"stdout": [], "stderr": []}
        events = list(self)
        assert events[0] == ("start", {}), events[0]
        assert events[-1][0] == "exit", events[-1]
        for name, data in events[1:-1]:
            assert set(data) == {"text"} and data["text"], data
            got[name].append(data["text"])
        return "".join(got["stdout"]), "".join(got["stderr"]), events[-1][1]
