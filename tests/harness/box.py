"""box.py: a fenced daemon in its box form: many identities, an API key, a root folder."""
import hashlib
import json
import os
import sqlite3
import urllib.parse

from . import names, places, procs
from .daemon import Daemon
from .http import Conn

KEY = "test-key-0123456789abcdef"
UID_MIN, UID_MAX = names.UID_MIN, names.UID_MIN + 999


def canonical(*fields):
    """What an identity's workspace is named by: docs/box.md "Identity"."""
    tag = b"sallyport identity 1" if len(fields) == 1 else b"sallyport tenant and user 1"
    h = hashlib.sha256()
    for part in (tag, *(f.encode() for f in fields)):
        h.update(len(part).to_bytes(4, "big") + part)
    return h.hexdigest()


def unnamed(uid):
    """The key under which the registry holds a user id for nobody yet."""
    return f"{uid:064x}"


def identity(*fields):
    """Headers of form A (one field) or form B (two)."""
    if len(fields) == 1:
        return [("X-Runbox-Identity", fields[0])]
    return [("X-Runbox-Tenant", fields[0]), ("X-Runbox-User", fields[1])]


SIX = {"caps": places.SIX, "no_new_privs": True}


def off(layers):
    return {"env": {names.TEST_DISABLE: layers, names.ACCEPT_MISSING: layers}}


# Each plan in which commands can have user ids of their own, and what is left where a host lacks a layer.
KINDS = {
    "root": {}, "pid1": {"launch": {"pid1": True}}, "basic": {"env": {"SALLYPORT_ISOLATION": "basic"}},
    "six-caps": {"launch": SIX}, "six-caps-no-userns": {"launch": {**SIX, "deny_userns": True}},
    "no-landlock": off("landlock"), "no-view": off("view"), "no-pid-ns": off("pid-ns"), "no-ipc-ns": off("ipc-ns"),
    "no-seccomp": off("seccomp"), "user-ids-alone": off("landlock,view,seccomp,signal-scope"),
}


class Box(Daemon):
    def __new__(cls, *args, **kw):
        if places.HERE.box != "fence":
            from . import containers
            cls = type(cls.__name__, (cls, containers.BOXES[places.HERE.box]), {})
        return super().__new__(cls)

    def __init__(self, env=None, prepare=None, args=("box",), **kw):
        settings = {names.WORKSPACE: None, names.PORT: None, names.BIND: None, "SALLYPORT_USER": None,
                    "RUNBOX_API_KEY": KEY, "RUNBOX_PORT": "0", "RUNBOX_BIND": "127.0.0.1",
                    "RUNBOX_UID_MIN": UID_MIN, "RUNBOX_UID_MAX": UID_MAX}
        settings.update(env or {})

        def first(d):
            d.root = d.base / "data"
            if "RUNBOX_ROOT" not in (env or {}):
                d.late_env["RUNBOX_ROOT"] = str(d.root)
            if prepare:
                prepare(d)
        super().__init__(plan="user" if kw.pop("uid", 0) else "root-uid1000", env=settings, args=args, prepare=first, **kw)

    # ---- life ----
    def kill_everything(self):
        """kill -9 of every process of the fence at once."""
        self.outer.kill()
        self.outer.wait()
        os.close(self.status_r)
        self.exit = {"status": None, "left": [], "orphans": 0}

    def again(self, up=True):
        """After kill_everything, or an end of its own: a new daemon on the same root folder."""
        if self.exit and self.exit["status"] is not None:
            os.close(self.status_r)
        self.exit, self.port = None, None
        self._start(0, ("box",), (), [], 4096)
        return self.wait_up() if up else self

    def end(self):
        """SIGTERM, waited for; the folder stays."""
        self.signal()
        report = self.wait_exit()
        assert report["status"] == 0 and report["left"] == [], f"{report}\n{self.tail()}"
        return self

    # ---- talk ----
    def call(self, method, target, body=None, who=("alice",), headers=(), key=KEY, **query):
        fields = [*headers]
        if key is not None:
            fields.append(("Authorization", f"Bearer {key}"))
        if who is not None:
            fields += identity(*who)
        if query:
            target += "?" + urllib.parse.urlencode(query)
        with self.conn() as c:
            return c.request(method, target, body, fields)

    def exec(self, command, who=("alice",), **members):
        body = json.dumps({"command": command, **members}).encode()
        return self.call("POST", "/v1/exec", body, who, [("Content-Type", "application/json")])

    def sh(self, command, who=("alice",), **members):
        a = self.exec(command, who, **members)
        assert a.status == 200, f"{a!r}\n{self.tail()}"
        return a.json

    def upload(self, path, data, who=("alice",)):
        return self.call("POST", "/v1/files", data, who, path=path)

    def download(self, path, who=("alice",), headers=()):
        return self.call("GET", "/v1/files", None, who, headers, path=path)

    def send_exec(self, command, who=("alice",), **members):
        """A connection whose command's answer nobody has read yet."""
        body = json.dumps({"command": command, **members}).encode()
        c = self.conn()
        head = [f"POST /v1/exec HTTP/1.1", "Host: t", f"Authorization: Bearer {KEY}",
                f"Content-Length: {len(body)}", *(f"{k}: {v}" for k, v in identity(*who))]
        c.send("\r\n".join(head).encode() + b"\r\n\r\n" + body)
        return c

    # ---- inside ----
    def workspace(self, *who):
        return self.root / "workspaces" / canonical(*(who or ("alice",)))

    def table(self):
        """uid -> (hex key or None, state), as the registry's file says; without the ids that it holds for nobody yet."""
        def read():
            db = sqlite3.connect(f"file:{self.root}/state/registry.db?mode=ro", uri=True)
            try:
                return [db.execute("SELECT uid, hex(key), state FROM workspace").fetchall()]
            except sqlite3.OperationalError:  # a lock that a fault left, until main has another registry
                return None
            finally:
                db.close()
        [rows] = procs.wait_for("the table can be read", read)
        return {uid: (key.lower() or None, state) for uid, key, state in rows if key.lower() != unnamed(uid)}

    def integrity(self):
        db = sqlite3.connect(self.root / "state" / "registry.db")
        try:
            return [r[0] for r in db.execute("PRAGMA integrity_check")]
        finally:
            db.close()
