"""Settings: a bad value ends with status 2 and one sentence, before anything is started."""
import os
import socket

import pytest

from harness import names

SECONDS = [names.DEFAULT_TIMEOUT, names.MAX_TIMEOUT, names.HEAD_TIMEOUT, names.IDLE_TIMEOUT,
           names.STALL_TIMEOUT, names.SHUTDOWN_TIMEOUT]
SIZES = [names.MAX_OUTPUT, names.MAX_UPLOAD]

BAD = [(n, v) for n in SECONDS for v in ("x", "-1", "1.5.5", "5 s", " 5", "5x", "1e3", "99999999999999999999")]
BAD += [(n, v) for n in SIZES for v in ("x", "-1", "1.5.5M", "5 M", "1Q", "0x10", "99999999999999999999")]
BAD += [(n, "0") for n in SIZES]
BAD += [(names.PORT, v) for v in ("x", "-1", "65536", "80 ", "0x50", "99999999999")]
BAD += [(names.BIND, v) for v in ("nonsense host", "300.1.1.1", ",", "127.0.0.1:80:80", "[::1")]
BAD += [(names.MAX_CONNECTIONS, v) for v in ("x", "-1", "0", "1.5", "99999999999")]
BAD += [(names.SHELL, v) for v in ("sh", "/no/such/shell", "/etc/passwd", "/tmp", "./sh")]
BAD += [(names.ENV_PASS, v) for v in ("A=B", "A*", "A,B=1")]
BAD += [(names.ACCEPT_MISSING, v) for v in ("nonsense", "caps;uid", "all the things")]
BAD += [(names.TEST_DISABLE, "nonsense")]
BAD += [("SALLYPORT_NO_SUCH_SETTING", "1"), ("SALLYPORT_", "x"), ("SALLYPORT_max_upload", "1")]


def refusal(d):
    """The one sentence, which is last; before it the log may tell of the layers."""
    lines = d.log().strip().splitlines()
    assert [n for n, line in enumerate(lines) if not line.startswith("20")] == [len(lines) - 1], d.log()
    assert lines[-1].startswith("sallyport: ") and lines[-1].endswith("."), d.log()
    return [lines[-1]]


def ends_with_2(d, name):
    report = d.wait_exit()
    assert report["status"] == 2, f"{report}\n{d.log()}"
    assert report["left"] == [] and report["orphans"] == 0
    lines = refusal(d)
    if name:
        assert name in lines[0], lines[0]
    assert "listening" not in lines[0]
    return lines[0]


@pytest.mark.parametrize("name,value", BAD)
def test_bad_value(start, name, value):
    ends_with_2(start(up=False, env={name: value}), None if name == names.TEST_DISABLE else name)


EMPTY = [*SECONDS, *SIZES, names.MAX_CONNECTIONS, names.SHELL, names.ENV_PASS, names.ACCEPT_MISSING,
         names.TEST_DISABLE, names.SOCKET]


def test_an_empty_value_is_none(start):
    d = start(env={name: "" for name in EMPTY})
    assert d.run("echo ok")["stdout"] == "ok\n"


def test_values_are_not_logged_raw(start):
    line = ends_with_2(start(up=False, env={names.MAX_UPLOAD: "x\n\x1b[31mred"}), names.MAX_UPLOAD)
    assert "\x1b" not in line


def test_default_over_maximum(start):
    ends_with_2(start(up=False, env={names.DEFAULT_TIMEOUT: "20", names.MAX_TIMEOUT: "10"}), None)


@pytest.mark.parametrize("value", ["/no/such/folder", "relative", "/etc/passwd"])
def test_bad_workspace(start, value):
    ends_with_2(start(up=False, env={names.WORKSPACE: value}), names.WORKSPACE)


def test_workspace_is_required_or_has_a_default(start):
    d = start(up=False, env={names.WORKSPACE: None})
    report = d.wait_exit(20)
    assert report is None or report["status"] == 2
    if report is None:
        d.wait_up()


def test_workspace_is_the_root(start):
    """Everything would be in it. Refused, or at least never by accident."""
    ends_with_2(start(up=False, env={names.WORKSPACE: "/"}), names.WORKSPACE)


def test_workspace_a_file(start):
    def prepare(d):
        (d.base / "file").touch()
        d.late_env = {names.WORKSPACE: str(d.base / "file")}
    ends_with_2(start(up=False, prepare=prepare), names.WORKSPACE)


def test_workspace_not_writable(start):
    def prepare(d):
        os.chmod(d.ws, 0o555)
    ends_with_2(start(up=False, prepare=prepare), names.WORKSPACE)


def test_workspace_not_readable(start):
    def prepare(d):
        os.chmod(d.ws, 0o300)
    ends_with_2(start(up=False, prepare=prepare), names.WORKSPACE)


def test_workspace_by_a_link_is_resolved(start):
    def prepare(d):
        (d.base / "link").symlink_to("ws")
        d.late_env = {names.WORKSPACE: str(d.base / "link")}
    d = start(prepare=prepare)
    assert d.run("pwd")["stdout"].strip() in (str(d.ws), str(d.base / "link"))
    assert d.put("f", b"x").status == 201 and (d.ws / "f").exists()


def test_workspace_with_a_trailing_slash(start):
    def prepare(d):
        d.late_env = {names.WORKSPACE: str(d.ws) + "/"}
    d = start(prepare=prepare)
    assert d.run("pwd", cwd=str(d.ws))["stdout"] == f"{d.ws}\n"


def test_workspace_with_odd_characters(start):
    def prepare(d):
        odd = d.base / "w s'\"$é"
        os.rename(d.ws, odd)
        d.ws = odd
        d.late_env = {names.WORKSPACE: str(odd)}
    d = start(prepare=prepare)
    assert d.run("pwd")["stdout"] == f"{d.ws}\n"


def test_port_in_use(start):
    s = socket.socket()
    s.bind(("127.0.0.1", 0))
    s.listen(1)
    d = start(up=False, env={names.PORT: str(s.getsockname()[1])})
    report = d.wait_exit()
    assert report["status"] not in (0, None) and report["left"] == []
    assert refusal(d)
    s.close()


@pytest.mark.parametrize("args", [[], ["nonsense"], ["seat", "extra"], ["--bogus"], ["seat", "--x"],
                                  ["--role=front"], ["--role=broker"], ["--role=cell"], ["--role=x"], ["--role="]])
def test_bad_arguments(start, args):
    """A role without what main gives it ends at once."""
    d = start(up=False, args=args)
    report = d.wait_exit()
    assert report["status"] not in (0, None) and report["left"] == []


@pytest.mark.parametrize("args", [["--version"], ["--help"]])
def test_information(start, args):
    d = start(up=False, args=args)
    assert d.wait_exit()["status"] == 0
    assert (d.base / "stdout").read_text() or d.log()


GOOD = [(names.DEFAULT_TIMEOUT, "250ms"), (names.DEFAULT_TIMEOUT, "1.5s"), (names.MAX_TIMEOUT, "1d"),
        (names.MAX_OUTPUT, "64KiB"), (names.MAX_UPLOAD, "2g"), (names.MAX_CONNECTIONS, "10"),
        (names.SHELL, "/bin/bash"), (names.ENV_PASS, "A,B_C")]


@pytest.mark.parametrize("name,value", GOOD)
def test_good_value(start, name, value):
    d = start(env={name: value})
    assert d.request("GET", "/healthz").status == 200


def test_unrelated_variables_are_nobodys_business(start):
    d = start(env={"SANDBOX_UNRELATED": "1", "FOO": "bar", "HTTP_PROXY": "http://x/"})
    assert "bar" not in d.run("env")["stdout"]


def test_a_missing_layer_can_be_accepted(start):
    d = start(env={names.TEST_DISABLE: "landlock,signal-scope", names.ACCEPT_MISSING: "landlock,view,signal-scope"})
    assert d.run("echo ok")["stdout"] == "ok\n"


def test_few_descriptors(start):
    """A small limit of the host: it ends with a sentence and nothing left, or it serves."""
    d = start(up=False, nofile=64)
    if d.wait_exit(3) is None:
        d.wait_up()
        assert d.run("echo ok")["stdout"] == "ok\n"
        conns = []
        for _ in range(100):
            conns.append(d.conn())
        for c in conns:
            c.close()
        d.wait_idle()
    else:
        assert d.exit["status"] in (1, 2) and d.exit["left"] == []


def test_closed_standard_descriptors_are_survived(start):
    """Nothing of ours may land on 0-2: a command's stderr must not be a socket of the daemon."""
    d = start()
    out = d.run("readlink /proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/2")["stdout"].split()
    assert out[0] == "/dev/null" and out[1].startswith("pipe:") and out[2].startswith("pipe:")
