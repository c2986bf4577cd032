"""Each variable that the box knows: a good value in every form that its grammar has, the ends of its range, and bad
ones, which stop the start with one sentence that names it. `check box` judges them as a start does, and it is quick;
what a value comes to is looked at in a box that runs."""
import itertools
import re
import subprocess

import pytest

from harness import names, tls
from harness.box import KEY, UID_MAX, UID_MIN

FOREVER = "9223372036854775808"  # over what a signed number of 64 bits holds
NOT_NUMBERS = ("x", "-1", "+1", "1.5", "0x10", " 1", "1 ", "1k", "1,000", "99999999999999999999")
NOT_DURATIONS = ("x", "-1s", "+1s", "7 days", "1w", "1S", "1MS", "1e3", ".5s", "1.s", "1.5.5s", " 1s", "1s ", "1h30m",
                 "0.0000000001s", "99999999999999999999", "99999999999999999d")
NOT_SIZES = ("much", "-1", "1Q", "1kb", "1kib", "1KIB", "1 M", "1.M", ".5M", "1.5.5M", "0x10", "1e3", " 1M", "1TB2", FOREVER,
             "99999999999999999999", "9999999999T")
# What each form of 90 s, and of 96 MiB or 96 MB, may look like.
DURATION_FORMS = ("90", "90.0", "90s", "90.000s", "90000ms", "1.5m", "0.025h", "0.001041667d")
SIZE_FORMS = {100663296: ("100663296", "100663296B", "98304k", "98304K", "98304KiB", "98304kiB", "96m", "96M", "96MiB", "96miB",
                          "0.09375g", "0.09375G", "0.09375GiB", "0.09375giB"),
              96000000: ("96000000", "96000kB", "96000KB", "96MB", "96mB", "0.096GB", "0.000096TB")}
HOUR, DAY = 3600000, 86400000
# The least and the most that a start takes; None: whatever fits.
NUMBERS = {"RUNBOX_PORT": (0, 65535), "RUNBOX_UID_MIN": (1000, UID_MAX), "RUNBOX_UID_MAX": (UID_MIN, 4294967293),
           "RUNBOX_MAX_CONCURRENCY": (1, 100), "RUNBOX_QUEUE": (0, 64), "RUNBOX_SPARE_CELLS": (0, 8),
           "SALLYPORT_MAX_CONNECTIONS": (1, 100000), "SALLYPORT_MAX_PROCS": (0, 4194304),
           "SALLYPORT_MAX_OPEN_FILES": (0, 1048576)}
DURATIONS = {"RUNBOX_RETENTION": (0, 3650 * DAY), "RUNBOX_SWEEP_INTERVAL": (100, DAY), "RUNBOX_CELL_IDLE": (100, DAY),
             "RUNBOX_DEFAULT_TIMEOUT": (1, 24 * HOUR), "RUNBOX_MAX_TIMEOUT": (1, 365 * DAY), "RUNBOX_SHUTDOWN_TIMEOUT": (0, DAY),
             "SALLYPORT_HEAD_TIMEOUT": (100, DAY), "SALLYPORT_IDLE_TIMEOUT": (100, DAY), "SALLYPORT_STALL_TIMEOUT": (100, DAY),
             "SALLYPORT_MAX_CPU": (0, 365 * DAY)}
SIZES = {"RUNBOX_QUOTA": (0, None), "RUNBOX_MAX_OUTPUT": (1, 64 << 20), "RUNBOX_MAX_UPLOAD": (1, None),
         "SALLYPORT_TMP_SIZE": (1 << 20, None), "SALLYPORT_MAX_MEMORY": (0, None), "SALLYPORT_MAX_FILE_BYTES": (0, None)}
WORDS = {"RUNBOX_LOG_FORMAT": ("text", "json"), "SALLYPORT_LOG": ("error", "warn", "info", "debug"),
         "SALLYPORT_ISOLATION": ("auto", "strict", "basic"), "SALLYPORT_NETWORK": ("host", "none")}
BOOLS = ("SALLYPORT_LOG_REQUESTS", "SALLYPORT_METRICS", "SALLYPORT_HELD_SHELL", "SALLYPORT_ONE_CPU")
TRUTHS = ("true", "false", "1", "0", "yes", "no", "on", "off", "TRUE", "No", "oN")
# Texts: good ones, bad ones. Sockets and certificates are opened by a start alone, further down.
TEXTS = {
    "RUNBOX_API_KEY": ((KEY, KEY[:16], f"{KEY},another-key-0123456", ",".join(f"{KEY}{i}" for i in range(8)), "!~" * 50),
                       ("short", KEY[:15], f"{KEY},", f",{KEY}", f"{KEY},,{KEY}", f"{KEY} x", f"{KEY}\t", f"{KEY}é",
                        ",".join(f"{KEY}{i}" for i in range(9)))),
    "RUNBOX_ROOT": (("{base}/data", "{base}/data/", "{base}//data"), ("data", "./data", "/", "//", "/dev/null", "/no/such/folder")),
    "RUNBOX_SHELL": (("/bin/sh", "/bin/bash", "/usr/bin/dash"), ("sh", "./sh", "/no/such/shell", "/etc/passwd", "/tmp")),
    "SALLYPORT_FRONT_USER": (("64990", "64990:64991", "nobody", "nobody:nogroup"),
                             ("0", "root", "-1", "no-such-user", "64990:", ":64990", "64990:no-such-group", str(UID_MIN))),
    "SALLYPORT_REGISTRY_USER": (("64990", "64990:64991", "nobody", "nobody:nogroup"),
                                ("0", "root", "-1", "no-such-user", "64990:", "64990:no-such-group", str(UID_MAX), "64998")),
    "SALLYPORT_ENV_PASS": (("FOO", "FOO,BAR", "*"), ("A=B", "A*", "A,B=1")),
    "SALLYPORT_ACCEPT_MISSING": (("cgroup", "cgroup,landlock", "uid, view"), ("nonsense", "caps;uid", "all the things")),
    "SALLYPORT_COMMAND_PATHS": (("read /etc", "exec /usr, read /var", "device /dev/null", "{base}/paths"),
                                ("read", "fly /etc", "read etc", "read /no/such/path", "read /etc/../usr", "write /", "workspace")),
    "SALLYPORT_COMMAND_POLICY": (("{base}/rules",), ("/no/such/file", "/etc", "{base}/paths")),
    names.TEST_DISABLE: (("view", "view,pid-ns"), ("nonsense",)),
}
CPUS = (("0", "1", "0.5", "0.01", "4096", "2.000"), ("0.009", "0.001", "4096.001", "x", "-1", "1k", "1.", ".5", "50%", "1,5"))
BY_A_START = {"RUNBOX_BIND", "SALLYPORT_SOCKET", "RUNBOX_TLS_CERT", "RUNBOX_TLS_KEY"}
KINDS = (NUMBERS, DURATIONS, SIZES, WORDS, dict.fromkeys(BOOLS), TEXTS, {"SALLYPORT_CPUS": CPUS}, dict.fromkeys(BY_A_START))
# Where the least is fine but for a user that the machine may have: what is tried in its place.
TRIED = {"RUNBOX_UID_MIN": (str(UID_MIN), str(UID_MAX))}
# Beside a value under test, so that nothing else refuses it.
BESIDE = {"RUNBOX_UID_MAX": {"RUNBOX_UID_MIN": UID_MIN}, "RUNBOX_UID_MIN": {"RUNBOX_UID_MAX": UID_MAX},
          "RUNBOX_MAX_TIMEOUT": {"RUNBOX_DEFAULT_TIMEOUT": ""}, "RUNBOX_DEFAULT_TIMEOUT": {"RUNBOX_MAX_TIMEOUT": "24h"},
          "SALLYPORT_CPUS": {names.ACCEPT_MISSING: "cgroup"},
          "SALLYPORT_ISOLATION": {names.ACCEPT_MISSING: ",".join(names.LAYERS)},
          "SALLYPORT_NETWORK": {names.ACCEPT_MISSING: "net-ns"}, names.TEST_DISABLE: {names.ACCEPT_MISSING: "landlock,view"}}


def prepare(d):
    (d.base / "paths").write_text("# a comment\nread /etc\nexec /usr\n")
    (d.base / "rules").write_text("errno EACCES socket if arg0.lo == AF_INET\n")


def judge(start_box, env, args=("check", "box")):
    """The status, and the sentence of a refusal."""
    def late(d):
        prepare(d)
        for name, value in env.items():
            if isinstance(value, str) and "{base}" in value:
                d.late_env[name] = value.replace("{base}", str(d.base))
    b = start_box(up=False, args=args, prepare=late, env={k: v for k, v in env.items() if "{base}" not in str(v)} | (
        {"RUNBOX_ROOT": None} if "{base}" in str(env.get("RUNBOX_ROOT")) else {}))
    status = b.wait_exit()["status"]
    return status, [line for line in b.log().splitlines() if line.startswith("sallyport: ")], b.log()


def good(start_box, env):
    status, said, log = judge(start_box, env)
    assert (status, said) == (0, []), f"{env}: {log}"


def bad(start_box, name, values, args=("check", "box")):
    for value in values:
        status, said, log = judge(start_box, {**BESIDE.get(name, {}), name: value}, args)
        assert status == 2 and len(said) == 1 and said[0].endswith("."), f"{name}={value}: {log}"
        assert name in said[0], said[0]


def least_and_most(name, bounds, unit=""):
    """The ends of a range, and what is just beyond them."""
    least, most = bounds
    ends = [f"{least}{unit}"] + ([f"{most}{unit}"] if most is not None else [])
    beyond = ([f"{least - 1}{unit}"] if least > 0 else []) + ([f"{most + 1}{unit}"] if most is not None else [])
    return TRIED.get(name, ends), beyond


def share(name, of, values, least=4):
    """Which of values this variable is tried with: all are had by one of its kind, whose parser is the same."""
    step = max(1, min(len(of), len(values) // least))
    return values[list(of).index(name) % step::step]


def test_every_variable_is_here():
    """Those that --help says the box has."""
    seat, _, box = subprocess.run([names.BIN, "--help"], capture_output=True, text=True, check=True).stdout.partition("Of the box")
    own = set(re.findall(r"(?m)^  (\w+)", box))
    shared = {n for n in re.findall(r"(?m)^  (SALLYPORT_\w+)", seat) if n.replace("SALLYPORT", "RUNBOX") not in own}
    here = list(itertools.chain(*KINDS))
    assert set(here) == (own | shared) - {"SALLYPORT_USER"} and len(here) == len(set(here))


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers(start_box, name):
    ends, beyond = least_and_most(name, NUMBERS[name])
    for value in (*ends, "000" + ends[0]):
        good(start_box, {**BESIDE.get(name, {}), name: value})
    bad(start_box, name, (*share(name, NUMBERS, NOT_NUMBERS), *beyond))


@pytest.mark.parametrize("name", DURATIONS)
def test_durations(start_box, name):
    ends, beyond = least_and_most(name, DURATIONS[name], "ms")
    for value in ends:
        good(start_box, {**BESIDE.get(name, {}), name: value})
    bad(start_box, name, (*share(name, DURATIONS, NOT_DURATIONS), *beyond))


@pytest.mark.parametrize("name", SIZES)
def test_sizes(start_box, name):
    ends, beyond = least_and_most(name, SIZES[name])
    for value in ends:
        good(start_box, {**BESIDE.get(name, {}), name: value})
    bad(start_box, name, (*share(name, SIZES, NOT_SIZES), *beyond))


@pytest.mark.parametrize("name", WORDS)
def test_words(start_box, name):
    for word in WORDS[name]:
        for value in (word, word.title()):
            good(start_box, {**BESIDE.get(name, {}), name: value})
    bad(start_box, name, ("x", f"{WORDS[name][0]} ", f" {WORDS[name][0]}", WORDS[name][0][:-1], "0", ",".join(WORDS[name])))


@pytest.mark.parametrize("name", BOOLS)
def test_yes_or_no(start_box, name):
    for value in share(name, BOOLS, TRUTHS):
        good(start_box, {**BESIDE.get(name, {}), name: value})
    bad(start_box, name, ("2", "-1", "y", "n", "truth", "enabled", " on", "on "))


@pytest.mark.parametrize("name", TEXTS)
def test_texts(start_box, name):
    for value in TEXTS[name][0]:
        good(start_box, {**BESIDE.get(name, {}), name: value})
    for value in TEXTS[name][1]:
        status, said, log = judge(start_box, {**BESIDE.get(name, {}), name: value})
        # of what a start is told to do without a layer, the list's own name
        assert status == 2 and len(said) == 1 and (name in said[0] or name == names.TEST_DISABLE), f"{name}={value}: {log}"


def test_processors(start_box):
    for value in CPUS[0]:
        good(start_box, {**BESIDE["SALLYPORT_CPUS"], "SALLYPORT_CPUS": value})
    bad(start_box, "SALLYPORT_CPUS", CPUS[1])


def test_an_empty_one_is_none(start_box):
    """But for the key, without which nobody is served."""
    every = set(itertools.chain(*KINDS)) - {"RUNBOX_API_KEY", "RUNBOX_ROOT", "RUNBOX_UID_MIN", "RUNBOX_UID_MAX"}
    good(start_box, dict.fromkeys(every, ""))
    assert judge(start_box, {"RUNBOX_API_KEY": ""})[0] == 2


def limits(start_box, env):
    b = start_box(env=env)
    said = b.call("GET", "/v1/capabilities").json["limits"]
    assert b.sh("echo on")["stdout"] == "on\n"
    b.end()
    return said


@pytest.mark.parametrize("form", DURATION_FORMS)
def test_every_form_of_a_duration(start_box, form):
    """In all of them at once; what the box tells is what was meant."""
    said = limits(start_box, dict.fromkeys(DURATIONS, form))
    assert {said[k] for k in ("default_timeout_ms", "max_timeout_ms", "retention_ms")} == {90000}, said


@pytest.mark.parametrize("size,form", [(n, f) for n, forms in SIZE_FORMS.items() for f in forms])
def test_every_form_of_a_size(start_box, size, form):
    said = limits(start_box, {n: form for n in SIZES if n != "RUNBOX_MAX_OUTPUT"})
    assert (said["quota"], said["max_upload"]) == (size, size), said


@pytest.mark.parametrize("form,count", [("65536", 65536), ("65536B", 65536), ("64k", 65536), ("64KiB", 65536), ("0.0625M", 65536),
                                        ("64kB", 64000), ("0.064MB", 64000), ("64MiB", 64 << 20)])
def test_every_form_of_the_output_s_size(start_box, form, count):
    assert limits(start_box, {"RUNBOX_MAX_OUTPUT": form})["max_output"] == count


# ---- what a start opens ----

@pytest.mark.parametrize("value,listens", [("127.0.0.1", ["127.0.0.1"]), ("127.0.0.1,127.0.0.2", ["127.0.0.1", "127.0.0.2"]),
                                           ("127.0.0.1, 127.0.0.2", ["127.0.0.1", "127.0.0.2"]), ("0.0.0.0", ["0.0.0.0"]),
                                           ("::1", ["[::1]"]), ("[::1]", ["[::1]"]), ("::", ["[::]"]), ("", None)])
def test_addresses(start_box, value, listens):
    b = start_box(up=False, env={"RUNBOX_BIND": value})
    b.wait_up(re.compile(rb"listening on http://"))
    said = re.findall(r"listening on http://(\S+):\d+", b.log())
    assert said == listens or listens is None and len(said) == 1


def test_bad_addresses(start_box):
    bad(start_box, "RUNBOX_BIND", ("nowhere", "localhost", "127.0.0.1:80", "300.1.1.1", "127.1", ",", "[::1", "1:2:3",
                                   "127.0.0.1 127.0.0.2,x", ",".join(f"127.0.0.{i}" for i in range(1, 10))), args=("box",))


def test_a_socket(start_box):
    def late(d):
        d.late_env[names.SOCKET] = str(d.base / "s")
    b = start_box(up=False, prepare=late)
    b.wait_up()
    assert f"unix:{b.base}/s" in b.log()


def test_bad_sockets(start_box):
    bad(start_box, names.SOCKET, ("s", "./s", "/no/such/folder/s", "/dev/null", "/" + "x" * 108), args=("box",))


def test_a_pair_of_tls(start_box):
    d = tls.tls_daemon(start_box, "RUNBOX")
    assert d.request("GET", "/healthz").status == 200


@pytest.mark.parametrize("name", ["RUNBOX_TLS_CERT", "RUNBOX_TLS_KEY"])
@pytest.mark.parametrize("value", ["/no/such/file", "/etc", "/etc/passwd", "relative.pem"])
def test_a_bad_pair_of_tls(start_box, name, value):
    def late(d):
        cert, key = tls.make_pair(d.base, "pair")
        d.late_env |= {"RUNBOX_TLS_CERT": str(cert), "RUNBOX_TLS_KEY": str(key), name: value}
    b = start_box(up=False, prepare=late)
    assert b.wait_exit()["status"] == 2
    said = [line for line in b.log().splitlines() if line.startswith("sallyport: ")]
    assert len(said) == 1 and name in said[0], b.log()
