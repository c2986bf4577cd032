"""The box by TLS, with the variables of its own."""
import io
import json
import os
import tarfile

from harness.tls import tls_daemon

B = "bOuNdArY"
TYPE = ("Content-Type", f"multipart/form-data; boundary={B}")


def form(*parts):
    out = b""
    for name, filename, data in parts:
        more = f'; filename="{filename}"' if filename else ""
        out += (f'--{B}\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n'.encode()
                + data + b"\r\n")
    return out + f"--{B}--\r\n".encode()


def test_tls(start_box):
    d = tls_daemon(start_box, "RUNBOX")
    assert d.request("GET", "/healthz").status == 200
    assert d.request("GET", "/v1/usage").status == 401
    assert d.call("GET", "/v1/usage").status == 200
    assert d.call("PUT", "/v1/path?path=f", b"x" * 300_000).status == 201
    assert d.call("GET", "/v1/files?path=f").body == b"x" * 300_000


def test_forms_and_archives(start_box):
    """They move bytes in ways of their own."""
    d = tls_daemon(start_box, "RUNBOX")
    big = os.urandom(1 << 20) * 9
    a = d.call("POST", "/v1/files", form(("f", "big", big)), headers=[TYPE], path="d")
    assert (a.status, a.json) == (201, {"path": "d/big", "size": len(big)})
    a = d.call("POST", "/v1/files/batch", form(*[(f"f{i}", f"f{i}", big[:300_000 + i])
                                                  for i in range(8)]), headers=[TYPE], path="d")
    assert a.status in (200, 201), repr(a)
    a = d.call("POST", "/v1/exec", form(("request", None, json.dumps({"command": "wc -c <in"}).encode()),
                                        ("file", "in", big)), headers=[TYPE])
    assert a.json["stdout"].strip() == str(len(big))
    a = d.call("GET", "/v1/archive", path="d")
    with tarfile.open(fileobj=io.BytesIO(a.body)) as tar:
        assert tar.getnames() == ["big", *[f"f{i}" for i in range(8)]]
        assert tar.extractfile("big").read() == big
        assert tar.extractfile("f7").read() == big[:300_007]


def test_half_set(start_box):
    d = start_box(env={"RUNBOX_TLS_KEY": "/etc/key"}, up=False)
    assert d.wait_exit()["status"] == 2
    assert "RUNBOX_TLS_CERT and RUNBOX_TLS_KEY go together" in d.log()
