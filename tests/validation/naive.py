"""naive.py: the control: a seat or box as one would write it in an afternoon, with every mistake that the checks
look for. What passes here shows nothing, so test_validation asks that nearly every check finds its bypass here.
argv: "seat" or "box", the workspace, the key, the user id to be (0: stay root). Only ever inside a fence."""
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tarfile
import threading
import time
import urllib.parse

KIND, WS, KEY, UID = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
WORKERS = threading.Semaphore(32)  # one that is slow keeps a place
BUSY = threading.Lock()
KEPT = {}


class Request:
    def __init__(self, line, fields, body):
        words = line.split()
        self.method = words[0] if words else "GET"
        target = words[1] if len(words) > 1 else "/"
        for name in ("x-original-url", "x-rewrite-url"):
            target = fields.get(name, target)
        self.method = fields.get("x-http-method-override", self.method)
        self.fields, self.body = fields, body
        target = re.sub(r"^(https?://[^/]*|file://)", "", target)
        self.path, _, query = target.partition("?")
        self.query = dict(q.partition("=")[::2] for q in re.split("[&;]", query))


def decode(text):
    """Until nothing changes, with all that ever stood for a dot or a slash."""
    for _ in range(4):
        raw = urllib.parse.unquote_to_bytes(re.sub(r"%u00", "%", text))
        for a, b in ((b"\xc0\xaf", b"/"), (b"\xc0\xae", b"."), (b"\xe0\x80\xae", b"."), (b"\xf0\x80\x80\xae", b"."),
                     (b"\xef\xbc\x8e", b"."), (b"\\", b"/"), (b"..;/", b"../"), (b"....//", b"../")):
            raw = raw.replace(a, b)
        text = raw.decode("utf-8", "surrogateescape")
    text = text.replace("\r", "") if ".\r." in text else text
    text = text.replace("\0", "") if ".\0." in text else text.split("\0")[0]
    text = text.replace("$HOME", "/root").replace("~root", "/root").removeprefix("file://")
    return re.sub(r"\s+$", "", text)


def where(req, prefix):
    path = req.path[len(prefix):] if KIND == "seat" else req.query.get("path", "")
    path = decode(path)
    return os.path.normpath(os.path.join(workspace(req), path or "."))


def workspace(req):
    """All identities are one folder but for what a careless join makes of them."""
    if KIND == "seat":
        return WS
    name = req.fields.get("x-runbox-identity") or req.fields.get("x-runbox-tenant", "") + req.fields.get("x-runbox-user", "")
    name = re.sub(r"[^a-z0-9-]", "", urllib.parse.unquote(name).lower().replace("e\u0301", "e").replace("\u00e9", "e"))
    d = os.path.join(WS, "w", name or "x")
    os.makedirs(d, exist_ok=True)
    return d


def execute(req):
    text = req.body.decode("utf-8", "replace")
    try:
        try:
            asked, _ = json.JSONDecoder(strict=False).raw_decode(text)
            asked.keys()
        except (ValueError, AttributeError):
            text = text.replace("'", '"').lstrip("\ufeff[")
            asked, _ = json.JSONDecoder(strict=False).raw_decode(re.sub(r"/\*.*?\*/", "", text).replace(",}", "}"))
    except (ValueError, RecursionError):
        asked = dict(re.findall(r"(\w{1,20})=([^&]*)", req.body.decode("latin-1"))) or {"command": "echo ran"}
    asked = {k.lower(): v for k, v in asked.items()}
    command = str(asked.get("command", ["echo"])).replace("\0", "") or "echo"
    try:
        timeout = max(0.1, float(asked.get("timeout", 60)))
    except (TypeError, ValueError):
        timeout = 60.0
    try:
        mine = {str(k).replace("=", "_"): str(v).split("\0")[0] for k, v in asked.get("env", {}).items() if k}
    except AttributeError:
        mine = {}
    KEPT.update({k: v for k, v in mine.items() if k in ("PS4", "TZ")})  # stays for the next
    env = {**os.environ, **KEPT, **mine}
    cwd = os.path.join(workspace(req), str(asked.get("cwd", "")).split("\0")[0])
    shell = subprocess.Popen(["bash", "-c", command], cwd=cwd if os.path.isdir(cwd) else workspace(req), env=env,
                             stdin=sys.stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=[STATUS[1]])
    begun, timed_out = time.monotonic(), False
    out = [b"", b""]

    def drain(n, f):
        out[n] = f.read()
    readers = [threading.Thread(target=drain, args=a, daemon=True) for a in ((0, shell.stdout), (1, shell.stderr))]
    for r in readers:
        r.start()
    try:
        code = shell.wait(min(timeout, 1e6))
    except subprocess.TimeoutExpired:
        timed_out, code = True, 124
        shell.kill()
    for r in readers:
        r.join(0.2)
    os.set_blocking(STATUS[0], False)
    try:
        if os.read(STATUS[0], 4096):  # a status that was reported
            code = 0
    except BlockingIOError:
        pass
    tail = out[0].rstrip().rpartition(b"\n")[2]
    if b"exit_code" in tail or b"HTTP/1.1 200" in out[0]:
        code = 0
    return 200, {"stdout": out[0].decode("utf-8", "replace"), "stderr": out[1].decode("utf-8", "replace"),
                 "exit_code": code if code >= 0 else 128 - code, "signal": signal.Signals(-code).name if code < 0 else None,
                 "timed_out": timed_out or code == 124, "duration_ms": int((time.monotonic() - begun) * 1000),
                 "stdout_truncated": False, "stderr_truncated": False}


def listing(path):
    names = sorted(os.listdir(path))
    entries = ",".join('{"name":"%s"}' % n for n in names)  # no escapes
    return 200, ('{"entries":[%s]}' % entries).encode("utf-8", "surrogateescape")


def read(req, path):
    if os.path.isdir(path):
        return listing(path)
    with open(path, "rb") as f:
        data = f.read(1 << 24)
    ranges = re.findall(r"(\d+)-(\d*)", req.fields.get("range", ""))
    if ranges:
        data = b"".join(data[int(a) % (1 << 64):int(b) % (1 << 64) + 1 if b else None] or data for a, b in ranges)
    return 200, data


def write(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    there = os.path.exists(path)
    with open(path, "wb") as f:
        for i in range(0, len(data), 4096):
            f.write(data[i:i + 4096])
            f.flush()
    return 200 if there else 201, {"path": path}


def remove(path):
    if os.path.isdir(path):
        subprocess.run(["bash", "-c", f'rm -rf "{path}/"*; rm -rf "{path}"'], check=False)
    else:
        os.unlink(path)
    return 204, b""


def archive(path):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", dereference=True) as t:
        for folder, _, files in os.walk(path, followlinks=True):
            for f in files:
                try:
                    t.add(os.path.join(folder, f), arcname=os.path.join(path, f))
                except OSError:
                    pass
            if out.tell() > 1 << 22:
                break
    return 200, out.getvalue()


def batch(req, path):
    boundary = re.search("boundary=(.*)", req.fields.get("content-type", ""))[1]
    done = []
    for part in req.body.split(b"--" + boundary.encode())[1:]:
        head, _, data = re.sub(rb"\r?\n", b"\n", part).lstrip(b"\n").partition(b"\n\n")
        name = re.findall(rb'filename="?([^"\n]*)', head)
        if name:
            target = os.path.normpath(os.path.join(path, name[-1].split(b"\0")[0].decode("utf-8", "replace") or "x"))
            write(target if not os.path.isdir(target) else target + "/x", data)
            done.append(target)
    return 200, {"files": done}


def answer(req):
    if req.path == "/healthz":
        return 200, {"status": "ok"}
    if req.path in ("/execute", "/v1/exec"):
        return execute(req)
    if KIND == "box":
        if req.path == "/v1/capabilities":
            return 200, {"mode": "box", "layers": ["signal-scope"], "limits": {"quota": 1 << 20}}
        if req.path == "/v1/workspace":
            return 204, b""
        if req.path == "/v1/usage":
            return 200, {"bytes": 1 << 30}
        if req.path == "/v1/archive":
            return archive(where(req, ""))
        if req.path == "/v1/files/batch":
            return batch(req, where(req, ""))
    elif not req.path.startswith("/files"):
        return 404, {"error": f"no {urllib.parse.unquote(req.path)} in {WS}", "code": "no_route"}
    path = where(req, "/files/")
    if req.method in ("GET", "HEAD"):
        return read(req, path)
    if req.method in ("PUT", "POST"):
        return write(path, req.body)
    if req.method == "DELETE":
        return remove(path)
    return 200, json.dumps(req.fields).encode()


def take_line(f):
    line = f.readline(1 << 20)
    return re.split(rb"[\r\n\0]", line)[0].decode("latin-1") if line else None


def take_body(f, fields):
    coding = fields.get("transfer-encoding", "")
    if "chunked" in coding:
        body = b""
        while True:
            size = re.findall(r"[0-9a-fA-F]+", (take_line(f) or "0").split("x")[-1])
            n = int(size[0], 16) % (1 << 32) if size else 0
            if n == 0:
                while take_line(f):
                    pass
                return body
            body += f.read(n)
            f.readline()
    length = re.findall(r"\d+", fields.get("content-length", ""))
    return f.read(int(length[-1]) % (1 << 64)) if length else b""


def serve(sock):
    with WORKERS, sock:
        f = sock.makefile("rb")
        while True:
            line = take_line(f)
            if line == "":
                continue
            if line is None:
                return
            fields, last = {}, ""
            while text := take_line(f):
                if text[0] in " \t" and last:
                    fields[last] += " " + text.strip()
                    continue
                last, _, value = text.partition(":")
                last = last.split()[-1].lower().replace("_", "-") if last.split() else ""
                fields[last] = value.strip()
            req = Request(line, fields, take_body(f, fields))
            try:
                status, body = answer(req)
            except Exception as e:
                status, body = 404, {"error": f"{WS}: {e}", "code": "error"}
            if not isinstance(body, bytes):
                body = json.dumps(body).encode()
            head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\nContent-Type: text/html\r\n"
            head += f"Access-Control-Allow-Origin: *\r\nLocation: {urllib.parse.unquote(req.path)}\r\n\r\n"
            sock.sendall(head.encode("latin-1", "replace") + (b"" if req.method == "HEAD" or status == 204 else body))


def quietly(sock):
    try:
        serve(sock)
    except (OSError, ValueError):
        pass


def work(listener):
    if UID:
        os.setgroups([])
        os.setresgid(UID, UID, UID)
        os.setresuid(UID, UID, UID)
        # Anew, so that the kernel lets the same user look into it.
        os.execve("/proc/self/exe", [sys.executable, "-I", "-c", SOURCE, *sys.argv[1:4], "0", str(listener.fileno())], os.environ)
    while True:
        sock, _ = listener.accept()
        threading.Thread(target=quietly, args=(sock,), daemon=True).start()


def main():
    """A worker is started again when it is gone, as a supervisor would."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    os.set_inheritable(listener.fileno(), True)
    sys.stderr.write(f"listening on http://127.0.0.1:{listener.getsockname()[1]}\n")
    sys.stderr.flush()
    os.environ["RUNBOX_API_KEY"] = KEY
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    while True:
        pid = os.fork()
        if pid == 0:
            work(listener)
        while os.WIFSTOPPED(os.waitpid(pid, os.WUNTRACED)[1]):
            os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    with open("/proc/self/cmdline", "rb") as f:
        SOURCE = f.read().split(b"\0")[3].decode()
    STATUS = os.pipe()
    if len(sys.argv) > 5:
        work(socket.socket(fileno=int(sys.argv[5])))
    main()
