"""target.py: the instance under attack: which form it has, a raw HTTP client that sends what it is told, and
the few calls that both forms have. It trusts nothing that comes back."""
import json
import os
import socket
import ssl
import time
import urllib.parse

from .suite import Bypass, Cannot, Gone

WAIT = 60.0
TOOLS = ("python3", "perl", "bash", "awk", "sed", "find", "xargs", "tar", "base64", "gzip", "xxd", "od", "tr", "make",
         "setsid", "nohup", "timeout", "env", "git", "gcc", "unshare", "node", "bc", "dd", "split", "sort", "rev",
         "openssl", "sqlite3", "busybox", "truncate", "mkfifo", "zip", "unzip")


class Answer:
    def __init__(self, status, fields, body):
        self.status, self.fields, self.body = status, fields, body

    def __repr__(self):
        return f"{self.status} {self.body[:160]!r}"

    def get(self, name, default=""):
        return next((v for k, v in self.fields if k == name.lower()), default)

    @property
    def json(self):
        try:
            return json.loads(self.body)
        except ValueError:
            return {}


class Conn:
    """Sends bytes as they are; reads answers, leniently."""

    def __init__(self, target, timeout=None):
        self.sock = target.connect(timeout)
        self.buf = bytearray()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.sock.close()

    def send(self, data):
        """What the server lets us send: it may have refused already."""
        try:
            self.sock.sendall(data)
        except (BrokenPipeError, ConnectionResetError, socket.timeout, ssl.SSLError):
            pass

    def fill(self):
        try:
            data = self.sock.recv(262144)
        except socket.timeout:
            raise Gone("silence", bytes(self.buf)) from None
        except (ConnectionResetError, ssl.SSLError):
            data = b""
        if not data:
            raise Gone("closed", bytes(self.buf))
        self.buf += data

    def until(self, mark):
        while mark not in self.buf:
            self.fill()
        head, _, self.buf = self.buf.partition(mark)
        return bytes(head)

    def take(self, n):
        while len(self.buf) < n:
            self.fill()
        data = bytes(self.buf[:n])
        del self.buf[:n]
        return data

    def answer(self, head_only=False):
        while True:
            head = self.until(b"\r\n\r\n").decode("latin-1").split("\r\n")
            words = head[0].split(" ")
            if len(words) < 2 or not words[1].isdigit():
                raise Gone(f"no status line: {head[0]!r}")
            if int(words[1]) >= 200:
                break
        fields = [(k.strip().lower(), v.strip()) for k, _, v in (f.partition(":") for f in head[1:])]
        a = Answer(int(words[1]), fields, b"")
        if head_only or a.status in (204, 304):
            return a
        if a.get("transfer-encoding"):
            parts = []
            while (size := int(self.until(b"\r\n").split(b";")[0], 16)) > 0:
                parts.append(self.take(size))
                self.take(2)
            self.until(b"\r\n")
            a.body = b"".join(parts)
        elif a.get("content-length"):
            a.body = self.take(int(a.get("content-length")))
        else:
            a.body = self.rest()
        return a

    def rest(self, most=1 << 26):
        """All up to the server's close."""
        try:
            while len(self.buf) < most:
                self.fill()
        except Gone as e:
            if "silence" in str(e):
                raise
        data, self.buf = bytes(self.buf), bytearray()
        return data


class Target:
    """url: http://HOST:PORT, https://..., or unix:PATH. key: the box's. quick: races of seconds, small floods.
    patience: seconds in which slow clients must be hung up on; wait: for any answer. spared: checks that are not to
    be made, and why."""

    def __init__(self, url, key=None, quick=False, patience=80.0, wait=WAIT, spared=None):
        self.spared = spared or {}
        self.url, self.key, self.quick, self.patience, self.wait = url, key, quick, patience, wait
        self.nonce = "spv" + os.urandom(6).hex()
        self.count = 0
        self.stages = {}  # what several checks share
        self.kind, self.layers, self.limits = self.find_kind()
        self.tools = set()
        self.ws = ""

    # ---- connections ----
    def connect(self, timeout=None):
        timeout = timeout or self.wait
        if self.url.startswith("unix:"):
            s = socket.socket(socket.AF_UNIX)
            address = self.url[5:]
        else:
            u = urllib.parse.urlsplit(self.url)
            if u.scheme not in ("http", "https") or not u.hostname:
                raise SystemExit(f"{self.url}: http://HOST:PORT, https://HOST:PORT or unix:PATH")
            s = None
            address = (u.hostname, u.port or (443 if u.scheme == "https" else 80))
        try:
            if s is None:
                s = socket.create_connection(address, timeout)
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            else:
                s.settimeout(timeout)
                s.connect(address)
            if self.url.startswith("https:"):
                context = ssl.create_default_context()
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # it is attacked, not trusted
                s = context.wrap_socket(s, server_hostname=address[0])
        except OSError as e:
            raise Gone(f"no connection: {e}") from None
        return s

    def conn(self, timeout=None):
        return Conn(self, timeout)

    # ---- requests ----
    def who(self, n):
        return f"{self.nonce}-{n}"

    def fields(self, who=0, auth=True):
        """The box's; for a seat, which ignores what it doesn't know, none."""
        if self.kind == "seat":
            return []
        found = [("Authorization", f"Bearer {self.key}")] if auth and self.key else []
        return found + ([("X-Runbox-Identity", self.who(who))] if who is not None else [])

    def head(self, method, target, who=0, more=(), auth=True):
        """A head without its last blank line."""
        lines = [f"{method} {target} HTTP/1.1", "Host: validate", *(f"{k}: {v}" for k, v in self.fields(who, auth)),
                 *(f"{k}: {v}" for k, v in more)]
        return "".join(f"{x}\r\n" for x in lines).encode("latin-1")

    def request(self, method, target, body=None, more=(), who=0, auth=True):
        length = [] if body is None else [("Content-Length", str(len(body)))]
        with self.conn() as c:
            c.send(self.head(method, target, who, [*more, *length], auth) + b"\r\n" + (body or b""))
            return c.answer(method == "HEAD")

    def address(self, what, path, query=""):
        """Where `path`, already percent-encoded, is read, written, removed, listed, or archived."""
        if self.kind == "seat":
            return "/files/" + path + ("?" + query if query else "")
        route = {"read": "files", "write": "path", "remove": "path", "list": "list", "archive": "archive"}[what]
        return f"/v1/{route}?path={path}" + ("&" + query if query else "")

    @property
    def exec_route(self):
        return "/execute" if self.kind == "seat" else "/v1/exec"

    def read(self, path, who=0, more=()):
        return self.request("GET", self.address("read", quote(path)), None, more, who)

    def write(self, path, data, who=0, more=()):
        return self.request("PUT", self.address("write", quote(path)), data, more, who)

    def remove(self, path, who=0, recursive=False):
        return self.request("DELETE", self.address("remove", quote(path), "recursive=true" if recursive else ""),
                            who=who)

    def listing(self, path, who=0):
        return self.request("GET", self.address("list", quote(path)) + ("/" if self.kind == "seat" else ""), who=who)

    def post(self, members, who=0, more=(("Content-Type", "application/json"),)):
        return self.request("POST", self.exec_route, json.dumps(members).encode(), more, who)

    def run(self, command, who=0, **members):
        """The result of a command that nothing should keep from its answer."""
        members.setdefault("timeout", 45)
        until = time.monotonic() + WAIT
        while True:
            a = self.post({"command": command, **members}, who)
            if a.status not in (409, 503) or a.json.get("code") == "cell_lost" or time.monotonic() > until:
                break
            time.sleep(0.02)
        if a.json.get("code") == "cell_lost":
            raise Bypass(f"the command took its cell along: {a!r}")
        if a.status != 200 or "exit_code" not in a.json:
            raise Cannot(f"the command wasn't run: {a!r}")
        return a.json

    def out(self, command, who=0, **members):
        return self.run(command, who, **members)["stdout"]

    def start(self, command, who=0, **members):
        """A connection whose command's answer nobody has read yet."""
        body = json.dumps({"command": command, "timeout": 45, **members}).encode()
        c = self.conn()
        c.send(self.head("POST", self.exec_route, who, [("Content-Length", str(len(body)))]) + b"\r\n" + body)
        return c

    # ---- the instance ----
    def find_kind(self):
        more = [("Authorization", f"Bearer {self.key}")] if self.key else []
        self.kind = "seat"
        a = self.request("GET", "/v1/capabilities", None, more)
        if a.status == 401:
            raise SystemExit("this is a box: give its key with --key")
        if a.status == 200 and a.json.get("mode") == "box":
            return "box", a.json.get("layers", []), a.json.get("limits", {})
        a = self.request("GET", "/healthz")
        if a.status != 200:
            raise SystemExit(f"/healthz says {a!r}: no seat, no box")
        return "seat", [], {}

    def begin(self):
        """What is there to attack with, and where the workspace is."""
        have = self.out("for p in %s; do command -v $p >/dev/null && echo $p; done" % " ".join(TOOLS))
        self.tools = set(have.split())
        self.ws = self.out("pwd").strip()
        self.home = f"{self.ws}/{self.folder()}"
        return self

    def need(self, *tools):
        lacking = [p for p in tools if p not in self.tools]
        if lacking:
            raise Cannot(f"the instance has no {' '.join(lacking)}")

    def folder(self, who=0):
        """A fresh folder in the workspace."""
        self.count += 1
        name = f"{self.nonce}/{self.count}"
        self.run(f"mkdir -p {name}", who)
        return name

    def wait_serving(self):
        """Until /healthz and a command answer as ever."""
        until = time.monotonic() + self.wait
        while True:
            try:
                if self.request("GET", "/healthz").status == 200 and self.out("echo up") == "up\n":
                    return
                why = "no plain answer"
            except (Gone, Cannot, Bypass) as e:
                why = str(e)
            if time.monotonic() > until:
                raise Gone(why)
            time.sleep(0.05)

    def end(self):
        """Takes away what the checks made."""
        try:
            if self.kind == "box":
                for who in range(10):
                    self.request("DELETE", "/v1/workspace", who=who)
            else:
                self.run(f"chmod -R u+rwx {self.nonce}; rm -rf {self.nonce}")
        except (Gone, Cannot, Bypass):
            pass


def quote(path):
    return urllib.parse.quote(path, safe="/")
