"""What a workspace may take: before an upload, while one comes, and while a command runs."""
import pytest

from harness import procs

MB = 1 << 20
BOX_ENV = {"RUNBOX_QUOTA": "8MiB", "RUNBOX_MAX_UPLOAD": "64MiB"}


def test_figures(box, who):
    box.sh("mkdir d; head -c 1000000 /dev/zero > d/f", who)
    u = box.call("GET", "/v1/usage", who=who).json
    assert u["quota"] == 8 * MB and u["entries"] == 2
    du = int(box.sh("du -s --block-size=1 . | cut -f1", who)["stdout"])
    assert u["bytes"] == du


@pytest.mark.parametrize("chunked", [False, True])
def test_an_upload_over_it(box, who, chunked):
    assert box.upload("a", b"x" * (5 * MB), who).status == 201
    body = b"y" * (4 * MB)
    if chunked:
        with box.conn() as c:
            c.send(b"POST /v1/files?path=b HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n"
                   b"Authorization: Bearer test-key-0123456789abcdef\r\nX-Runbox-Identity: " +
                   who[0].encode() + b"\r\n\r\n")
            c.send_lenient(b"%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n")
            a = c.answer()
    else:
        a = box.upload("b", body, who)
    assert (a.status, a.code) == (507, "quota_exceeded")
    assert [e["name"] for e in box.call("GET", "/v1/list", who=who).json["entries"]] == ["a"]
    assert box.upload("b", b"y" * (2 * MB), who).status == 201  # what was refused isn't counted


def test_room_is_made_by_removal(box, who):
    assert box.upload("a", b"x" * (7 * MB), who).status == 201
    assert box.upload("b", b"x" * (7 * MB), who).code == "quota_exceeded"
    assert box.call("DELETE", "/v1/path", who=who, path="a").status == 204
    assert box.upload("b", b"x" * (7 * MB), who).status == 201
    box.sh("rm b", who)
    assert box.upload("c", b"x" * (7 * MB), who).status == 201
    box.sh("rm c", who)
    assert box.upload("c", b"z" * (3 * MB), who).status == 201
    for _ in range(6):  # replaced, not added; both are there until it is
        assert box.upload("c", b"z" * (3 * MB), who).status == 200


def test_a_command_over_it_is_killed(box, who):
    r = box.sh("head -c 20000000 /dev/zero > big; touch written; sleep 1000", who)
    assert r["quota_exceeded"] is True and r["timed_out"] is False
    assert (r["exit_code"], r["signal"]) == (137, "SIGKILL")
    assert box.upload("x", b"x", who).code == "quota_exceeded"
    # It still may clean up, and for as long as that takes.
    r = box.sh("sleep 1; rm big; sleep 1; echo done", who)
    assert (r["stdout"], r["quota_exceeded"]) == ("done\n", False)
    assert box.upload("x", b"x", who).status == 201


def test_growth_from_above_is_killed(box, who):
    r = box.sh("head -c 20000000 /dev/zero > big; sleep 1000", who)
    assert r["quota_exceeded"] is True
    r = box.sh("head -c 20000000 /dev/zero > more; sleep 1000", who)
    assert r["quota_exceeded"] is True


def test_under_it(box, who):
    r = box.sh("head -c 3000000 /dev/zero > f; sleep 1; head -c 3000000 /dev/zero > g; sleep 1", who)
    assert (r["exit_code"], r["quota_exceeded"]) == (0, False)


def test_none(start_box):
    b = start_box(env={"RUNBOX_QUOTA": "0"})
    assert b.sh("head -c 20000000 /dev/zero > big; sleep 1")["exit_code"] == 0
    assert b.call("GET", "/v1/usage").json["quota"] == 0


def test_the_watch_is_cheap(start_box):
    """A large tree, a long command: the cell's processor time stays below two hundredths."""
    b = start_box(env={"RUNBOX_QUOTA": "4GiB"})
    b.sh("mkdir t; cd t; for i in $(seq 200); do mkdir $i; (cd $i; touch $(seq 200)); done")
    cell = b.role("cell").pid

    def spent():
        with open(f"/proc/{cell}/stat", encoding="ascii") as f:
            fields = f.read().rpartition(")")[2].split()
        return sum(int(x) for x in fields[11:13])  # hundredths of a second
    before = spent()
    b.sh("sleep 20")
    used = spent() - before
    assert used <= 2 * 20 + 20, f"{used} hundredths in 20 s"  # one count may fall in whole
    assert procs.read(cell) is not None


def test_a_closed_folder_is_counted(box, who):
    r = box.sh("mkdir d; cd d; exec 3>big; chmod 000 .; head -c 20000000 /dev/zero >&3; sleep 1000", who)
    assert r["quota_exceeded"] is True
    assert box.sh("stat -c %a d", who)["stdout"] == "0\n"  # it was opened for the count alone
    assert box.call("GET", "/v1/usage", who=who).json["bytes"] > 16 * MB  # all, or up to where it was ended
    assert box.sh("stat -c %a d", who)["stdout"] == "0\n"
    r = box.sh("exec 3>big; chmod 000 .; head -c 20000000 /dev/zero >&3; sleep 1000", who)
    assert r["quota_exceeded"] is True
    assert box.workspace(*who).stat().st_mode & 0o777 == 0


def test_short_commands_together(start_box):
    """Each ends before it is counted."""
    b = start_box(env=BOX_ENV)
    last = None
    for n in range(100):
        last = b.exec(f"fallocate -l 64M f{n}")
        if last.status != 200:
            break
    assert (last.status, last.code) == (507, "quota_exceeded")
    size = b.call("GET", "/v1/usage").json["bytes"]
    assert size < 800 * MB, size
    for e in b.call("GET", "/v1/list", path=".").json["entries"]:
        assert b.call("DELETE", "/v1/path", path=e["name"]).status == 204
    assert b.sh("echo on")["stdout"] == "on\n"


MOVES = """
import os
os.makedirs("x/" + "/".join("d" * 60))
deep = os.open("x/" + "/".join("d" * 40), os.O_RDONLY)
os.mkdir("p", dir_fd=deep)
os.mkdir("q", dir_fd=deep)
for n in range(100):
    os.makedirs(f"x/{'/'.join('d' * 40)}/p/m/{'/'.join('e' * 30)}", exist_ok=True)
open("moving", "w").close()
big = open("big", "wb")
while True:
    os.rename("p/m", "q/m", src_dir_fd=deep, dst_dir_fd=deep)
    os.rename("q/m", "p/m", src_dir_fd=deep, dst_dir_fd=deep)
    if os.fstat(big.fileno()).st_size < 64 << 20:
        big.write(b"x" * 65536)
"""


def test_a_tree_that_keeps_moving(box, who):
    """It can't be counted to its end, or it can: either way it is noticed."""
    r = box.sh("exec /usr/bin/python3 -I -", who, stdin=MOVES, timeout=60)
    assert r["quota_exceeded"] is True, r
