"""POST /v1/exec as events: as the seat's, and each identity's for itself."""
import json

from harness import procs
from harness.box import KEY, identity
from harness.events import Stream

BOUNDARY = "b0undary"


def begin(box, who, body, kind="application/json"):
    c = box.conn()
    head = ["POST /v1/exec HTTP/1.1", "Host: t", f"Authorization: Bearer {KEY}", "Accept: text/event-stream",
            f"Content-Type: {kind}", f"Content-Length: {len(body)}", *(f"{k}: {v}" for k, v in identity(*who))]
    c.send("\r\n".join(head).encode() + b"\r\n\r\n" + body)
    return Stream(c)


def command(text, **members):
    return json.dumps({"command": text, **members}).encode()


def test_a_command(box, who):
    s = begin(box, who, command("echo out; echo err >&2; exit 3"))
    s.head()
    out, err, end = s.all()
    assert (out, err, end["exit_code"]) == ("out\n", "err\n", 3)
    s.conn.close()


def test_with_a_file_along(box, who):
    """The body is read through the connection's buffer, and Accept must outlive that."""
    body = (f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="request"\r\n\r\n'.encode()
            + command("wc -c < given; echo end")
            + f'\r\n--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="given"\r\n\r\n'.encode()
            + b"x" * 200_000 + f"\r\n--{BOUNDARY}--\r\n".encode())
    s = begin(box, who, body, f"multipart/form-data; boundary={BOUNDARY}")
    s.head()
    assert s.status == 200
    out, _, end = s.all()
    assert (out, end["exit_code"]) == ("200000\nend\n", 0)
    s.conn.close()


def test_two_identities_at_once(box, who):
    """One reader that stops doesn't stop the other's command."""
    stopped = begin(box, who, command("yes"))
    stopped.head()
    assert stopped.next() == ("start", {})
    other = begin(box, (who[0] + "-other",), command("head -c 3000000 /dev/zero | tr '\\0' x; echo; echo done"))
    other.head()
    out, _, end = other.all()
    assert (len(out), out[-6:], end["exit_code"]) == (3000006, "\ndone\n", 0)
    assert stopped.next()[0] == "stdout"
    stopped.conn.close()
    other.conn.close()
    procs.wait_for("yes is gone", lambda: not [p for p in box.procs() if p.cmdline and p.cmdline[0] == "yes"])


def test_an_early_failure_is_plain_json(box, who):
    s = begin(box, who, b"{")
    a = s.conn.answer()
    assert (a.status, a.code) == (400, "bad_json")
    s.conn.close()
