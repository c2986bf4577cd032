"""As test_injection.py, for TLS: each call, and each piece of memory of OpenSSL's, fails in a handshake, a request and
its answer, and in the change of the certificate. Needs `./dev build --faults`."""
import collections
import os
import re
import signal
import ssl

import pytest

from harness import procs
from harness.faults import BIN
from harness.http import Closed
from harness.injection import Form, Run, check
from harness.tls import TlsConn, client_context, common_name, make_pair, tls_daemon

Told = collections.namedtuple("Told", "status code")  # by the log, where there is no answer
BODY = b"o" * 100000


def as_closed(work):
    """What a client sees of a connection that fails, whenever it does."""
    def call(d):
        try:
            return work(d)
        except (ssl.SSLError, ConnectionError, BrokenPipeError) as e:
            raise Closed(str(e).encode()) from None
    call.__name__ = work.__name__
    return call


def get_1_3(d):
    with TlsConn(d) as c:
        a = c.request("GET", "/files/f")
    check(a.status != 200 or a.body == BODY, a.status)
    return a


def get_1_2(d):
    with TlsConn(d, client_context(maximum_version=ssl.TLSVersion.TLSv1_2)) as c:
        a = c.request("GET", "/files/f")
    check(a.status != 200 or a.body == BODY, a.status)
    return a


def put(d):
    with TlsConn(d) as c:
        a = c.request("PUT", "/files/new", b"n" * 50000)
    there = (d.ws / "new").exists()
    check(there == (a.status == 201) or a.status == 503, a)
    return a


def reload(d):
    """SIGHUP: the new pair is served, or the old one and the log says why."""
    d.turn ^= 1
    for kind, file in (("cert", d.cert), ("key", d.key)):
        file.write_bytes(d.pairs[d.turn][kind])
    at = len(d.log())
    d.signal(signal.SIGHUP)
    said = procs.wait_for("the log tells", lambda: re.search(
        r"new connections get the new|old certificate stays|keeps the old certificate|the front (was|ended)", d.log()[at:]))
    new = "get the new" in said[0]
    with TlsConn(d) as c:
        shown = common_name(c)
    check(shown == d.pairs[d.turn]["name"] or not new, shown, "another certificate than the log tells")
    return Told(200 if new else 500, said[0])


WORK = {f.__name__: f for f in map(as_closed, (get_1_3, get_1_2, put, reload))}


def pair(folder, name):
    cert, key = make_pair(folder, name, name)
    return {"cert": cert.read_bytes(), "key": key.read_bytes(), "name": name}


class Tls(Form):
    closes = frozenset((role, call) for role in ("front", "cell") for call in Form.errors)  # a handshake has no words
    WORK = WORK

    def start(self, prepare):
        def make(prepare, own=prepare, **kw):
            return self.make(prepare=lambda d: (prepare(d), own(d)), binary=BIN, **kw)
        d = tls_daemon(make)
        d.pairs, d.turn = [pair(d.base, "one"), pair(d.base, "two")], 0
        return d

    def prepare(self, d):
        (d.ws / "new").unlink(missing_ok=True)
        (d.ws / "f").write_bytes(BODY)
        os.chown(d.ws / "f", d.owner, d.owner)

    def after(self, d):
        d.wait_idle()
        for work in WORK.values():
            self.prepare(d)
            check(work(d).status < 300, work.__name__)
        self.prepare(d)


@pytest.mark.slow
@pytest.mark.parametrize("name", WORK)
def test_each_call_fails_once(start, name):
    Run(Tls(start)).all(name)
