"""DELETE /files: files, links, folders, recursive, mounts, the workspace itself."""
import os

import pytest

from harness.http import quote


def own(seat, path):
    for root, dirs, files in os.walk(path):
        for n in [root] + [os.path.join(root, f) for f in files + dirs]:
            os.chown(n, seat.owner, seat.owner, follow_symlinks=False)


def test_file(seat, box):
    (seat.ws / box / "f").write_text("x")
    a = seat.delete(f"{box}/f")
    assert a.status == 204 and a.body == b"" and a.get("content-length") in (None, "0")
    assert os.listdir(seat.ws / box) == []
    a = seat.delete(f"{box}/f")
    assert (a.status, a.code) == (404, "not_found")


def test_connection_goes_on_after_204(seat, box):
    with seat.conn() as c:
        for n in range(5):
            (seat.ws / box / "f").touch()
            assert c.request("DELETE", quote(f"{box}/f")).status == 204
        assert c.request("GET", "/healthz").status == 200


def test_links_themselves(seat, box):
    top = seat.ws / box
    (top / "t").write_text("x")
    (top / "d").mkdir()
    (top / "d" / "keep").touch()
    for name, to in {"in": "t", "out": "../../outside/secret", "abs": "/etc/passwd", "loop": "loop",
                     "dangling": "nowhere", "dir": "d", "outdir": "../../outside"}.items():
        (top / name).symlink_to(to)
        a = seat.delete(f"{box}/{name}")
        assert a.status == 204, (name, a)
        assert not os.path.lexists(top / name)
        (top / name).symlink_to(to)
        assert seat.delete(f"{box}/{name}", "?recursive=true").status == 204
    assert sorted(os.listdir(top)) == ["d", "t"] and (top / "d/keep").exists()
    assert (seat.outside / "secret").exists()


@pytest.mark.parametrize("query", ["", "?recursive=true"])
def test_links_on_the_way(seat, box, query):
    top = seat.ws / box
    (top / "d").mkdir()
    (top / "d" / "f").touch()
    own(seat, top)
    (top / "in").symlink_to("d")
    (top / "out").symlink_to("../../outside")
    (top / "abs").symlink_to(str(seat.outside))
    (top / "loop").symlink_to("loop")
    assert seat.delete(f"{box}/in/f", query).status == 204
    for n in ("out", "abs"):
        a = seat.delete(f"{box}/{n}/secret", query)
        assert (a.status, a.code) == (403, "outside_workspace")
    a = seat.delete(f"{box}/loop/x", query)
    assert (a.status, a.code) == (400, "link_loop")
    assert (seat.outside / "secret").read_text() == "secret"


def test_folders(seat, box):
    top = seat.ws / box
    (top / "empty").mkdir()
    (top / "full" / "sub").mkdir(parents=True)
    (top / "full" / "f").touch()
    own(seat, top)
    assert seat.delete(f"{box}/empty").status == 204
    for q in ("", "?recursive=false", "?recursive=0", "?"):
        a = seat.delete(f"{box}/full", q)
        assert (a.status, a.code) in ((409, "not_empty"), (400, "bad_query")), q
    assert (top / "full/f").exists()
    assert seat.delete(f"{box}/full", "?recursive=true").status == 204
    assert os.listdir(top) == []


def test_trailing_slash(seat, box):
    top = seat.ws / box
    (top / "d").mkdir()
    (top / "f").touch()
    (top / "l").symlink_to("d")
    a = seat.delete(f"{box}/f/")
    assert (a.status, a.code) == (400, "not_a_directory")
    assert seat.delete(f"{box}/d/").status == 204
    assert seat.delete(f"{box}/l/").status >= 400
    assert sorted(os.listdir(top)) == ["f", "l"]


def test_recursive_removes_links_and_follows_none(seat, box):
    top = seat.ws / box
    (top / "d" / "sub").mkdir(parents=True)
    (top / "d" / "out").symlink_to("../../../outside")
    (top / "d" / "sub" / "abs").symlink_to(str(seat.outside))
    (top / "d" / "sub" / "up").symlink_to("../..")
    os.mkfifo(top / "d" / "fifo")
    (top / "keep").touch()
    own(seat, top)
    assert seat.delete(f"{box}/d", "?recursive=true").status == 204
    assert os.listdir(top) == ["keep"]
    assert (seat.outside / "secret").read_text() == "secret"


def test_recursive_deep(seat, box):
    fd = os.open(seat.ws / box, os.O_RDONLY)
    depth = 3000
    for _ in range(depth):
        os.mkdir("d", dir_fd=fd)
        os.chown("d", seat.owner, seat.owner, dir_fd=fd)
        new = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = new
    os.close(fd)
    a = seat.delete(f"{box}/d", "?recursive=true")
    assert a.status == 204, a
    assert os.listdir(seat.ws / box) == []


def test_recursive_wide(seat, box):
    top = seat.ws / box / "w"
    top.mkdir()
    for n in range(5000):
        (top / f"f{n}").touch()
    own(seat, top)
    assert seat.delete(f"{box}/w", "?recursive=true").status == 204
    assert os.listdir(seat.ws / box) == []


def test_recursive_on_a_file(seat, box):
    (seat.ws / box / "f").touch()
    assert seat.delete(f"{box}/f", "?recursive=true").status == 204


def test_special_files(seat, box):
    os.mkfifo(seat.ws / box / "fifo")
    os.mknod(seat.ws / box / "null", 0o020666, os.makedev(1, 3))
    assert seat.delete(f"{box}/fifo").status == 204
    assert seat.delete(f"{box}/null").status == 204


@pytest.mark.parametrize("target", ["/files", "/files/", "/files?recursive=true", "/files/?recursive=true"])
def test_the_workspace_itself(seat, box, target):
    a = seat.request("DELETE", target)
    assert (a.status, a.code) == (400, "bad_path")
    assert (seat.ws / box).is_dir()


def test_missing(seat, box):
    (seat.ws / box / "f").touch()
    for path in ("none", "none/x", "f/x"):
        a = seat.delete(f"{box}/{path}")
        assert (a.status, a.code) == (404, "not_found"), path


def test_forbidden(seat, box):
    top = seat.ws / box
    (top / "d").mkdir()
    (top / "d" / "f").touch()
    os.chown(top / "d", 0, 0)
    os.chmod(top / "d", 0o755)
    a = seat.delete(f"{box}/d/f")
    assert (a.status, a.code) == (403, "forbidden")
    a = seat.delete(f"{box}/d", "?recursive=true")
    assert (a.status, a.code) == (403, "forbidden")
    assert (top / "d" / "f").exists()


def test_mounts_are_not_entered(start):
    def prepare(d):
        (d.ws / "d" / "mnt").mkdir(parents=True)
        (d.ws / "d" / "mnt").chmod(0o777)  # as in the mount's options, which runc doesn't keep to
        d.mounts = [(d.ws / "d" / "mnt", "mode=777")]
        own(d, d.ws)
    d = start(prepare=prepare)
    assert d.put("d/mnt/inside", b"x").status == 201
    a = d.delete("d", "?recursive=true")
    assert (a.status, a.code) == (409, "not_empty")
    assert d.get("d/mnt/inside").body == b"x"
    a = d.delete("d/mnt", "?recursive=true")
    assert (a.status, a.code) == (409, "not_empty") or a.status in (403, 409)


def test_delete_while_a_command_writes(seat, box):
    c = seat.send_command(f"mkdir -p d; touch up; while :; do mkdir -p d/x; : > d/x/f; done 2>/dev/null", cwd=box)
    seat.wait_file(f"{box}/up")
    for _ in range(20):
        assert seat.delete(f"{box}/d", "?recursive=true").status in (204, 404, 409)
    c.close()
    seat.wait_idle()


def test_delete_with_a_body(seat, box):
    (seat.ws / box / "f").touch()
    with seat.conn() as c:
        a = c.request("DELETE", quote(f"{box}/f"), b"ignored?")
        assert a.status in (204, 400)
        if a.closes:
            assert c.closed()
        else:
            assert c.request("GET", "/healthz").status == 200
