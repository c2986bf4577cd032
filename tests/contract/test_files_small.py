"""Files of a few KiB go and come in one message between the roles, larger ones by descriptors: a client sees no
difference, whichever way its bytes arrive."""
import os

import pytest

from harness.http import quote

WHOLE = 16384  # include/sallyport/proto.h, SP_WHOLE_MAX
SIZES = (0, 1, 1024, WHOLE - 1, WHOLE, WHOLE + 1, 40000)


def data_of(n):
    return bytes(i * 7 % 256 for i in range(n))


def head_of(path, n, *fields):
    lines = [f"PUT {quote(path)} HTTP/1.1", "Host: t", f"Content-Length: {n}", *fields]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


@pytest.mark.parametrize("way", ["together", "apart", "halved", "expect"])
@pytest.mark.parametrize("n", SIZES)
def test_sizes(seat, box, n, way):
    body, path = data_of(n), f"{box}/d/f"
    with seat.conn() as c:
        for status in (201, 200):
            head = head_of(path, n, *(["Expect: 100-continue"] if way == "expect" else []))
            if way == "together":
                c.send(head + body)
            elif way == "halved":
                c.send(head + body[:n // 2])
                c.send(body[n // 2:])
            else:
                c.send(head)
                c.send(body)
            a = c.answer()
            assert a.status == status and a.json == {"path": path, "size": n}
            got = c.request("GET", quote(path))
            assert got.status == 200 and got.body == body and got.get("ETag") == a.get("ETag")
            assert int(got.get("Content-Length")) == n
            seen = c.request("HEAD", quote(path))
            assert seen.body == b"" and seen.get("Content-Length") == str(n) and seen.get("ETag") == a.get("ETag")
    assert (seat.ws / path).read_bytes() == body
    assert (seat.ws / path).stat().st_mode & 0o777 == 0o644
    assert os.listdir(seat.ws / box / "d") == ["f"]


@pytest.mark.parametrize("n", [1024, WHOLE, WHOLE + 1])
def test_parts_and_conditions(seat, box, n):
    body, path = data_of(n), f"{box}/f"
    with seat.conn() as c:
        tag = c.request("PUT", quote(path), body).get("ETag")
        for spec, first, last in (("0-0", 0, 0), ("5-9", 5, 9), (f"{n - 1}-", n - 1, n - 1), ("-3", n - 3, n - 1),
                                  (f"0-{n * 2}", 0, n - 1)):
            a = c.request("GET", quote(path), headers={"Range": f"bytes={spec}"})
            assert a.status == 206 and a.body == body[first:last + 1]
            assert a.get("Content-Range") == f"bytes {first}-{last}/{n}"
        assert c.request("GET", quote(path), headers={"Range": f"bytes={n}-"}).status == 416
        assert c.request("GET", quote(path), headers={"If-None-Match": tag}).status == 304
        assert c.request("GET", quote(path), headers={"If-Match": '"other"'}).status == 412
        assert c.request("PUT", quote(path), b"x", headers={"If-Match": '"other"'}).status == 412
        assert c.request("PUT", quote(path), b"x", headers={"If-None-Match": "*"}).status == 412
        assert c.request("GET", quote(path)).body == body
        assert c.request("PUT", quote(path), b"x", headers={"If-Match": tag}).status == 200
        assert c.request("GET", quote(path)).body == b"x"


def test_refusals_keep_the_connection(seat, box):
    (seat.ws / box / "d").mkdir()
    (seat.ws / box / "f").write_bytes(b"old")
    with seat.conn() as c:
        for path, status, code in ((f"{box}/d", 409, "is_a_directory"), (f"{box}/f/g", 409, "not_a_directory_conflict"),
                                   (f"{box}/a\0b", 400, "bad_path")):
            a = c.request("PUT", quote(path), b"small")
            assert (a.status, a.code) == (status, code)
            if status == 409:  # all of the body was here and is read
                assert not a.closes
                assert c.request("GET", quote(f"{box}/f")).body == b"old"


def test_many_in_a_row(seat, box):
    """What a client sends ahead is answered in order, and no body is taken for a head."""
    n = 40
    with seat.conn() as c:
        c.send(b"".join(head_of(f"{box}/f{i}", 300) + b"GET / HTTP/1.1\r\n\r\n".ljust(300, b"%d" % (i % 10))
                        + f"GET {quote(f'{box}/f{i}')} HTTP/1.1\r\nHost: t\r\n\r\n".encode() for i in range(n)))
        for i in range(n):
            assert c.answer().status == 201
            assert c.answer().body == b"GET / HTTP/1.1\r\n\r\n".ljust(300, b"%d" % (i % 10))


@pytest.mark.parametrize("count", [0, 10, 120, 200, 400])
def test_listings(seat, box, count):
    """Short ones are in the message; some of these are just over what fits."""
    for i in range(count):
        (seat.ws / box / f"name-{i:04}").touch()
    with seat.conn() as c:
        a = c.request("GET", quote(f"{box}/"))
        assert [e["name"] for e in a.json["entries"]] == [f"name-{i:04}" for i in range(count)]
        assert c.request("HEAD", quote(f"{box}/")).get("Content-Length") == str(len(a.body))


def test_a_file_that_changes_meanwhile(seat, box):
    """Whatever is answered has the length that was promised."""
    with seat.send_command(f"cd {box}; echo first >f; while :; do echo line >>f; : >g; echo x >g; mv g f; done"), \
            seat.conn() as c:
        seat.wait_file(f"{box}/f")
        seen = {c.request("GET", quote(f"{box}/f")).body for _ in range(200)}
        assert all(body in (b"", b"first\n") or body.strip(b"\n").startswith((b"x", b"line", b"first")) for body in seen)
    seat.wait_idle()
