"""`sallyport health` beside a daemon that serves TLS."""
import socket
import subprocess

import pytest

from harness import names
from harness.tls import tls_daemon


def health(*args, **env):
    done = subprocess.run([names.BIN, "health", *args], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=60, check=False)
    assert done.stdout == "" and (done.stderr == "") == (done.returncode == 0), done
    return done.returncode


@pytest.mark.host("looks at the daemon's own port")
def test_health(start, seat):
    """A HEALTHCHECK finds a daemon that serves TLS by its settings, whoever signed the certificate."""
    tls = tls_daemon(start)
    settings = {names.PORT: str(tls.port), "SALLYPORT_TLS_CERT": str(tls.cert), "SALLYPORT_TLS_KEY": str(tls.key)}
    assert health(**settings) == 0
    assert health(f"https://127.0.0.1:{tls.port}") == 0
    assert health(f"http://127.0.0.1:{tls.port}") == 1  # answers 400
    assert health(f"https://127.0.0.1:{seat.port}") == 1
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    assert health(f"https://127.0.0.1:{port}") == 1
