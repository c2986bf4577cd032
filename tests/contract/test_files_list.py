"""GET /files on folders: the listing's form, order, hostile names, limits."""
import os
import random
import socket
import stat
import urllib.parse

import pytest


def listing(seat, path):
    a = seat.get(path)
    assert a.status == 200, a
    r = a.json
    assert set(r) == {"path", "entries", "truncated"}
    return r


def test_the_workspace_itself(start):
    d = start()
    for target in ("/files", "/files/"):
        a = d.request("GET", target)
        assert a.json == {"path": "", "entries": [], "truncated": False}
    (d.ws / "x").write_text("abc")
    assert [e["name"] for e in d.request("GET", "/files").json["entries"]] == ["x"]


def test_entries(seat, box):
    top = seat.ws / box / "a"
    top.mkdir()
    (top / "file").write_bytes(b"abc")
    os.chmod(top / "file", 0o644)
    os.utime(top / "file", ns=(0, 1700000000123000000))
    (top / "dir").mkdir()
    os.chmod(top / "dir", 0o2750)
    (top / "link").symlink_to("file")
    (top / "bad-link").symlink_to("/etc/passwd")
    os.mkfifo(top / "fifo")
    s = socket.socket(socket.AF_UNIX)
    s.bind(str(top / "s"))
    s.close()
    os.mknod(top / "null", 0o020666, os.makedev(1, 3))
    r = listing(seat, f"{box}/a")
    assert r["path"] == f"{box}/a" and r["truncated"] is False
    by = {e["name"]: e for e in r["entries"]}
    assert [e["name"] for e in r["entries"]] == sorted(by)
    assert by["file"] == {"name": "file", "type": "file", "size": 3, "mode": "0644",
                          "mtime": pytest.approx(1700000000.123, abs=1e-6)}
    assert {n: e["type"] for n, e in by.items()} == {
        "file": "file", "dir": "directory", "link": "symlink", "bad-link": "symlink",
        "fifo": "other", "s": "other", "null": "other"}
    assert by["dir"]["mode"] == "2750"
    for e in by.values():
        assert set(e) == {"name", "type", "size", "mode", "mtime"}


def test_trailing_slash(seat, box):
    (seat.ws / box / "f").touch()
    a, b = listing(seat, box), listing(seat, f"{box}/")
    assert a == b and a["path"] == box


HOSTILE = [b"new\nline", b'quo"te', b"back\\slash", b"tab\t", b" space ", b"%41", b"%2f", b"\x01\x1f\x7f",
           "é😀".encode(), b"\xff\xfe", b"\xc3", b"ok\xe2\x82", b"-rf", b"<script>", b"...", b".hidden",
           b"\xed\xa0\x80", b"a" * 255, b"\xff" * 255, b"'", b";", b"?q=1", b"#frag", b"*"]


def test_hostile_names(seat, box):
    top = os.fsencode(seat.ws / box)
    for name in HOSTILE:
        with open(os.path.join(top, name), "wb") as f:
            f.write(name)
    r = listing(seat, box)
    assert len(r["entries"]) == len(HOSTILE)
    for e, raw in zip(r["entries"], sorted(HOSTILE)):  # by bytes
        try:
            assert e["name"] == raw.decode("utf-8") and "raw" not in e
            path = e["name"].encode()
        except UnicodeDecodeError:
            assert "\ufffd" in e["name"]
            assert urllib.parse.unquote_to_bytes(e["raw"]) == raw
            path = urllib.parse.unquote_to_bytes(e["raw"])
        a = seat.get(os.fsencode(box) + b"/" + path)
        assert a.status == 200 and a.body == raw, raw


def test_path_of_a_hostile_folder(seat, box):
    name = b'fol"der\xff\n'
    os.mkdir(os.path.join(os.fsencode(seat.ws / box), name))
    a = seat.get(os.fsencode(box) + b"/" + name)
    assert a.status == 200 and a.json["path"].startswith(box + '/fol"der')


def test_order_is_by_bytes(seat, box):
    names = ["b", "a", "B", "é", "z", "10", "9", "_", "~", "a.", "a-"]
    for n in names:
        (seat.ws / box / n).touch()
    got = [e["name"] for e in listing(seat, box)["entries"]]
    assert got == sorted(names, key=lambda n: n.encode())


def test_order_of_many(seat, box):
    """Sorted by keys of eight bytes, written by two threads: prefixes of each other, bytes of all values, no name twice."""
    rng = random.Random(7)
    names = {b"", b"a", b"ab"} | {b"prefix-" + bytes([b]) for b in range(1, 256) if b != 0x2f}
    names |= {b"prefix-long" + bytes(rng.choices(b"ab\x01\xff\xc3\xa9 ", k=rng.randrange(40))) for _ in range(9000)}
    names -= {b""}
    for name in names:
        open(os.fsencode(seat.ws / box) + b"/" + name, "w").close()
    entries = listing(seat, box)["entries"]
    got = [urllib.parse.unquote_to_bytes(e["raw"]) if "raw" in e else e["name"].encode() for e in entries]
    assert len(got) > 8192 and got == sorted(names)


def test_each_of_many_has_its_own(seat, box):
    """Sizes, modes, times and kinds of a folder that two threads look at in the order in which it is read."""
    top = seat.ws / box
    for n in range(9000):
        path = top / f"{n * 7919 % 9000}-{'long' * (n % 5)}"
        if n % 11 == 0:
            path.mkdir()
        elif n % 13 == 0:
            path.symlink_to("x" * (n % 50 + 1))
        else:
            path.write_bytes(b"x" * (n % 97))
            path.chmod(n % 512)
        os.utime(path, ns=(0, (1_000_000_000 + n) * 10**9 + n % 1000 * 10**6), follow_symlinks=False)
    entries = listing(seat, box)["entries"]
    assert len(entries) == 9000
    for e in entries:
        st = os.lstat(top / e["name"])
        kind = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "symlink"}[stat.S_IFMT(st.st_mode)]
        assert (e["type"], e["size"], e["mode"]) == (kind, st.st_size, f"{st.st_mode & 0o7777:04o}"), e
        assert round(e["mtime"] * 1000) == st.st_mtime_ns // 10**6, e


def test_upload_leftovers_are_the_users_to_see_or_not(seat, box):
    """An upload in progress is no entry."""
    with seat.conn() as c:
        c.send(f"PUT /files/{box}/up HTTP/1.1\r\nHost: t\r\nContent-Length: 1000\r\n\r\nhalf".encode())
        assert [e["name"] for e in listing(seat, box)["entries"]
                if not e["name"].startswith(".sallyport-put-")] == []


def test_more_than_the_limit(seat, box):
    fd = os.open(seat.ws / box, os.O_RDONLY)
    for n in range(100001):  # hard links are cheap; ext4 allows 65,000 to a file
        name = f"f{n:06d}"
        if n % 60000 == 0:
            first = name
            os.close(os.open(name, os.O_CREAT | os.O_WRONLY, dir_fd=fd))
        else:
            os.link(first, name, src_dir_fd=fd, dst_dir_fd=fd)
    r = listing(seat, box)
    assert len(r["entries"]) == 100000 and r["truncated"] is True
    os.unlink("f050000", dir_fd=fd)
    r = listing(seat, box)
    assert len(r["entries"]) == 100000 and r["truncated"] is False
    os.close(fd)


def test_folder_answers_no_file_fields(seat, box):
    a = seat.get(box)
    assert a.get("content-type").startswith("application/json")
    a = seat.get(box, Range="bytes=0-1")
    assert a.status in (200, 206)


def test_many_that_change_while_they_are_read(seat, box):
    """Whatever is listed is whole, sorted and no name twice; what stays is there."""
    for n in range(6000):
        (seat.ws / box / f"stays{n:04d}").touch()
    c = seat.send_command("touch up; i=0; while :; do i=$((i+1)); : > $((i%977))-f$i; rm -f $(((i-300)%977))-f$((i-300)); "
                          "[ $((i%7)) != 0 ] || mv $((i%977))-f$i g$i; done", cwd=box)
    seat.wait_file(f"{box}/up")
    for _ in range(20):
        names = [e["name"] for e in listing(seat, box)["entries"]]
        assert names == sorted(set(names))
        assert len([name for name in names if name.startswith("stays")]) == 6000
    c.close()
    seat.wait_idle()


def test_folder_that_changes_while_it_is_read(seat, box):
    c = seat.send_command(f"touch up; i=0; while :; do i=$((i+1)); : > f$i; rm -f f$((i-3)); done",
                          cwd=box)
    seat.wait_file(f"{box}/up")
    for _ in range(50):
        assert seat.get(box).status == 200
    c.close()
    seat.wait_idle()
