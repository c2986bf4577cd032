"""proxied.py: three boxes, and a proxy of Debian's before them with the settings of deploy/. The proxy
trusts its clients as little as a box does; here both are the test's."""
import os
import pathlib
import re
import socket
import subprocess
import tempfile

from harness import procs
from harness.box import Box
from harness.http import Conn

ROOT = pathlib.Path(__file__).resolve().parents[2]


def listening(port=0):
    """A socket of a port that the kernel picked, or of that port again."""
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(("127.0.0.1", port))
    s.listen(128)
    return s


class Pool:
    """Three boxes and the proxy's process, which was handed its listening socket."""

    def __init__(self, kind):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="sp-proxy-"))
        self.folder.chmod(0o755)
        self.boxes = []
        self.proxy = None
        for _ in range(3):
            with listening() as s:
                box = Box(listen=[s])
            self.boxes.append(box)
        for box in self.boxes:
            box.wait_up()
        with listening() as s:
            self.port = s.getsockname()[1]
            self.log = open(self.folder / "log", "wb")
            args, env = getattr(self, kind)(s)
            self.proxy = subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
                                          pass_fds=[s.fileno()], env={**os.environ, **env})

    def wait_up(self):
        procs.wait_for("the proxy's boxes are up", lambda: all(
            self.call("GET", "/v1/usage", who=(f"up-{n}",)).status == 200 for n in range(20)))

    def settings(self, name, bind):
        """The shipped file with the boxes' and our own addresses in it, and nothing else changed."""
        text = (ROOT / "deploy" / name).read_text(encoding="utf-8")
        for n, box in enumerate(self.boxes, 1):
            text, count = re.subn(rf"\b10\.0\.0\.{n}:8080\b", f"127.0.0.1:{box.port}", text)
            assert count == 1
        assert text.count(" 127.0.0.1:8000") == 1
        path = self.folder / pathlib.Path(name).name
        path.write_text(text.replace(" 127.0.0.1:8000", f" {bind}"), encoding="utf-8")
        return path

    def nginx(self, s):
        path = self.settings("nginx/sallyport.conf", f"127.0.0.1:{self.port}")
        temp = "".join(f"{kind}_temp_path {self.folder}/{kind};\n" for kind in (
            "client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        main = self.folder / "nginx.conf"
        main.write_text(f"daemon off; worker_processes 2; user nobody nogroup; pid {self.folder}/pid;\n"
                        f"error_log stderr; events {{}}\nhttp {{ access_log off; {temp} include {path}; }}\n")
        return ["nginx", "-c", main, "-p", self.folder, "-e", "stderr"], {"NGINX": f"{s.fileno()};"}

    def haproxy(self, s):
        path = self.settings("haproxy/haproxy.cfg", f"fd@{s.fileno()}")
        return ["haproxy", "-db", "-f", path], {}

    def conn(self):
        return Conn(("127.0.0.1", self.port))

    def call(self, *args, **kw):
        """As Box.call, through the proxy."""
        front = type("Front", (), {"conn": lambda _: self.conn()})()
        return Box.call(front, *args, **kw)

    def owner(self, who):
        """The boxes that have a workspace of this identity."""
        return [box for box in self.boxes if box.workspace(*who).is_dir()]

    def close(self):
        if self.proxy:
            self.proxy.terminate()
            self.proxy.wait(60)
            self.log.close()
        for box in self.boxes:
            if not box.stopped:
                box.stop()
        subprocess.run(["rm", "-r", self.folder], check=True)
