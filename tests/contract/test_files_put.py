"""PUT /files: new, replaced, modes, parents, conditions, conflicts, links, names."""
import os
import stat
import threading

import pytest

from harness.http import quote


def test_new_then_replaced(seat, box):
    a = seat.put(f"{box}/f", b"one")
    assert (a.status, a.json) == (201, {"path": f"{box}/f", "size": 3})
    etag = a.get("etag")
    assert etag == seat.get(f"{box}/f").get("etag")
    a = seat.put(f"{box}/f", b"second")
    assert (a.status, a.json) == (200, {"path": f"{box}/f", "size": 6})
    assert a.get("etag") != etag
    assert (seat.ws / box / "f").read_bytes() == b"second"


def test_mode_and_owner_of_a_new_file(seat, box):
    seat.put(f"{box}/deep/er/f", b"x")
    st = (seat.ws / box / "deep/er/f").stat()
    assert stat.S_IMODE(st.st_mode) == 0o644 and st.st_uid == seat.owner
    st = (seat.ws / box / "deep").stat()
    assert st.st_uid == seat.owner and stat.S_IMODE(st.st_mode) == 0o755


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o640, 0o777])
def test_replaced_keeps_its_bits(seat, box, mode):
    p = seat.ws / box / "f"
    p.write_text("old")
    os.chown(p, seat.owner, seat.owner)
    os.chmod(p, mode)
    assert seat.put(f"{box}/f", b"new").status == 200
    assert stat.S_IMODE(p.stat().st_mode) == mode and p.read_text() == "new"


def test_setuid_is_not_planted(seat, box):
    p = seat.ws / box / "f"
    p.write_text("old")
    os.chmod(p, 0o6755)  # root's
    assert seat.put(f"{box}/f", b"new").status in (200, 403)
    st = p.stat()
    assert not (st.st_uid == 0 and st.st_mode & 0o6000 and p.read_text() == "new")


def test_replacing_a_hard_link_leaves_the_other_name(seat, box):
    top = seat.ws / box
    (top / "a").write_text("old")
    os.link(top / "a", top / "b")
    assert seat.put(f"{box}/a", b"new").status == 200
    assert (top / "b").read_text() == "old" and (top / "a").read_text() == "new"


def test_parents_are_made(seat, box):
    a = seat.put(f"{box}/1/2/3/4/5/f", b"x")
    assert a.status == 201 and (seat.ws / box / "1/2/3/4/5/f").read_bytes() == b"x"


def test_a_refused_upload_makes_no_parents(seat, box):
    a = seat.request("PUT", quote(f"{box}/p/f"), b"x", {"Content-Range": "bytes 0-0/1"})
    assert (a.status, a.code) == (400, "bad_request")
    assert not (seat.ws / box / "p").exists()


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, 65535, 65536, 65537, 1 << 20, 5000000])
def test_sizes(seat, box, size):
    data = os.urandom(size)
    assert seat.put(f"{box}/f", data).json["size"] == size
    assert (seat.ws / box / "f").read_bytes() == data
    assert seat.get(f"{box}/f").body == data


def test_no_framing_is_an_empty_file(seat, box):
    a = seat.request("PUT", quote(f"{box}/f"))
    assert (a.status, a.json["size"]) == (201, 0)
    assert (seat.ws / box / "f").read_bytes() == b""
    (seat.ws / box / "g").write_text("old")
    os.chown(seat.ws / box / "g", seat.owner, seat.owner)
    assert seat.put(f"{box}/g", b"").status == 200 and (seat.ws / box / "g").read_bytes() == b""


def test_link_at_the_end_is_replaced(seat, box):
    top = seat.ws / box
    (top / "target").write_text("target")
    for name, to in {"in": "target", "out": "../../outside/secret", "abs": str(seat.outside / "secret"),
                     "dangling": "nowhere", "loop": "loop", "dir": "."}.items():
        (top / name).symlink_to(to)
        a = seat.put(f"{box}/{name}", name.encode())
        assert a.status in (200, 201), (name, a)
        assert not (top / name).is_symlink() and (top / name).read_text() == name
    assert (top / "target").read_text() == "target"
    assert (seat.outside / "secret").read_text() == "secret"
    assert not (top / "nowhere").exists()


def test_links_on_the_way(seat, box):
    top = seat.ws / box
    (top / "d").mkdir()
    os.chown(top / "d", seat.owner, seat.owner)
    for name, to in {"in": "d", "out": "../../outside", "abs": str(seat.outside), "loop": "loop",
                     "absin": str(top / "d")}.items():
        (top / name).symlink_to(to)
    assert seat.put(f"{box}/in/f", b"x").status == 201 and (top / "d/f").read_text() == "x"
    for name in ("out", "abs", "absin"):
        for rest in ("f", "new/f", "secret"):
            a = seat.put(f"{box}/{name}/{rest}", b"evil")
            assert (a.status, a.code) == (403, "outside_workspace"), (name, rest)
    a = seat.put(f"{box}/loop/f", b"evil")
    assert (a.status, a.code) == (400, "link_loop")
    assert sorted(os.listdir(seat.outside)) == ["secret"]
    assert (seat.outside / "secret").read_text() == "secret"


def test_conflicts(seat, box):
    top = seat.ws / box
    (top / "d" / "full").mkdir(parents=True)
    (top / "file").write_text("x")
    for path, status, code in [("d", 409, "is_a_directory"), ("d/full", 409, "is_a_directory"),
                               ("file/x", 409, "not_a_directory_conflict"),
                               ("file/x/y", 409, "not_a_directory_conflict"),
                               ("d/", 400, "bad_path"), ("new/", 400, "bad_path")]:
        a = seat.put(f"{box}/{path}", b"new")
        assert (a.status, a.code) == (status, code), path
    assert (top / "file").read_text() == "x" and not (top / "new").exists()


@pytest.mark.parametrize("target", ["/files", "/files/"])
def test_the_workspace_itself(seat, target):
    a = seat.request("PUT", target, b"x")
    assert (a.status, a.code) == (400, "bad_path")


def test_special_files_are_not_written_to(seat, box):
    """Replaced as a name or refused; never opened."""
    top = seat.ws / box
    os.mkfifo(top / "fifo")
    a = seat.put(f"{box}/fifo", b"x")
    assert a.status in (200, 201, 409)
    if a.status < 400:
        assert (top / "fifo").read_bytes() == b"x"


def test_forbidden(seat, box):
    os.chmod(seat.ws / box, 0o555)
    a = seat.put(f"{box}/f", b"x")
    assert (a.status, a.code) == (403, "forbidden")
    a = seat.put(f"{box}/d/f", b"x")
    assert (a.status, a.code) == (403, "forbidden")
    os.chmod(seat.ws / box, 0o755)
    assert os.listdir(seat.ws / box) == []


@pytest.mark.parametrize("exists,headers,status", [
    (False, {"If_None_Match": "*"}, 201), (True, {"If_None_Match": "*"}, 412),
    (True, {"If_Match": "E"}, 200), (True, {"If_Match": '"other"'}, 412),
    (False, {"If_Match": '"other"'}, 412), (True, {"If_Match": "W/E"}, 412),
    (True, {"If_Match": '"\xe9"'}, 412), (True, {"If_Match": f'"{"a" * 64}"'}, 412)])
def test_conditions(seat, box, exists, headers, status):
    p = seat.ws / box / "f"
    etag = '"none"'
    if exists:
        seat.put(f"{box}/f", b"old")
        etag = seat.get(f"{box}/f").get("etag")
    a = seat.put(f"{box}/f", b"new", **{k: v.replace("E", etag) for k, v in headers.items()})
    assert a.status == status, a
    if status == 412:
        assert a.code == "precondition_failed"
        assert (p.read_text() == "old") if exists else not p.exists()
    else:
        assert p.read_text() == "new"


def test_if_match_star(seat, box):
    a = seat.put(f"{box}/f", b"new", If_Match="*")
    assert (a.status, a.code) == (412, "precondition_failed")
    seat.put(f"{box}/f", b"old")
    assert seat.put(f"{box}/f", b"new", If_Match="*").status == 200


def test_if_none_match_star_lets_one_win(seat, box):
    statuses = []
    gate = threading.Barrier(12)

    def one(n):
        gate.wait()
        statuses.append(seat.put(f"{box}/f", b"%d" % n * 1000, If_None_Match="*").status)
    threads = [threading.Thread(target=one, args=(n,)) for n in range(12)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(statuses) == [201] + [412] * 11


@pytest.mark.parametrize("value,status", [("identity", 201), ("gzip", 415), ("br", 415),
                                          ("gzip, identity", 415), ("x", 415)])
def test_content_encoding(seat, box, value, status):
    a = seat.put(f"{box}/f", b"x", Content_Encoding=value)
    assert a.status == status
    if status == 415:
        assert a.code == "bad_media_type" and not (seat.ws / box / "f").exists()


@pytest.mark.parametrize("value", ["bytes 0-0/1", "bytes 0-0/*", "x", ""])
def test_content_range(seat, box, value):
    a = seat.put(f"{box}/f", b"x", Content_Range=value)
    assert (a.status, a.code) == (400, "bad_request") and not (seat.ws / box / "f").exists()


def test_any_content_type(seat, box):
    for n, value in enumerate(["text/plain", "application/json", "multipart/form-data", "junk"]):
        assert seat.put(f"{box}/f{n}", b"x", Content_Type=value).status == 201


def test_names_with_every_byte(seat, box):
    top = os.fsencode(seat.ws / box)
    raw = bytes(b for b in range(1, 256) if b != 0x2F)
    for part in (raw[:127], raw[127:]):
        a = seat.put(os.fsencode(box) + b"/" + part, part)
        assert a.status == 201, a
        with open(os.path.join(top, part), "rb") as f:
            assert f.read() == part
    for b in raw:
        if b == 0x2E:
            continue
        name = bytes([b])
        assert seat.put(os.fsencode(box) + b"/" + name, name).status == 201, name
        assert seat.get(os.fsencode(box) + b"/" + name).body == name
    assert len(os.listdir(top)) == len(raw) - 1 + 2


def test_longest_name(seat, box):
    assert seat.put(f"{box}/{'n' * 255}", b"x").status == 201
    a = seat.put(f"{box}/{'n' * 256}", b"x")
    assert (a.status, a.code) == (400, "bad_path")


def test_longest_path(seat, box):
    room = 4000 - len(box)
    parts = ["d" * 199] * (room // 200)
    path = "/".join([box, *parts])
    path += "/" + "e" * (4000 - len(path) - 1) if len(path) < 3999 else ""
    assert len(path) <= 4000
    assert seat.put(path, b"far").status == 201
    assert seat.get(path).body == b"far"
    assert seat.delete(f"{box}/{parts[0]}", "?recursive=true").status == 204


def test_put_and_command_see_each_other(seat, box):
    seat.put(f"{box}/in.txt", b"hello\n")
    assert seat.run("tr a-z A-Z < in.txt > out.txt; cat out.txt", cwd=box)["stdout"] == "HELLO\n"
    assert seat.get(f"{box}/out.txt").body == b"HELLO\n"


def test_upload_during_a_command(seat, box):
    c = seat.send_command(f"touch up; while [ ! -s f ]; do sleep 0.02; done; cat f", cwd=box)
    seat.wait_file(f"{box}/up")
    assert seat.put(f"{box}/f", b"arrived").status == 201
    assert c.answer().json["stdout"] == "arrived"
    c.close()


def test_no_space(start):
    """On a file system of 2 MiB."""
    d = start(small_folder=("small", "2m"))
    assert d.put("small/ok", b"x" * 1000).status == 201
    with d.conn() as c:
        c.send(b"PUT /files/small/big HTTP/1.1\r\nHost: t\r\nContent-Length: 8388608\r\n\r\n")
        c.send_lenient(b"x" * (8 << 20))
        a = c.answer()
        assert (a.status, a.code) == (507, "no_space")
    assert [e["name"] for e in d.get("small").json["entries"]] == ["ok"]
    assert d.put("small/ok", b"y" * 1000).status == 200
    assert d.get("small/ok").body == b"y" * 1000
