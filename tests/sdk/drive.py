"""drive.py: runs operations through the Python client, for tests/sdk: a JSON line in, a JSON line out.
argv: the daemon's URL, and a file of certificates to trust. DRIVE_KEY makes it a box's; each line then says
"who". The three drivers do the same by the same names."""
import base64
import io
import json
import os
import ssl
import sys

import runbox

CA = sys.argv[2] if len(sys.argv) > 2 else None
MORE = {"context": ssl.create_default_context(cafile=CA) if CA else None}
KEY = os.environ.get("DRIVE_KEY")
top = runbox.Box(sys.argv[1], KEY, **MORE) if KEY else runbox.Seat(sys.argv[1], **MORE)
BLOCK = b"\0" * (1 << 18)
held = []


def at(who):
    """What an operation is done with."""
    if not KEY or not who:
        return top
    return top.workspace(who[0]) if len(who) == 1 else top.workspace(tenant=who[0], user=who[1])


def say(value):
    print(json.dumps(value), flush=True)


def given(a):
    """Attachments; how: "sized" or, from a source that knows no size, "chunked"."""
    made = {path: text.encode() for path, text in a["files"].items()}
    return {path: iter([data]) for path, data in made.items()} if a.get("how") == "chunked" else made


def command(a):
    names = ("command", "timeout", "env", "cwd", "stdin", "deadline", "busy_wait")
    return {**{k: a[k] for k in names if k in a}, **({"files": given(a)} if "files" in a else {})}


def exit_of(e):
    return dict(vars(e))


def execute(a):
    return dict(vars(seat.execute(**command(a))))


def stream(a, tell=False):
    got = {"stdout": "", "stderr": ""}
    with seat.stream(**command(a)) as live:
        for e in live:
            if isinstance(e, runbox.Output):
                got[e.stream] += e.text
                if tell:
                    say({"event": e.stream, "text": e.text})
    return {**got, **exit_of(live.exit)}


def follow(a):
    return stream(a, tell=True)


def leave(a):
    with seat.stream(**command(a)) as live:
        return {"text": next(iter(live)).text}


def hold(a):
    held[:] = [seat.stream(**command(a))]
    return {}


def take(a):
    n = 0
    for e in held[0]:
        n += len(getattr(e, "text", ""))
        if n >= a["size"]:
            break
    held[0].close()
    return {"bytes": n}


def zeros(size):
    while size > 0:
        yield BLOCK[:min(size, len(BLOCK))]
        size -= len(BLOCK)


def put(a, data, size):
    o = {k: a[k] for k in ("new_only", "if_match", "deadline") if k in a}
    return dict(vars(getattr(seat, "put_path" if a.get("put") else "write")(a["path"], data, size=size, **o)))


def write(a):
    data, how = a["text"].encode(), a.get("how")
    return put(a, iter([data]) if how else data, len(data) if how == "sized" else None)


def put_path(a):
    return write({**a, "put": True})


def write_batch(a):
    return {"files": [dict(vars(f)) for f in seat.write_batch(given(a), folder=a.get("folder", ""))]}


def upload(a):
    if a.get("how") == "file":
        with open(a["source"], "rb") as f:
            return put(a, f, None)
    return put(a, zeros(a["size"]), None if a.get("how") == "chunked" else a["size"])


class Count:
    def write(self, data):
        return len(data)


def download(a):
    if "to" in a:
        with open(a["to"], "wb") as f:
            return {"bytes": seat.download(a["path"], f)}
    return {"bytes": seat.download(a["path"], Count())}


def sink(a):
    out = io.BytesIO()
    n = seat.download(a["path"], out, start=a.get("start", 0), end=a.get("end"))
    return {"bytes": n, "text": out.getvalue().decode()}


def archive(a):
    with seat.archive(a["path"]) as body:
        assert body.whole is None
        tar = body.readall()
        whole = body.whole
    out = io.BytesIO()
    assert seat.download_archive(a["path"], out) == len(tar) == len(out.getvalue())
    return {"base64": base64.b64encode(tar).decode(), "whole": whole}


def pull(a):
    return {"bytes": seat.download_archive(a["path"], Count())}


def read(a):
    return {"text": seat.read(a["path"], start=a.get("start", 0), end=a.get("end")).decode()}


def delete_path(a):
    names = ("recursive", "if_match", "unmodified_since", "deadline")
    seat.delete_path(a["path"], **{k: a[k] for k in names if k in a})
    return {}


def list_(a):
    found = seat.list(a["path"], **({"recursive": True} if a.get("recursive") else {}))
    return {**vars(found), "entries": [dict(vars(e)) for e in found.entries]}


def head(a):
    return dict(vars(seat.head(a["path"])))


def usage(a):
    return dict(vars(seat.usage()))


def delete_workspace(a):
    seat.delete_workspace()
    return {}


def capabilities(a):
    return dict(vars(top.capabilities()))


def metrics(a):
    return {"text": top.metrics()}


def health(a):
    return {"status": top.health()}


def ready(a):
    return {"ready": top.ready()}


def wait_ready(a):
    top.wait_ready(a["deadline"])
    return {}


OPS = {f.__name__.rstrip("_"): f for f in (
    execute, stream, follow, leave, hold, take, write, put_path, write_batch, upload, download, sink, archive, pull,
    read, delete_path, list_, head, usage, delete_workspace, capabilities, metrics, health, ready, wait_ready)}
for line in sys.stdin:
    ask = json.loads(line)
    try:
        seat = at(ask.get("who"))
        say(OPS[ask["op"]](ask["args"]))
    except runbox.ApiError as e:
        say({"error": "api", "code": e.code, "status": e.status, "retry_after": e.retry_after, "message": str(e)})
    except runbox.DeadlineError as e:
        say({"error": "deadline", "message": str(e)})
    except runbox.TransportError as e:
        say({"error": "transport", "message": str(e)})
    except (runbox.RunboxError, ValueError) as e:
        say({"error": "refused", "message": str(e)})
