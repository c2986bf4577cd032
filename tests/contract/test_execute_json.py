"""POST /execute: which texts are refused, with which code, and that nothing was run."""
import pytest

TOUCH = b'"command":"touch json-ran"'


def post(seat, body):
    a = seat.request("POST", "/execute", body)
    assert not (seat.ws / "json-ran").exists(), body[:200]
    return a


def nested(n, opening=b"[", closing=b"]"):
    return b"{" + TOUCH + b',"x":' + opening * n + closing * n + b"}"


BAD_JSON = {
    "empty": b" ", "truncated": b'{"command":"x"', "word": b"hello", "single quotes": b"{'command':'x'}",
    "trailing comma": b"{" + TOUCH + b",}", "comment": b"{/* */" + TOUCH + b"}",
    "after": b"{" + TOUCH + b"} x", "second value": b"{" + TOUCH + b"}{" + TOUCH + b"}",
    "nul after": b"{" + TOUCH + b"}\0", "nul before": b"\0{" + TOUCH + b"}",
    "raw newline in a string": b'{"command":"a\nb"}', "raw control": b'{"command":"a\x01b"}',
    "raw nul in a string": b'{"command":"a\0b"}', "bad escape": b'{"command":"\\x41"}',
    "short escape": b'{"command":"\\u12"}', "lone high surrogate": b'{"command":"\\ud800"}',
    "lone low surrogate": b'{"command":"\\udc00"}', "swapped surrogates": b'{"command":"\\udc00\\ud800"}',
    "high then letter": b'{"command":"\\ud800x"}', "NaN": b'{"command":"x","timeout":NaN}',
    "infinity": b'{"command":"x","timeout":Infinity}', "plus": b'{"command":"x","timeout":+1}',
    "leading zero": b'{"command":"x","timeout":01}', "bare point": b'{"command":"x","timeout":.5}',
    "point at the end": b'{"command":"x","timeout":1.}', "hex": b'{"command":"x","timeout":0x10}',
    "unquoted key": b'{command:"x"}', "number key": b'{1:"x"}', "only brackets": b"[" * 5000,
    "deep array": b"[" * 100000 + b"]" * 100000, "utf8 overlong": b'{"command":"\xc0\xaf"}',
    "utf8 surrogate": b'{"command":"\xed\xa0\x80"}', "utf8 cut": b'{"command":"\xe2\x82"}',
    "utf8 beyond": b'{"command":"\xf4\x90\x80\x80"}', "utf8 stray": b'{"command":"\x80"}',
    "latin-1": b'{"command":"caf\xe9"}', "utf-16": '{"command":"x"}'.encode("utf-16"),
    "BOM": b"\xef\xbb\xbf{" + TOUCH + b"}", "form": b"command=touch+json-ran",
}
BAD_EITHER = {  # both codes say what is wrong; the document names either reading
    "array": b'["x"]', "string": b'"touch json-ran"', "number": b"1", "null": b"null",
    "duplicate": b'{"command":"true",' + TOUCH + b"}", "duplicate timeout":
    b"{" + TOUCH + b',"timeout":1,"timeout":2}', "duplicate by escape":
    b'{"command":"true","comm\\u0061nd":"touch json-ran"}', "duplicate in env":
    b"{" + TOUCH + b',"env":{"A":"1","A":"2"}}', "depth 33": nested(33), "depth 40 objects":
    b"{" + TOUCH + b',"x":' + b'{"a":' * 40 + b"1" + b"}" * 40 + b"}",
    "escaped nul": b'{"command":"touch json-ran\\u0000x"}', "huge exponent":
    b'{"command":"x","timeout":1e400}', "huge negative": b'{"command":"x","timeout":-1e400}',
    "huge integer": b'{"command":"x","timeout_ms":99999999999999999999999999}',
}
BAD_FIELD = {
    "no command": (b"{}", "command"), "null command": (b'{"command":null}', "command"),
    "number command": (b'{"command":1}', "command"), "array command": (b'{"command":["ls"]}', "command"),
    "empty command": (b'{"command":""}', "command"), "unknown": (b"{" + TOUCH + b',"xyz":1}', ""),
    "case": (b'{"Command":"touch json-ran"}', ""), "empty name": (b"{" + TOUCH + b',"":1}', ""),
    "array depth 20": (nested(20), ""), "proto": (b"{" + TOUCH + b',"__proto__":{}}', ""),
}
for name in ("timeout", "timeout_ms"):
    for value in (b'"5"', b"true", b"null", b"[]", b"{}", b"0", b"-1", b"-0.5", b"0.0", b"1e15",
                  b"999999999999"):
        BAD_FIELD[f"{name} {value.decode()}"] = (b"{" + TOUCH + b',"%s":%s}' % (name.encode(), value), name)
for name in ("cwd", "stdin", "env"):
    for value in (b"1", b"true", b"null", b"[]") + ((b"{}",) if name != "env" else (b'"x"',)):
        BAD_FIELD[f"{name} {value.decode()}"] = (b"{" + TOUCH + b',"%s":%s}' % (name.encode(), value), name)
BAD_FIELD["timeout_ms fraction"] = (b"{" + TOUCH + b',"timeout_ms":1.5}', "timeout_ms")
BAD_FIELD["timeout_ms exponent"] = (b"{" + TOUCH + b',"timeout_ms":1e3}', "timeout_ms")
BAD_FIELD["both timeouts"] = (b"{" + TOUCH + b',"timeout":1,"timeout_ms":1000}', "timeout")


@pytest.mark.parametrize("name", BAD_JSON)
def test_bad_json(seat, name):
    a = post(seat, BAD_JSON[name])
    assert (a.status, a.code) == (400, "bad_json"), a


@pytest.mark.parametrize("name", BAD_EITHER)
def test_bad_either(seat, name):
    a = post(seat, BAD_EITHER[name])
    assert a.status == 400 and a.code in ("bad_json", "bad_field"), a


@pytest.mark.parametrize("name", BAD_FIELD)
def test_bad_field(seat, name):
    body, member = BAD_FIELD[name]
    a = post(seat, body)
    assert (a.status, a.code) == (400, "bad_field"), a
    assert member in a.json["error"], a


def test_unknown_member_is_named_safely(seat):
    """The name of a stranger's member comes back only as JSON text."""
    a = post(seat, b"{" + TOUCH + b',"a\\"\\n\\u0007<script>":1}')
    assert a.code == "bad_field"


def test_long_unknown_member(seat):
    a = post(seat, b"{" + TOUCH + b',"%s":1}' % (b"k" * 500000))
    assert a.code == "bad_field" and len(a.body) < 4096


def test_many_members(seat):
    a = post(seat, b"{" + TOUCH + b"".join(b',"k%d":1' % n for n in range(50000)) + b"}")
    assert a.code in ("bad_field", "bad_json")


@pytest.mark.parametrize("body,out", [
    (b' \t\r\n{ "command" : "echo a" } \r\n\t ', "a\n"),
    (b'{"command":"echo \\u0061\\u00e9\\ud83d\\ude00\\/"}', "aé😀/\n"),
    (b'{"comm\\u0061nd":"echo b"}', "b\n"),
    ('{"command":"echo é😀"}'.encode(), "é😀\n"),
    (b'{"command":"echo c","timeout":30}', "c\n"), (b'{"command":"echo c","timeout":3e1}', "c\n"),
    (b'{"command":"echo c","timeout":30.25}', "c\n"), (b'{"command":"echo c","timeout_ms":30000}', "c\n"),
    (b'{"command":"printf \\"%s\\" \'\\\\\\"\\t\\b\\f\\r\\n\'"}', '\\"\t\b\f\r\n'),
    (b'{"command":"echo d","env":{}}', "d\n"), (b'{"stdin":"z","command":"cat"}', "z"),
])
def test_good_json(seat, body, out):
    a = seat.request("POST", "/execute", body)
    assert a.status == 200 and a.json["stdout"] == out, a


def test_the_connection_goes_on_after_a_bad_body(seat):
    with seat.conn() as c:
        for body in (b"{", b"[]", b'{"command":1}', b'{"command":"x","y":1}'):
            a = c.request("POST", "/execute", body)
            assert a.status == 400
            if a.closes:
                return
        assert c.request("GET", "/healthz").status == 200
