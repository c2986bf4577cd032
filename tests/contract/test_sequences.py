"""Many requests of all kinds on one connection, in seeded random order, against a model of the workspace: nothing of one
request may show in the next. (A second listing once began where the last file had ended.)"""
import random

import pytest


class Model:
    """What the workspace's folder must hold after each request, and what each must answer."""

    def __init__(self, c, box, seed):
        self.c, self.box, self.rand, self.files = c, box, random.Random(seed), {}

    def path(self):
        return self.rand.choice("abcd")

    def put(self):
        name, body = self.path(), self.rand.randbytes(self.rand.choice((0, 1, 5000, 300000)))
        a = self.c.request("PUT", f"/files/{self.box}/{name}", body)
        assert a.status == (200 if name in self.files else 201)
        self.files[name] = body

    def get(self):
        name = self.path()
        a = self.c.request("GET", f"/files/{self.box}/{name}")
        assert (a.status, a.body) == (200, self.files[name]) if name in self.files else a.status == 404

    def get_range(self):
        name = self.path()
        a = self.c.request("GET", f"/files/{self.box}/{name}", headers=[("Range", "bytes=3-9")])
        want = self.files.get(name)
        if want is None:
            assert a.status == 404
        elif len(want) > 3:
            assert (a.status, a.body) == (206, want[3:10])
        else:
            assert a.status == 416

    def head(self):
        name = self.path()
        a = self.c.request("HEAD", f"/files/{self.box}/{name}")
        assert a.status == (200 if name in self.files else 404)

    def list(self):
        a = self.c.request("GET", f"/files/{self.box}/")
        assert [(e["name"], e["size"]) for e in a.json["entries"]] == sorted(
            (n, len(b)) for n, b in self.files.items())

    def delete(self):
        name = self.path()
        a = self.c.request("DELETE", f"/files/{self.box}/{name}")
        assert a.status == (204 if self.files.pop(name, None) is not None else 404)

    def run(self):
        n = self.rand.choice((0, 1, 70000))
        a = self.c.request("POST", "/execute", b'{"command":"head -c %d /dev/zero | tr \\"\\\\0\\" x; echo e >&2"}' % n)
        assert (a.status, a.json["stdout"], a.json["stderr"]) == (200, "x" * n, "e\n")

    def bad(self):
        assert self.c.request("GET", f"/files/{self.box}/../x").status == 400
        assert self.c.request("POST", "/execute", b"{").status == 400

    def step(self):
        self.rand.choice((self.put, self.get, self.get_range, self.head, self.list, self.delete, self.run, self.bad))()


@pytest.mark.parametrize("seed", range(4))
def test_any_order(seat, box, seed):
    (seat.ws / box).chmod(0o777)
    with seat.conn() as c:
        m = Model(c, box, seed)
        for _ in range(150):
            m.step()
