"""bare.py: the same command twice: as a command of a daemon, and bare: under the same user id, environment
and paths, fenced from the host, but with no layer of the daemon's. Where the two differ, a layer was in
the way. Trusts the scripts it is given: they are the tests' own."""
import json
import os
import pathlib
import shutil
import subprocess

from . import names
from .daemon import write_spec

RUNNER = r"""
import json, os, signal, subprocess, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)  # the fence's first process ignores it
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # and who started the tests may (nohup)
os.write(1, b"\n")
for line in sys.stdin.buffer:
    job = json.loads(line)
    try:
        p = subprocess.Popen(["bash", "-c", job["command"]], executable=job["env"]["SHELL"], cwd=job["cwd"],
                             env=job["env"], stdin=subprocess.PIPE if job["stdin"] else subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        try:
            out, err = p.communicate(job["stdin"].encode() or None, timeout=job["timeout"])
        except subprocess.TimeoutExpired:
            out, err = b"", b"bare: timeout"
        try:
            os.killpg(p.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        code = p.wait()
        answer = {"exit_code": code if code >= 0 else 128 - code,
                  "stdout": out.decode("utf-8", "replace"), "stderr": err.decode("utf-8", "replace")}
    except OSError as e:
        answer = {"exit_code": -1, "stdout": "", "stderr": f"bare: {e}"}
    os.write(1, json.dumps(answer).encode() + b"\n")
"""


class Bare:
    """A runner of bare commands that lives as long as its daemon's test. Its workspace is a folder of
    its own at the path of the daemon's, so that the two see the same names."""

    def __init__(self, daemon):
        base = daemon.base
        self.ws, self.path = base / "bare", str(daemon.ws)
        self.ws.mkdir()
        os.chown(self.ws, daemon.owner, daemon.owner)
        binary = base / "env"
        binary.touch()
        self.env = dict(line.split("=", 1) for line in daemon.run(
            "tr '\\0' '\\n' </proc/$$/environ")["stdout"].splitlines())
        self.pids = [str(daemon.cgroup / "cgroup.procs")] if daemon.cgroup else []
        spec = {"base": str(base), "source": "/usr/bin/env", "binary": str(binary), "env": self.env,
                "args": ["/usr/bin/python3", "-I", "-c", RUNNER], "uid": daemon.owner, "status_fd": 2,
                "nofile": 4096, "left_wait": 0.0, "cgroups": self.pids,
                "binds": [{"source": str(self.ws), "path": self.path}]}
        launcher = pathlib.Path(__file__).with_name("launcher.py")
        self.log = open(base / "bare.log", "w+b")
        self.process = subprocess.Popen(
            ["/usr/bin/python3", "-I", str(launcher), write_spec(base / "bare.json", spec)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log)
        assert self.process.stdout.readline() == b"\n", self.tail()

    def tail(self):
        self.log.seek(0)
        return self.log.read()[-3000:].decode("utf-8", "replace")

    def run(self, command, cwd="", env=None, stdin="", timeout=120):
        where = f"{self.path}/{cwd}" if cwd else self.path
        job = {"command": command, "cwd": where, "timeout": timeout,
               "env": {**self.env, "PWD": where, **(env or {})}, "stdin": stdin}
        self.process.stdin.write(json.dumps(job).encode() + b"\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, f"the bare runner is gone: {self.tail()}"
        return json.loads(line)

    def close(self):
        self.process.kill()  # the first process of its namespace goes along, and so all
        self.process.wait()
        for f in (self.process.stdin, self.process.stdout, self.log):
            f.close()


class Twin:
    """Runs each script inside and bare, in two folders of one name, and compares. What a script did bare it would do
    again for the next plan, whose user and environment are the same: there it is remembered."""
    seen = {}  # of this process: what was run bare, with all that it was given -> its answer

    def __init__(self, daemon):
        self.seat = daemon
        self.bare = Bare(daemon)
        self.count = 0

    def run_bare(self, script, files, box, timeout, again, **more):
        def of_any(value):
            return json.loads(json.dumps(value).replace(str(self.seat.base), "@BASE@"))
        key = json.dumps(of_any([script, files, box, self.bare.env, self.seat.owner, more]), sort_keys=True)
        if again or key not in self.seen:
            self.seen[key] = of_any(self.bare.run(script, cwd=box, timeout=timeout, **more))
            ran = self.bare.ws / box
        else:
            ran = None
        return json.loads(json.dumps(self.seen[key]).replace("@BASE@", str(self.seat.base))), ran

    def box(self, files):
        """A new folder, in both workspaces, with files (name -> text)."""
        self.count += 1
        name = f"box{self.count}"
        for ws in (self.seat.ws, self.bare.ws):
            (ws / name).mkdir()
            for path, text in files.items():
                (ws / name / path).parent.mkdir(parents=True, exist_ok=True)
                (ws / name / path).write_text(text)
            for folder, _, inside in os.walk(ws / name):
                for p in (folder, *(os.path.join(folder, f) for f in inside)):
                    os.chown(p, self.seat.owner, self.seat.owner)
        return name

    def inside(self, script, box, timeout=120, **members):
        answer = self.seat.run(script, cwd=box, timeout=timeout, **members)
        assert not answer["timed_out"], f"inside, no end of {script!r}: {answer}"
        assert not answer["stdout_truncated"] and not answer["stderr_truncated"], answer
        return answer

    def run(self, script, files=None, clean=None, expect=0, env=None, stdin="", timeout=120, again=False):
        """Gives back (stdout, the box's folder inside, the box's folder bare). clean(text) takes out what differs
        between any two runs: times, process numbers. again: the test looks into the folder bare, which is None where
        an earlier plan ran it."""
        box = self.box(files or {})
        clean = clean or (lambda text: text)
        more = {k: v for k, v in (("env", env), ("stdin", stdin)) if v}
        bare, ran = self.run_bare(script, files, box, timeout, again, **more)
        inside = self.inside(script, box, timeout, **more)
        compare(script, inside, bare, clean)
        assert inside["exit_code"] == expect, (script, inside)
        return inside["stdout"], self.seat.ws / box, ran

    def close(self):
        self.bare.close()
        for ws in (self.seat.ws, self.bare.ws):
            shutil.rmtree(ws, ignore_errors=True)
            ws.mkdir(exist_ok=True)


def compare(script, inside, bare, clean=lambda text: text):
    for key in ("exit_code", "stdout", "stderr"):
        a, b = inside[key], bare[key]
        if key != "exit_code":
            a, b = clean(a), clean(b)
        assert a == b, f"{script}\n{key} inside: {a!r}\n{key} bare:   {b!r}\ninside: {inside}\nbare: {bare}"
