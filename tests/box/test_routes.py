"""Every address: what it does, for both forms of an identity, and what it refuses."""
import io
import json
import os
import signal
import tarfile

import pytest

from harness import procs
from harness.box import KEY, identity
from harness.http import Closed

AUTH = [("Authorization", f"Bearer {KEY}")]
METHODS = {
    "/v1/exec": {"POST"}, "/v1/files": {"GET", "HEAD", "POST"},
    "/v1/files/batch": {"POST"}, "/v1/list": {"GET", "HEAD"},
    "/v1/archive": {"GET"}, "/v1/path": {"PUT", "DELETE"}, "/v1/usage": {"GET"},
    "/v1/workspace": {"DELETE"}, "/v1/capabilities": {"GET", "HEAD"}, "/healthz": {"GET", "HEAD"},
    "/ready": {"GET", "HEAD"}, "/metrics": {"GET", "HEAD"},
}


@pytest.mark.parametrize("path", METHODS)
def test_methods(box, path):
    for method in {"GET", "HEAD", "PUT", "POST", "DELETE", "PATCH", "OPTIONS"} - METHODS[path]:
        a = box.request(method, path, None, AUTH + identity("m"))
        assert a.status == 405, method
        assert set(a.get("allow").split(", ")) >= METHODS[path]
        if method != "HEAD":
            assert a.code == "bad_method"


def test_no_route(box):
    for path in ("/", "/v1", "/v1/", "/v1/exec/", "/v2/exec", "/execute", "/files/a", "/v1/Exec"):
        a = box.request("GET", path, None, AUTH)
        assert (a.status, a.code) == (404, "no_route"), path


def test_capabilities_tell_the_routes(box):
    a = box.request("GET", "/v1/capabilities", None, AUTH).json
    assert set(a["routes"]) >= set(METHODS)
    assert a["mode"] == "box" and a["limits"]["max_concurrency"] == 16
    assert {"seccomp", "caps", "no-new-privs", "uid"} <= set(a["layers"])


@pytest.mark.parametrize("path", ["/v1/exec?x=1", "/v1/files", "/v1/list?p=a",
                                  "/v1/files?path=a&path=b", "/v1/files?path=a&x=1", "/v1/usage?a=b",
                                  "/v1/list?path=%zz", "/v1/capabilities?a", "/ready?a=b"])
def test_bad_queries(box, who, path):
    method = "POST" if "exec" in path else "GET"
    a = box.request(method, path, None, AUTH + identity(*who))
    assert a.status == 400 and a.code in ("bad_query", "bad_path"), repr(a)


# ---- exec ----

@pytest.mark.parametrize("form", [("someone",), ("tenant", "user")])
def test_exec(box, form):
    r = box.sh("echo out; echo err >&2; cat; exit 3", who=form, stdin="in", env={"A": "b"})
    assert (r["stdout"], r["stderr"], r["exit_code"]) == ("out\nin", "err\n", 3)
    assert r["timed_out"] is False and r["quota_exceeded"] is False


def test_exec_in_a_folder(box, who):
    box.sh("mkdir -p a/b", who)
    pwd = box.sh("pwd", who)["stdout"].strip()
    assert pwd == str(box.workspace(*who))
    assert box.sh("pwd", who, cwd="a/b")["stdout"].strip() == pwd + "/a/b"
    assert box.sh("pwd", who, cwd=pwd + "/a")["stdout"].strip() == pwd + "/a"
    a = box.exec("pwd", who, cwd=str(box.workspace("alice")))
    assert (a.status, a.code) == (403, "outside_workspace")
    assert box.exec("pwd", who, cwd="none").code == "not_found"


def test_exec_times_out(box, who):
    r = box.sh("echo x; sleep 1000", who, timeout=0.3)
    assert (r["timed_out"], r["exit_code"], r["stdout"]) == (True, 124, "x\n")


def test_exec_refusals(box, who):
    def post(body, *headers):
        a = box.call("POST", "/v1/exec", body, who, headers)
        return a.status, a.code
    js = ("Content-Type", "application/json")
    assert post(b"{", js) == (400, "bad_json")
    assert post(b'{"command":1}', js) == (400, "bad_field")
    assert post(b'{"command":"x","nonsense":1}', js) == (400, "bad_field")
    assert post(b'{"command":"x"}', ("Content-Type", "text/plain")) == (415, "bad_media_type")
    assert post(json.dumps({"command": "x" * 200000}).encode(), js) == (413, "command_too_long")
    assert post(b" " * (1 << 20) + b"{}", js) == (413, "body_too_large")


# ---- files ----

def test_files(box, who):
    a = box.upload("d/e/f.txt", b"0123456789", who)
    assert a.status == 201 and a.json == {"path": "d/e/f.txt", "size": 10}
    assert box.upload("d/e/f.txt", b"9876543210", who).status == 200
    a = box.download("d/e/f.txt", who)
    assert (a.status, a.body, a.get("content-type")) == (200, b"9876543210",
                                                         "application/octet-stream")
    etag = a.get("etag")
    a = box.download("d/e/f.txt", who, [("Range", "bytes=2-4")])
    assert (a.status, a.body, a.get("content-range")) == (206, b"765", "bytes 2-4/10")
    assert box.download("d/e/f.txt", who, [("Range", "bytes=20-")]).code == "bad_range"
    assert box.download("d/e/f.txt", who, [("If-None-Match", etag)]).status == 304
    assert box.download("d/e/f.txt", who, [("If-Match", '"other"')]).status == 412
    a = box.call("HEAD", "/v1/files", None, who, path="d/e/f.txt")
    assert (a.status, a.body, a.get("content-length")) == (200, b"", "10")


def test_files_refusals(box, who):
    box.sh("mkdir d; mkfifo p; ln -s /etc/passwd out; ln -s loop loop; echo x > f", who)

    def get(path):
        a = box.download(path, who)
        return a.status, a.code
    assert get("d") == (400, "is_directory")
    assert get("") == (400, "is_directory")
    assert get("none") == (404, "not_found")
    assert get("f/x") == (404, "not_found")
    assert get("p") == (409, "not_a_file")
    assert get("out") == (403, "outside_workspace")
    assert get("loop") == (400, "link_loop")
    for path in ("../x", "/etc/passwd", "a//b", "a/./b", "..", "a\0b", "x" * 256, ("y" * 200 + "/") * 20 + "x"):
        assert box.download(path, who).status == 400, path
    for path in ("", "d/", "../x", "/etc/x", "x" * 256):
        a = box.upload(path, b"x", who)
        assert (a.status, a.code) == (400, "bad_path"), path
    assert box.upload("d", b"x", who).code == "is_a_directory"
    assert box.upload("f/x", b"x", who).code == "not_a_directory_conflict"


def test_another_identity_s_path(box, who):
    """No path leads to another's workspace, whatever it is."""
    box.upload("secret", b"s", ("victim",))
    there = str(box.workspace("victim"))
    box.sh(f"ln -s {there}/secret l; ln -s ../{box.workspace('victim').name}/secret m", who)
    for path in ("l", "m", f"../{box.workspace('victim').name}/secret", there + "/secret"):
        a = box.download(path, who)
        assert a.status in (400, 403), path
    for method, target in (("PUT", "/v1/path"), ("DELETE", "/v1/path"), ("GET", "/v1/archive")):
        a = box.call(method, target, b"x" if method == "PUT" else None, who, path=there)
        assert a.status in (400, 403), target


def test_too_large_an_upload(start_box):
    b = start_box(env={"RUNBOX_MAX_UPLOAD": "1000"})
    assert b.upload("f", b"x" * 1000).status == 201
    a = b.upload("f", b"x" * 1001)
    assert (a.status, a.code) == (413, "body_too_large")
    assert b.download("f").body == b"x" * 1000


# ---- list, path, archive ----

def test_list(box, who):
    box.sh("mkdir d; echo 123 > d/f; ln -s f d/l; mkdir d/s", who)
    a = box.call("GET", "/v1/list", who=who, path="d").json
    assert [(e["name"], e["type"]) for e in a["entries"]] == [("f", "file"), ("l", "symlink"),
                                                             ("s", "directory")]
    assert a["path"] == "d" and a["truncated"] is False
    assert [e["name"] for e in box.call("GET", "/v1/list", who=who).json["entries"]] == ["d"]
    assert box.call("GET", "/v1/list", who=who, path=".").status == 200
    a = box.call("GET", "/v1/list", who=who, path="d/f")
    assert (a.status, a.code) == (400, "not_a_directory")
    assert box.call("GET", "/v1/list", who=who, path="x").code == "not_found"


def test_list_of_a_tree(box, who):
    box.sh("mkdir -p d/e/f g; touch d/1 d/e/2 d/e/f/3 g/4; ln -s / d/e/out; chmod 0 g; mkfifo d/p", who)
    a = box.call("GET", "/v1/list", who=who, recursive="true").json
    names = [e["name"] for e in a["entries"]]
    assert sorted(names) == ["d", "d/1", "d/e", "d/e/2", "d/e/f", "d/e/f/3", "d/e/out", "d/p", "g"]
    for name in names:  # folders first
        assert "/" not in name or names.index(name.rpartition("/")[0]) < names.index(name)
    kinds = {e["name"]: e["type"] for e in a["entries"]}
    assert (kinds["d/e/out"], kinds["d/p"], kinds["g"]) == ("symlink", "other", "directory")
    assert a["truncated"] is False and a["path"] == ""
    a = box.call("GET", "/v1/list", who=who, path="d/e", recursive="true").json
    assert sorted(e["name"] for e in a["entries"]) == ["2", "f", "f/3", "out"]
    assert a["path"] == "d/e"
    a = box.call("GET", "/v1/list", who=who, path="d/1", recursive="true")
    assert (a.status, a.code) == (400, "not_a_directory")
    assert box.call("GET", "/v1/list", who=who, recursive="maybe").code == "bad_query"
    box.sh("chmod 700 g", who)


def test_list_of_a_deep_and_of_a_wide_tree(box, who):
    box.sh("for i in $(seq 300); do mkdir dddddddddd; cd dddddddddd; done; touch end", who)
    a = box.call("GET", "/v1/list", who=who, recursive="true").json
    assert len(a["entries"]) == 301 and a["entries"][-1]["name"].endswith("dddddddddd/end")
    box.sh("rm -r d*; for i in $(seq 101); do mkdir $i; (cd $i; touch $(seq 1000)); done", who)
    a = box.call("GET", "/v1/list", who=who, recursive="true").json
    assert len(a["entries"]) == 100000 and a["truncated"] is True
    box.call("DELETE", "/v1/workspace", who=who)


def test_path(box, who):
    a = box.call("PUT", "/v1/path", b"abc", who, path="a/b")
    assert (a.status, a.json) == (201, {"path": "a/b", "size": 3})
    assert box.call("PUT", "/v1/path", b"d", who, [("If-None-Match", "*")], path="a/b").status == 412
    a = box.call("DELETE", "/v1/path", None, who, path="a")
    assert (a.status, a.code) == (409, "not_empty")
    assert box.call("DELETE", "/v1/path", None, who, path="a", recursive="maybe").code == "bad_query"
    assert box.call("DELETE", "/v1/path", None, who, path="a", recursive="true").status == 204
    assert box.call("DELETE", "/v1/path", None, who, path="a").code == "not_found"
    for path in ("", "."):
        assert box.call("DELETE", "/v1/path", None, who, path=path).code == "bad_path"


def test_archive(box, who):
    box.sh("mkdir -p d/e; echo 123 > d/f; ln -s f d/l; head -c 3000000 /dev/urandom > d/e/big;"
           "mkfifo d/p; chmod 750 d/f", who)
    a = box.call("GET", "/v1/archive", None, who, path="d")
    assert (a.status, a.get("content-type")) == (200, "application/x-tar")
    with tarfile.open(fileobj=io.BytesIO(a.body)) as t:
        got = {m.name.rstrip("/"): m for m in t.getmembers()}
        assert {"f", "l", "e", "e/big"} <= {n.removeprefix("./") for n in got}
        name = next(n for n in got if n.endswith("big"))
        assert t.extractfile(got[name]).read() == box.download("d/e/big", who).body
    assert box.call("GET", "/v1/archive", None, who).status == 200  # the whole workspace
    assert box.call("GET", "/v1/archive", None, who, path="d/f").code == "not_a_directory"
    assert box.call("GET", "/v1/archive", None, who, path="none").code == "not_found"


def test_archive_for_a_client_of_1_0(box, who):
    box.sh("head -c 300000 /dev/urandom > big", who)
    with box.conn() as c:
        head = "".join(f"{k}: {v}\r\n" for k, v in AUTH + identity(*who))
        c.send(f"GET /v1/archive HTTP/1.0\r\n{head}\r\n".encode())
        data = b""
        while True:
            try:
                c.fill()
            except Exception:
                break
        data = c.buf
    head, _, body = data.partition(b"\r\n\r\n")
    assert b"chunked" not in head.lower()
    with tarfile.open(fileobj=io.BytesIO(body)) as t:
        assert [m.size for m in t.getmembers() if m.isfile()] == [300000]


def test_who_leaves_an_archive_ends_it(box, who):
    box.sh("head -c 30000000 /dev/zero > big", who)
    for _ in range(8):  # more than may run at a time
        c = box.conn()
        head = "".join(f"{k}: {v}\r\n" for k, v in AUTH + identity(*who))
        c.send(f"GET /v1/archive HTTP/1.1\r\nHost: t\r\n{head}\r\n".encode())
        c.line()
        c.close()
    assert box.call("GET", "/v1/usage", who=who).status == 200


def test_an_archive_that_is_cut_is_only_cut(start_box):
    """The broker dies while it is sent: nothing that isn't the archive's comes behind it."""
    b = start_box()
    b.sh("head -c 30000000 /dev/zero > big")
    with b.conn() as c:
        head = "".join(f"{k}: {v}\r\n" for k, v in AUTH + identity("alice"))
        c.send(f"GET /v1/archive HTTP/1.1\r\nHost: t\r\n{head}\r\n".encode())
        while b"ustar" not in c.buf:
            c.fill()
        os.kill(b.role("broker").pid, signal.SIGKILL)
        with pytest.raises((Closed, OSError)):
            while True:
                c.fill()
        _, _, body = c.buf.partition(b"\r\n\r\n")
    assert b"HTTP" not in body and b"cell_lost" not in body and not body.endswith(b"0\r\n\r\n")

    def back():
        try:
            return b.call("GET", "/v1/usage").status == 200
        except (OSError, Closed):
            return False
    procs.wait_for("it is back", back)


def test_ready_runs_a_command(start_box):
    b = start_box()
    assert b.request("GET", "/ready").json == {"status": "ready"}
    assert len(b.table()) == 1  # one user id for all probes
    for _ in range(5):
        assert b.request("GET", "/ready").status == 200
    assert b.request("HEAD", "/ready").status == 200
