"""Each client and a box: output as it comes, a reader that stops or leaves, busy, a key or a name that is not
taken, a box that isn't there yet."""
import os
import signal
import socket
import time

import pytest

from clients import LANGUAGES, Driver
from harness import procs
from harness.box import KEY, Box
from harness.tls import LISTENING, openssl

BOX_ENV = {"RUNBOX_QUEUE": "1"}


def running(box, word):
    return [p for p in box.procs() if word in p.cmdline]


def gone(box, word):
    procs.wait_for(f"{word} is gone", lambda: not running(box, word))


def test_once_a_second_is_once_a_second(box_client, many):
    """Each line is printed only when the one before it has come out of the client."""
    ws = many.workspace(*box_client.who)
    box_client.begin("follow", command="for i in 1 2 3; do echo $(cat f) line $i; "
                                       "while [ ! -e go$i ]; do sleep 0.02; done; done; exit 5", files={"f": "with"})
    for i in (1, 2, 3):
        assert box_client.line() == {"event": "stdout", "text": f"with line {i}\n"}
        (ws / f"go{i}").touch()
    assert box_client.line()["exit_code"] == 5


def test_leaving_kills_the_command(box_client, many):
    """Printed with -s: how long after the loop was left. Not asserted, as a busy machine takes its time."""
    assert box_client.ask("leave", command="echo first; sleep 60601") == {"text": "first\n"}
    began = time.monotonic()
    gone(many, "60601")
    print(f"{box_client.language}: gone {time.monotonic() - began:.3f} s after the client had left")
    assert box_client.ask("execute", command="echo next")["stdout"] == "next\n"


def test_a_deadline_kills_the_command(box_client, many):
    for op in ("execute", "stream"):
        assert box_client.ask(op, command="echo x; sleep 60602", deadline=1)["error"] == "deadline"
        gone(many, "60602")


def test_a_reader_that_stops_stops_the_writer(box_client, many):
    """And nobody else's."""
    assert box_client.ask("hold", command="n=0; while :; do head -c 65536 /dev/zero; n=$((n+1)); "
                                          "echo $n > w; mv w wrote; done") == {}
    wrote = many.workspace(*box_client.who) / "wrote"
    procs.wait_for("the first block", wrote.exists)
    seen = []

    def still():
        seen.append(wrote.read_bytes())
        return len(seen) > 10 and seen[-1] and len(set(seen[-10:])) == 1
    procs.wait_for("the writer stands still", still, 60.0, 0.1)
    assert many.sh("head -c 3000000 /dev/zero | wc -c", ("other",))["stdout"] == "3000000\n"
    before = int(seen[-1])
    size = (before + 100) * 65536  # more than was ever written: it must go on
    assert box_client.ask("take", size=size)["bytes"] >= size
    assert int(wrote.read_text()) > before


def test_busy(box_client, many):
    """One runs, one waits; who comes then is told so at once, or asks again if that was wanted."""
    ws = many.workspace(*box_client.who)
    assert box_client.ask("write", path="x", text="")["created"]
    first = many.send_exec("touch up; while [ ! -e go ]; do sleep 0.02; done", box_client.who)
    procs.wait_for("the first command runs", (ws / "up").exists)
    others = []

    def refused():
        others.append(many.send_exec("true", box_client.who))  # one of them waits, or did ours
        got = box_client.ask("execute", command="true", deadline=1)
        return got if got["error"] == "api" else None
    for got in (procs.wait_for("the queue is full", refused), box_client.ask("stream", command="true")):
        assert (got["code"], got["status"], got["retry_after"]) == ("busy", 409, 1)
    told = many.log().count("status=409")
    box_client.begin("execute", command="echo in", busy_wait=600)
    procs.wait_for("it was told that, too", lambda: many.log().count("status=409") > told)
    (ws / "go").touch()
    assert box_client.line()["stdout"] == "in\n"
    assert first.answer().status == 200
    for c in others:
        assert c.answer().status in (200, 409)
        c.close()
    first.close()


def test_names_that_are_not_taken(box_client, many):
    def asked():
        """How many requests: a line comes with the answer's end, which a client needn't wait for; in their order."""
        ready = many.log().count("route=/ready")
        assert many.call("GET", "/ready").status == 200
        procs.wait_for("that is told", lambda: many.log().count("route=/ready") > ready)
        return many.log().count("front info request")
    before = asked()
    for who in ([""], ["a b"], [" a"], ["a\n"], ["a\r\nX-Runbox-User: b"], ["t", ""], ["t", "u\t"], ["t\0", "u"]):
        box_client.who = who
        assert box_client.ask("usage")["error"] == "refused", who
    assert asked() == before + 1
    for who in (["x" * 257], ["\u0085"]):
        box_client.who = who
        got = box_client.ask("usage")
        assert (got["error"], got["code"], got["status"]) == ("api", "bad_identity", 400), who


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_key_that_is_not_taken(many, language):
    c = Driver(language, f"http://127.0.0.1:{many.port}", key="not-" + KEY, who=["alice"])
    for op, args in (("execute", {"command": "touch ran"}), ("stream", {"command": "touch ran"}),
                     ("read", {"path": "x"}), ("write", {"path": "x", "text": "x"}), ("usage", {}),
                     ("write_batch", {"files": {"x": "x"}}), ("delete_workspace", {}), ("capabilities", {}),
                     ("metrics", {}), ("archive", {"path": ""})):
        got = c.ask(op, **args)
        assert (got["error"], got["code"], got["status"]) == ("api", "unauthorized", 401), op
    assert c.ask("health") == {"status": "ok"} and c.ask("ready") == {"ready": True}
    c.close()


@pytest.mark.parametrize("language", LANGUAGES)
def test_tls(language):
    """The same on https; where it isn't trusted, nothing is said, the key least of all."""
    def prepare(d):
        d.cert, key = d.base / "cert", d.base / "key"
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                "-keyout", str(key), "-out", str(d.cert), "-subj", "/CN=box", "-addext", "subjectAltName=IP:127.0.0.1")
        d.late_env |= {"RUNBOX_TLS_CERT": str(d.cert), "RUNBOX_TLS_KEY": str(key)}
    b = Box(prepare=prepare)
    try:
        b.wait_up(LISTENING)
        url = f"https://127.0.0.1:{int(LISTENING.search(b.log_path.read_bytes())[1])}"
        c = Driver(language, url, b.cert, key=KEY, who=["tenant-é", "€"])
        assert c.ask("execute", command="cat f", files={"f": "x" * 300_000})["stdout"] == "x" * 300_000
        assert c.ask("upload", path="f", size=5_000_000, how="chunked")["size"] == 5_000_000  # the same workspace
        assert c.ask("stream", command="wc -c <f")["stdout"] == "5000000\n"
        assert c.ask("pull", path="")["bytes"] > 5_000_000
        c.close()
        c = Driver(language, url, key=KEY, who=["alice"])
        got = c.ask("usage")
        assert got["error"] == "transport" and "certificate" in got["message"].lower(), got
        c.close()
    finally:
        b.stop()


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_box_that_is_not_there_yet(language):
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
    c = Driver(language, f"http://127.0.0.1:{port}", key=KEY)
    assert c.ask("ready")["error"] == "transport"
    assert c.ask("wait_ready", deadline=0.5)["error"] == "deadline"
    c.begin("wait_ready", deadline=100)
    b = Box(env={"RUNBOX_PORT": str(port)})
    try:
        b.wait_up()
        assert c.line() == {}
        c.close()
    finally:
        b.stop()


@pytest.mark.parametrize("language", LANGUAGES)
def test_lost_while_it_runs(language):
    b = Box().wait_up()
    try:
        c = Driver(language, f"http://127.0.0.1:{b.port}", key=KEY, who=["alice"])
        for role, want in (("cell", ("api", "cell_lost")), ("front", ("transport", None))):
            c.begin("follow", command="echo up; sleep 600")
            assert c.line() == {"event": "stdout", "text": "up\n"}
            os.kill(b.role(role).pid, signal.SIGKILL)
            got = c.line()
            assert (got["error"], got.get("code")) == want, got
            assert c.ask("wait_ready", deadline=60) == {}
        c.close()
    finally:
        b.stop()
