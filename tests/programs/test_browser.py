"""Headless Chromium without its own sandbox (it needs namespaces and ptrace) renders local pages, inside and bare."""
import re
import struct
import zlib

import data_files as data

PAGE = data.tree("", "page.html")
CHROMIUM = "chromium --headless --no-sandbox --disable-gpu --virtual-time-budget=20000 --user-data-dir=$PWD/profile"


def no_chatter(text):
    """Its complaints about the session bus and the like hold times and process numbers."""
    return "" if re.search(r"\d{4}/\d{6}\.\d+", text) else text


def pixels(png):
    """Width, height and the rows of an 8-bit RGB or RGBA picture, as lists of (r, g, b)."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    at, packed = 8, b""
    while at < len(png):
        size, kind = struct.unpack(">I4s", png[at:at + 8])
        body = png[at + 8:at + 8 + size]
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack(">IIBB", body[:10])
            assert depth == 8 and colour in (2, 6)
        packed += body if kind == b"IDAT" else b""
        at += size + 12
    raw, n = zlib.decompress(packed), 3 if colour == 2 else 4
    rows, before = [], bytes(width * n)
    for y in range(height):
        kind, line = raw[y * (width * n + 1)], bytearray(raw[y * (width * n + 1) + 1:(y + 1) * (width * n + 1)])
        for i in range(len(line)):
            a, b, c = line[i - n] if i >= n else 0, before[i], before[i - n] if i >= n else 0
            paeth = min((abs(b - c), 0, a), (abs(a - c), 1, b), (abs(a + b - 2 * c), 2, c))[2]
            line[i] = (line[i] + (0, a, b, (a + b) // 2, paeth)[kind]) & 255
        rows.append([tuple(line[x * n:x * n + 3]) for x in range(width)])
        before = bytes(line)
    return width, height, rows


def test_dump_dom(twin):
    out, *_ = twin.run(f"{CHROMIUM} --dump-dom file://$PWD/page.html", PAGE, clean=no_chatter)
    for text in ("<p>sum 4950</p>", "<p>size 50x40</p>", "<p>wasm 42</p>", "<p>worker 42</p>"):
        assert text in out


def test_screenshot(twin):
    _, inside, bare = twin.run(f"{CHROMIUM} --screenshot=$PWD/shot.png --window-size=200,100 --hide-scrollbars file://$PWD/page.html",
                               PAGE, clean=no_chatter, again=True)
    for ws in (inside, bare):
        width, height, rows = pixels((ws / "shot.png").read_bytes())
        assert (width, height) == (200, 100) and rows[10][10] == (0, 0, 255) and rows[10][150] == (255, 0, 0)
    assert pixels((inside / "shot.png").read_bytes()) == pixels((bare / "shot.png").read_bytes())


def test_pdf_of_a_page_from_a_server(twin):
    """The network service of the browser and a server of the same command; the profile is the default one in HOME."""
    _, inside, _ = twin.run(r"""
        PYTHONUNBUFFERED=1 python3 -m http.server -d . --bind 127.0.0.1 0 >srv 2>/dev/null &
        until grep -q port srv 2>/dev/null; do sleep 0.02; done
        u=http://127.0.0.1:$(grep -o 'port [0-9]*' srv | cut -c6-)
        chromium --headless --no-sandbox --print-to-pdf=$PWD/p.pdf $u/page.html; kill %1
        """, PAGE, clean=no_chatter)
    assert (inside / "p.pdf").read_bytes()[:5] == b"%PDF-"
