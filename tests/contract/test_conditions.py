"""Conditions of requests that change something (RFC 9110 13): DELETE and PUT, with tags in lists, weak ones, dates,
and what a GET would show. tests/contract/test_files_get.py has those of GET."""
import email.utils
import os
import threading

import pytest

from harness.http import quote

NOBODY = '"1-2-3"'
HOUR = 3600


def date(t):
    return email.utils.formatdate(t, usegmt=True)


@pytest.fixture
def file(seat, box):
    path = f"{box}/f"
    tag = seat.put(path, b"old").get("etag")
    return path, tag, int((seat.ws / path).stat().st_mtime)


def ask(seat, method, path, headers, query=""):
    body = b"new" if method == "PUT" else None
    return seat.request(method, quote(path) + query, body, headers)


def cases(tag, t):
    """Headers, and whether they hold for a file with that tag and time."""
    weak = "W/" + tag
    return [
        ({"If-Match": tag}, True), ({"If-Match": "*"}, True), ({"If-Match": NOBODY}, False),
        ({"If-Match": f"{NOBODY}, {tag}"}, True), ({"If-Match": f',, {tag} ,"x y"'}, False),
        ({"If-Match": f'"\xe9", {tag},'}, True), ({"If-Match": weak}, False), ({"If-Match": f"{weak}, {tag}"}, True),
        ({"If-Match": tag.strip('"')}, False), ({"If-Match": ""}, False), ({"If-Match": '""'}, False),
        ({"If-Match": f"*, {tag}"}, False), ({"If-Match": tag.upper()}, tag.upper() == tag),
        ({"If-None-Match": tag}, False), ({"If-None-Match": "*"}, False), ({"If-None-Match": NOBODY}, True),
        ({"If-None-Match": weak}, False), ({"If-None-Match": f"{NOBODY},{weak}"}, False),
        ({"If-None-Match": '"x", "y"'}, True), ({"If-None-Match": ""}, True),
        ({"If-Unmodified-Since": date(t)}, True), ({"If-Unmodified-Since": date(t - 1)}, False),
        ({"If-Unmodified-Since": date(t + HOUR)}, True), ({"If-Unmodified-Since": "yesterday"}, True),
        ({"If-Unmodified-Since": date(0)}, False),
        # one that is there makes the date not count, and all others have to hold together
        ({"If-Match": tag, "If-Unmodified-Since": date(0)}, True),
        ({"If-Match": NOBODY, "If-Unmodified-Since": date(t)}, False),
        ({"If-Match": tag, "If-None-Match": tag}, False), ({"If-Match": tag, "If-None-Match": NOBODY}, True),
        ({"If-None-Match": NOBODY, "If-Unmodified-Since": date(0)}, False),
        # of GET and HEAD alone
        ({"If-Modified-Since": date(t + HOUR)}, True), ({"If-Range": NOBODY}, True),
    ]


@pytest.mark.parametrize("method", ["DELETE", "PUT"])
@pytest.mark.parametrize("n", range(len(cases(NOBODY, 0))))
def test_of_a_file(seat, file, method, n):
    path, tag, t = file
    headers, holds = cases(tag, t)[n]
    a = ask(seat, method, path, headers)
    if holds:
        assert a.status == (204 if method == "DELETE" else 200), (headers, a)
    else:
        assert (a.status, a.code) == (412, "precondition_failed"), (headers, a)
    now = (seat.ws / path).read_bytes() if (seat.ws / path).exists() else None
    assert now == ({"DELETE": None, "PUT": b"new"}[method] if holds else b"old")


@pytest.mark.parametrize("method", ["DELETE", "PUT"])
@pytest.mark.parametrize("header", [
    {"If-None-Match": "x"}, {"If-None-Match": '"x'}, {"If-None-Match": '"x" "y"'}, {"If-None-Match": '*, "x"'},
    {"If-Match": ", ".join('"%x-2-3"' % (1 << 40 | i) for i in range(100))}], ids=lambda h: str(h)[:40])
def test_what_cannot_be_looked_at_is_refused(seat, file, method, header):
    a = ask(seat, method, file[0], header)
    assert (a.status, a.code) == (400, "bad_request") and (seat.ws / file[0]).read_bytes() == b"old"


@pytest.mark.parametrize("method", ["DELETE", "PUT"])
def test_many_tags(seat, file, method):
    """As many as fit, and what can't be ours takes no place."""
    path, tag, _ = file
    some = ['"%x-2-3"' % i for i in range(20)] + ['"%s"' % ("z" * 60)] * 100
    assert ask(seat, method, path, {"If-Match": ",".join(some)}).code == "precondition_failed"
    assert ask(seat, method, path, {"If-Match": ",".join([*some, tag])}).status in (200, 204)


@pytest.mark.parametrize("header", [{"If-Match": "*"}, {"If-Match": NOBODY}, {"If-None-Match": "*"}, {"If-Unmodified-Since": date(0)}])
def test_of_nothing(seat, box, header):
    """What would fail without a condition fails as without (13.2.1)."""
    assert ask(seat, "DELETE", f"{box}/none", header).code == "not_found"
    assert ask(seat, "DELETE", f"{box}/none/x", header).code == "not_found"
    a = ask(seat, "PUT", f"{box}/none", header)
    assert a.code == "precondition_failed" if "If-Match" in header else a.status == 201


def test_of_folders(seat, box):
    top = seat.ws / box

    def made():
        (top / "d/e").mkdir(parents=True, exist_ok=True)
        for p in ("d", "d/e"):
            os.chown(top / p, seat.owner, seat.owner)
        return int((top / "d").stat().st_mtime)
    t = made()
    for query in ("", "?recursive=true"):
        for header in ({"If-Match": NOBODY}, {"If-None-Match": "*"}, {"If-Unmodified-Since": date(t - HOUR)}):
            assert ask(seat, "DELETE", f"{box}/d", header, query).code == "precondition_failed"
            assert ask(seat, "DELETE", f"{box}/d/", header, query).code == "precondition_failed"
    assert ask(seat, "DELETE", f"{box}/d", {"If-Match": "*"}).code == "not_empty"
    for header in ({"If-Match": "*"}, {"If-None-Match": NOBODY}, {"If-Unmodified-Since": date(t + HOUR)}):
        made()
        assert ask(seat, "DELETE", f"{box}/d", header, "?recursive=true").status == 204
        assert not (top / "d").exists()


def test_of_links(seat, file):
    """What GET shows is compared, the link is what goes."""
    path, tag, _ = file
    link = seat.ws / (path + "link")
    for to, header, holds in (("f", {"If-Match": NOBODY}, False), ("f", {"If-Match": tag}, True),
                              ("nowhere", {"If-Match": "*"}, False), ("nowhere", {"If-None-Match": "*"}, True),
                              ("../../outside/secret", {"If-Match": "*"}, False)):
        link.symlink_to(to)
        a = ask(seat, "DELETE", path + "link", header)
        assert (a.status == 204) == holds and (holds or a.code == "precondition_failed"), (to, header, a)
        if not holds:
            link.unlink()
    assert (seat.ws / path).read_bytes() == b"old"


def test_with_a_slash_behind(seat, file):
    path, tag, _ = file
    for header in ({"If-Match": tag}, {"If-Match": NOBODY}):
        assert ask(seat, "DELETE", path + "/", header).code == "not_a_directory"


def test_one_of_many_wins(seat, box):
    """Replaced or removed by the same tag: once."""
    for turn in range(20):
        path = f"{box}/{turn}"
        tag = seat.put(path, b"old").get("etag")
        got = []

        def one(n, path=path, tag=tag, got=got):
            got.append(ask(seat, "PUT" if n % 2 else "DELETE", path, {"If-Match": tag}).status)
        threads = [threading.Thread(target=one, args=(n,)) for n in range(6)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert sum(s in (200, 204) for s in got) == 1 and set(got) <= {200, 204, 404, 412}, got
