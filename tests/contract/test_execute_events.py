"""POST /execute with Accept: text/event-stream: what comes, whole characters, framing, refusals."""
import json

import pytest

from harness import procs
from harness.events import Stream
from harness.http import build

MEMBERS = {"exit_code", "signal", "timed_out", "duration_ms", "stdout_bytes", "stderr_bytes"}


@pytest.fixture
def live(seat):
    """live(command, ...) opens a stream on a connection of its own."""
    conns = []

    def open_one(command, **kw):
        conns.append(seat.conn())
        return Stream(conns[-1]).open(command, **kw)
    yield open_one
    for c in conns:
        c.close()


def test_a_command(live):
    out, err, end = live("echo out; echo err >&2; exit 3").all()
    assert (out, err) == ("out\n", "err\n") and set(end) == MEMBERS
    assert isinstance(end.pop("duration_ms"), int)
    assert end == {"exit_code": 3, "signal": None, "timed_out": False, "stdout_bytes": 4,
                   "stderr_bytes": 4}


def test_no_output(live):
    assert list(live("true"))[0] == ("start", {})
    out, err, end = live("true").all()
    assert (out, err, end["stdout_bytes"], end["stderr_bytes"]) == ("", "", 0, 0)


@pytest.mark.parametrize("command,code,signal", [
    ("kill -SEGV $$", 139, "SIGSEGV"), ("kill -9 $$", 137, "SIGKILL"), ("exit 255", 255, None)])
def test_how_it_ended(live, command, code, signal):
    end = live(command).all()[2]
    assert (end["exit_code"], end["signal"], end["timed_out"]) == (code, signal, False)


def test_timeout(live, seat):
    out, _, end = live("echo before; sleep 600", timeout=0.5).all()
    assert (out, end["exit_code"], end["timed_out"]) == ("before\n", 124, True)
    seat.wait_no_strangers()


def test_it_comes_while_the_command_runs(live, seat, box):
    s = live("for i in 1 2 3; do echo $i; while [ ! -e go$i ]; do sleep 0.02; done; done", cwd=box)
    assert s.next() == ("start", {})
    for i in (1, 2, 3):
        assert s.next() == ("stdout", {"text": f"{i}\n"})
        (seat.ws / box / f"go{i}").touch()
    assert s.next()[0] == "exit" and s.next() is None


def test_start_comes_before_any_output(live, seat, box):
    s = live("while [ ! -e go ]; do sleep 0.02; done", cwd=box)
    assert s.next() == ("start", {})
    (seat.ws / box / "go").touch()
    assert s.next()[0] == "exit"


def test_stdin_env_cwd(live, box):
    out, _, _ = live("cat; echo $A; basename $PWD", stdin="in é\n", env={"A": "1"}, cwd=box).all()
    assert out == f"in é\n1\n{box}\n"


def test_large_stdin_comes_back(live):
    text = "0123456789abcde\n" * 60000
    out, _, end = live("cat", stdin=text).all()
    assert out == text and end["stdout_bytes"] == len(text)


# ---- characters ----

@pytest.mark.parametrize("text", ["é", "€", "😀", "a€b😀c"])
def test_a_character_in_single_bytes(live, seat, box, text):
    """Each byte is written alone, and only once the reader has all that may come before it."""
    data = text.encode()
    body = "".join(f"printf '\\{b:o}'; sleep 0.03; " for b in data)
    s = live(body)
    out, _, end = s.all()
    assert out == text and end["stdout_bytes"] == len(data)


def test_a_begun_character_is_held_back(live, seat, box):
    s = live("printf 'a\\342\\202'; while [ ! -e go ]; do sleep 0.02; done; printf '\\254b'", cwd=box)
    assert s.next() == ("start", {}) and s.next() == ("stdout", {"text": "a"})
    (seat.ws / box / "go").touch()
    assert s.next() == ("stdout", {"text": "€b"}) and s.next()[0] == "exit"


def test_a_character_that_never_ends(live):
    out, err, end = live("printf 'a\\342\\202'; printf '\\360\\237\\230' >&2").all()
    assert (out, err) == ("a\ufffd", "\ufffd") and (end["stdout_bytes"], end["stderr_bytes"]) == (3, 3)


def test_a_stream_closed_inside_a_character(live, seat, box):
    s = live("printf 'a\\303'; exec >&-; while [ ! -e go ]; do sleep 0.02; done", cwd=box)
    text = ""
    s.next()
    while text != "a\ufffd":
        name, data = s.next()
        text += data["text"]
    (seat.ws / box / "go").touch()
    assert s.next()[0] == "exit"


def test_streams_do_not_mix_their_characters(live):
    out, err, _ = live("printf '\\303'; printf '\\342\\202' >&2; sleep 0.1; printf '\\251'; "
                       "printf '\\254' >&2").all()
    assert (out, err) == ("é", "€")


@pytest.mark.parametrize("raw", ["\\377", "a\\377b", "\\303\\303\\251", "\\200\\200", "\\355\\240\\200",
                                 "\\300\\257", "\\364\\220\\200\\200", "\\360\\237\\230x", "\\0\\1\\177"])
def test_repaired_as_in_the_plain_answer(live, seat, raw):
    command = f"printf '<{raw}>'"
    assert live(command).all()[0] == seat.run(command)["stdout"]


def test_random_bytes_as_in_the_plain_answer(live, seat, box):
    seat.run("head -c 700000 /dev/urandom > r", cwd=box)
    plain = seat.run("cat r; cat r >&2", cwd=box)
    out, err, end = live("cat r; cat r >&2", cwd=box).all()
    assert (out, err) == (plain["stdout"], plain["stderr"])
    assert end["stdout_bytes"] == end["stderr_bytes"] == 700000


def test_all_of_it_escaped(live):
    """Six bytes for one: several events for one read, each line bounded (harness.events)."""
    out, _, _ = live("head -c 300000 /dev/zero").all()
    assert out == "\0" * 300000


# ---- amounts ----

def test_100000_lines(live):
    out, _, end = live("for i in $(seq 100000); do echo $i; done").all()
    assert out == "".join(f"{i}\n" for i in range(1, 100001)) and end["stdout_bytes"] == len(out)


def test_no_limit_in_total(live):
    """40 MiB, where the plain answer keeps 1."""
    s = live("head -c 41943040 /dev/zero | tr '\\0' x")
    n = 0
    for name, data in s:
        n += len(data["text"]) if name == "stdout" else 0
        assert name != "exit" or data["stdout_bytes"] == n == 40 << 20


def test_both_streams_at_once(live):
    out, err, _ = live("(head -c 5242880 /dev/zero | tr '\\0' a) & "
                       "head -c 5242880 /dev/zero | tr '\\0' b >&2; wait").all()
    assert (out, err) == ("a" * 5242880, "b" * 5242880)


def test_a_flood_does_not_hide_the_other_stream(live, seat, box):
    """stderr comes through while stdout has always more."""
    s = live("yes & sleep 0.1; echo here >&2; wait", cwd=box)
    assert any(one == ("stderr", {"text": "here\n"}) for one in s)
    s.conn.close()
    seat.wait_no_strangers()


def test_background_processes_end_with_the_shell(live, seat):
    out, _, end = live("(while :; do echo more; sleep 0.05; done) & sleep 0.2; echo last").all()
    assert "last\n" in out and end["exit_code"] == 0 and seat.strangers() == []


# ---- HTTP ----

def test_the_connection_goes_on(live):
    s = live("echo one")
    assert s.all()[0] == "one\n"
    assert s.open("echo two").all()[0] == "two\n"
    assert s.conn.request("GET", "/healthz").status == 200


def test_pipelined_behind_a_stream(seat, box):
    with seat.conn() as c:
        body = json.dumps({"command": "sleep 0.2; echo one"}).encode()
        stream = build("POST", "/execute", body, {"Accept": "text/event-stream"})
        c.send(stream + build("GET", "/healthz") + stream + build("POST", "/execute", body))
        s = Stream(c)
        s.head()
        assert s.all()[0] == "one\n"
        assert c.answer().json == {"status": "ok"}
        s = Stream(c)
        s.head()
        assert s.all()[0] == "one\n"
        assert c.answer().json["stdout"] == "one\n"


def test_connection_close_is_kept(seat):
    with seat.conn() as c:
        c.send(build("POST", "/execute", b'{"command":"echo x"}',
                     {"Accept": "text/event-stream", "Connection": "close"}))
        s = Stream(c)
        s.head()
        assert s.chunked and s.all()[0] == "x\n" and c.closed()


@pytest.mark.parametrize("headers", [{}, {"Connection": "keep-alive"}])
def test_http_10_ends_by_closing(seat, headers):
    with seat.conn() as c:
        c.send(build("POST", "/execute", b'{"command":"echo x; echo y >&2"}',
                     {"Accept": "text/event-stream", **headers}, version="1.0"))
        s = Stream(c)
        s.head()
        assert not s.chunked and s.all()[:2] == ("x\n", "y\n")


@pytest.mark.parametrize("accept,events", [
    ("*/*", False), ("application/json", False), ("text/event-stream", True),
    ("TEXT/Event-Stream; q=0.5, */*", True), ("application/json, text/event-stream;q=0.5", False),
    ("text/event-stream;q=0", False)])
def test_accept(seat, accept, events):
    a = seat.request("POST", "/execute", b'{"command":"echo x"}', {"Accept": accept})
    assert a.get("content-type") == ("text/event-stream" if events else "application/json")


def test_accept_twice_is_refused(seat):
    a = seat.request("POST", "/execute", b'{"command":"echo x"}',
                     [("Accept", "text/event-stream"), ("Accept", "*/*")])
    assert (a.status, a.code) == (400, "bad_request")


@pytest.mark.parametrize("body,status,code", [
    (b"{", 400, "bad_json"), (b'{"command":1}', 400, "bad_field"),
    (b'{"command":"x","cwd":"missing"}', 404, "not_found"),
    (b'{"command":"x","cwd":"/etc"}', 403, "outside_workspace")])
def test_an_early_failure_is_plain_json(seat, body, status, code):
    a = seat.request("POST", "/execute", body, {"Accept": "text/event-stream"})
    assert (a.status, a.code) == (status, code)


def test_busy_is_plain_json(live, seat):
    s = live("sleep 600")
    for accept in ("text/event-stream", "*/*"):
        a = seat.request("POST", "/execute", b'{"command":"x"}', {"Accept": accept})
        assert (a.status, a.code, a.get("retry-after")) == (409, "busy", "1")
    s.conn.close()
    seat.wait_idle()


@pytest.mark.slow
def test_a_silent_command_is_heard_of(live, seat, box):
    """A comment every 15 seconds, for the proxies between."""
    s = live("while [ ! -e go ]; do sleep 0.02; done; echo x", cwd=box)
    assert s.next() == ("start", {})
    s.conn.sock.settimeout(60)
    while b":\n\n" not in s.text:
        s.fill()
    (seat.ws / box / "go").touch()
    assert s.next() == ("stdout", {"text": "x\n"}) and s.comments == 1
    procs.wait_for("the end", lambda: s.next() is None)
