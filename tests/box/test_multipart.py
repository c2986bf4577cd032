"""Multipart bodies: one file into a folder, batches that are there whole or not at all, and commands
that come with their files."""
import json
import os
import subprocess
import threading

import pytest

from harness import procs
from harness.box import KEY, identity

B = "bOuNdArY-xyz"
TYPE = ("Content-Type", f"multipart/form-data; boundary={B}")


def part(name, data, filename=None, extra=""):
    d = f'form-data; name="{name}"' + (f'; filename="{filename}"' if filename is not None else "")
    return f"--{B}\r\nContent-Disposition: {d}\r\n{extra}\r\n".encode() + data + b"\r\n"


def body(*parts):
    return b"".join(parts) + f"--{B}--\r\n".encode()



def names(box, who, path="."):
    a = box.call("GET", "/v1/list", who=who, path=path)
    return [e["name"] for e in a.json["entries"]]


# ---- one file ----

@pytest.mark.parametrize("form", ["one", "two"])
def test_one_file(box, who, form):
    who = who if form == "one" else ("tenant", who[0])
    a = box.call("POST", "/v1/files", body(part("f", b"abc", "x.txt")), who, [TYPE], path="d/e")
    assert (a.status, a.json) == (201, {"path": "d/e/x.txt", "size": 3})
    got = box.download("d/e/x.txt", who)
    assert got.body == b"abc" and got.get("etag") == a.get("etag")
    a = box.call("POST", "/v1/files", body(part("f", b"", "x.txt")), who, [TYPE], path="d/e/")
    assert (a.status, a.json["size"]) == (200, 0)
    a = box.call("POST", "/v1/files", body(part("f", b"top", "y")), who, [TYPE])
    assert a.json["path"] == "y"


def test_one_file_refusals(box, who):
    def post(data, path="."):
        a = box.call("POST", "/v1/files", data, who, [TYPE], path=path)
        return a.status, a.code
    assert post(body(part("f", b"1", "a"), part("g", b"2", "b"))) == (400, "bad_field")
    assert post(body(part("f", b"1"))) == (400, "bad_field")
    for name in ("a/b", "..", ".", "../x", "/etc/x", "a" * 256):
        assert post(body(part("f", b"1", name))) == (400, "bad_path"), name
    assert post(body(part("f", b"1", ""))) == (400, "bad_field")
    assert post(body(part("f", b"1", "a")), "../x") == (400, "bad_path")
    assert post(b"nonsense") == (400, "bad_request")
    assert post(body(part("f", b"1", "a"))[:-6]) == (400, "bad_request")
    a = box.call("POST", "/v1/files", b"x", who, [("Content-Type", "multipart/mixed; boundary=x")])
    assert (a.status, a.code) == (415, "bad_media_type")
    a = box.call("POST", "/v1/files", b"x", who, [("Content-Type", "multipart/form-data")])
    assert (a.status, a.code) == (400, "bad_request")
    assert names(box, who) == []


# ---- batches ----

def test_batch(box, who):
    data = {f"d{i % 3}/f{i}": os.urandom(1000 * i) for i in range(40)}
    a = box.call("POST", "/v1/files/batch", body(*(part("f", v, k) for k, v in data.items())), who,
                 [TYPE], path="base")
    assert a.status == 200
    assert a.json["files"] == [{"path": f"base/{k}", "size": len(v), "created": True}
                               for k, v in data.items()]
    for k, v in data.items():
        assert box.download(f"base/{k}", who).body == v
    a = box.call("POST", "/v1/files/batch", body(part("f", b"new", "base/d0/f0")), who, [TYPE])
    assert a.json["files"] == [{"path": "base/d0/f0", "size": 3, "created": False}]


@pytest.mark.parametrize("bad", [
    part("f", b"x", "../out"), part("f", b"x", "a"), part("f", b"x", "a/below"), part("f", b"x"),
    part("f", b"x", "isdir"), part("f", b"x", "isfile/x"), b"--" + B.encode() + b"junk\r\n",
    b"--" + B.encode() + b"\r\nX: y\r\n\r\n\r\n",
])
def test_a_batch_is_whole_or_not_there(box, who, bad):
    box.sh("mkdir isdir; touch isfile; echo old > keep", who)
    good = part("f", b"1" * 100000, "a"), part("f", b"new", "keep")
    a = box.call("POST", "/v1/files/batch", body(*good, bad), who, [TYPE])
    assert a.status in (400, 409), repr(a)
    assert names(box, who) == ["isdir", "isfile", "keep"]
    assert box.download("keep", who).body == b"old\n"
    assert box.call("POST", "/v1/files/batch", body(*good), who, [TYPE]).status == 200


def test_a_command_in_the_way_of_a_batch(box, who):
    """docs/box.md: those before the one that is in its way stay, whole; none after it is there."""
    box.sh("mkdir t", who)
    loop = "while [ ! -e stop ]; do mkdir t/3 2>/dev/null; rmdir t/3 2>/dev/null; done; touch stopped"
    worker = threading.Thread(target=box.exec, args=(loop, who))
    worker.start()
    data = {str(i): os.urandom(2000) for i in range(6)}
    whole = body(*(part("f", v, k) for k, v in data.items()))
    try:
        for _ in range(40):
            a = box.call("POST", "/v1/files/batch", whole, who, [TYPE], path="t")
            there = sorted(n for n in names(box, who, "t") if n != "3")
            if a.status == 200:
                assert there == ["0", "1", "2", "4", "5"]
            else:
                assert a.status == 409, a
                assert there == sorted(data)[:len(there)] and len(there) <= 3, (a, there)
            for n in there:
                assert box.download(f"t/{n}", who).body == data[n]
            for n in [*there, "3"]:
                box.call("DELETE", "/v1/path", who=who, path=f"t/{n}")
    finally:
        box.upload("stop", b"", who)
        worker.join()
    assert "stopped" in names(box, who)


@pytest.mark.parametrize("chunked", [False, True])
def test_a_batch_cut_off(box, who, chunked):
    whole = body(part("f", b"1" * 200000, "a"), part("f", b"2" * 200000, "b"))
    fields = "".join(f"{k}: {v}\r\n" for k, v in
                     [("Authorization", f"Bearer {KEY}"), TYPE, *identity(*who)])
    frame = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {len(whole)}"
    c = box.conn()
    c.send(f"POST /v1/files/batch HTTP/1.1\r\nHost: t\r\n{fields}{frame}\r\n\r\n".encode())
    c.send(b"%x\r\n" % 300000 + whole[:300000] if chunked else whole[:300000])
    box.call("GET", "/v1/usage", who=who)
    c.close()
    box.sh("sleep 0.1", who)
    assert names(box, who) == []
    assert box.call("GET", "/v1/usage", who=who).json["entries"] == 0


def test_chunks_of_every_size(box, who):
    whole = body(part("f", os.urandom(3000) + b"\r\n--" + B.encode()[:-1] + b"\r\n", "a"),
                 part("g", b"", "b"))
    fields = "".join(f"{k}: {v}\r\n" for k, v in
                     [("Authorization", f"Bearer {KEY}"), TYPE, *identity(*who)])
    head = f"POST /v1/files/batch HTTP/1.1\r\nHost: t\r\n{fields}Transfer-Encoding: chunked\r\n\r\n"
    for size in (1, 2, 7, 64, 1000, 100000):
        with box.conn() as c:
            c.send(head.encode() + b"".join(b"%x\r\n" % len(whole[i:i + size]) + whole[i:i + size] +
                                            b"\r\n" for i in range(0, len(whole), size)) +
                   b"0\r\n\r\n")
            assert c.answer().status == 200, size
            # The connection goes on.
            c.send(f"GET /v1/list HTTP/1.1\r\nHost: t\r\n{fields}\r\n".encode())
            assert [e["name"] for e in c.answer().json["entries"]] == ["a", "b"]


def test_more_files_than_a_request_may_have(box, who):
    a = box.call("POST", "/v1/files/batch", body(*(part("f", b"", f"f{i}") for i in range(49))),
                 who, [TYPE])
    assert a.status == 400 and names(box, who) == []


def test_large_files_in_constant_memory(start_box):
    b = start_box()
    size = 64 << 20
    whole = body(part("f", b"x" * size, "a"), part("f", b"y" * size, "b"))
    front = b.role("front").pid
    assert b.call("POST", "/v1/files/batch", whole, headers=[TYPE]).status == 200
    with open(f"/proc/{front}/status", encoding="ascii") as f:
        peak = int(next(line for line in f if line.startswith("VmHWM")).split()[1])
    assert peak < 48 << 10, f"{peak} KiB"
    assert int(b.sh("cat a b | wc -c")["stdout"]) == 2 * size


def test_too_large_and_over_quota(start_box):
    b = start_box(env={"RUNBOX_MAX_UPLOAD": "1MiB", "RUNBOX_QUOTA": "4MiB"})
    good = part("f", b"1", "a")
    a = b.call("POST", "/v1/files/batch", body(good, part("f", b"x" * (1 << 20 | 1), "b")),
               headers=[TYPE])
    assert (a.status, a.code) == (413, "body_too_large")
    a = b.call("POST", "/v1/files/batch", body(good, *(part("f", b"x" * (1 << 20), f"b{i}")
                                                       for i in range(5))), headers=[TYPE])
    assert (a.status, a.code) == (507, "quota_exceeded")
    assert names(b, ("alice",)) == []


# ---- commands with files ----

def request(command, **members):
    return part("request", json.dumps({"command": command, **members}).encode(),
                extra="Content-Type: application/json\r\n")


def test_exec_with_files(box, who):
    for parts in ([request("cat in/a in/b; echo done"), part("f", b"1", "in/a"), part("f", b"2", "in/b")],
                  [part("f", b"1", "in/a"), request("cat in/a in/b; echo done"), part("f", b"2", "in/b")]):
        a = box.call("POST", "/v1/exec", body(*parts), who, [TYPE])
        assert a.status == 200 and a.json["stdout"] == "12done\n"
    assert box.call("POST", "/v1/exec", body(request("echo alone")), who,
                    [TYPE]).json["stdout"] == "alone\n"
    a = box.call("POST", "/v1/exec", body(request("cat", stdin="x"), part("f", b"", "n")), who, [TYPE])
    assert a.json["stdout"] == "x"


def test_exec_with_files_refusals(box, who):
    def post(*parts):
        a = box.call("POST", "/v1/exec", body(*parts), who, [TYPE])
        return a.status, a.code
    good = part("f", b"1", "a")
    assert post(good) == (400, "bad_field")
    assert post(good, request("x"), request("x")) == (400, "bad_field")
    assert post(good, part("request", b"{")) == (400, "bad_json")
    assert post(good, request("x", nonsense=1)) == (400, "bad_field")
    assert post(good, request("x" * 1100000)) == (413, "body_too_large")
    assert post(good, request("x"), part("f", b"1", "../a")) == (400, "bad_path")
    assert names(box, who) == []


def test_exec_with_files_while_one_runs(box, who):
    c = box.send_exec("touch up; while [ ! -e go ]; do sleep 0.01; done", who)
    procs.wait_for("it runs", (box.workspace(*who) / "up").exists)
    a = box.call("POST", "/v1/files", body(part("f", b"", "go")), who, [TYPE])
    assert a.status == 201
    assert c.answer().status == 200
    c.close()


def test_by_curl(box, who, tmp_path):
    """A client as people have it, with its own idea of multipart."""
    f = tmp_path / "a file.txt"
    f.write_bytes(b"from curl")
    out = subprocess.run(
        ["curl", "-sS", "-H", f"Authorization: Bearer {KEY}", "-H", f"X-Runbox-Identity: {who[0]}",
         "-F", f"file=@{f};filename=sent.txt", "-F", 'request={"command":"cat sent.txt"};type=application/json',
         f"http://127.0.0.1:{box.port}/v1/exec"], capture_output=True, check=True).stdout
    assert json.loads(out)["stdout"] == "from curl"
