"""The blocks of README and docs/*.md that aren't shell's: rules, answers and events here, settings of Prometheus in
tests/deploy/test_dashboard.py, programs in tests/sdk/test_snippets.py. What is left is diagrams and a grammar."""
import json
import re

from blocks import pages

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
FOUND = {page.name: FENCE.findall(page.read_text(encoding="utf-8")) for page in pages()}
DRAWN = {"README.md", "architecture.md", "design.md"}


def test_each_has_its_test():
    for name, found in FOUND.items():
        for kind, text in found:
            if kind in ("sh", "bash"):
                continue
            assert (kind in ("python", "go", "js") and name == "sdk.md"
                    or kind == "yaml" and name == "deployment.md" and text.startswith("scrape_configs:")
                    or kind == "json" and name == "api.md"
                    or kind == "" and (name in DRAWN and "front" in text and "--" in text or text in (RULES, GRAMMAR, EVENTS))), (name, text)


def only(name, kind, start):
    (text,) = [t for k, t in FOUND[name] if k == kind and t.startswith(start)]
    return text


RULES = only("policy.md", "", "errno ")
GRAMMAR = only("policy.md", "", "default ACTION")
EVENTS = only("api.md", "", "event: start")
ANSWER = only("api.md", "json", '{"stdout"')


def test_the_rules_do_what_they_say(start):
    def prepare(d):
        (d.base / "policy").write_text(RULES)
        d.late_env["SALLYPORT_COMMAND_POLICY"] = str(d.base / "policy")
    d = start(prepare=prepare)
    script = ("import ctypes, socket\nfor family in (socket.AF_INET, socket.AF_INET6):\n"
              "    try: print(socket.socket(family).family.name)\n    except PermissionError as e: print(e.strerror)\n"
              "print(ctypes.CDLL(None).personality(0x400000))")
    r = d.run("exec /usr/bin/python3 -I -", stdin=script)
    assert r["stdout"] == "Permission denied\nAF_INET6\n0\n", r


def test_the_answer_is_one(seat):
    shown = json.loads(ANSWER)
    assert shown == {**seat.run("true"), "duration_ms": shown["duration_ms"]}


def parse(text):
    """In their order but for the two outputs, which keep none between them."""
    found = [(re.search("^event: (.*)", e)[1], json.loads(re.search("^data: (.*)", e, re.M)[1])) for e in text.strip().split("\n\n")]
    for _, data in found:
        data.pop("duration_ms", None)
    return found[0], sorted(found[1:-1], key=str), found[-1]


def test_the_events_are_some(seat):
    body = json.dumps({"command": "echo what was printed; printf ... >&2"}).encode()
    a = seat.request("POST", "/execute", body, [("Content-Type", "application/json"), ("Accept", "text/event-stream")])
    assert parse(a.body.decode()) == parse(EVENTS)
