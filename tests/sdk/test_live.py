"""Each client while a command runs: output as it comes, a reader that stops, leaves or is told of an
error; busy; a lost and a refused connection; a unix socket."""
import os
import signal

import pytest

from clients import LANGUAGES, Driver
from harness import names, procs
from harness.tls import LISTENING, openssl


def test_once_a_second_is_once_a_second(client, seat, box):
    """Each line is printed only when the one before it has come out of the client."""
    client.begin("follow", cwd=box, command="for i in 1 2 3; do echo line $i; "
                                            "while [ ! -e go$i ]; do sleep 0.02; done; done; exit 5")
    for i in (1, 2, 3):
        assert client.line() == {"event": "stdout", "text": f"line {i}\n"}
        (seat.ws / box / f"go{i}").touch()
    end = client.line()
    assert (end["exit_code"], end["stdout"]) == (5, "line 1\nline 2\nline 3\n")


def test_leaving_kills_the_command(client, seat):
    assert client.ask("leave", command="echo first; sleep 600") == {"text": "first\n"}
    seat.wait_no_strangers()
    seat.wait_idle()


def test_a_reader_that_stops_stops_the_writer(client, seat, box):
    assert client.ask("hold", cwd=box, command="n=0; while :; do head -c 65536 /dev/zero; n=$((n+1)); "
                                               "echo $n > w; mv w wrote; done") == {}
    procs.wait_for("the first block", (seat.ws / box / "wrote").exists)
    seen = []

    def still():
        seen.append((seat.ws / box / "wrote").read_bytes())
        return len(seen) > 10 and seen[-1] and len(set(seen[-10:])) == 1
    procs.wait_for("the writer stands still", still, 60.0, 0.1)
    assert seat.request("GET", "/healthz").status == 200
    before = int(seen[-1])
    size = (before + 100) * 65536  # more than was ever written: it must go on
    assert client.ask("take", size=size)["bytes"] >= size
    assert int((seat.ws / box / "wrote").read_text()) > before
    seat.wait_no_strangers()
    seat.wait_idle()


@pytest.mark.parametrize("op", ["execute", "stream"])
def test_busy(client, seat, op):
    other = seat.send_command("touch busy; sleep 600")
    seat.wait_file("busy")
    got = client.ask(op, command="true")
    assert (got["error"], got["code"], got["status"], got["retry_after"]) == ("api", "busy", 409, 1)
    other.close()
    seat.wait_idle()
    (seat.ws / "busy").unlink()


def test_a_deadline_kills_the_command(client, seat):
    assert client.ask("stream", command="echo x; sleep 600", deadline=0.5)["error"] == "deadline"
    seat.wait_no_strangers()
    seat.wait_idle()


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("role,want", [("cell", ("api", "cell_lost")), ("front", ("transport", None))])
def test_lost_while_it_runs(start, language, role, want):
    d = start()
    c = Driver(language, f"http://127.0.0.1:{d.port}")
    c.begin("follow", command="echo up; sleep 600")
    assert c.line() == {"event": "stdout", "text": "up\n"}
    os.kill(d.role(role).pid, signal.SIGKILL)
    got = c.line()
    assert (got["error"], got.get("code")) == want, got
    assert d.wait_idle() is None
    assert c.ask("execute", command="echo again")["stdout"] == "again\n"
    c.close()


@pytest.mark.parametrize("language", LANGUAGES)
def test_nobody_there(language):
    c = Driver(language, "http://127.0.0.1:1")
    for op, args in (("execute", {"command": "x"}), ("stream", {"command": "x"}), ("read", {"path": "x"}),
                     ("write", {"path": "x", "text": "x"}), ("health", {})):
        assert c.ask(op, **args)["error"] == "transport"
    c.close()


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_unix_socket(start, language):
    def prepare(d):
        (d.base / "run").mkdir()
        d.late_env = {names.SOCKET: str(d.base / "run/sock"), names.PORT: None}
    d = start(up=False, prepare=prepare)
    procs.wait_for("the socket", (d.base / "run/sock").is_socket)
    c = Driver(language, f"unix:{d.base}/run/sock")
    assert c.ask("execute", command="echo x")["stdout"] == "x\n"
    assert c.ask("stream", command="echo y")["stdout"] == "y\n"
    assert c.ask("write", path="f", text="z")["size"] == 1 and c.ask("read", path="f")["text"] == "z"
    c.close()


def tls_seat(start):
    def prepare(d):
        d.cert, key = d.base / "cert", d.base / "key"
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                "-keyout", str(key), "-out", str(d.cert), "-subj", "/CN=seat",
                "-addext", "subjectAltName=IP:127.0.0.1")
        d.late_env = {"SALLYPORT_TLS_CERT": str(d.cert), "SALLYPORT_TLS_KEY": str(key)}
    d = start(up=False, prepare=prepare).wait_up(LISTENING)
    return d, f"https://127.0.0.1:{int(LISTENING.search(d.log_path.read_bytes())[1])}"


@pytest.mark.parametrize("language", LANGUAGES)
def test_tls(start, language):
    d, url = tls_seat(start)
    c = Driver(language, url, d.cert)
    assert c.ask("execute", command="echo x")["stdout"] == "x\n"
    got = c.ask("stream", command="head -c 3000000 /dev/zero | tr '\\0' x")
    assert got["stdout"] == "x" * 3000000 and got["exit_code"] == 0
    for how in ("sized", "chunked"):
        assert c.ask("upload", path="f", size=20_000_000, how=how)["size"] == 20_000_000
        assert c.ask("download", path="f") == {"bytes": 20_000_000}
    assert c.ask("leave", command="echo first; sleep 600") == {"text": "first\n"}
    d.wait_no_strangers()
    c.close()


@pytest.mark.parametrize("language", LANGUAGES)
def test_tls_that_is_not_trusted(start, language):
    c = Driver(language, tls_seat(start)[1])
    got = c.ask("execute", command="touch ran")
    assert got["error"] == "transport" and "certificate" in got["message"].lower(), got
    c.close()
