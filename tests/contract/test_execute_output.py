"""POST /execute: what comes back of the two streams: limits, whole characters, UTF-8 repair."""
import pytest

from harness import names

MIB = 1 << 20


def test_big_output_is_cut_at_1_mib(seat):
    r = seat.run("head -c 5242880 /dev/zero | tr '\\0' x; echo end >&2")
    assert r["stdout"] == "x" * MIB and r["stdout_truncated"] is True
    assert r["stderr"] == "end\n" and r["stderr_truncated"] is False
    assert r["exit_code"] == 0


def test_both_streams_big_at_once(seat):
    r = seat.run("(head -c 5242880 /dev/zero | tr '\\0' a) & head -c 5242880 /dev/zero | "
                 "tr '\\0' b >&2; wait")
    assert r["stdout"] == "a" * MIB and r["stderr"] == "b" * MIB
    assert r["stdout_truncated"] and r["stderr_truncated"]


def test_the_rest_is_read_and_dropped(seat, box):
    """Not a closed pipe: the command gets to its end."""
    r = seat.run("head -c 20000000 /dev/zero && echo whole > done", cwd=box)
    assert r["exit_code"] == 0 and (seat.ws / box / "done").read_text() == "whole\n"


@pytest.mark.parametrize("size,cut", [(MIB - 1, False), (MIB, False), (MIB + 1, True)])
def test_exact_limit(seat, size, cut):
    r = seat.run(f"head -c {size} /dev/zero | tr '\\0' x")
    assert len(r["stdout"]) == min(size, MIB) and r["stdout_truncated"] is cut


def test_large_output_needs_escapes(seat):
    r = seat.run("head -c 1048576 /dev/zero | tr '\\0' '\\1'")
    assert r["stdout"] == "\1" * MIB


def test_nul_bytes_come_back(seat):
    assert seat.run("printf 'a\\0b\\0'")["stdout"] == "a\0b\0"


@pytest.mark.parametrize("raw,want", [
    ("\\377", "\ufffd"), ("a\\377b", "a\ufffdb"), ("\\303", "\ufffd"), ("\\303\\251", "é"),
    ("\\342\\202", "\ufffd"), ("\\342\\202x", "\ufffdx"), ("\\342\\202\\254", "€"),
    ("\\200\\200", "\ufffd\ufffd"), ("\\355\\240\\200", None), ("\\300\\257", None),
    ("\\364\\220\\200\\200", None), ("\\360\\237\\230\\200", "😀"), ("\\360\\237\\230", "\ufffd"),
    ("\\357\\273\\277x", "\ufeffx"), ("\\357\\277\\276", "\ufffe")])
def test_utf8_repair(seat, raw, want):
    got = seat.run(f"printf '<{raw}>'; printf '<{raw}>' >&2")
    if want is None:  # refused sequences: how many marks they give is not promised
        assert set(got["stdout"][1:-1]) == {"\ufffd"}
    else:
        assert got["stdout"] == f"<{want}>"
    assert got["stdout"] == got["stderr"]
    assert not got["stdout_truncated"]


def test_a_character_split_over_two_writes(seat):
    r = seat.run("printf '\\303'; sleep 0.2; printf '\\251'; printf '\\360\\237'; sleep 0.2; "
                 "printf '\\230\\200'")
    assert r["stdout"] == "é😀"


def test_random_bytes_are_valid_json(seat):
    r = seat.run("head -c 300000 /dev/urandom; head -c 300000 /dev/urandom >&2")
    assert "\ufffd" in r["stdout"] and "\ufffd" in r["stderr"]


SMALL = {names.MAX_OUTPUT: "10"}


@pytest.fixture(scope="module")
def small():
    from harness.daemon import Daemon
    d = Daemon(env=SMALL)
    try:
        d.wait_up()
    except BaseException:
        d.destroy()
        raise
    yield d
    d.stop()


@pytest.mark.parametrize("text,want", [
    ("0123456789", "0123456789"), ("0123456789x", "0123456789"), ("012345678é", "012345678"),
    ("01234567é", "01234567é"), ("012345678€", "012345678"), ("01234567€", "01234567"),
    ("0123456€", "0123456€"), ("0123456😀", "0123456"), ("01234567😀", "01234567"),
    ("012345678😀", "012345678"), ("012345😀", "012345😀"), ("😀😀😀", "😀😀")])
def test_cut_at_a_whole_character(small, text, want):
    r = small.run(f"printf '{text}'; printf '{text}' >&2")
    assert r["stdout"] == want and r["stderr"] == want
    assert r["stdout_truncated"] is (text != want)


def test_limits_are_per_stream(small):
    r = small.run("printf 0123456789; printf 0123456789 >&2")
    assert (r["stdout_truncated"], r["stderr_truncated"]) == (False, False)


def test_output_of_children_is_included(seat):
    r = seat.run("(echo sub); sh -c 'echo deeper'; echo $(echo x)")
    assert r["stdout"] == "sub\ndeeper\nx\n"


def test_closed_outputs(seat):
    r = seat.run("exec >&- 2>&-; sleep 0.1; exit 7")
    assert (r["stdout"], r["stderr"], r["exit_code"]) == ("", "", 7)
