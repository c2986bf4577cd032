"""64 identities, 50 calls each, of all kinds, with clients that leave; the whole daemon killed in between
and started again. Then: a sound table, no id twice, nobody left running, figures that are true."""
import json
import random
import subprocess
import threading

from harness import procs
from harness.box import KEY, canonical, identity
from harness.http import Closed

WHO, CALLS = 64, 50


def one_call(b, rng, who, i):
    kind = rng.randrange(8)
    if kind == 0:
        b.exec(f"echo {i} >> log; head -c {rng.randrange(20000)} /dev/zero > f{i % 5}", who)
    elif kind == 1:
        b.upload(f"d/u{i % 7}", rng.randbytes(rng.randrange(30000)), who)
    elif kind == 2:
        b.download("log", who)
    elif kind == 3:
        b.call("GET", "/v1/list", who=who)
    elif kind == 4:
        b.call("DELETE", "/v1/path", who=who, path="d", recursive="true")
    elif kind == 5:
        b.call("GET", "/v1/usage", who=who)
    else:  # a client that leaves, in the middle of what it sends or of what it asked for
        c = b.conn()
        try:
            if kind == 6:
                body = json.dumps({"command": "(setsid sleep 77 &); sleep 77"}).encode()
                line, length = "POST /v1/exec", len(body)
            else:
                body, line, length = b"x" * 5000, "POST /v1/files?path=cut", 9000
            head = "".join(f"{k}: {v}\r\n" for k, v in
                           [("Authorization", f"Bearer {KEY}"), *identity(*who)])
            c.send_lenient(f"{line} HTTP/1.1\r\nHost: t\r\nContent-Length: {length}\r\n{head}\r\n"
                           .encode() + body)
        finally:
            c.close()


def worker(b, n, stop, errors):
    rng = random.Random(n)
    for i in range(CALLS // 2):
        if stop.is_set():
            return
        try:
            one_call(b, rng, (f"many{n}",), i)
        except (OSError, Closed):
            if not stop.is_set():
                continue  # it may be the moment before stop is set
        except AssertionError as e:
            errors.append(e)
            return


def round_of_calls(b, kill_after):
    stop, errors = threading.Event(), []
    threads = [threading.Thread(target=worker, args=(b, n, stop, errors)) for n in range(WHO)]
    for t in threads:
        t.start()
    if kill_after is not None:
        threads[kill_after].join()
        b.kill_everything()
        stop.set()
    for t in threads:
        t.join()
    assert not errors, errors[0]


def test_many(start_box):
    b = start_box(env={"RUNBOX_CELL_IDLE": "1s"})
    round_of_calls(b, kill_after=5)
    assert b.integrity() == ["ok"]
    b.again()
    round_of_calls(b, kill_after=None)
    b.wait_no_strangers()
    table = b.table()
    live = {key: uid for uid, (key, state) in table.items() if state == 0}
    assert len(live) == sum(1 for key, _ in table.values() if key)
    assert sum(b.workspace(f"many{n}").exists() for n in range(WHO)) > WHO // 2
    for n in range(WHO):
        folder = b.workspace(f"many{n}")
        if not folder.exists():
            continue
        assert folder.stat().st_uid == live[canonical(f"many{n}")]
        du = subprocess.run(["du", "-s", "--block-size=1", folder], capture_output=True, check=True)
        a = b.call("GET", "/v1/usage", who=(f"many{n}",))
        assert a.status == 200 and a.json["bytes"] == int(du.stdout.split()[0])
        assert not (folder / "cut").exists()
    assert list((b.root / "workspaces").rglob(".sallyport-put-*")) == []
    procs.wait_for("idle cells end", lambda: not [p for p in b.procs() if p.role == "cell"])
    assert b.integrity() == ["ok"]
