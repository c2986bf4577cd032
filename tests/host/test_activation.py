"""Sockets that are open already, as systemd hands them on. A container hands on none."""
import re
import socket

import pytest

from harness import names
from harness.http import Conn

pytestmark = pytest.mark.host("hands the daemon open sockets, as systemd does")


def listener(family=socket.AF_INET, address=("127.0.0.1", 0)):
    s = socket.socket(family, socket.SOCK_STREAM)
    s.bind(address)
    s.listen(64)
    return s


ANY_LINE = re.compile(rb"listening on ")


def test_socket_activation(start):
    s = listener()
    d = start(up=False, listen=[s], env={names.BIND: None, names.PORT: None})
    d.wait_up(ANY_LINE)
    d.port = s.getsockname()[1]
    s.close()
    assert d.request("GET", "/healthz").status == 200
    assert d.run("echo hi; ls /proc/self/fd | wc -l")["stdout"].startswith("hi\n")


def test_socket_activation_two(start, tmp_path):
    path = str(tmp_path / "s")
    a, b = listener(), listener(socket.AF_UNIX, path)
    d = start(up=False, listen=[a, b], env={names.BIND: None, names.PORT: None})
    d.wait_up(ANY_LINE)
    d.port = a.getsockname()[1]
    assert d.request("GET", "/healthz").status == 200
    with Conn(path) as c:
        assert c.request("GET", "/healthz").status == 200
    a.close()
    b.close()


def test_socket_activation_for_another_process(start):
    """LISTEN_PID isn't ours: the descriptors aren't, either."""
    s = listener()
    d = start(up=False, listen=[s], env={"LISTEN_PID": "999999"})
    d.wait_up()
    assert d.port != s.getsockname()[1]
    assert d.request("GET", "/healthz").status == 200
    s.close()


@pytest.mark.parametrize("count", ["0", "-1", "x", "99999"])
def test_socket_activation_nonsense(start, count):
    s = listener()
    d = start(up=False, listen=[s], env={"LISTEN_FDS": count})
    if d.wait_exit(2) is None:
        d.wait_up()
        assert d.request("GET", "/healthz").status == 200
    else:
        assert d.exit["status"] == 2
    s.close()


def test_not_a_listening_socket(start):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    d = start(up=False, listen=[s], env={names.BIND: None, names.PORT: None})
    assert d.wait_exit()["status"] == 2
    s.close()
