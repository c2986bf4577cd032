"""drive.py: runs operations through the Python client, for tests/sdk: a JSON line in, a JSON line out.
argv: the seat's URL, and a file of certificates to trust. The three drivers do the same by the same names."""
import json
import ssl
import sys

import runbox

CA = sys.argv[2] if len(sys.argv) > 2 else None
seat = runbox.Seat(sys.argv[1], context=ssl.create_default_context(cafile=CA) if CA else None)
BLOCK = b"\0" * (1 << 18)
held = []


def say(value):
    print(json.dumps(value), flush=True)


def command(a):
    return {"command": a["command"], **{k: a[k] for k in ("timeout", "env", "cwd", "stdin", "deadline") if k in a}}


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
    s = seat.write(a["path"], data, size=size, **o)
    return dict(vars(s))


def write(a):
    data, how = a["text"].encode(), a.get("how")
    return put(a, iter([data]) if how else data, len(data) if how == "sized" else None)


def upload(a):
    return put(a, zeros(a["size"]), None if a.get("how") == "chunked" else a["size"])


def download(a):
    n = 0
    with seat.open(a["path"]) as body:
        for piece in body:
            n += len(piece)
    return {"bytes": n}


def read(a):
    return {"text": seat.read(a["path"], start=a.get("start", 0), end=a.get("end")).decode()}


def delete(a):
    seat.delete(a["path"], recursive=a.get("recursive", False))
    return {}


def list_(a):
    found = seat.list(a["path"])
    return {**vars(found), "entries": [dict(vars(e)) for e in found.entries]}


def head(a):
    return dict(vars(seat.head(a["path"])))


def health(a):
    return {"status": seat.health()}


OPS = {**{f.__name__: f for f in (execute, stream, follow, leave, hold, take, write, upload, download, read,
                                  delete, head, health)}, "list": list_}
for line in sys.stdin:
    ask = json.loads(line)
    try:
        say(OPS[ask["op"]](ask["args"]))
    except runbox.ApiError as e:
        say({"error": "api", "code": e.code, "status": e.status, "retry_after": e.retry_after, "message": str(e)})
    except runbox.DeadlineError as e:
        say({"error": "deadline", "message": str(e)})
    except runbox.TransportError as e:
        say({"error": "transport", "message": str(e)})
