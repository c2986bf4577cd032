"""GET and HEAD /files: bytes, ranges, conditions, kinds of files, links, permissions."""
import email.utils
import os
import socket

import pytest

from harness.http import Closed, quote

DATA = bytes(range(256)) * 4  # 1024 bytes


@pytest.fixture(scope="module")
def sample(seat):
    (seat.ws / "sample").write_bytes(DATA)
    os.chmod(seat.ws / "sample", 0o644)
    os.utime(seat.ws / "sample", (1700000000, 1700000000))
    return seat.get("sample").get("etag")


def test_bytes_and_fields(seat, sample):
    a = seat.get("sample")
    assert a.status == 200 and a.body == DATA
    assert a.get("content-type") == "application/octet-stream"
    assert a.get("content-length") == "1024" and a.get("accept-ranges") == "bytes"
    assert a.get("last-modified") == "Tue, 14 Nov 2023 22:13:20 GMT"
    etag = a.get("etag")
    assert etag[0] == etag[-1] == '"' and len(etag) > 2
    assert a.get("content-range") is None


@pytest.mark.parametrize("headers", [{}, {"Range": "bytes=0-9"}, {"Range": "bytes=5000-"},
                                     {"If_None_Match": "*"}, {"If_Match": '"x"'}])
@pytest.mark.parametrize("path", ["sample", "", "none", "a%00"])
def test_head_is_get_without_body(seat, sample, headers, path):
    """Range is for GET alone (RFC 9110, 14.2): HEAD is as GET without it."""
    same = {k: v for k, v in headers.items() if k != "Range"}
    get, head = seat.get(path, **same), seat.head(path, **headers)
    assert head.status == get.status and head.body == b""
    drop = {"date"}
    assert [f for f in head.fields if f[0] not in drop] == [f for f in get.fields if f[0] not in drop]


@pytest.mark.parametrize("value,first,last", [
    ("bytes=0-0", 0, 0), ("bytes=0-9", 0, 9), ("bytes=10-", 10, 1023), ("bytes=-1", 1023, 1023),
    ("bytes=-1024", 0, 1023), ("bytes=-5000", 0, 1023), ("bytes=1023-1023", 1023, 1023),
    ("bytes=1000-99999999999", 1000, 1023), ("bytes=0-1023", 0, 1023), ("bytes=0-", 0, 1023),
    ("bytes=5-18446744073709551615", 5, 1023), ("BYTES=1-2", 1, 2)])
def test_one_range(seat, sample, value, first, last):
    a = seat.get("sample", Range=value)
    assert a.status == 206 and a.body == DATA[first:last + 1]
    assert a.get("content-range") == f"bytes {first}-{last}/1024"
    assert a.get("etag") == sample and a.get("content-length") == str(last - first + 1)


@pytest.mark.parametrize("value", ["bytes=1024-", "bytes=1024-1030", "bytes=99999999999999-", "bytes=-0",
                                   "bytes=18446744073709551615-"])
def test_unsatisfiable(seat, sample, value):
    a = seat.get("sample", Range=value)
    assert (a.status, a.code) == (416, "bad_range") and a.get("content-range") == "bytes */1024"


@pytest.mark.parametrize("value", ["bytes=0-1,5-6", "bytes=5-2", "bytes=", "bytes=-", "bytes=a-b", "0-5",
                                   "lines=0-5", "bytes 0-5", "bytes=0-5x", "bytes=+0-5", "bytes=--5",
                                   "bytes=0x1-5", "", "bytes=0-5-9", "bytes==0-5",
                                   "bytes=" + ",".join(["0-0"] * 500)])
def test_whole_file_for_other_ranges(seat, sample, value):
    a = seat.get("sample", Range=value)
    assert a.status == 200 and a.body == DATA


def test_range_of_an_empty_file(seat, box):
    (seat.ws / box / "e").touch()
    a = seat.get(f"{box}/e")
    assert (a.status, a.body, a.get("content-length")) == (200, b"", "0")
    a = seat.get(f"{box}/e", Range="bytes=0-0")
    assert a.status == 416 and a.get("content-range") == "bytes */0"


OLD, SAME, NEW = ("Mon, 13 Nov 2023 22:13:20 GMT", "Tue, 14 Nov 2023 22:13:20 GMT",
                  "Wed, 15 Nov 2023 22:13:20 GMT")


@pytest.mark.parametrize("headers,status", [
    ({"If_None_Match": "E"}, 304), ({"If_None_Match": "*"}, 304), ({"If_None_Match": "W/E"}, 304),
    ({"If_None_Match": '"a", E , "b"'}, 304), ({"If_None_Match": '"a"'}, 200),
    ({"If_Match": "E"}, 200), ({"If_Match": "*"}, 200), ({"If_Match": '"a"'}, 412),
    ({"If_Match": "W/E"}, 412), ({"If_Match": '"a", E'}, 200),
    ({"If_Modified_Since": OLD}, 200), ({"If_Modified_Since": SAME}, 304),
    ({"If_Modified_Since": NEW}, 304), ({"If_Modified_Since": "yesterday"}, 200),
    ({"If_Unmodified_Since": OLD}, 412), ({"If_Unmodified_Since": SAME}, 200),
    ({"If_Unmodified_Since": NEW}, 200), ({"If_Unmodified_Since": "x"}, 200),
    # RFC 9110 13.2.2: the order
    ({"If_Match": "E", "If_Unmodified_Since": OLD}, 200),
    ({"If_Match": '"a"', "If_None_Match": "E"}, 412),
    ({"If_None_Match": '"a"', "If_Modified_Since": SAME}, 200),
    ({"If_None_Match": "E", "If_Modified_Since": OLD}, 304),
    ({"If_Unmodified_Since": OLD, "If_None_Match": "E"}, 412),
    ({"If_None_Match": "E", "Range": "bytes=0-1"}, 304),
    ({"If_Match": '"a"', "Range": "bytes=0-1"}, 412),
    ({"If_Match": "E", "Range": "bytes=0-1"}, 206),
    ({"If_Range": "E", "Range": "bytes=0-1"}, 206), ({"If_Range": '"a"', "Range": "bytes=0-1"}, 200),
    ({"If_Range": "W/E", "Range": "bytes=0-1"}, 200), ({"If_Range": SAME, "Range": "bytes=0-1"}, None),
    ({"If_Range": OLD, "Range": "bytes=0-1"}, 200), ({"If_Range": NEW, "Range": "bytes=0-1"}, 200),
    ({"If_Range": '"a"', "Range": "bytes=9999-"}, 200), ({"If_Range": "E"}, 200),
    ({"If_Range": "junk", "Range": "bytes=0-1"}, 200)])
def test_conditions(seat, sample, headers, status):
    a = seat.get("sample", **{k: v.replace("E", sample) if "GMT" not in v else v
                              for k, v in headers.items()})
    if status is None:
        assert a.status in (200, 206)
    else:
        assert a.status == status, a
    if status == 304:
        assert a.get("etag") == sample
    if status == 412:
        assert a.code == "precondition_failed"
    if status == 206:
        assert a.body == DATA[:2]


def test_etag_changes_with_the_content(seat, box):
    seen = set()
    for n in range(5):
        a = seat.put(f"{box}/f", b"%d" % n)
        assert a.get("etag") == seat.get(f"{box}/f").get("etag")
        seen.add(a.get("etag"))
    assert len(seen) == 5


def test_last_modified_is_not_in_the_future(seat, box):
    (seat.ws / box / "f").touch()
    a = seat.get(f"{box}/f")
    assert email.utils.parsedate_to_datetime(a.get("last-modified")) is not None


def test_missing(seat, box):
    (seat.ws / box / "file").write_text("x")
    for path in ("none", f"{box}/none", f"{box}/none/deeper", f"{box}/file/below"):
        a = seat.get(path)
        assert (a.status, a.code) == (404, "not_found"), path


def test_trailing_slash_on_a_file(seat, box):
    (seat.ws / box / "file").write_text("x")
    a = seat.get(f"{box}/file/")
    assert (a.status, a.code) == (400, "not_a_directory")
    a = seat.get(f"{box}/none/")
    assert (a.status, a.code) == (404, "not_found")


def test_neither_file_nor_folder(seat, box):
    top = seat.ws / box
    os.mkfifo(top / "fifo")
    s = socket.socket(socket.AF_UNIX)
    cwd = os.getcwd()
    os.chdir(top)
    s.bind("sock")
    os.chdir(cwd)
    for name in ("fifo", "sock"):
        a = seat.get(f"{box}/{name}")
        assert (a.status, a.code) == (409, "not_a_file"), name
        a = seat.get(f"{box}/{name}/")
        assert (a.status, a.code) == (400, "not_a_directory"), name
    s.close()
    (top / "to-fifo").symlink_to("fifo")
    assert seat.get(f"{box}/to-fifo").code == "not_a_file"


def test_links(seat, box):
    top = seat.ws / box
    (top / "d").mkdir()
    (top / "d" / "f").write_text("inside")
    for name, target in {"file": "d/f", "dir": "d", "up": f"../{box}/d/f", "chain": "file",
                         "out": "../../outside/secret", "outdir": "../../outside", "abs": "/etc/passwd",
                         "absin": str(top / "d" / "f"), "loop": "loop", "l1": "l2", "l2": "l1",
                         "dangling": "nowhere", "dangout": "../../nowhere", "proc": "/proc/self/root",
                         "climb": "d/../../../outside/secret"}.items():
        (top / name).symlink_to(target)
    for good in ("file", "up", "chain", "dir/f"):
        assert seat.get(f"{box}/{good}").body == b"inside", good
    assert seat.get(f"{box}/dir").json["entries"][0]["name"] == "f"
    for bad in ("out", "outdir", "outdir/secret", "abs", "absin", "dangout", "proc", "proc/etc/passwd",
                "climb"):
        a = seat.get(f"{box}/{bad}")
        assert (a.status, a.code) == (403, "outside_workspace"), bad
        assert b"secret" not in a.body
    for loop in ("loop", "l1", "l2", "l1/x"):
        a = seat.get(f"{box}/{loop}")
        assert (a.status, a.code) == (400, "link_loop"), loop
    a = seat.get(f"{box}/dangling")
    assert (a.status, a.code) == (404, "not_found")


def test_long_link_chain(seat, box):
    top = seat.ws / box
    (top / "n0").write_text("end")
    for n in range(1, 60):
        (top / f"n{n}").symlink_to(f"n{n - 1}")
    assert seat.get(f"{box}/n30").body == b"end"
    a = seat.get(f"{box}/n59")
    assert (a.status, a.code) == (400, "link_loop")


def test_no_permission(seat, box):
    top = seat.ws / box
    (top / "f").write_text("x")
    (top / "d").mkdir()
    (top / "d" / "g").write_text("x")
    for n in ("f", "d"):
        os.chown(top / n, seat.owner, seat.owner)
        os.chmod(top / n, 0)
    for path in ("f", "d", "d/g"):
        a = seat.get(f"{box}/{path}")
        assert (a.status, a.code) == (403, "forbidden"), path
    os.chmod(top / "d", 0o755)
    os.chown(top / "d" / "g", 0, 0)
    os.chmod(top / "d" / "g", 0o600)
    a = seat.get(f"{box}/d/g")
    assert (a.status, a.code) == (403, "forbidden")


def test_sparse_3_gib(seat, box):
    size = 3 << 30
    with open(seat.ws / box / "big", "wb") as f:
        f.truncate(size)
        f.seek(size - 3)
        f.write(b"end")
        f.seek(0)
        f.write(b"start")
    a = seat.head(f"{box}/big")
    assert a.get("content-length") == str(size)
    assert seat.get(f"{box}/big", Range="bytes=0-4").body == b"start"
    a = seat.get(f"{box}/big", Range="bytes=-3")
    assert a.body == b"end" and a.get("content-range") == f"bytes {size - 3}-{size - 1}/{size}"
    assert seat.get(f"{box}/big", Range=f"bytes={(1 << 31) - 1}-{1 << 31}").body == b"\0\0"
    assert seat.get(f"{box}/big", Range=f"bytes={size}-").status == 416
    (seat.ws / box / "big").unlink()


def test_a_large_file_comes_whole(seat, box):
    data = os.urandom(1 << 20) * 24
    (seat.ws / box / "f").write_bytes(data)
    assert seat.get(f"{box}/f").body == data


def test_truncated_while_sending_closes(seat, box):
    path = seat.ws / box / "f"
    with open(path, "wb") as f:
        f.truncate(256 << 20)
    with seat.conn() as c:
        c.send(f"GET {quote(box + '/f')} HTTP/1.1\r\nHost: t\r\n\r\n".encode())
        c.fill()
        os.truncate(path, 1000)
        with pytest.raises(Closed):
            c.answer()
    assert seat.get(f"{box}/f").body == b"\0" * 1000


def test_removed_while_sending_is_still_whole(seat, box):
    path = seat.ws / box / "f"
    with open(path, "wb") as f:
        f.truncate(32 << 20)
    with seat.conn() as c:
        c.send(f"GET {quote(box + '/f')} HTTP/1.1\r\nHost: t\r\n\r\n".encode())
        c.fill()
        path.unlink()
        assert len(c.answer().body) == 32 << 20


def test_pipelined_gets(seat, sample):
    with seat.conn() as c:
        c.send(b"GET /files/sample HTTP/1.1\r\nHost: t\r\nRange: bytes=0-3\r\n\r\n" * 20
               + b"HEAD /files/sample HTTP/1.1\r\nHost: t\r\n\r\n"
               + b"GET /files/none HTTP/1.1\r\nHost: t\r\n\r\n")
        for _ in range(20):
            assert c.answer().body == DATA[:4]
        assert c.answer(head_only=True).status == 200
        assert c.answer().status == 404
