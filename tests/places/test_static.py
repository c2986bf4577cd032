"""The static file: what it is made of. That it serves is what the contract tests show, run with it."""
import re
import struct

from harness import names

PT_LOAD, PT_DYNAMIC, PT_INTERP, PT_GNU_EH_FRAME, PT_GNU_STACK, PT_GNU_RELRO = 1, 2, 3, 0x6474e550, 0x6474e551, 0x6474e552
DT_NEEDED, DT_TEXTREL, DT_FLAGS_1 = 1, 22, 0x6ffffffb
DF_1_NOW, DF_1_PIE = 1, 0x08000000
PF_X, PF_W = 1, 2


def segments(data):
    offset, = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    for n in range(count):
        kind, flags, at, _, _, length = struct.unpack_from("<IIQQQQ", data, offset + n * size)
        yield kind, flags, data[at:at + length]


def test_the_file():
    data = names.STATIC.read_bytes()
    assert len(data) <= 8 << 20
    assert data[:4] == b"\x7fELF" and struct.unpack_from("<H", data, 16) == (3,), "no ET_DYN"
    found = list(segments(data))
    kinds = {k: f for k, f, _ in found}
    assert PT_INTERP not in kinds, "it wants a loader"
    assert PT_GNU_RELRO in kinds and kinds[PT_GNU_STACK] & PF_X == 0
    assert not [f for k, f, _ in found if k == PT_LOAD and f & PF_X and f & PF_W]
    dynamic = next(d for k, _, d in found if k == PT_DYNAMIC)
    tags = dict(struct.iter_unpack("<QQ", dynamic))
    assert DT_NEEDED not in tags and DT_TEXTREL not in tags
    assert tags[DT_FLAGS_1] & DF_1_NOW and tags[DT_FLAGS_1] & DF_1_PIE


def test_it_is_stripped_and_has_the_stack_protector():
    data = names.STATIC.read_bytes()
    offset, = struct.unpack_from("<Q", data, 40)
    size, count, strings = struct.unpack_from("<HHH", data, 58)
    sections = [struct.unpack_from("<IIQQQQ", data, offset + n * size) for n in range(count)]
    table = sections[strings][4]
    names_ = {data[table + s[0]:data.index(b"\0", table + s[0])] for s in sections}
    assert not names_ & {b".symtab", b".debug_info"}, names_
    assert b"*** stack smashing detected ***" in data or b"stack smashing detected" in data
    assert b"buffer overflow detected" in data


def test_nothing_unwinds():
    """It has no tables for that."""
    data = names.STATIC.read_bytes()
    assert PT_GNU_EH_FRAME not in {kind for kind, _, _ in segments(data)}
    for path in (names.ROOT / "src").rglob("*.c"):
        assert not re.search(r"\bpthread_(exit|cancel)\s*\(|\bbacktrace\s*\(", path.read_text()), path
