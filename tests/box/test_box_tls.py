"""The box by TLS, with the variables of its own."""
from harness.tls import tls_daemon


def test_tls(start_box):
    d = tls_daemon(start_box, "RUNBOX")
    assert d.request("GET", "/healthz").status == 200
    assert d.request("GET", "/v1/usage").status == 401
    assert d.call("GET", "/v1/usage").status == 200
    assert d.call("PUT", "/v1/path?path=f", b"x" * 300_000).status == 201
    assert d.call("GET", "/v1/files?path=f").body == b"x" * 300_000


def test_half_set(start_box):
    d = start_box(env={"RUNBOX_TLS_KEY": "/etc/key"}, up=False)
    assert d.wait_exit()["status"] == 2
    assert "RUNBOX_TLS_CERT and RUNBOX_TLS_KEY go together" in d.log()
