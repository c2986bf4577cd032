"""`sallyport health`: what a container's HEALTHCHECK asks with."""
import os
import socket
import subprocess
import threading

import pytest

from harness import names


def health(*args, **env):
    done = subprocess.run([names.STATIC, "health", *args], env=env, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "" and (done.stderr == "") == (done.returncode == 0), done
    return done.returncode


def test_of_a_seat(start):
    d = start()
    assert health(SANDBOX_PORT=str(d.port)) == 0
    assert health(SANDBOX_PORT=str(d.port), SALLYPORT_BIND="127.0.0.1") == 0
    for url in (f"http://127.0.0.1:{d.port}", f"http://localhost:{d.port}/healthz", f"http://0.0.0.0:{d.port}/"):
        assert health(url) == 0, url
    port = d.port
    d.stop()
    assert health(SANDBOX_PORT=str(port)) == 1
    assert health(f"http://127.0.0.1:{port}") == 1


@pytest.mark.host("looks at the daemon's own socket")
def test_of_a_unix_socket(start):
    def prepare(d):
        (d.base / "run").mkdir()
        os.chown(d.base / "run", names.PLANS[d.plan]["daemon"], names.PLANS[d.plan]["daemon"])
        d.late_env = {names.SOCKET: str(d.base / "run" / "s"), names.PORT: None, names.BIND: None}
    d = start(up=False, prepare=prepare)
    import re
    d.wait_up(re.compile(rb"listening on unix:"))
    path = str(d.base / "run" / "s")
    assert health(SALLYPORT_SOCKET=path) == 0 and health(f"unix:{path}") == 0
    assert health(f"unix:{path}x") == 1


@pytest.mark.parametrize("answer,code", [
    (b"HTTP/1.1 200 OK\r\n\r\n", 0), (b"HTTP/1.0 200 OK\r\n\r\n", 0), (b"HTTP/1.1 503 x\r\n\r\n", 1),
    (b"HTTP/1.1 2000 x\r\n\r\n", 1), (b"", 1), (b"SSH-2.0-x\r\n", 1), (b"HTTP/1.1 \r\n\r\n", 1)])
def test_of_other_servers(answer, code):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen(1)

        def serve():
            c, _ = s.accept()
            with c:
                c.recv(65536)
                c.sendall(answer)
        t = threading.Thread(target=serve)
        t.start()
        assert health(f"http://127.0.0.1:{s.getsockname()[1]}") == code
        t.join()


@pytest.mark.parametrize("url", ["", "x", "https://", "https://name.example:443", "http://", "http://name.example:80", "unix:",
                                 "http://127.0.0.1:0", "http://127.0.0.1:65536", "http://127.0.0.1:8x",
                                 "http://[::1:80", "http://127.0.0.1x", "unix:" + "x" * 200])
def test_bad_urls(url):
    assert health(url) == 2


def test_bad_settings():
    assert health(SANDBOX_PORT="x") == 2 and health(SALLYPORT_NO="1") == 2
    assert health(SALLYPORT_BIND="no address at all, however one looks at it, as it is too long") == 2
