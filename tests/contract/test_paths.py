"""Paths of /files: the attack table. Nothing outside the workspace is read, made or removed."""
import os

import pytest

from harness import places

BAD = {
    "slash": "%2f", "etc": "%2fetc%2fpasswd", "double slash": "/etc/passwd", "slashes": "a//b",
    "end slashes": "a//", "dot": ".", "dot in": "a/./b", "dot end": "a/.", "dotdot": "..",
    "up": "../outside/secret", "up in": "a/../../outside/secret", "up end": "a/..",
    "encoded dots": "%2e%2e/outside/secret", "mixed dots": ".%2e/outside/secret",
    "upper": "%2E%2E%2Foutside%2Fsecret", "encoded dot": "%2e", "inner encoded slash": "a%2f%2fb",
    "encoded climb": "a%2f..%2f..%2foutside", "nul": "a%00", "nul in": "a%00b/c", "only nul": "%00",
    "nul ext": "f%00.txt", "long": "x" * 4001, "long parts": "/".join(["y" * 200] * 20)[:4001],
    "component": "z" * 256, "component in": "a/" + "z" * 256 + "/b",
    "encoded component": "%7a" * 256, "short escape": "%", "half escape": "a%2", "bad hex": "%zz",
    "unicode escape": "%u002e", "end escape": "x%e", "slash end dots": "../", "three slashes": "//",
}
RAW_BAD = {"space": b"a b", "raw utf8": "é".encode(), "raw 80": b"\x80", "tab": b"a\tb", "del": b"a\x7f",
           "quote": b'a"b', "backslash": b"a\\b", "caret": b"a^b", "pipe": b"a|b", "brace": b"{a}",
           "angle": b"<a>", "backtick": b"`", "control": b"a\x01b", "nul": b"a\0b", "bracket": b"[a]"}
# These decode to ordinary names; they are what they say, once, and no more.
LITERAL = {"%252e%252e": "%2e%2e", "%252f": "%2f", "%c0%ae%c0%ae": b"\xc0\xae\xc0\xae",
           "%c0%af": b"\xc0\xaf", "..%5c..%5cx": "..\\..\\x", "...": "...", "%2e%2e%2e": "...",
           "..a": "..a", "%e2%80%ae": "\u202e", "~": "~", "~root": "~root", "$HOME": "$HOME",
           "%2a": "*", "a;b": "a;b", "a:b@c": "a:b@c", "-rf": "-rf", "%0d%0aX:y": "\r\nX:y",
           "%ef%bc%8f": "\uff0f", "con": "con", "a%20b": "a b", "a+b": "a+b", ".git": ".git"}


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "HEAD"])
@pytest.mark.parametrize("name", BAD)
def test_bad_paths(seat, name, method):
    before = sorted(os.listdir(seat.ws)), sorted(os.listdir(seat.outside))
    a = seat.request(method, "/files/" + BAD[name], b"evil" if method == "PUT" else None)
    assert a.status == 400, a
    if method != "HEAD":
        assert a.code in ("bad_path", "bad_request")
        if "%" not in BAD[name] or name in ("slash", "etc", "upper", "nul", "only nul", "encoded dots"):
            assert a.code == "bad_path"
    assert (sorted(os.listdir(seat.ws)), sorted(os.listdir(seat.outside))) == before
    assert (seat.outside / "secret").read_text() == "secret"


@pytest.mark.parametrize("name", ["slash", "etc", "dotdot", "up", "dot"])
def test_recursive_delete_of_bad_paths(seat, name):
    a = seat.request("DELETE", "/files/" + BAD[name] + "?recursive=true")
    assert (a.status, a.code) == (400, "bad_path")
    assert (seat.outside / "secret").exists() and os.path.exists("/etc/passwd")


def test_delete_everything(start):
    """The whole-host attack, with the place's most powerful plan. The fence is what makes it safe to try."""
    d = start(plan=places.HERE.plans[-1])
    for target in ("/files/%2f", "/files//", "/files/%2f?recursive=true", "/files/..?recursive=true",
                   "/files/%2e%2e%2f%2e%2e?recursive=true", "/files/%2fusr?recursive=true",
                   f"/files/{str(d.outside).replace('/', '%2f')}?recursive=true"):
        a = d.request("DELETE", target)
        assert (a.status, a.code) == (400, "bad_path"), target
    assert (d.outside / "secret").exists()
    assert int(d.run("printf '%s\n' /usr/bin/* | wc -l")["stdout"]) > 50


@pytest.mark.parametrize("method", [b"GET", b"PUT", b"DELETE"])
@pytest.mark.parametrize("name", RAW_BAD)
def test_raw_bytes_in_the_target(seat, name, method):
    before = sorted(os.listdir(seat.ws))
    with seat.conn() as c:
        c.send(method + b" /files/" + RAW_BAD[name] + b" HTTP/1.1\r\nHost: t\r\nContent-Length: 0\r\n\r\n")
        a = c.answer()
        assert a.status == 400 and a.code in ("bad_path", "bad_request")
    assert sorted(os.listdir(seat.ws)) == before


@pytest.mark.parametrize("encoded", LITERAL)
def test_decoded_once(seat, box, encoded):
    want = LITERAL[encoded]
    want = want.encode() if isinstance(want, str) else want
    a = seat.request("PUT", f"/files/{box}/{encoded}", b"data")
    assert a.status == 201, a
    assert os.listdir(os.fsencode(seat.ws / box)) == [want]
    assert seat.request("GET", f"/files/{box}/{encoded}").body == b"data"
    assert seat.request("DELETE", f"/files/{box}/{encoded}").status == 204
    assert os.listdir(seat.ws / box) == []


def test_encoded_slash_is_a_slash(seat, box):
    """Decoded first, split then."""
    (seat.ws / box / "a").mkdir()
    (seat.ws / box / "a" / "b").write_text("x")
    assert seat.request("GET", f"/files/{box}%2fa%2Fb").body == b"x"


def test_everything_encoded(seat, box):
    (seat.ws / box / "f").write_text("x")
    target = "/files/" + "".join(f"%{b:02x}" for b in f"{box}/f".encode())
    assert seat.request("GET", target).body == b"x"


@pytest.mark.parametrize("target", ["http://t/files/", "http://other.example/files/", "HTTP://t/files/"])
def test_absolute_form(seat, box, target):
    (seat.ws / box / "f").write_text("x")
    a = seat.request("GET", target + box + "/f")
    assert a.status in (200, 400)
    if a.status == 200:
        assert a.body == b"x"
    assert seat.request("GET", target + "../outside/secret").status == 400


def test_race_of_a_link_swap(seat, box):
    """A command swaps a folder for a link that leads out while we read and write through it."""
    top = seat.ws / box
    c = seat.send_command("mkdir real; echo in > real/secret; ln -s ../../outside evil; touch up; "
                          "while :; do mv real d; mv d real; mv evil d; mv d evil; done 2>/dev/null",
                          cwd=box)
    seat.wait_file(f"{box}/up")
    for n in range(150):
        a = seat.get(f"{box}/d/secret")
        assert a.status in (200, 403, 404), a
        if a.status == 200:
            assert a.body == b"in\n"
        seat.put(f"{box}/d/w{n}", b"x")
        seat.delete(f"{box}/d/secret2")
    c.close()
    seat.wait_idle()
    assert sorted(os.listdir(seat.outside)) == ["secret"]
    assert (seat.outside / "secret").read_text() == "secret"
    assert top.exists()
