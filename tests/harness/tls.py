"""tls.py: certificates made on the spot, a daemon that serves TLS, and a client that decides itself
what goes into which record and when. It checks answers as http.Conn does."""
import os
import re
import socket
import ssl
import subprocess

from . import names, places
from .http import Conn

LISTENING = re.compile(rb"listening on https://127\.0\.0\.1:([0-9]+)")
PAIRS = {}  # of this process: making an RSA key is much of what a test of TLS costs


def openssl(*args, **kw):
    return subprocess.run(["openssl", *args], check=kw.pop("check", True), capture_output=True,
                          timeout=60, **kw)


def make_pair(folder, name, common_name="localhost", kind="rsa:2048"):
    """A self-signed certificate and its key as files: (cert, key). One of a name is made once, and copied."""
    cert, key = folder / f"{name}.crt", folder / f"{name}.key"
    made = PAIRS.get((name, common_name, kind))
    if made:
        cert.write_bytes(made[0])
        key.write_bytes(made[1])
    else:
        extra = ["-pkeyopt", "ec_paramgen_curve:P-256"] if kind == "ec" else []
        openssl("req", "-x509", "-newkey", kind, *extra, "-nodes", "-days", "2", "-keyout", str(key),
                "-out", str(cert), "-subj", f"/CN={common_name}")
        PAIRS[name, common_name, kind] = cert.read_bytes(), key.read_bytes()
    key.chmod(0o600)
    daemon = names.PLANS[places.HERE.plans[0]]["daemon"]
    os.chown(key, daemon, daemon)
    return cert, key


def tls_daemon(make, prefix="SALLYPORT", **kw):
    """Starts a daemon through make (a fixture's start) with a fresh pair in its folder."""
    def prepare(d):
        d.cert, d.key = make_pair(d.base, "first", "first")
        d.late_env.update({f"{prefix}_TLS_CERT": str(d.cert), f"{prefix}_TLS_KEY": str(d.key)})
    d = make(prepare=prepare, up=False, **kw)
    d.wait_up(LISTENING)
    d.port = int(LISTENING.search(d.log_path.read_bytes())[1])
    d.conn = lambda **kw: TlsConn(d, **kw)
    return d


class TlsConn(Conn):
    """An http.Conn over TLS. context: the client's; None trusts anyone, as the tests look at
    the certificate themselves."""

    def __init__(self, daemon, context=None, handshake=True, timeout=60):
        super().__init__(("127.0.0.1", daemon.port), timeout)
        self.raw = self.sock
        if context is None:
            context = client_context()
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")
        self.sock = self
        self.end = False
        if handshake:
            self.drive(self.tls.do_handshake)

    def drive(self, call, *args):
        while True:
            try:
                result = call(*args)
            except ssl.SSLWantReadError:
                self.flush()
                self.feed()
                continue
            except ssl.SSLError:
                self.flush()  # our alert
                raise
            self.flush()
            return result

    def flush(self):
        data = self.outgoing.read()
        if data:
            self.raw.sendall(data)

    def feed(self):
        data = self.raw.recv(262144)
        if data:
            self.incoming.write(data)
        else:
            self.incoming.write_eof()

    # What Conn asks of a socket.
    def sendall(self, data):
        view = memoryview(data)
        while view:
            n = self.tls.write(view[:16384])
            self.flush()
            view = view[n:]

    def recv(self, n):
        if self.end:
            return b""
        try:
            data = self.drive(self.tls.read, n)
        except ssl.SSLZeroReturnError:
            data = b""
        except ssl.SSLEOFError:
            raise ConnectionResetError from None
        self.end = not data
        return data

    def say_close(self):
        """Our close_notify, without waiting for theirs."""
        try:
            self.tls.unwrap()
        except ssl.SSLWantReadError:
            pass
        self.flush()

    def ended_well(self):
        """The server closes, and says so in TLS first."""
        try:
            while self.drive(self.tls.read, 65536):
                pass
            return True
        except ssl.SSLZeroReturnError:
            return True
        except (ssl.SSLEOFError, ConnectionResetError):
            return False

    def close(self):
        self.raw.close()

    def setsockopt(self, *args):
        self.raw.setsockopt(*args)


def client_context(**kw):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    for name, value in kw.items():
        setattr(context, name, value)
    return context


def common_name(conn):
    """Of the certificate that this connection was shown."""
    pem = ssl.DER_cert_to_PEM_cert(conn.tls.getpeercert(True))
    out = openssl("x509", "-noout", "-subject", input=pem.encode()).stdout.decode()
    return out.strip().rpartition("=")[2].strip()


def raw(daemon):
    s = socket.create_connection(("127.0.0.1", daemon.port), timeout=60)
    s.settimeout(60)
    return s

