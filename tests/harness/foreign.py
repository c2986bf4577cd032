"""foreign.py: the static file in the workspace of somebody else's image, started there as `.sandbox-agent` by a
number that nobody gave a name: what sandbox pools do. The image is a folder that becomes the root of mount and PID
namespaces of its own, read-only but for its workspace; the daemon is the first process in it. Trusts no test."""
import json
import os
import pathlib
import re
import signal
import stat
import subprocess
import sys

if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import launcher, names, procs  # noqa: E402
from harness.http import Conn  # noqa: E402

SYS_PIVOT_ROOT, MNT_DETACH, MS_NOSUID, MS_NODEV = 155, 2, 2, 4


def make_image(root, kind, have):
    """"empty": a static shell, mount points, and nothing else; "alpine": busybox, its names, a passwd file, /tmp."""
    for name in ("bin", "proc", "dev", "workspace", *(("tmp",) if kind != "empty" or "tmp" in have else ())):
        (root / name).mkdir(parents=True)
    (root / "bin/sh").write_bytes(pathlib.Path("/bin/busybox").read_bytes())
    (root / "bin/sh").chmod(0o755)
    if kind == "alpine":
        for name in subprocess.run(["/bin/busybox", "--list"], capture_output=True, text=True, check=True).stdout.split():
            if name != "sh":
                (root / "bin" / name).symlink_to("sh")
        (root / "etc").mkdir()
        (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/ash\n", encoding="ascii")
        (root / "etc/group").write_text("root:x:0:\n", encoding="ascii")


def enter(root, uid, gid, have, env):
    """In namespaces of our own, as their first process."""
    launcher.mount(None, "/", None, launcher.MS_REC | launcher.MS_PRIVATE)
    launcher.mount(root, root, None, launcher.MS_BIND)
    launcher.set_readonly(root, False, True)
    workspace = f"{root}/workspace"
    launcher.mount(workspace, workspace, None, launcher.MS_BIND)
    launcher.set_readonly(workspace, False, False)
    if "proc" in have:
        launcher.mount("proc", f"{root}/proc", "proc", 0)
    if "tmp" in have:
        launcher.mount("tmp", f"{root}/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777,size=16m")
    if "null" in have:
        launcher.mount("dev", f"{root}/dev", "tmpfs", MS_NOSUID, "mode=755,size=64k")
        for name, minor in (("null", 3), ("zero", 5)):
            os.mknod(f"{root}/dev/{name}", stat.S_IFCHR | 0o666, os.makedev(1, minor))
            os.chmod(f"{root}/dev/{name}", 0o666)
    os.chdir(root)
    launcher.check(launcher.LIBC.syscall(SYS_PIVOT_ROOT, b".", b"."), "pivot_root")
    launcher.check(launcher.LIBC.umount2(b".", MNT_DETACH), "umount")
    os.chdir("/")
    os.closerange(3, 1024)
    for cap in range(64):
        if launcher.LIBC.prctl(launcher.PR_CAPBSET_READ, cap, 0, 0, 0) == 1:
            launcher.check(launcher.LIBC.prctl(launcher.PR_CAPBSET_DROP, cap, 0, 0, 0), "drop a capability")
    launcher.check(launcher.LIBC.prctl(launcher.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    if "no-userns" in have:
        launcher.deny_user_namespaces()
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    # The kernel forgets with the user id what `unshare --kill-child` asked of it.
    launcher.LIBC.prctl(launcher.PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    os.execve("/workspace/.sandbox-agent", ["/workspace/.sandbox-agent"], env)


class Foreign:
    """A seat in such an image. have: what its runtime mounts, "proc", "null" (and zero), "tmp"; "no-userns"
    refuses user namespaces, as the usual profiles of containers do."""

    def __init__(self, folder, kind="alpine", uid=65534, gid=None, have=("proc", "null"), owner=None, mode=0o755, change=None, env=None):
        self.root, self.log_path, gid = folder / "root", folder / "log", uid if gid is None else gid
        make_image(self.root, kind, have)
        self.workspace = self.root / "workspace"
        agent = self.workspace / ".sandbox-agent"
        agent.write_bytes(names.STATIC.read_bytes())
        agent.chmod(0o755)
        os.chown(self.workspace, *(owner or (uid, gid)))
        self.workspace.chmod(mode)
        if change:
            change(self)
        env = {names.PORT: "0", names.BIND: "127.0.0.1", **(env or {})}
        spec = json.dumps([str(self.root), uid, gid, list(have), env])
        with open(self.log_path, "wb") as log:
            self.outer = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork",
                                           "--kill-child", sys.executable, __file__, spec],
                                          stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.port = None

    def log(self):
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def wait_up(self):
        def seen():
            m = re.search(r"listening on http://127\.0\.0\.1:(\d+)", self.log())
            assert m or self.outer.poll() is None, self.log()
            return m
        self.port = int(procs.wait_for("it listens", seen, 30)[1])
        return self

    def request(self, method, target, body=None, headers=()):
        with Conn(("127.0.0.1", self.port)) as c:
            return c.request(method, target, body, headers)

    def run(self, command, **members):
        a = self.request("POST", "/execute", json.dumps({"command": command, **members}).encode(),
                         [("Content-Type", "application/json")])
        assert a.status == 200, f"{a!r}\n{self.log()}"
        return a.json

    def left(self):
        """Who still has the log open, as each of its processes has: by name."""
        log, found = self.log_path.stat(), []
        for fd in pathlib.Path("/proc").glob("[0-9]*/fd/2"):
            try:
                if os.path.samestat(fd.stat(), log):
                    found.append((fd.parts[2], procs.read(fd.parts[2]).cmdline))
            except (OSError, AttributeError):  # it ended
                continue
        return found

    def close(self):
        """unshare's end is the first process's, and that everybody's."""
        self.outer.kill()
        self.outer.wait()
        procs.wait_for(f"none of its processes is left of {self.left()}", lambda: not self.left())


if __name__ == "__main__":
    os.umask(0o022)
    enter(*json.loads(sys.argv[1]))
