"""POST /execute: members and what a command finds: exit status, signals, cwd, env, stdin."""
import json
import os
import signal

import pytest

from harness import names, places

MEMBERS = {"stdout", "stderr", "exit_code", "signal", "timed_out", "stdout_truncated",
           "stderr_truncated", "duration_ms"}
SEAT_ENV = {"TZ": "Pacific/Apia", "LANG": "C.UTF-8", "LC_TIME": "C", "SECRET_TOKEN": "hush",
            "PASS_ME": "passed", names.ENV_PASS: "PASS_ME"}


def test_answer_form(seat):
    a = seat.execute("echo out; echo err >&2")
    assert a.status == 200 and not a.closes
    r = a.json
    assert set(r) == MEMBERS
    assert isinstance(r.pop("duration_ms"), int)
    assert r == {"stdout": "out\n", "stderr": "err\n", "exit_code": 0, "signal": None,
                 "timed_out": False, "stdout_truncated": False, "stderr_truncated": False}


@pytest.mark.parametrize("seat", places.HERE.plans, indirect=True, scope="module")
def test_every_plan_runs_commands(seat):
    uid = seat.owner
    assert seat.run("id -u; pwd; echo x > plan; cat plan")["stdout"] == f"{uid}\n{seat.ws}\nx\n"
    assert (seat.ws / "plan").stat().st_uid == uid
    assert seat.get("plan").body == b"x\n"
    assert seat.put("plan2", b"y").status == 201
    assert (seat.ws / "plan2").stat().st_uid == uid
    assert seat.run("cat plan2; rm plan plan2; ls")["stdout"] == "y"


@pytest.mark.parametrize("code", [0, 1, 2, 42, 126, 127, 128, 200, 255])
def test_exit_codes(seat, code):
    r = seat.run(f"exit {code}")
    assert (r["exit_code"], r["signal"], r["timed_out"]) == (code, None, False)


@pytest.mark.parametrize("name", ["SIGHUP", "SIGINT", "SIGQUIT", "SIGILL", "SIGABRT", "SIGFPE",
                                  "SIGKILL", "SIGSEGV", "SIGPIPE", "SIGALRM", "SIGTERM", "SIGUSR1",
                                  "SIGBUS", "SIGSYS", "SIGXCPU", "SIGXFSZ"])
def test_ended_by_a_signal(seat, name):
    number = getattr(signal, name)  # bash itself ignores SIGQUIT: Python takes the shell's place
    r = seat.run(f"exec /usr/bin/python3 -I -c 'import os, signal as s; "
                 f"{number} in (9, 19) or s.signal({number}, s.SIG_DFL); os.kill(os.getpid(), {number}); "
                 "s.pause()'", timeout=20)
    assert (r["exit_code"], r["signal"], r["timed_out"]) == (128 + number, name, False)


def test_realtime_signal(seat):
    r = seat.run("kill -40 $$; sleep 5")
    assert r["exit_code"] == 168 and isinstance(r["signal"], str)


def test_unknown_program(seat):
    r = seat.run("no-such-program-here")
    assert r["exit_code"] == 127 and r["stderr"]


def test_syntax_error_is_the_shells(seat):
    r = seat.run("if")
    assert r["exit_code"] != 0 and r["stderr"]


def test_many_lines(seat):
    assert seat.run("a=1\nb=2\nfor i in 1 2; do\necho $i$a$b\ndone\n")["stdout"] == "112\n212\n"


@pytest.mark.parametrize("command", ["-c", "--help", "-x", "#", " ", "\n", "\t", ":"])
def test_odd_commands_are_commands(seat, command):
    assert seat.execute(command).status == 200


def test_longest_command(seat):
    text = "echo start #" + "x" * (131000 - 12)
    assert len(text) == 131000
    assert seat.run(text)["stdout"] == "start\n"
    a = seat.execute(text + "x")
    assert (a.status, a.code) == (413, "command_too_long")


def test_longest_command_counts_bytes(seat):
    text = "echo ok #" + "é" * 65495
    assert len(text.encode()) == 130999
    assert seat.run(text)["stdout"] == "ok\n"
    a = seat.execute(text + "é")
    assert (a.status, a.code) == (413, "command_too_long")


def test_no_stdin_is_dev_null(seat):
    assert seat.run("readlink /proc/self/fd/0; cat | wc -c")["stdout"].split() == ["/dev/null", "0"]


@pytest.mark.parametrize("text", ["", "a", "line\n", "\u0001\t\r\n", "é€😀", "x" * 65536])
def test_stdin(seat, text):
    assert seat.run("cat", stdin=text)["stdout"] == text


def test_stdin_900k(seat):
    text = "0123456789abcde\n" * (900 * 1024 // 16)
    r = seat.run("wc -c; echo done", stdin=text)
    assert r["stdout"].split() == [str(len(text)), "done"]


def test_stdin_is_not_read(seat):
    r = seat.run("echo ignored", stdin="x" * 900000)
    assert (r["stdout"], r["exit_code"]) == ("ignored\n", 0)


def test_stdin_closed_early(seat):
    r = seat.run("head -c 5; exec 0<&-; echo; echo after", stdin="hello" * 100000)
    assert r["stdout"] == "hello\nafter\n"


def test_stdin_and_output_at_once(seat):
    text = "y" * 900000
    r = seat.run("tee /dev/stderr", stdin=text)
    assert r["stdout"] == text and r["stderr"] == text


def test_cwd(seat, box):
    os.makedirs(seat.ws / box / "a" / "b c")
    for cwd, want in [(f"{box}/a", f"{box}/a"), (f"{box}/a/b c", f"{box}/a/b c"),
                      (str(seat.ws / box), box), (str(seat.ws), ""), ("", ""),
                      (f"{box}/a/", f"{box}/a")]:
        a = seat.execute("pwd; echo \"$PWD\"; echo \"$HOME\"", cwd=cwd)
        if cwd == "" and a.status == 400:
            continue
        want = str(seat.ws / want) if want else str(seat.ws)
        assert a.json["stdout"].splitlines() == [want, want, str(seat.ws)], cwd


@pytest.mark.parametrize("cwd,status,code", [
    ("none", 404, "not_found"), ("none/deeper", 404, "not_found"),
    ("file", 400, "not_a_directory"), ("/", 403, "outside_workspace"),
    ("/etc", 403, "outside_workspace"), ("/tmp", 403, "outside_workspace"),
    ("out", 403, "outside_workspace"), ("abs", 403, "outside_workspace")])
def test_cwd_refused(seat, box, cwd, status, code):
    top = seat.ws / box
    (top / "file").touch()
    (top / "out").symlink_to("../../outside")
    (top / "abs").symlink_to("/etc")
    a = seat.execute("touch ran", cwd=cwd if cwd.startswith("/") else f"{box}/{cwd}")
    assert (a.status, a.code) == (status, code)


@pytest.mark.parametrize("cwd", ["..", "../outside", "a/../..", "./..", "../ws"])
def test_cwd_cannot_climb(seat, cwd):
    a = seat.execute("pwd", cwd=cwd)
    assert a.status in (400, 403), a


def test_cwd_beside_the_workspace_with_the_same_prefix(seat):
    os.makedirs(str(seat.ws) + "2", exist_ok=True)
    a = seat.execute("pwd", cwd=str(seat.ws) + "2")
    assert (a.status, a.code) == (403, "outside_workspace")


def test_cwd_with_a_nul(seat):
    a = seat.execute("pwd", cwd="a\0b")
    assert (a.status, a.code) == (400, "bad_field") and "cwd" in a.json["error"]


def environ(seat, **kw):
    out = seat.run("cat /proc/self/environ", **kw)["stdout"]
    return dict(e.split("=", 1) for e in out.split("\0") if e)


def test_environment(seat):
    env = environ(seat)
    want = {"PATH": seat.env["PATH"], "LANG": "C.UTF-8", "LC_TIME": "C", "TZ": "Pacific/Apia",
            "HOME": str(seat.ws), "PWD": str(seat.ws), "TMPDIR": "/tmp", "PASS_ME": "passed"}
    for name, value in want.items():
        assert env.get(name) == value, name
    assert env["SHELL"].startswith("/")
    assert set(env) - set(want) - {"SHELL", "_", "OLDPWD", "SHLVL"} == set()
    assert "hush" not in str(env)


def test_environment_of_others(seat):
    """Where the kernel lets a command read it, as gVisor's of 2022 does, there is nothing in it."""
    out = seat.run("cat /proc/[0-9]*/environ; echo end")["stdout"]
    assert "end" in out and "PASS_ME=passed" in out
    assert "hush" not in out and "SALLYPORT_" not in out


def test_env_member(seat):
    env = environ(seat, env={"A": "1", "_b2": "two words", "EMPTY": "", "UNI": "é😀", "EQ": "a=b=c",
                             "PATH": "/usr/bin:/bin", "LANG": "C"})
    assert (env["A"], env["_b2"], env["EMPTY"]) == ("1", "two words", "")
    assert (env["UNI"], env["EQ"]) == ("é😀", "a=b=c")
    assert (env["PATH"], env["LANG"]) == ("/usr/bin:/bin", "C")
    assert "A" not in environ(seat)


@pytest.mark.parametrize("name", ["", "1A", "A-B", "A B", "A=B", "é", "A\0", "A.B", "BASH_FUNC_x%%"])
def test_env_bad_names(seat, name):
    a = seat.execute(":", env={name: "x"})
    if "\0" in name:  # the document lets a NUL be either
        assert a.status == 400 and a.code in ("bad_json", "bad_field")
        return
    assert (a.status, a.code) == (400, "bad_field") and "env" in a.json["error"]


@pytest.mark.parametrize("value", [1, None, True, [], {}, "a\0b"])
def test_env_bad_values(seat, value):
    a = seat.execute(":", env={"A": value})
    assert (a.status, a.code) == (400, "bad_field") and "env" in a.json["error"]


def test_env_limits(seat):
    full = {f"V{n}": "x" for n in range(256)}
    assert "V255=x" in seat.run("env", env=full)["stdout"]
    a = seat.execute(":", env={**full, "ONE_MORE": ""})
    assert (a.status, a.code) == (400, "bad_field")
    assert seat.run("printenv BIG | wc -c", env={"BIG": "x" * 64000})["stdout"].strip() == "64001"
    a = seat.execute(":", env={"BIG": "x" * 65537})
    assert (a.status, a.code) == (400, "bad_field")
    a = seat.execute(":", env={f"V{n}": "x" * 700 for n in range(100)})
    assert (a.status, a.code) == (400, "bad_field")


def test_workspace_is_kept_between_commands(seat, box):
    seat.run("echo one > f; umask; mkdir d", cwd=box)
    assert seat.run("cat f; [ -d d ] && echo d", cwd=box)["stdout"] == "one\nd\n"


def test_duration_counts(seat):
    assert seat.run("sleep 0.3")["duration_ms"] >= 300


def test_accepts_no_content_type(seat):
    a = seat.request("POST", "/execute", b'{"command":"echo hi"}')
    assert a.json["stdout"] == "hi\n"


@pytest.mark.parametrize("value", ["application/json", "application/json; charset=utf-8",
                                   "Application/JSON", "application/json;charset=UTF-8"])
def test_json_media_types(seat, value):
    a = seat.request("POST", "/execute", b'{"command":"echo hi"}', {"Content-Type": value})
    assert a.status == 200


@pytest.mark.parametrize("value", ["text/plain", "application/x-www-form-urlencoded",
                                   "multipart/form-data; boundary=x", "application/jsonx", "json",
                                   "application/json-patch+json", ""])
def test_other_media_types(seat, value):
    a = seat.request("POST", "/execute", b'{"command":"touch ran"}', {"Content-Type": value})
    assert (a.status, a.code) == (415, "bad_media_type")
    assert not (seat.ws / "ran").exists()


def test_members_with_default_values_together(seat, box):
    r = seat.run("cat; echo $X; pwd", cwd=box, env={"X": "1"}, stdin="in\n", timeout=30)
    assert r["stdout"] == f"in\n1\n{seat.ws / box}\n"


def test_chunked_body(seat):
    body = json.dumps({"command": "echo chunky"}).encode()
    with seat.conn() as c:
        c.send(b"POST /execute HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n")
        for byte in body:
            c.send(b"1\r\n%c\r\n" % byte)
        c.send(b"0\r\n\r\n")
        assert c.answer().json["stdout"] == "chunky\n"
        assert c.request("GET", "/healthz").status == 200


def test_body_too_large(seat):
    body = b'{"command":"touch big-ran","stdin":"' + b"x" * (1 << 20) + b'"}'
    with seat.conn() as c:
        c.send(b"POST /execute HTTP/1.1\r\nHost: t\r\nContent-Length: %d\r\n\r\n" % len(body))
        a = c.answer()  # before any byte of the body
        assert (a.status, a.code) == (413, "body_too_large") and a.closes
        assert c.closed()
    with seat.conn() as c:
        c.send(b"POST /execute HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n")
        c.send_lenient(b"%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n")
        a = c.answer()
        assert (a.status, a.code) == (413, "body_too_large") and a.closes
    assert not (seat.ws / "big-ran").exists()


def test_body_of_exactly_1_mib(seat):
    start, end = b'{"command":"wc -c","stdin":"', b'"}'
    body = start + b"x" * ((1 << 20) - len(start) - len(end)) + end
    a = seat.request("POST", "/execute", body)
    assert a.status == 200 and int(a.json["stdout"]) == len(body) - len(start) - len(end)


def test_expect_for_execute(seat):
    body = b'{"command":"echo hi"}'
    with seat.conn() as c:
        c.send(b"POST /execute HTTP/1.1\r\nHost: t\r\nContent-Length: %d\r\n"
               b"Expect: 100-continue\r\n\r\n" % len(body))
        assert c.line() == b"HTTP/1.1 100 Continue" and c.line() == b""
        c.send(body)
        assert c.answer().json["stdout"] == "hi\n"


@pytest.mark.parametrize("head,status", [
    (b"Content-Type: text/plain\r\nContent-Length: 5\r\n", 415), (b"Content-Length: 2000000\r\n", 413)])
def test_expect_is_refused_before_the_body(seat, head, status):
    with seat.conn() as c:
        c.send(b"POST /execute HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\n" + head + b"\r\n")
        a = c.answer()
        assert a.status == status and a.interim == [] and a.closes


def test_no_body_at_all(seat):
    a = seat.request("POST", "/execute")
    assert (a.status, a.code) == (400, "bad_json")
    a = seat.request("POST", "/execute", b"")
    assert (a.status, a.code) == (400, "bad_json")
