"""Every route of the box with each of eight kinds of request: good, without the key, from either form of an identity,
from a bad one, too large, of the wrong type, for what is missing, and for another identity's path. The table has a row
for each route that docs/openapi-box.yaml has, and no cell of it is empty."""
import itertools
import json

import pytest

from harness.box import KEY, identity
from harness.openapi import Document

DOCUMENT = Document("openapi-box.yaml")
BOX_ENV = {"RUNBOX_MAX_UPLOAD": "100000"}
ME, PAIR, OTHER = ("classes-me",), ("classes", "me"), ("classes-other",)
JSON = [("Content-Type", "application/json")]
B = "bOuNdArY"
FORM = [("Content-Type", f"multipart/form-data; boundary={B}")]
BIG = b"x" * 100001
SECRET = b"of the other"
OPEN = ("/healthz", "/ready")  # nobody has to show a key
NO_IDENTITY = (*OPEN, "/v1/capabilities", "/metrics")  # nor say who asks
BAD_IDENTITIES = ([], [("X-Runbox-Identity", "")], [("X-Runbox-Identity", "a b")], [("X-Runbox-Identity", "x" * 257)],
                  [("X-Runbox-Tenant", "a")], [("X-Runbox-User", "b")], identity("a") + identity("b"),
                  identity("a") + identity("a", "b"))


def form(*parts):
    out = b""
    for name, filename, data in parts:
        more = f'; filename="{filename}"' if filename is not None else ""
        out += f'--{B}\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n'.encode() + data + b"\r\n"
    return out + f"--{B}--\r\n".encode()


def command(**members):
    return json.dumps({"command": "true", **members}).encode()


class Ask:
    """A request, and what must come of it. after: what the workspace must say then, as a shell's test."""

    def __init__(self, status, code=None, query="", body=None, headers=(), after=None):
        self.status, self.code, self.query, self.body, self.headers, self.after = status, code, query, body, list(headers), after


def reads(folder):
    """What routes that read a file, or a folder, are asked."""
    what, inner, other = ("d", "tree/a", "f") if folder else ("f", "d/g", "d")
    rows = {"good": [Ask(200, query=f"path={what}"), Ask(200, query=f"path={inner}")],
            "too large": [Ask(400, "bad_path", f"path={'x' * 256}"), Ask(400, "bad_path", "path=" + "/".join(["y" * 200] * 21)),
                          Ask(414, None, "path=" + "x" * 100000)],
            "wrong type": [Ask(400, "not_a_directory" if folder else "is_directory", f"path={other}"),
                           Ask(400, "bad_query", f"path={what}&x=1")],
            "missing": [Ask(404, "not_found", "path=none"), Ask(404, "not_found", "path=none/x")]}
    if not folder:
        rows["missing"] += [Ask(400, "bad_query", "")]
    return rows


def whole(good):
    """Routes that take no path."""
    return {"good": good, "too large": [Ask(414, None, "x=" + "x" * 100000)], "wrong type": [Ask(400, "bad_query", "x=1", after="test -e f")],
            "missing": []}


LARGE_JSON = b" " * (1 << 20) + command()
# route and method -> kind of request -> what is asked
TABLE = {
    ("/v1/exec", "post"): {
        "good": [Ask(200, body=command(), headers=JSON), Ask(200, body=form(("request", None, command()), ("f", "n", b"x")), headers=FORM, after="rm n")],
        "too large": [Ask(413, "command_too_long", body=command(command="x" * 200000), headers=JSON),
                      Ask(413, "body_too_large", body=LARGE_JSON, headers=JSON),
                      Ask(413, "body_too_large", body=form(("request", None, command()), ("f", "big", BIG)), headers=FORM, after="! test -e big")],
        "wrong type": [Ask(415, "bad_media_type", body=command(), headers=[("Content-Type", "text/plain")]),
                       Ask(400, "bad_json", body=b"{", headers=JSON), Ask(400, "bad_field", body=command(command=1), headers=JSON),
                       Ask(400, "bad_field", body=command(timeout="1"), headers=JSON)],
        "missing": [Ask(400, "bad_field", body=b"{}", headers=JSON), Ask(400, None, body=b"", headers=JSON),
                    Ask(404, "not_found", body=command(cwd="none"), headers=JSON),
                    Ask(400, "bad_field", body=form(("f", "n", b"x")), headers=FORM)]},
    ("/v1/files", "get"): reads(folder=False),
    ("/v1/files", "head"): reads(folder=False),
    ("/v1/files", "post"): {
        "good": [Ask(201, query="path=new", body=b"x", after="rm new"), Ask(200, query="path=f", body=b"again"),
                 Ask(201, query="path=d", body=form(("f", "new", b"x")), headers=FORM, after="rm d/new")],
        "too large": [Ask(413, "body_too_large", "path=big", BIG, after="! test -e big"), Ask(400, "bad_path", f"path={'x' * 256}", b"x"),
                      Ask(413, "body_too_large", "path=d", form(("f", "big", BIG)), FORM, after="! test -e d/big")],
        "wrong type": [Ask(415, "bad_media_type", "path=new", b"x", [("Content-Encoding", "gzip")], after="! test -e new"),
                       Ask(415, "bad_media_type", "path=new", b"x", [("Content-Type", "multipart/mixed; boundary=x")], after="! test -e new"),
                       Ask(409, "is_a_directory", "path=d", b"x"), Ask(400, None, "path=d", b"x", FORM)],
        "missing": [Ask(400, None, "", b"x"), Ask(400, "bad_path", "path=", b"x"), Ask(400, None, "path=d", form(), FORM)]},
    ("/v1/files/batch", "post"): {
        "good": [Ask(200, body=form(("f", "n/1", b"1"), ("f", "n/2", b"2")), headers=FORM, after="test -e n/1 && rm -r n"),
                 Ask(200, query="path=d", body=form(("f", "n", b"1")), headers=FORM, after="rm d/n")],
        "too large": [Ask(413, "body_too_large", body=form(("f", "n", b"1"), ("f", "big", BIG)), headers=FORM, after="! test -e n"),
                      Ask(400, None, body=form(("f", "x" * 256, b"1")), headers=FORM)],
        "wrong type": [Ask(415, "bad_media_type", body=b"x", headers=JSON), Ask(400, None, body=b"x", headers=FORM),
                       Ask(409, "not_a_directory_conflict", "path=f", form(("f", "n", b"1")), FORM),
                       Ask(409, "is_a_directory", body=form(("f", "n", b"1"), ("f", "d", b"2")), headers=FORM, after="! test -e n")],
        "missing": [Ask(400, None, body=form(), headers=FORM), Ask(400, None, body=b"", headers=FORM),
                    Ask(400, None, body=form(("f", "", b"1")), headers=FORM)]},
    ("/v1/list", "get"): reads(folder=True),
    ("/v1/list", "head"): reads(folder=True),
    ("/v1/archive", "get"): reads(folder=True),
    ("/v1/path", "put"): {
        "good": [Ask(201, query="path=new", body=b"x", after="rm new"), Ask(200, query="path=f", body=b"again"),
                 Ask(201, query="path=form", body=form(("f", "n", b"x")), headers=FORM, after="grep -q bOuNdArY form && rm form")],
        "too large": [Ask(413, "body_too_large", "path=big", BIG, after="! test -e big"), Ask(400, "bad_path", f"path={'x' * 256}", b"x")],
        "wrong type": [Ask(415, "bad_media_type", "path=new", b"x", [("Content-Encoding", "gzip")], after="! test -e new"),
                       Ask(409, "is_a_directory", "path=d", b"x"), Ask(409, "not_a_directory_conflict", "path=f/x", b"x")],
        "missing": [Ask(400, None, "", b"x"), Ask(400, "bad_path", "path=", b"x")]},
    ("/v1/path", "delete"): {
        "good": [Ask(204, query="path=gone", after="! test -e gone; echo x > gone"),
                 Ask(204, query="path=tree&recursive=true", after="! test -e tree; mkdir -p tree/a")],
        "too large": [Ask(400, "bad_path", f"path={'x' * 256}"), Ask(414, None, "path=" + "x" * 100000)],
        "wrong type": [Ask(409, None, "path=tree", after="test -d tree/a"), Ask(400, "bad_query", "path=f&recursive=maybe", after="test -e f")],
        "missing": [Ask(404, "not_found", "path=none"), Ask(400, None, "")]},
    ("/v1/usage", "get"): whole([Ask(200)]),  # one that isn't there is made: test_a_workspace_is_removed
    ("/v1/workspace", "delete"): whole([]),  # the same test: it needs workspaces of its own
}
TABLE |= {(path, m): whole([Ask(200)]) for path in NO_IDENTITY for m in ("get", "head")}
ROUTES = sorted(TABLE)
OWNED = [r for r in ROUTES if r[0] not in NO_IDENTITY]


def test_every_route_is_here():
    assert set(TABLE) == set(DOCUMENT.operations)


@pytest.fixture(scope="module", name="ready")
def fixture_ready(box):
    for who in (ME, PAIR):
        box.sh("echo mine > f; mkdir -p d tree/a; echo g > d/g; echo x > gone", who)
    box.sh(f"mkdir d; printf '{SECRET.decode()}' > secret; cp secret d/", OTHER)
    return box


def send(b, route, ask, headers):
    path, method = route
    body = ask.body if ask.body is not None else b"" if method in ("post", "put") else None
    a = b.request(method.upper(), path + ("?" + ask.query if ask.query else ""), body, headers + ask.headers)
    DOCUMENT.check(path, method, a)
    return a


def said(route, ask, a):
    return f"{route} ?{ask.query[:80]}: {a.status} {a.body[:300]}, not {ask.status} {ask.code}"


KEYED = [("Authorization", f"Bearer {KEY}")]


@pytest.mark.parametrize("kind", ["good", "too large", "wrong type", "missing"])
@pytest.mark.parametrize("who", [ME, PAIR], ids=["name", "pair"])
@pytest.mark.parametrize("route", ROUTES, ids=" ".join)
def test_answers(ready, route, who, kind):
    """For both forms of an identity, whose workspaces are two."""
    for ask in TABLE[route][kind]:
        a = send(ready, route, ask, KEYED + identity(*who))
        assert a.status == ask.status and (ask.code is None or route[1] == "head" or a.code == ask.code), said(route, ask, a)
        if ask.after:
            assert ready.sh(ask.after, who)["exit_code"] == 0, f"{said(route, ask, a)}: {ask.after}"


def state(b, who):
    return b.sh("find . -type f -exec sha256sum {} +; find . | sort", who)["stdout"]


@pytest.mark.parametrize("route", ROUTES, ids=" ".join)
def test_without_the_key(ready, route):
    """Nothing is done, whatever is asked."""
    before = state(ready, ME)
    for ask in itertools.chain(*TABLE[route].values(), [Ask(200)]):
        for wrong in ([], [("Authorization", f"Bearer {KEY}x")], [("Authorization", f"Basic {KEY}")], KEYED + KEYED):
            a = send(ready, route, ask, wrong + identity(*ME))
            assert a.status == (ask.status if route[0] in OPEN or ask.status == 414 else 401), said(route, ask, a)
    assert state(ready, ME) == before


@pytest.mark.parametrize("route", ROUTES, ids=" ".join)
def test_from_a_bad_identity(ready, route):
    """Routes that need none ignore what is there."""
    ask = (TABLE[route]["good"] or TABLE[route]["wrong type"])[0]
    for headers in BAD_IDENTITIES:
        a = send(ready, route, ask, KEYED + headers)
        if route in OWNED:
            assert a.status == 400 and (route[1] == "head" or a.code == "bad_identity"), f"{headers}: {said(route, ask, a)}"
        else:
            assert a.status == ask.status, said(route, ask, a)


@pytest.mark.parametrize("who", [ME, PAIR], ids=["name", "pair"])
@pytest.mark.parametrize("route", OWNED, ids=" ".join)
def test_for_another_identity_s_path(ready, route, who):
    """By its absolute path, from the parent folder, and by links that a command made. Nothing of it is told, and
    nothing there changes."""
    there, path = ready.workspace(*OTHER), route[0]
    before = sorted((p.name, p.stat().st_mtime_ns) for p in there.iterdir())
    for name in (str(there), f"../{there.name}", "to", "up"):
        for p in (name, f"{name}/secret", f"{name}/d", "file"):
            if path == "/v1/exec":
                asks = [Ask(0, body=command(command="cat secret; ls", cwd=p), headers=JSON),
                        Ask(0, body=form(("request", None, command()), ("f", f"{p}/x", b"x")), headers=FORM)]
            elif path == "/v1/files/batch":
                asks = [Ask(0, query=f"path={p}", body=form(("f", "x", b"x")), headers=FORM),
                        Ask(0, body=form(("f", f"{p}/x", b"x")), headers=FORM)]
            elif path in ("/v1/usage", "/v1/workspace"):
                asks = [Ask(0, query=f"path={p}")]
            else:
                asks = [Ask(0, query=f"path={p}", body=None if route[1] in ("get", "head", "delete") else b"x")]
            for ask in asks:
                ready.sh(f"rm -rf to up file; ln -s {there} to; ln -s ../{there.name} up; ln -s {there}/secret file", who)
                a = send(ready, route, ask, KEYED + identity(*who))
                if p in ("to", "up", "file") and path in ("/v1/files", "/v1/path") and a.status in (200, 201, 204):
                    continue  # the link is one's own: it is removed, or a file takes its place
                assert a.status in (400, 403, 404, 409) and SECRET not in a.body, said(route, ask, a)
    assert sorted((p.name, p.stat().st_mtime_ns) for p in there.iterdir()) == before
    assert (there / "secret").read_bytes() == SECRET and (there / "d/secret").read_bytes() == SECRET


@pytest.mark.parametrize("who", [("classes-gone",), ("classes", "gone")], ids=["name", "pair"])
def test_a_workspace_is_removed(ready, who):
    """`good` and `missing` of the two routes that are about the whole of it."""
    gone, usage = ("/v1/workspace", "delete"), ("/v1/usage", "get")
    assert send(ready, gone, Ask(404), KEYED + identity(*who)).code == "not_found"
    assert send(ready, usage, Ask(200), KEYED + identity(*who)).json["entries"] == 0
    ready.sh("echo x > f; (setsid sleep 1000 &)", who)
    assert send(ready, gone, Ask(204), KEYED + identity(*who)).status == 204
    assert not ready.workspace(*who).exists() and ready.workspace(*OTHER).exists()
    assert send(ready, gone, Ask(404), KEYED + identity(*who)).status == 404


@pytest.mark.parametrize("route", [r for r in ROUTES if r not in OWNED], ids=" ".join)
def test_what_is_for_all_names_nobody(ready, route):
    a = send(ready, route, Ask(200), KEYED)
    for who in (ME, PAIR, OTHER):
        assert ready.workspace(*who).name[:8].encode() not in a.body and who[0].encode() not in a.body
