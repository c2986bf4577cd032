"""What the kernel refuses to real programs, seen from outside: strace holds the cell and all that it starts.
Programs mostly bear a refusal in silence, so output alone can't tell. Every refused call must be in EXPLAINED."""
import os
import re
import subprocess

import pytest

from harness import procs
from harness.daemon import Daemon

import data_files as data
import test_browser

REFUSED = re.compile(r"^\d+ +(?:<\.\.\. )?(\w+)(.*?)(?:\)| resumed>.*)? += -1 (EPERM|EACCES|ENOSYS|EAFNOSUPPORT|EROFS)\b", re.M)

# (the call with its arguments, the answer, why). docs/programs.md tells the same.
EXPLAINED = (
    # The filter.
    (r"clone3\b", "ENOSYS", "flags in memory; libc falls back to clone"),
    (r"setpriority\(PRIO_PROCESS, [1-9]\d*, ", "EPERM",
        "another's priority: by thread id, even one's own threads"),
    (r"sched_(setattr|setscheduler|setparam)\([1-9]", "EPERM", "the same"),
    (r"socket\(AF_NETLINK, .*NETLINK_KOBJECT_UEVENT", "EAFNOSUPPORT", "news of devices"),
    (r"(get|set)_mempolicy|mbind|move_pages", "EPERM", "memory placement"),
    (r"io_uring_setup", "EPERM", "programs fall back"),
    # Landlock.
    (r"(openat|creat|open)\(.*/proc/(self|\d+)/(oom_score_adj|coredump_filter|clear_refs)", "EACCES EROFS",
        "writes to /proc"),
    (r"(openat|open)\(.*/proc/(self|\d+)/(task/\d+/)?comm", "EACCES EROFS", "writes to /proc"),
    (r"openat\(AT_FDCWD, \"/\", .*O_DIRECTORY", "EACCES", "the list of / isn't the command's"),
    (r"openat\(AT_FDCWD, \"/proc/\d+/environ\"", "EACCES", "the daemon's"),
    (r"(openat|open|readlink|access|statx)\(.*\"(/run|/home|/root|/srv|/media|/mnt|/var/run)\b", "EACCES",
        "not the command's"),
    # The same without a layer: user ids, a read-only host, the kernel.
    (r"setpriority\(PRIO_PROCESS, 0, -", "EACCES", "a higher priority needs a capability"),
    (r"epoll_ctl\(\d+, EPOLL_CTL_ADD, ", "EPERM", "a plain file can't be polled"),
    (r"rt_sigreturn", "EPERM", "the register of an interrupted call, as strace reads it"),
    (r"\(.*\"/(usr|var/cache|etc|opt)\b", "EROFS", "the fence is read-only"),
    (r"\(.*\"/(usr|var/cache|etc|opt)\b", "EACCES", "owned by root"),
)
SCRIPTS = {
    "tools": ("set -e; ls -la / /usr >/dev/null 2>&1 || true; seq 99 | sort -R | xargs -P2 -n9 echo | tar -cf t.tar -z -T /dev/null; "
              "sqlite3 d 'pragma journal_mode=wal; create table t(a); insert into t values(1)'; flock l true; timeout 5 true; nice -n 3 true; "
              "git init -q r; cd r; git config user.name a; git config user.email a; echo 1 >a; git add a; git commit -qm a; git gc -q; cd ..; git clone -q r c; "
              "perl -e 'fork; wait'; openssl rand 4 >/dev/null; ps -e >/dev/null; id >/dev/null; busybox ls >/dev/null; script -qc true /dev/null >/dev/null </dev/null", {}),
    "python": ("python3 -c 'import multiprocessing as m, numpy, threading, asyncio, subprocess; p = m.Pool(2); print(p.map(abs, [-1])); p.terminate(); "
               "subprocess.run([\"true\"]); threading.Thread(target=print).start(); asyncio.run(asyncio.sleep(0)); numpy.linalg.inv(numpy.eye(50))'", {}),
    "node": ("node -e 'new (require(\"worker_threads\").Worker)(\"1\", {eval: true}); require(\"child_process\").execSync(\"true\")'; cd app && "
             "npm_config_offline=true npm_config_update_notifier=false npm install --silent --no-audit ../tool", {
                 "tool/package.json": '{"name":"tool","version":"1.0.0","scripts":{"install":"node -e 1"}}', "app/package.json": '{"name":"a","version":"1.0.0"}'}),
    "c": ("make -s -j2 && ./app >/dev/null", data.tree("c")),
    "java": ("javac Main.java && java Main >/dev/null; [ $? = 5 ]", data.tree("java")),
    "go": ("GOFLAGS=-mod=mod CGO_ENABLED=0 go build -o a . && ./a 2>/dev/null",
        {"go.mod": "module x\n\ngo 1.19\n", "m.go": "package main\n\nfunc main() { println(1) }\n"}),
    "rust": ("rustc m.rs && ./m",
        {"m.rs": "fn main() { std::thread::spawn(|| println!(\"t\")).join().unwrap(); }\n"}),
    "chromium": (test_browser.CHROMIUM + " --dump-dom file://$PWD/page.html", test_browser.PAGE),
}


@pytest.fixture(scope="module")
def traced():
    """The filter and the paths are the same in every plan: one is enough."""
    d = Daemon()
    try:
        yield d.wait_up()
    except BaseException:
        d.destroy()
        raise
    d.stop()


def trace(daemon, script, files, log):
    """Runs the script while strace writes the failed calls of the cell and below to log."""
    box = daemon.ws / f"of-{log.stem}"  # go would take a folder "go" in HOME for its own
    for path, text in {"x": "", **files}.items():
        (box / path).parent.mkdir(parents=True, exist_ok=True)
        (box / path).write_text(text)
    subprocess.run(["chown", "-R", f"{daemon.owner}:{daemon.owner}", box], check=True)
    strace = subprocess.Popen(["strace", "-f", "-q", "-e", "status=failed", "-s", "200", "-o", str(log), "-p",
        str(daemon.role("cell").pid)])
    try:
        cell = daemon.role("cell").pid
        procs.wait_for("strace holds the cell", lambda: all(
            procs.status(t)["TracerPid"] != "0" for t in (f"{cell}/task/{n}" for n in os.listdir(f"/proc/{cell}/task"))))
        daemon.run(":")  # by the child that waited already, of which strace doesn't know
        result = daemon.run(script, cwd=box.name, timeout=300)
        procs.wait_for("strace tells of the end", lambda: "+++ exited" in log.read_text(errors="replace"))
        return result
    finally:
        strace.kill()  # to let go by itself it would wait for the spawner, which waits for the next command's child
        strace.wait()


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_refusal_is_explained(traced, tmp_path, name):
    script, files = SCRIPTS[name]
    log = tmp_path / f"{name}.log"
    result = trace(traced, script, files, log)
    text = log.read_text(errors="replace")
    assert result["exit_code"] == 0, result
    assert "+++ exited with 0 +++" in text, "strace saw nothing"
    assert "--- SIGSYS" not in text
    strange = sorted({m[0] for m in REFUSED.finditer(text) if not any(
        m[3] in error.split() and re.search(pattern, m[1] + m[2] + ")") for pattern, error, _ in EXPLAINED)})
    assert not strange, "\n".join(strange[:50])
