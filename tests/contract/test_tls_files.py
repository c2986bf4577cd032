"""The certificate's and the key's files: what is refused, and a new pair for a daemon that runs."""
import os
import re
import signal

from harness import names, procs
from harness.http import Conn
from harness.tls import common_name, make_pair, openssl, tls_daemon


def refused(start, change):
    def prepare(d):
        d.cert, d.key = make_pair(d.base, "pair")
        env = {"SALLYPORT_TLS_CERT": str(d.cert), "SALLYPORT_TLS_KEY": str(d.key)}
        change(d, env)
        daemon = names.PLANS[d.plan]["daemon"]
        for path in d.base.iterdir():
            if path.is_file() and path.stat().st_uid != daemon and path != d.binary:
                os.chown(path, daemon, daemon)
        d.late_env.update(env)
    d = start(prepare=prepare, up=False)
    assert d.wait_exit()["status"] == 2, d.log()
    lines = [line for line in d.log().splitlines() if line.startswith("sallyport: ")]
    assert len(lines) == 1 and lines[0].endswith("."), d.log()
    assert "PRIVATE" not in d.log()
    return lines[0]


def test_half_set(start):
    for missing in ("CERT", "KEY"):
        line = refused(start, lambda d, env, m=missing: env.pop(f"SALLYPORT_TLS_{m}"))
        assert "go together" in line


def test_bad_files(start):
    def gone(d, env):
        d.key.unlink()

    def relative(d, env):
        env["SALLYPORT_TLS_CERT"] = "pair.crt"

    def no_pem(d, env):
        d.cert.write_text("hello\n")

    def empty_key(d, env):
        d.key.write_text("")

    def swapped(d, env):
        env["SALLYPORT_TLS_CERT"], env["SALLYPORT_TLS_KEY"] = str(d.key), str(d.cert)

    def strange_key(d, env):
        env["SALLYPORT_TLS_KEY"] = str(make_pair(d.base, "other")[1])

    def locked(d, env):
        openssl("pkcs8", "-topk8", "-in", str(d.key), "-out", str(d.base / "locked"), "-passout",
                "pass:secret")
        env["SALLYPORT_TLS_KEY"] = str(d.base / "locked")

    def damaged(d, env):
        text = d.cert.read_text()
        d.cert.write_text(text + text.replace("M", "N", 5))

    def large(d, env):
        d.cert.write_bytes(b"#" * 300_000)

    def folder(d, env):
        env["SALLYPORT_TLS_KEY"] = str(d.base)

    def weak(d, env):
        cert, key = make_pair(d.base, "weak", kind="rsa:1024")
        env.update({"SALLYPORT_TLS_CERT": str(cert), "SALLYPORT_TLS_KEY": str(key)})

    for change, word in ((gone, "No such file"), (relative, "absolute"), (no_pem, "PEM"),
                         (empty_key, "no private key"), (swapped, "PEM"),
                         (strange_key, "isn't the certificate's"), (locked, "passphrase"),
                         (damaged, "chain"), (large, "256 KiB"), (folder, "directory"),
                         (weak, "acceptable")):
        assert word in refused(start, change), change.__name__


def test_reload(start):
    d = tls_daemon(start)

    def shown():
        with d.conn() as c:
            return common_name(c)

    def wait_log(text, count=1):
        procs.wait_for(text, lambda: d.log().count(text) >= count)
    with d.conn() as old:
        assert common_name(old) == "first"
        cert, key = make_pair(d.base, "second", "second", "ec")
        d.cert.write_bytes(cert.read_bytes())
        d.signal(signal.SIGHUP)  # between the two files: they don't match
        wait_log("The old certificate stays")
        assert shown() == "first"
        d.key.write_bytes(key.read_bytes())
        d.signal(signal.SIGHUP)
        wait_log("new connections get the new certificate")
        assert shown() == "second"
        assert old.request("GET", "/healthz").status == 200  # as it was
    d.key.unlink()
    d.signal(signal.SIGHUP)
    wait_log("The old certificate stays", 2)
    assert shown() == "second"
    # A new front has it, too.
    front = d.role("front")
    d.kill(front)
    procs.wait_for("a new front", lambda: d.role("front").pid != front.pid)
    assert shown() == "second"
    assert d.run("echo on")["stdout"] == "on\n"


def socket_path(d):
    """In a folder of the daemon's own user."""
    (d.base / "run").mkdir()
    os.chown(d.base / "run", *[names.PLANS[d.plan]["daemon"]] * 2)
    return str(d.base / "run" / "sock")


def test_unix_socket_stays_plain(start):
    """Who may open it is the host's to say; TLS is for TCP."""
    def prepare(d):
        d.cert, d.key = make_pair(d.base, "pair")
        d.path = socket_path(d)
        d.late_env.update({"SALLYPORT_TLS_CERT": str(d.cert), "SALLYPORT_TLS_KEY": str(d.key),
                           names.SOCKET: d.path})
    d = start(prepare=prepare, up=False).wait_up(re.compile(rb"listening on https://"))
    assert "listening on unix:" in d.log()
    with Conn(d.path) as c:
        assert c.request("GET", "/healthz").status == 200
    line = refused(start, lambda d, env: env.update({names.SOCKET: socket_path(d), names.PORT: "", names.BIND: ""}))
    assert "no TCP port" in line
