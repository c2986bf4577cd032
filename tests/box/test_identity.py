"""Who may ask, and whose workspace it is: the key, both forms of an identity, and everything else."""
import hashlib

import pytest

from harness.box import KEY, canonical, identity

AUTH = [("Authorization", f"Bearer {KEY}")]
ROUTES = [("POST", "/v1/exec"), ("GET", "/v1/files?path=a"), ("POST", "/v1/files?path=a"),
          ("GET", "/v1/list"), ("PUT", "/v1/path?path=a"), ("DELETE", "/v1/path?path=a"),
          ("GET", "/v1/usage"), ("DELETE", "/v1/workspace")]


def ask(box, headers, method="GET", target="/v1/usage"):
    return box.request(method, target, b"" if method in ("POST", "PUT") else None, headers)


@pytest.mark.parametrize("method,target", [*ROUTES, ("GET", "/v1/capabilities"),
                                           ("GET", "/v1/nothing"), ("GET", "/else")])
def test_without_a_key(box, method, target):
    for headers in ([], [("Authorization", "Bearer wrong-key-0123456789")],
                    [("Authorization", f"Basic {KEY}")], [("Authorization", KEY)],
                    [("Authorization", "Bearer")], [("Authorization", f"Bearer {KEY}x")],
                    [("Authorization", f"Bearer {KEY[:-1]}")], AUTH + AUTH):
        a = ask(box, headers + identity("alice"), method, target)
        assert (a.status, a.code) == (401, "unauthorized"), headers
        assert a.get("www-authenticate").startswith("Bearer")


def test_the_scheme_in_any_case(box):
    assert ask(box, [("authorization", f"bEaReR   {KEY}")] + identity("alice")).status == 200


def test_open_addresses(box):
    for target in ("/healthz", "/ready"):
        assert ask(box, [], target=target).status == 200
        assert ask(box, [], "POST", target).status == 405


@pytest.mark.parametrize("method,target", ROUTES)
def test_without_an_identity(box, method, target):
    a = ask(box, AUTH, method, target)
    assert (a.status, a.code) == (400, "bad_identity")


I, T, U = "X-Runbox-Identity", "X-Runbox-Tenant", "X-Runbox-User"


@pytest.mark.parametrize("headers", [
    [(I, "")], [(I, "  ")], [(I, "a b")], [(I, "a"), (I, "a")], [(I, "a"), (I, "b")],
    [(I, "x" * 257)], [(I, "é" * 129)], [(T, "t")], [(U, "u")], [(T, ""), (U, "u")],
    [(T, "t"), (U, "")], [(T, "t"), (T, "t"), (U, "u")], [(I, "a"), (T, "t"), (U, "u")],
    [(I, "a"), (U, "u")], [(T, "t" * 257), (U, "u")], [(I, "a\tb")], [(I, "\u0085")],
])
def test_bad_identities(box, headers):
    raw = b"GET /v1/usage HTTP/1.1\r\nHost: t\r\n" + b"".join(
        f"{k}: {v}\r\n".encode() for k, v in AUTH + headers) + b"\r\n"
    with box.conn() as c:
        c.send(raw)
        a = c.answer()
    assert (a.status, a.code) == (400, "bad_identity")


@pytest.mark.parametrize("value", [b"\xff\xfe", b"a\xc3", b"\xed\xa0\x80"])
def test_not_utf8(box, value):
    with box.conn() as c:
        c.send(b"GET /v1/usage HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer " + KEY.encode() +
               b"\r\nX-Runbox-Identity: " + value + b"\r\n\r\n")
        a = c.answer()
    assert (a.status, a.code) == (400, "bad_identity")


@pytest.mark.parametrize("name", ["a", "x" * 256, "é" * 128, "a/../b", "..", "-", "日本", "A"])
def test_good_identities(box, name):
    with box.conn() as c:
        c.send(b"GET /v1/usage HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer " + KEY.encode() +
               b"\r\nX-Runbox-Identity: " + name.encode() + b"\r\n\r\n")
        assert c.answer().status == 200
    assert box.workspace(name).is_dir()
    assert box.workspace(name).stat().st_mode & 0o7777 == 0o700


def test_forms_are_apart(box):
    """The pair, its parts put together in any way, and the order of the pair: all are different."""
    forms = [("tenant", "user"), ("user", "tenant"), ("tenantuser",), ("tenant/user",),
             ("tenantu", "ser"), ("tenant",), ("user",)]
    pwd = {box.sh("pwd; id -u", who=w)["stdout"] for w in forms}
    assert len(pwd) == len(forms)
    for w in forms:
        assert box.sh("basename $PWD", who=w)["stdout"].strip() == canonical(*w)
    assert canonical("a") == hashlib.sha256(
        b"\0\0\0\x14sallyport identity 1\0\0\0\x01a").hexdigest()


def test_names_reach_no_log(box):
    secret = "Very-Secret-Name"
    box.sh("true", who=(secret,))
    assert secret not in box.log() and KEY not in box.log()
    assert canonical(secret) not in box.log()


def test_several_keys(start_box):
    """A list, so that keys can be changed one after the other."""
    b = start_box(env={"RUNBOX_API_KEY": f"{KEY},another-key-9876543210"})
    for key in (KEY, "another-key-9876543210"):
        assert b.call("GET", "/v1/usage", key=key).status == 200
    assert b.call("GET", "/v1/usage", key=f"{KEY},another-key-9876543210").status == 401
