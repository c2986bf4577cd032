"""SALLYPORT_COMMAND_PATHS: what the operator adds is there for commands and nothing else is; what is
careless or mistyped stops the start with a sentence that says where."""
import os
import shutil

import pytest

from harness import names

PATHS = "SALLYPORT_COMMAND_PATHS"
READ, WRITE, EXEC = "cat {0}/secret", "echo new > {0}/made && cat {0}/made", "{0}/prog"


def places(d):
    """Three folders that no built-in line reaches, owned by the commands' user."""
    for name in ("data", "cache", "app", "other"):
        p = d.base / name
        p.mkdir()
        (p / "secret").write_text(name)
        shutil.copy("/bin/true", p / "prog")
        (p / "prog").chmod(0o755)
        for q in (p, p / "secret"):
            os.chown(q, d.owner, d.owner)


def check_rights(d):
    base = d.base
    def ok(probe, name):
        return d.run(probe.format(base / name))["exit_code"] == 0
    assert [ok(p, "data") for p in (READ, WRITE, EXEC)] == [True, False, False]
    assert [ok(p, "cache") for p in (READ, WRITE, EXEC)] == [True, True, False]
    assert [ok(p, "app") for p in (READ, WRITE, EXEC)] == [True, False, True]
    assert [ok(p, "other") for p in (READ, WRITE, EXEC)] == [False, False, False]
    assert (base / "cache" / "made").read_text() == "new\n"


def as_list(d):
    places(d)
    d.late_env[PATHS] = f"read {d.base}/data, write {d.base}/cache,exec {d.base}/app"


def as_file(d):
    places(d)
    (d.base / "paths").write_text(f"# of ours\nread {d.base}/data\n\n  write\t{d.base}/cache # rw\nexec {d.base}/app\n")
    d.late_env[PATHS] = str(d.base / "paths")


@pytest.mark.parametrize("plan", ["root-uid1000", "user"])
@pytest.mark.parametrize("form", [as_list, as_file])
def test_rights(start, plan, form):
    check_rights(start(plan=plan, prepare=form))


def test_files_stay_in_the_workspace(start):
    """The lines are for commands: no client reaches what they name by a path or a link."""
    d = start(prepare=as_list)
    os.symlink(d.base / "data" / "secret", d.ws / "link")
    assert d.get("link").code == "outside_workspace"


def refused(d):
    report = d.wait_exit()
    assert report["status"] == 2, f"{report}\n{d.log()}"
    assert report["left"] == [] and report["orphans"] == 0
    line = d.log().strip().splitlines()[-1]
    assert line.startswith(f"sallyport: {PATHS}") and line.endswith("."), line
    return line


def text(content):
    def prepare(d):
        places(d)
        (d.base / "paths").write_bytes(content.replace(b"@", str(d.base).encode()))
        d.late_env[PATHS] = str(d.base / "paths")
    return prepare


BAD = [(b"read @/data\nreed @/data\n", 2, "is none of"), (b"\n\nread data\n", 3, "absolute"),
       (b"read @/nothere\n", 1, "No such file"), (b"read /\n", 1, "whole file system"),
       (b"write /proc/sys\n", 1, "the kernel's"), (b"write /sys\n", 1, "the kernel's"),
       (b"write /dev\n", 1, "the kernel's"), (b"device @/data\n", 1, "no character device"),
       (b"workspace\n", 1, "already"), (b"read @/data/../data\n", 1, "component"),
       (b"write @/link\n", 1, "the kernel's"), (b"read\n", 1, "path is missing")]


@pytest.mark.parametrize("content,line,what", BAD)
def test_a_bad_file_names_its_line(start, content, line, what):
    def prepare(d):
        text(content)(d)
        os.symlink("/sys/kernel", d.base / "link")
    said = refused(start(up=False, prepare=prepare))
    assert f"paths:{line}: " in said and what in said, said


@pytest.mark.parametrize("content,what", [(b"read /usr\n\0", "NUL"), (b"#" * 70000, "64 KiB"),
                                          (b"#" * 20000, "16 KiB")])
def test_a_file_that_is_none(start, content, what):
    assert what in refused(start(up=False, prepare=text(content)))


@pytest.mark.parametrize("value,what", [("/no/such/file", "No such file"), ("/etc", "no file"),
                                        ("read /usr, reed /x", "entry 2"), ("exec", "entry 1"),
                                        ("read /usr,, write /", "entry 3")])
def test_a_bad_value(start, value, what):
    assert what in refused(start(up=False, env={PATHS: value}))


def test_check_says_the_same(start):
    d = start(up=False, args=("check",), env={PATHS: "write /"})
    assert "entry 1" in refused(d)


def test_an_empty_value_is_none(start):
    assert start(env={PATHS: ""}).run("echo ok")["stdout"] == "ok\n"


def test_the_setting_is_in_the_help(start):
    d = start(up=False, args=("--help",), env={names.WORKSPACE: None})
    assert d.wait_exit()["status"] == 0
    assert PATHS in (d.base / "stdout").read_text()
