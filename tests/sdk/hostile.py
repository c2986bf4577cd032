"""hostile.py: a server that says whatever a test gives it, and counts what it is asked: the bytes are ours, since no
daemon of ours would send them."""
import socket
import threading
import time


class Server:
    """Answers each connection with the bytes in reply, then closes it. Counts requests."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.reply, self.split, self.pause, self.requests = b"", False, 0, 0
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while True:
            try:
                conn, _ = self.listener.accept()
            except OSError:
                return
            with conn:
                conn.settimeout(30)
                conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if self.request(conn):
                    self.requests += 1
                    self.answer(conn)

    def request(self, conn):
        data = b""
        while b"\r\n\r\n" not in data:
            more = conn.recv(65536)
            if not more:
                return False
            data += more
        head, _, body = data.partition(b"\r\n\r\n")
        length = next((int(line.split(b":")[1]) for line in head.lower().split(b"\r\n")
                       if line.startswith(b"content-length:")), 0)
        while len(body) < length:
            body += conn.recv(65536)
        return True

    def answer(self, conn):
        try:
            if self.split:
                for at in range(len(self.reply)):
                    conn.sendall(self.reply[at:at + 1])
                    time.sleep(self.pause)
            else:
                conn.sendall(self.reply)
            conn.shutdown(socket.SHUT_WR)
            conn.recv(1)
        except OSError:
            pass  # it had read enough

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(30)


def asking(d, server):
    def ask(reply, op, split=False, **args):
        server.reply, server.split, before = reply, split, server.requests
        got = d.ask(op, **args)
        assert server.requests == before + 1, "asked again"
        return got
    yield ask
    d.close()


def plain(body, status="200 OK", kind="application/json", more=""):
    return (f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{more}"
            "Connection: close\r\n\r\n").encode() + body


def events(*texts, end=True):
    """A chunked stream, each text a chunk."""
    body = b"".join(b"%x\r\n%s\r\n" % (len(t), t) for t in texts)
    return (b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
            + body + (b"0\r\n\r\n" if end else b""))


START = b"event: start\ndata: {}\n\n"
EXIT = (b'event: exit\ndata: {"exit_code":0,"signal":null,"timed_out":false,"duration_ms":3,'
        b'"stdout_bytes":6,"stderr_bytes":0}\n\n')
OUT = 'event: stdout\ndata: {"text":"é€\\n"}\n\n'.encode()
RESULT = (b'{"stdout":"o","stderr":"","exit_code":0,"signal":null,"timed_out":false,"duration_ms":3,'
          b'"stdout_truncated":false,"stderr_truncated":false,"something_new":[1]}')
