"""Odd and hostile things that the pages give an answer to, tried against the daemon: framing, names, ranges at
edges, forms with equal or strange names, archives, quotas at the edge, removal against everything else."""
import io
import json
import os
import socket
import tarfile
import threading
import urllib.parse

import pytest

from harness import procs
from harness.box import KEY, identity
from harness.http import build

MB = 1 << 20
BOX_ENV = {"RUNBOX_CELL_IDLE": "2s"}  # there are more identities here than may have a process at a time
FORM = [("Content-Type", "multipart/form-data; boundary=B")]
AUTH = ("Authorization", f"Bearer {KEY}")


def form(files, request=None):
    parts = [b'Content-Disposition: form-data; name="f"; filename="%b"\r\n\r\n%b\r\n' % f for f in files]
    if request is not None:
        parts.append(b'Content-Disposition: form-data; name="request"\r\n\r\n%b\r\n' % json.dumps(request).encode())
    return b"".join(b"--B\r\n" + p for p in parts) + b"--B--\r\n"


def batch(box, who, files, **query):
    return box.call("POST", "/v1/files/batch", form(files), who, FORM, **query)


def whole(method, target, who, body=None, headers=()):
    return build(method, target, body, [AUTH, *identity(*who), *headers])


def at_once(*calls):
    """The results, in the order of the calls."""
    got = [None] * len(calls)

    def one(n):
        got[n] = calls[n]()
    threads = [threading.Thread(target=one, args=(n,)) for n in range(len(calls))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return got


# ---- framing ----

@pytest.mark.parametrize("rest", [b"x", b"GET / HTTP/1.1\r\n", b"\0" * 100, b"\r\n\r\n\r\n", b"a" * 40000])
def test_what_comes_behind_a_request_changes_nothing_in_it(box, who, rest):
    with box.conn() as c:
        c.send(whole("POST", "/v1/exec", who, b'{"command":"sleep 0.2; echo out"}') + rest)
        a = c.answer()
        assert a.status == 200 and a.json["stdout"] == "out\n"


@pytest.mark.parametrize("length", [b"0", b"00", b"18446744073709551616", b"+5", b"-1", b"5 5", b"5,5", b"0x5", b"", b"5.0", b"\xb5"])
@pytest.mark.parametrize("method", [b"POST", b"GET", b"DELETE"])
def test_odd_lengths(box, who, method, length):
    fields = b"".join(b"%b: %b\r\n" % (k.encode(), v.encode()) for k, v in [AUTH, *identity(*who)])
    with box.conn() as c:
        c.send(method + b" /v1/files?path=f HTTP/1.1\r\nHost: t\r\n" + fields + b"Content-Length: " + length + b"\r\n\r\n")
        a = c.answer()
        if length in (b"0", b"00"):
            assert a.status in (201, 404, 405)
        else:
            assert (a.status, a.code) == (400, "bad_request") and a.closes


@pytest.mark.parametrize("size,ok", [(b"5", True), (b"05", True), (b"0000000005", True), (b"5;a", True), (b"5 ;a=b", None), (b"5;", None),
                                     (b"+5", False), (b"0x5", False), (b"5\t", None), (b" 5", False), (b"", False), (b"-5", False),
                                     (b"ffffffffffffffff", False), (b"10000000000000005", False), (b"5;a\x01", None), (b"G", False)])
def test_odd_chunk_sizes(box, who, size, ok):
    with box.conn() as c:
        c.send(whole("PUT", "/v1/path?path=f", who, b"", [("Transfer-Encoding", "chunked")]) + size + b"\r\nhello\r\n0\r\n\r\n")
        a = c.answer()
        assert a.status == 201 or (a.code in ("bad_request", "body_too_large") and a.closes)
        assert ok is None or (a.status == 201) == ok
        if a.status == 201:
            assert c.request("GET", "/v1/files?path=f", headers=[AUTH, *identity(*who)]).body == b"hello"
    assert a.status == 201 or box.download("f", who).code == "not_found"


@pytest.mark.parametrize("method,target,code", [
    ("OPTIONS", "*", "no_route"), ("OPTIONS", "/v1/exec", "bad_method"), ("GET", "*", "bad_request"), ("CONNECT", "t:80", "bad_request"),
    ("TRACE", "/v1/exec", "bad_method"), ("PATCH", "/v1/path", "bad_method"), ("get", "/v1/list", "unknown_method"),
    ("GETT", "/v1/list", "unknown_method"), ("GET", "//v1/list", "no_route"), ("GET", "/v1//list", "no_route"), ("GET", "/v1/list/", "no_route"),
    ("GET", "/v1/%6cist", "no_route"), ("GET", "/V1/list", "no_route"), ("GET", "/v1/./list", "no_route"), ("GET", "/v1/list;x", "no_route"),
    ("GET", "/v1/list#x", "bad_request"), ("GET", "/v1/list?path=%00", "bad_query"), ("GET", "/v1/list?path=%", "bad_query"),
    ("GET", "/v1/list?path=%2", "bad_query"), ("GET", "/v1/list?path", None), ("GET", "/v1/list?=x", "bad_query"),
    ("GET", "/v1/list?path=a;b", "not_found"), ("GET", "/v1/list?path=..", "bad_path"), ("GET", "/v1/list?path=%2e%2e", "bad_path"),
    ("GET", "/v1/list?path=a%2f..", "bad_path"), ("GET", "/v1/list?path=/", None), ("GET", "/v1/list?path=/etc", "bad_path"),
    ("GET", "/v1/list?path=.&path=.", "bad_query"), ("GET", "/v1/list?recursive=TRUE", "bad_query"), ("GET", "/v1/list?recursive=", "bad_query"),
    ("GET", "/v1/list?", None), ("GET", "/v1/list?&", None), ("GET", "/v1/list?p%61th=.", None)])
def test_odd_targets(box, who, method, target, code):
    with box.conn() as c:
        a = c.request(method, target, headers=[AUTH, *identity(*who)])
        if code is None:
            assert a.status in (200, 400), a
            assert a.status == 200 or a.code in ("bad_query", "bad_path"), a
        else:
            assert a.code == code, a


# ---- who asks ----

@pytest.mark.parametrize("name", ["é" * 128, "\U0001f600" * 64, "a" * 256, "‮", "﻿a", "a/../b", "../../x", "%2e%2e", "'\"<>", "a:b", "ſ", "K"])
def test_odd_names_of_identities(box, name):
    """Each is another: no folding, no normal form, no path."""
    raw = name.encode().decode("latin-1")
    a = box.call("POST", "/v1/exec", b'{"command":"echo here > f; cat f"}', None, [("X-Runbox-Identity", raw)])
    assert a.status == 200 and a.json["stdout"] == "here\n", a
    assert (box.workspace(name) / "f").exists()


@pytest.mark.parametrize("raw", ["é" * 128 + "a", "\xc3", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xc0\xaf", "a b", "a\tb", "\xc2\x80", "\xc2\x9f", ""])
def test_names_that_are_none(box, raw):
    value = raw.encode().decode("latin-1") if raw.startswith("é") else raw
    a = box.call("GET", "/v1/usage", None, None, [("X-Runbox-Identity", value)])
    assert (a.status, a.code) == (400, "bad_identity")


# ---- names of files ----

LONG = "ä" * 127 + "b"  # 255 bytes
NAMES = [LONG, "\U0001f600" * 63, "e\u0301", "é", " ", " a ", "-rf", "a\\b", "a:b", "*", "~", "$(id)", "\u202egnp", "\x7f", "\x01\x1b[2J", "a\nb", "a\rb", "'", '"', "&", "#", "?", "%", "+", ";", "=", ".a", "...", "nul", "con.", "\ufeff"]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_odd_names(box, who, name):
    """As they are: stored, listed, read, archived, removed."""
    assert box.upload(name, b"x", who).json["path"] == name
    entries = box.call("GET", "/v1/list", who=who).json["entries"]
    assert [e["name"] for e in entries] == [name] and "raw" not in entries[0]
    assert box.download(name, who).body == b"x"
    tar = tarfile.open(fileobj=io.BytesIO(box.call("GET", "/v1/archive", who=who).body))
    assert [m.name for m in tar.getmembers() if m.isfile()] == [name]
    assert box.call("DELETE", "/v1/path", who=who, path=name).status == 204
    assert box.call("GET", "/v1/usage", who=who).json["entries"] == 0


@pytest.mark.parametrize("name", ["ä" * 128, "a/" + "ä" * 128, "", "a//b", ".", "./a", "a/.", "a/..", "/a", "a\0b", "x/" * 2001 + "x"], ids=lambda n: ascii(n)[:20])
def test_paths_that_are_none(box, who, name):
    for a in (box.upload(name, b"x", who), box.call("PUT", "/v1/path", b"x", who, path=name), box.call("DELETE", "/v1/path", who=who, path=name)):
        assert (a.status, a.code) == (400, "bad_query" if "\0" in name else "bad_path"), (name, a)
    assert box.call("GET", "/v1/usage", who=who).json["entries"] == 0


def test_names_that_are_no_text_in_an_archive(box, who):
    box.sh(r"""printf x > $'\xff\xfe'; mkdir $'d\x80'; printf y > $'d\x80/\x81'; ln -s $'\xff\xfe' l; mkfifo p
               printf z > a; ln a b; truncate -s 5G sparse; python3 -c "
import os, socket
socket.socket(socket.AF_UNIX).bind('s')
os.mkdir('n'*255)
open('n'*255+'/'+'m'*255,'w').write('deep')" """, who)
    entries = {e["name"]: e for e in box.call("GET", "/v1/list", who=who).json["entries"]}
    raw = [e["raw"] for e in entries.values() if "raw" in e]
    assert sorted(raw) == ["%FF%FE", "d%80"]
    assert box.call("GET", "/v1/list?path=d%80", who=who).json["entries"][0]["raw"] == "%81"
    assert box.call("GET", "/v1/files?path=%FF%FE", who=who).body == b"x"
    box.sh("rm sparse", who)
    a = box.call("GET", "/v1/archive", who=who)
    assert a.get("trailer") == "X-Runbox-Archive" and a.trailers == [("x-runbox-archive", "partial")]
    tar = tarfile.open(fileobj=io.BytesIO(a.body), errors="surrogateescape")
    members = {m.name: m for m in tar.getmembers()}  # without the FIFO and the socket, as docs/box.md tells
    assert tar.extractfile(members["n" * 255 + "/" + "m" * 255]).read() == b"deep"
    assert members["l"].issym() and {"a", "b", "l"} <= set(members) and not {"p", "s"} & set(members)
    assert {n for n in members if not n.isascii()} == {"\udcff\udcfe", "d\udc80", "d\udc80/\udc81"}

    box.sh("rm p s", who)
    assert box.call("GET", "/v1/archive", who=who).trailers == [("x-runbox-archive", "whole")]
    with box.conn() as c:
        a = c.request("GET", "/v1/archive", headers=[AUTH, *identity(*who)], version="1.0")
        assert a.get("trailer") is None and a.body.endswith(b"\0" * 1024) and not a.trailers


# ---- forms ----

@pytest.mark.parametrize("files,code", [
    ([b"a", b"a"], "bad_field"), ([b"a", b"a/b"], "bad_field"), ([b"a/b", b"a"], "bad_field"), ([b"a/b/c", b"a/b"], "bad_field"),
    ([b"a", b"A"], None), ([b"a", b"ab"], None), ([b"a/b", b"a/bc"], None), ([b"a/b", b"a-b"], None), ([b"\xc3\xa9", b"e\xcc\x81"], None),
    ([b"a", b"./a"], "bad_path"), ([b"a", b"../a"], "bad_path"), ([b"/a"], "bad_path"), ([b"a/"], "bad_path"), ([b""], "bad_field"),
    ([b"a//b"], "bad_path"), ([b"\xc3\xa4" * 128], "bad_path"), ([b"\xc3\xa4" * 127], None), ([b"x/" * 1999 + b"y"], None), ([b"x/" * 2001], "bad_path")],
    ids=lambda v: str(v)[:30])
def test_names_in_a_batch(box, who, files, code):
    a = batch(box, who, [(f, b"1") for f in files])
    if code is None:
        assert a.status == 200 and [f["path"].encode() for f in a.json["files"]] == files
    else:
        assert a.code == code, a
        entries = box.call("GET", "/v1/list", who=who, recursive="true").json["entries"]
        assert {e["type"] for e in entries} <= {"directory"}  # those that were made for the first one
    # What a refused batch had begun may still be at work.
    a = procs.wait_for("it isn't at work", lambda: (b := box.call("DELETE", "/v1/workspace", who=who)).status != 409 and b)
    assert a.status == 204


def test_two_batches_with_the_same_names(box, who):
    """One after the other, file by file: each file is one of the two whole, and nothing is left over."""
    for _ in range(10):
        both = at_once(*[lambda k=k: batch(box, who, [(b"%d" % i, k * 1000) for i in range(20)]) for k in (b"a", b"b", b"c")])
        assert [a.status for a in both] == [200] * 3
        for i in range(20):
            assert box.download(str(i), who).body in (b"a" * 1000, b"b" * 1000, b"c" * 1000)
    assert box.call("GET", "/v1/usage", who=who).json["entries"] == 20


def test_a_form_in_a_form_s_clothes(box, who):
    """Boundaries in what is no boundary, and a header of a part that would be another's."""
    inner = b'\r\n--Bx\r\nContent-Disposition: form-data; name="f"; filename="evil"\r\n\r\nno\r\n--B'
    body = b'--B\r\nContent-Disposition: form-data; name="f"; filename="a"\r\n\r\n' + inner + b"\r\n--B--\r\n"
    a = box.call("POST", "/v1/files/batch", body, who, FORM)
    assert a.status in (200, 400)
    names = [e["name"] for e in box.call("GET", "/v1/list", who=who).json["entries"]]
    assert names == (["a"] if a.status == 200 else []) and "evil" not in names


# ---- ranges ----

@pytest.mark.parametrize("value,want", [
    ("bytes=0-0", b"0"), ("bytes=9-9", b"9"), ("bytes=9-", b"9"), ("bytes=-1", b"9"), ("bytes=-10", b"0123456789"), ("bytes=-11", b"0123456789"),
    ("bytes=0-18446744073709551615", b"0123456789"), ("bytes=0-9223372036854775807", b"0123456789"), ("bytes=9-10", b"9"), ("bytes=10-", 416),
    ("bytes=10-10", 416), ("bytes=-0", 416), ("bytes=9223372036854775807-", 416), ("bytes=99999999999999999999-", 416), ("bytes=5-4", None),
    ("bytes=-", None), ("bytes=", None), ("bytes=0-0,1-1", None), ("bytes 0-0", None), ("BYTES=0-0", b"0"), ("bytes=0 -0", None), ("bytes=a-b", None),
    ("items=0-0", None), ("bytes=--1", None), ("bytes=0x0-1", None)])
def test_ranges(box, who, value, want):
    data = b"0123456789"
    assert box.upload("f", data, who).status == 201
    a = box.download("f", who, [("Range", value)])
    if want == 416:
        assert (a.status, a.code, a.get("content-range")) == (416, "bad_range", "bytes */10")
    else:
        assert (a.status, a.body) == ((200, data) if want is None else (206, want)), a


def test_a_range_of_a_file_that_changes(box, who):
    """If-Range with the tag of before: the whole new file, never a mixture."""
    tag = box.upload("f", b"old" * 1000, who).get("etag")
    assert box.download("f", who, [("Range", "bytes=0-2"), ("If-Range", tag)]).status == 206
    assert box.upload("f", b"new" * 1000, who).status == 200
    a = box.download("f", who, [("Range", "bytes=0-2"), ("If-Range", tag)])
    assert (a.status, a.body) == (200, b"new" * 1000)


# ---- commands ----

@pytest.mark.parametrize("body,code", [
    (b'{"command":"\\ud800"}', "bad_json"), (b'{"command":"a\\u0000b"}', "bad_field"), (b'{"command":":","timeout":1e400}', "bad_json"),
    (b'{"command":":","timeout":0}', "bad_field"), (b'{"command":":","timeout":-1}', "bad_field"), (b'{"command":":","timeout":NaN}', "bad_json"),
    (b'{"command":":","timeout":1e308}', "bad_field"), (b'{"command":":","timeout_ms":1.0}', "bad_field"), (b'{"command":":","timeout":true}', "bad_field"),
    (b'{"command":":","timeout_ms":9223372036854775808}', "bad_json"), (b'{"command":":","env":{"A":"1","A":"2"}}', "bad_json"),
    (b'{"command":":","env":{"":"1"}}', "bad_field"), (b'{"command":":","env":{"A=B":"1"}}', "bad_field"), (b'{"command":":","env":[]}', "bad_field"),
    (b'{"command":":","cwd":"a\\u0000"}', "bad_field"), (b'{"command":":","cwd":"../x"}', "bad_field"), (b'{"command":":","stdin":null}', "bad_field"),
    (b'{"command":":"} {}', "bad_json"), (b'\xef\xbb\xbf{"command":":"}', "bad_json"), (b'{"command":":","x":1}', "bad_field"), (b'[' * 100000, "bad_json"),
    (b'{"command":":","COMMAND":":"}', "bad_field"), (b'{"command":["ls"]}', "bad_field"), (b'', "bad_json"), (b'null', "bad_field"), (b'"' * 3, "bad_json"),
    (b'{"command":"\xff"}', "bad_json"), (b'{"command":":"}\0', "bad_json")], ids=lambda v: str(v)[:40])
def test_requests_that_are_none(box, who, body, code):
    a = box.call("POST", "/v1/exec", body, who)
    assert (a.status, a.code) == (400, code)
    assert box.call("POST", "/v1/exec", form([(b"f", b"x")])[:-7] + b'--B\r\nContent-Disposition: form-data; name="request"\r\n\r\n'
                    + body + b"\r\n--B--\r\n", who, FORM).code == code
    assert box.call("GET", "/v1/usage", who=who).json["entries"] == 0


@pytest.mark.parametrize("values", ['"command":":","env":{%s}', '"command":":",%s', '"env":{},"command":{%s}'])
def test_a_body_of_many_values_is_refused_by_their_number(box, who, values):
    """Before they are read, which cost the front, and all who wait for it, ten times what a body of text costs."""
    body = ("{" + values % ",".join('"%x":""' % i for i in range(90_000)) + "}").encode()
    a = box.call("POST", "/v1/exec", body, who)
    assert (a.status, a.code) == (400, "bad_field") and "more than 512 values" in a.json["error"]


def test_as_many_variables_as_may_be(box, who):
    a = box.exec("env | grep -c ^V_", who, env={f"V_{i}": "," * 50 for i in range(256)})
    assert a.json["stdout"] == "256\n"
    assert "256 members" in box.exec(":", who, env={f"V_{i}": "" for i in range(257)}).json["error"]


@pytest.mark.parametrize("command,out", [
    ("exec 1>&-; exec 2>&-; sleep 0.1", ""), ("printf 'a\\0b'", "a\0b"), ("printf '\\xff\\xc3'", "\ufffd\ufffd"), ("(sleep 1000 &) ; echo x", "x\n"),
    ("trap '' TERM HUP INT; echo t", "t\n"), ("python3 -c \"import fcntl,os;fcntl.fcntl(1,4,0);os.write(1,b'n')\"", "n"), ("exec 0<&-; cat", ""),
    ("set -m; sleep 1000 & echo j", "j\n"), ("cat /proc/self/fd/0; echo c", "c\n"), ("echo e > /dev/stdout", "e\n"), ("ulimit -n 3; echo u", "u\n")])
def test_odd_commands(box, who, command, out):
    assert box.sh(command, who)["stdout"] == out
    assert box.sh("echo next", who)["stdout"] == "next\n"


def test_input_that_nobody_reads(box, who):
    text = "x" * 900_000
    assert box.sh("echo done", who, stdin=text)["stdout"] == "done\n"
    assert box.sh("head -c 1; exec 0<&-; echo; echo done", who, stdin=text)["stdout"] == "x\ndone\n"
    assert box.sh("sleep 0.3; wc -c", who, stdin=text)["stdout"].strip() == "900000"


# ---- events ----

def started(box, who, command):
    """A connection on which a command's events come."""
    c = box.conn()
    c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    events(c, who, command)
    assert c.line() == b"HTTP/1.1 200 OK"
    return c


def events(c, who, command):
    c.send(whole("POST", "/v1/exec", who, json.dumps({"command": command}).encode(), [("Accept", "text/event-stream")]))


def test_a_stream_nobody_reads_holds_nobody_up(start_box, who):
    box = start_box()
    conns = [started(box, n, "cat /dev/zero") for n in (who, *((f"{who[0]}-{k}",) for k in range(3)))]
    others = [box.sh("echo here", (f"{who[0]}-other-{n}",))["stdout"] for n in range(5)]
    assert others == ["here\n"] * 5
    assert box.upload("f", b"x" * MB, who).status == 201
    assert box.call("DELETE", "/v1/workspace", who=who).code == "busy"
    for c in conns:
        c.reset()
    assert box.sh("echo free", who)["stdout"] == "free\n"
    assert box.call("DELETE", "/v1/workspace", who=who).status == 204


def test_a_stream_on_a_connection_with_more_behind(box, who):
    """The requests that came meanwhile are answered behind its last event, in order."""
    with box.conn() as c:
        events(c, who, "echo a; sleep 0.2; echo b")
        c.send(whole("GET", "/v1/list", who) + whole("PUT", "/v1/path?path=f", who, b"x"))
        a = c.answer()
        assert a.get("content-type") == "text/event-stream" and a.body.count(b"event: exit") == 1
        assert c.answer().json["entries"] == [] and c.answer().status == 201


# ---- quota ----

def test_the_edge_of_a_quota(start_box):
    b = start_box(env={"RUNBOX_QUOTA": "1MiB"})
    assert b.call("GET", "/v1/usage").json["quota"] == MB
    assert b.upload("a", b"x" * (MB - 65536)).status == 201
    assert b.upload("b", b"x" * 65536 * 2).code == "quota_exceeded"
    assert b.upload("b", b"x" * 30000).status == 201
    assert b.upload("a", b"y" * (MB - 65536)).code == "quota_exceeded"  # both are there for a moment
    assert b.download("a").body == b"x" * (MB - 65536)
    assert b.call("DELETE", "/v1/path", path="a").status == 204
    assert b.upload("a", b"y" * (MB - 65536)).status == 201


def test_many_uploads_at_once_share_a_quota(start_box):
    """Each fits alone; together they don't, whoever is first."""
    b = start_box(env={"RUNBOX_QUOTA": "4MiB"})
    for turn in range(3):
        got = at_once(*[lambda n=n: b.upload(f"{turn}-{n}", os.urandom(MB)).status for n in range(12)])
        assert set(got) <= {201, 507} and got.count(201) <= 4, got
        assert b.call("GET", "/v1/usage").json["bytes"] <= 4 * MB + 65536
        assert b.call("GET", "/v1/usage").json["entries"] == got.count(201)
        for n, status in enumerate(got):
            if status == 201:
                assert b.call("DELETE", "/v1/path", path=f"{turn}-{n}").status == 204
        assert b.call("GET", "/v1/usage").json["entries"] == 0


def test_a_batch_over_a_quota_leaves_nothing(start_box):
    b = start_box(env={"RUNBOX_QUOTA": "1MiB"})
    for _ in range(5):
        a = b.call("POST", "/v1/files/batch", form([(b"%d" % i, b"x" * 200_000) for i in range(10)]), headers=FORM)
        assert (a.status, a.code) == (507, "quota_exceeded")
    assert b.call("GET", "/v1/usage").json["entries"] == 0
    a = b.call("POST", "/v1/files/batch", form([(b"%d" % i, b"x" * 200_000) for i in range(4)]), headers=FORM)
    assert a.status == 200


# ---- removal ----

def test_removal_against_everything(box, who):
    """Whatever else is asked for meanwhile is done before, after, or refused as busy; in the end there is nothing."""
    def tries(call, good):
        def run():
            for _ in range(15):
                a = call()
                assert a.status in good or a.code in ("busy", "not_found", "overloaded"), a
        return run
    at_once(tries(lambda: box.call("DELETE", "/v1/workspace", who=who), {204}),
            tries(lambda: box.call("DELETE", "/v1/workspace", who=who), {204}),
            tries(lambda: box.upload("d/f", b"x" * 100_000, who), {200, 201}),
            tries(lambda: box.exec("echo x > g; cat g", who), {200}),
            tries(lambda: batch(box, who, [(b"%d" % i, b"x") for i in range(10)]), {200}),
            tries(lambda: box.call("GET", "/v1/list", who=who, recursive="true"), {200}),
            tries(lambda: box.call("GET", "/v1/archive", who=who), {200}),
            tries(lambda: box.call("DELETE", "/v1/path", who=who, path="d", recursive="true"), {204}))

    def gone():
        return box.call("DELETE", "/v1/workspace", who=who).status in (204, 404)
    procs.wait_for("it is removed", gone)
    procs.wait_for("its folder is gone", lambda: not box.workspace(*who).exists())
    assert box.call("GET", "/v1/list", who=who).json["entries"] == []


def test_a_removed_workspace_has_nothing_of_the_old(box, who):
    for n in range(5):
        assert box.upload(f"old-{n}", b"x", who).status == 201
        assert box.sh("touch /tmp/mark /dev/shm/mark; ls -A /tmp", who)["stdout"] == "mark\n"
        assert box.call("DELETE", "/v1/workspace", who=who).status == 204
        assert box.sh("ls -A . /tmp /dev/shm | grep -c -e old -e mark", who)["stdout"] == "0\n"


def test_readers_of_a_file_that_is_removed_have_it_whole(box, who):
    data = os.urandom(24 * MB)  # more than two sockets hold: with a small one the rest would come at a probe's pace
    assert box.upload("f", data, who).status == 201
    with box.conn() as c:
        c.send(whole("GET", "/v1/files?path=f", who))
        c.fill()
        assert box.call("DELETE", "/v1/path", who=who, path="f").status == 204
        assert box.call("DELETE", "/v1/workspace", who=who).status == 204
        assert c.answer().body == data


@pytest.mark.parametrize("target", ["/v1/list", "/v1/archive", "/v1/usage", "/v1/files?path=f"])
def test_gets_of_a_stranger_make_a_workspace_only_by_need(box, who, target):
    """Asking changes nothing that another could see."""
    a = box.call("GET", target, who=who)
    assert a.status in (200, 404)
    assert box.call("GET", "/v1/usage", who=who).json["entries"] == 0


def test_quoted(box, who):
    """What a client names is in the answer as JSON, whatever it is."""
    name = 'a"b\\c\u2028\x7f\x1f/\U0001f600'
    a = box.call("PUT", "/v1/path?path=" + urllib.parse.quote(name), b"x", who)
    assert a.json["path"] == name
    a = box.call("GET", "/v1/list?path=" + urllib.parse.quote('a"b\\c\u2028\x7f\x1f'), who=who)
    assert a.json["path"] == 'a"b\\c\u2028\x7f\x1f' and a.json["entries"][0]["name"] == "\U0001f600"
