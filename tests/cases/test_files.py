"""Faults that services of this kind have had with files, against ours: dates, tags, modes, names, odd things on the way.
tests/cases/index.tsv has the list."""
import email.utils
import os
import stat

import pytest

from harness import procs
from harness.http import quote

NOW_ISH = 1700000000
FORMS = {"fixed": "Tue, 14 Nov 2023 22:13:20 GMT", "850": "Tuesday, 14-Nov-23 22:13:20 GMT",
         "asctime": "Tue Nov 14 22:13:20 2023"}
BEFORE = {"fixed": "Mon, 13 Nov 2023 22:13:20 GMT", "850": "Monday, 13-Nov-23 22:13:20 GMT",
          "asctime": "Mon Nov 13 22:13:20 2023"}


def own(seat, path):
    os.chown(path, seat.owner, seat.owner, follow_symlinks=False)
    return path


def made(seat, box, name, data="old", mtime=None):
    p = seat.ws / box / name
    p.write_text(data)
    if mtime is not None:
        os.utime(p, ns=(0, int(mtime * 10**9)))
    return own(seat, p)


@pytest.mark.parametrize("form", FORMS)
def test_a_date_in_any_of_its_three_forms(seat, box, form):
    """One that is valid and not understood would be ignored: the write goes over what somebody else wrote."""
    p = made(seat, box, "f", mtime=NOW_ISH)
    assert seat.get(f"{box}/f", If_Modified_Since=FORMS[form]).status == 304
    assert seat.get(f"{box}/f", If_Modified_Since=BEFORE[form]).status == 200
    assert seat.get(f"{box}/f", If_Range=FORMS[form], Range="bytes=1-1").status == 206
    assert seat.get(f"{box}/f", If_Unmodified_Since=BEFORE[form]).status == 412
    for method in ("PUT", "DELETE"):
        a = seat.request(method, quote(f"{box}/f"), b"new" if method == "PUT" else None,
                         {"If-Unmodified-Since": BEFORE[form]})
        assert (a.status, a.code) == (412, "precondition_failed") and p.read_text() == "old"
    assert seat.request("DELETE", quote(f"{box}/f"), headers={"If-Unmodified-Since": FORMS[form]}).status == 204


@pytest.mark.parametrize("ahead", [3600, 86400 * 365 * 100])
def test_last_modified_is_not_ahead_of_date(seat, box, ahead):
    """RFC 9110 8.8.2.1: what a command set is a listing's to tell, not a cache's to believe."""
    mtime = int(email.utils.mktime_tz(email.utils.parsedate_tz(seat.get(box).get("date")))) + ahead
    made(seat, box, "f", mtime=mtime)
    for a in (seat.get(f"{box}/f"), seat.head(f"{box}/f"), seat.get(f"{box}/f", If_None_Match="*")):
        modified, date = (email.utils.mktime_tz(email.utils.parsedate_tz(a.get(k))) for k in ("last-modified", "date"))
        assert modified <= date
    [entry] = seat.get(box).json["entries"]
    assert entry["mtime"] == mtime
    a = seat.request("DELETE", quote(f"{box}/f"), headers={"If-Unmodified-Since": seat.get(f"{box}/f").get("date")})
    assert a.status == 412


@pytest.mark.parametrize("mtime,text", [(-1, "Wed, 31 Dec 1969 23:59:59 GMT"), (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
                                        (-2147483648, "Fri, 13 Dec 1901 20:45:52 GMT")])
def test_times_before_1970(seat, box, mtime, text):
    made(seat, box, "f", mtime=mtime)
    a = seat.get(f"{box}/f")
    assert a.status == 200 and a.get("last-modified") == text
    assert seat.get(box).json["entries"][0]["mtime"] == mtime
    assert seat.get(f"{box}/f", If_Modified_Since=FORMS["fixed"]).status == 304


def test_a_tag_tells_an_edit_that_kept_size_and_time(seat, box):
    """As rsync -t, tar and git leave them: a tag of both alone would be the old one."""
    p = made(seat, box, "f", "aaa", NOW_ISH)
    before = seat.get(f"{box}/f").get("etag")
    with open(p, "r+", encoding="ascii") as f:
        f.write("bbb")
    os.utime(p, (NOW_ISH, NOW_ISH))
    a = seat.get(f"{box}/f", If_None_Match=before)
    assert a.status == 200 and a.body == b"bbb" and a.get("etag") != before
    assert seat.put(f"{box}/f", b"ccc", If_Match=before).status == 412


def test_a_replaced_file_keeps_no_set_user_id(seat, box):
    """Who wrote it anew isn't who was trusted with the bits; a write of the kernel's takes them, too."""
    p = made(seat, box, "f")
    os.chmod(p, 0o6755)
    assert seat.put(f"{box}/f", b"new").status == 200
    assert stat.S_IMODE(p.stat().st_mode) == 0o755


def test_a_running_program_is_replaced(seat, box):
    """Text file busy is for who writes into it."""
    c = seat.send_command("cp /bin/sleep prog; ./prog 60 & while ! readlink /proc/$!/exe | grep -q prog; do sleep 0.02; done; "
                          "touch up; while [ ! -e go ]; do sleep 0.02; done; kill %1; ./prog", cwd=box)
    seat.wait_file(f"{box}/up")
    a = seat.put(f"{box}/prog", b"#!/bin/sh\necho new\n")
    assert a.status == 200
    (seat.ws / box / "go").touch()
    assert c.answer().json["stdout"] == "new\n"
    c.close()


def test_a_file_that_is_held_open_or_locked(seat, box):
    """A command's lock or lease is no reason to wait, nor to refuse."""
    c = seat.send_command("""exec python3 -c "
import fcntl, os, time
f = open('f', 'w+'); f.write('held'); f.flush()
fcntl.flock(f, fcntl.LOCK_EX); fcntl.lockf(f, fcntl.LOCK_EX)
try:
    fcntl.fcntl(f, fcntl.F_SETLEASE, fcntl.F_WRLCK)
except OSError:
    pass
open('up', 'w').close()
time.sleep(600)
" """, cwd=box)
    seat.wait_file(f"{box}/up")
    assert seat.get(f"{box}/f").body == b"held"
    assert seat.put(f"{box}/f", b"new").status == 200
    assert seat.delete(f"{box}/f").status == 204
    c.close()
    seat.wait_idle()


def test_parents_that_are_no_folders(seat, box):
    """Nothing is made through a link that leads nowhere, and none is taken for a missing folder."""
    top = seat.ws / box
    made(seat, box, "file")
    (top / "nowhere").symlink_to("missing")
    (top / "to-file").symlink_to("file")
    os.mkfifo(own(seat, top) / "fifo")
    for name in ("file", "nowhere", "to-file", "fifo"):
        for rest in ("f", "a/f"):
            a = seat.put(f"{box}/{name}/{rest}", b"x")
            assert (a.status, a.code) == (409, "not_a_directory_conflict"), (name, rest)
    assert sorted(os.listdir(top)) == ["fifo", "file", "nowhere", "to-file"]


@pytest.mark.parametrize("mode,listed,read", [(0o444, 403, 403), (0o111, 403, 200), (0o555, 200, 200), (0, 403, 403)])
def test_folders_that_were_half_shut(seat, box, mode, listed, read):
    """By their owner. A name that can be read but not looked at is no reason to fail; what is there goes when it is asked
    to, as a folder's owner may open it."""
    d = seat.ws / box / "d"
    (d / "sub").mkdir(parents=True)
    made(seat, box, "d/f")
    for p in (d, d / "sub"):
        os.chmod(own(seat, p), mode)
    assert (seat.get(f"{box}/d").status, seat.get(f"{box}/d/f").status) == (listed, read)
    assert seat.delete(f"{box}/d", "?recursive=true").status == 204
    assert not d.exists()


def test_a_name_like_our_own_of_unfinished_files(seat, box):
    """It is the user's: it is listed, read, and nothing sweeps it."""
    name = f"{box}/.sallyport-put-1"
    assert seat.put(name, b"mine").status == 201
    with seat.conn() as c:
        c.send(f"PUT {quote(box + '/g')} HTTP/1.1\r\nHost: t\r\nContent-Length: 9\r\n\r\nhalf".encode())
        seat.request("GET", "/healthz")
    assert seat.put(f"{box}/h", b"x").status == 201
    assert seat.get(name).body == b"mine" and ".sallyport-put-1" in [e["name"] for e in seat.get(box).json["entries"]]


def test_names_that_look_the_same(seat, box):
    """No normal form of Unicode, no folding of case, no trailing dots or blanks that go."""
    names = ["é", "e\u0301", "É", "a", "A", "a.", "a ", " a", "ﬁ", "fi", "ſ", "s"]
    for n, name in enumerate(names):
        assert seat.put(f"{box}/{name}", b"%d" % n).status == 201, ascii(name)
    for n, name in enumerate(names):
        assert seat.get(f"{box}/{name}").body == b"%d" % n, ascii(name)
    assert {e["name"] for e in seat.get(box).json["entries"]} == set(names)


def test_300_uploads_at_once_lock_nothing(seat, box):
    """More than may be under way in a workspace, and than there are threads: some are refused, none hangs."""
    conns = []
    for n in range(300):
        c = seat.conn()
        c.send(f"PUT {quote(f'{box}/d{n % 7}/f{n}')} HTTP/1.1\r\nHost: t\r\nContent-Length: 40000\r\n\r\nhalf".encode())
        conns.append(c)
    assert seat.put(f"{box}/quick", b"x").status == 201 and seat.get(f"{box}/quick").body == b"x"
    assert seat.delete(f"{box}/quick").status == 204
    assert seat.run("echo ok")["stdout"] == "ok\n"
    for c in conns[::2]:
        c.reset()
    for c in conns[1::2]:
        c.send(b"x" * 39996)
    taken = [c.answer().status for c in conns[1::2]]
    assert set(taken) <= {201, 503} and taken.count(201) >= 20, taken
    for c in conns[1::2]:
        c.close()
    whole = taken.count(201)
    procs.wait_for("what was left is gone",
                   lambda: sum(len(files) for _, _, files in os.walk(seat.ws / box)) == whole)


def test_a_read_only_place(start):
    """Refused as the client's to know, not as a failure of ours; what is there can be read."""
    def prepare(d):
        (d.ws / "ro").mkdir()
        d.mounts = [(d.ws / "ro", "ro,mode=777")]
    d = start(prepare=prepare)
    a = d.put("ro/f", b"x")
    assert a.status in (403, 507), a
    assert d.put("ro/d/f", b"x").status == a.status
    assert d.get("ro").json["entries"] == []
