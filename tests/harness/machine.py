"""machine.py: the daemon as the first process of a virtual machine: the files of ./dev guest under qemu, with
user networking, which reaches nothing outside, and one port of this machine's loopback address handed in.
Emulated, so that it works wherever the tests do, and for either processor."""
import json
import os
import pathlib
import re
import socket
import subprocess

from . import procs
from .http import Conn

ROOM = pathlib.Path(os.environ.get("SALLYPORT_GUESTS", "/var/tmp/sallyport-guests"))
QEMU = {
    # A kernel that sees its timer stand still for a moment, as on a busy host, panics without the second word.
    "amd64": ["qemu-system-x86_64", "-cpu", "max", "-append", "console=ttyS0 no_timer_check"],
    # The short form of pointer authentication: the usual one takes most of the time when emulated.
    "arm64": ["qemu-system-aarch64", "-M", "virt", "-cpu", "max,pauth-impdef=on", "-device", "virtio-keyboard-pci",
              "-append", "console=ttyAMA0"],
}
USUAL = "ip=10.0.2.15::10.0.2.2:255.255.255.0:guest:eth0:off"
BOOT_WAIT = 180.0


def packed(folder):
    listing = subprocess.run(["find", "."], cwd=folder, check=True, capture_output=True).stdout
    return subprocess.run(["busybox", "cpio", "-o", "-H", "newc"], cwd=folder, input=listing, check=True,
                          capture_output=True).stdout


def initrd(arch, folder, files, root=None):
    """The built one, and behind it an archive of more files: path -> (text, mode). root: a folder whose files come
    first; a link to a folder in it, such as bin, would be in the way of the built one's."""
    built = (ROOM / arch / "initrd").read_bytes()
    if root:
        small = ROOM / arch / "root"
        ours = pathlib.Path(folder) / "ours"
        for path in ("init", "modules", "usr/local/bin", "workspace"):
            (ours / path).parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(["cp", "-a", small / path, ours / path], check=True)
        built = packed(root) + packed(ours)
    if not files and not root:
        return ROOM / arch / "initrd"
    more = pathlib.Path(folder) / "more"
    more.mkdir()
    for path, (text, mode) in files.items():
        at = more / path
        at.parent.mkdir(parents=True, exist_ok=True)
        at.write_text(text)
        at.chmod(mode)
    whole = pathlib.Path(folder) / "initrd"
    whole.write_bytes(built + packed(more))
    return whole


class Machine:
    """line: more words for the kernel's command line. files: see initrd. disk: a file that is its first disk.
    memory: what the machine has. wait: until it serves."""

    def __init__(self, arch, folder, line=USUAL, files=None, disk=None, wait=True, memory="512M", root=None):
        self.folder = pathlib.Path(folder)
        self.console, self.control = self.folder / "console", self.folder / "control"
        program, *rest = QEMU[arch]
        command = [program, "-accel", "tcg", "-m", memory, "-smp", "1", "-display", "none", "-nodefaults", "-no-reboot",
                   "-kernel", ROOM / arch / "vmlinuz", "-initrd", initrd(arch, folder, files, root),
                   "-serial", f"file:{self.console}", "-qmp", f"unix:{self.control},server=on,wait=off",
                   "-nic", "user,model=virtio-net-pci,restrict=on,hostfwd=tcp:127.0.0.1:0-:8080", *rest]
        if disk:
            command[1:1] = ["-drive", f"if=virtio,format=raw,file={disk}"]
        command[-1] += f" loglevel=3 panic=-1 {line}"
        self.process = subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=open(self.folder / "qemu.log", "wb"))
        try:
            self.qmp = self.connect()
            self.port = int(re.search(r"127\.0\.0\.1 +(\d+)", self.ask("info usernet"))[1])
            if wait:
                self.wait_up()
        except BaseException:
            self.destroy()
            raise

    # ---- qemu's own socket: lines of JSON ----
    def connect(self):
        def there():
            assert self.process.poll() is None, (self.folder / "qemu.log").read_text()
            s = socket.socket(socket.AF_UNIX)
            try:
                s.connect(str(self.control))
                return s
            except OSError:
                s.close()
                return None
        s = procs.wait_for("qemu answers", there, 60.0)
        s.settimeout(60.0)
        lines = s.makefile("rw", encoding="utf-8")
        s.close()
        lines.readline()  # its greeting
        self.qmp = lines
        self.say("qmp_capabilities")
        return lines

    def say(self, what, **how):
        self.qmp.write(json.dumps({"execute": what, "arguments": how}) + "\n")
        self.qmp.flush()
        while True:
            answer = json.loads(self.qmp.readline())
            assert "error" not in answer, answer
            if "return" in answer:
                return answer["return"]

    def ask(self, line):
        return self.say("human-monitor-command", **{"command-line": line})

    # ---- life ----
    def log(self):
        return self.console.read_text(encoding="utf-8", errors="replace").replace("\r", "")

    def wait_up(self):
        def up():
            assert self.process.poll() is None, self.log()
            return "listening on http://" in self.log()
        procs.wait_for("the machine serves", up, BOOT_WAIT)

    def ctrl_alt_del(self):
        self.ask("sendkey ctrl-alt-delete")

    def wait_off(self, bound=BOOT_WAIT):
        """The console, when the machine has switched itself off."""
        assert self.process.wait(bound) == 0, (self.folder / "qemu.log").read_text()
        return self.log()

    def destroy(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    # ---- talk ----
    def request(self, method, target, body=None, headers=()):
        with Conn(("127.0.0.1", self.port), timeout=BOOT_WAIT) as c:
            return c.request(method, target, body, headers)

    def execute(self, command, headers=(), **members):
        return self.request("POST", "/execute", json.dumps({"command": command, **members}).encode(),
                            [("Content-Type", "application/json"), *headers])

    def run(self, command, **members):
        a = self.execute(command, **members)
        assert a.status == 200, f"{a!r}\n{self.log()}"
        return a.json
