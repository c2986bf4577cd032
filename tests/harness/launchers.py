"""launchers.py: the process of launcher.py that starts this process's daemons, and a handle on what it started. It
trusts the specs, which are the tests' own."""
import os
import pathlib
import select
import signal
import socket
import subprocess
import threading

PATH = pathlib.Path(__file__).with_name("launcher.py")
_lock = threading.Lock()
_server = None  # (our process, its socket, it): a child that forked off has to start its own


class Launched:
    """As much of a subprocess.Popen as daemon.py needs, of somebody else's child."""

    def __init__(self, pid, fd):
        self.pid, self.fd = pid, fd

    def poll(self):
        """Whether it has ended, as a status that isn't None; which one is in the daemon's report."""
        return 0 if self.fd is None or select.select([self.fd], [], [], 0)[0] else None

    def wait(self):
        if self.fd is not None:
            select.select([self.fd], [], [])
            os.close(self.fd)
            self.fd = None

    def kill(self):
        if self.fd is not None:
            try:
                signal.pidfd_send_signal(self.fd, signal.SIGKILL)
            except ProcessLookupError:
                pass


def _socket():
    global _server
    if _server is None or _server[0] != os.getpid():
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # Ends when our end is closed, by whatever end of ours.
        server = subprocess.Popen(["/usr/bin/python3", "-I", str(PATH), "--serve"], stdin=theirs, close_fds=True, cwd="/")
        theirs.close()
        _server = os.getpid(), ours, server
    return _server[1]


def start(spec_path, stdout, stderr, status, listen):
    with _lock:
        sock = _socket()
        socket.send_fds(sock, [spec_path.encode()], [stdout.fileno(), stderr.fileno(), status, *listen])
        data, fds, _, _ = socket.recv_fds(sock, 64, 1)
    assert data and len(fds) == 1, "the server of launchers is gone"
    os.set_inheritable(fds[0], False)
    return Launched(int(data), fds[0])
