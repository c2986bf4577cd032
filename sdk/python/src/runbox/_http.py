"""One request on one connection, over TCP or a unix socket, bounded by the caller's deadline.

A connection is never used twice, so that there is nothing to retry: the server may close an idle
one at any time, and then nobody could tell whether the request was taken.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import os
import select
import socket
import ssl
import time
from collections.abc import Iterable, Mapping
from typing import IO, Any, Callable, Optional, Union
from urllib.parse import urlsplit

from ._errors import DeadlineError, RunboxError, TransportError, api_error

Field = Union[str, bytes]
Source = Union[bytes, bytearray, memoryview, str, IO[bytes], Iterable[bytes]]

BLOCK = 1 << 18
ERROR_MAX = 1 << 16
LENGTH_DIGITS = 18
WAIT_MAX = 1e6  # seconds: a socket takes no more than 2^31 ms, and whole numbers of them
# An answer to HEAD has no body to tell the code: these statuses have but one.
HEAD_CODES = {
    404: b'{"error": "There is nothing at this path.", "code": "not_found"}',
    409: b'{"error": "The path is no file.", "code": "not_a_file"}',
}


class Target:
    """Where the daemon is: ``http://host:port``, ``https://host:port`` or ``unix:/path``."""

    def __init__(self, url: str, context: Optional[ssl.SSLContext] = None) -> None:
        self.path: Optional[str] = None
        self.context: Optional[ssl.SSLContext] = None
        self.host, self.port = "localhost", 80
        if url.startswith("unix:"):
            self.path = url[5:]
            if not self.path.startswith("/"):
                raise ValueError("A unix socket needs an absolute path: unix:/path.")
            return
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("The URL must be http://host:port, https://host:port or unix:/path.")
        if parts.path.strip("/") or parts.query or parts.fragment or parts.username is not None:
            raise ValueError("The URL must have nothing behind the port.")
        secure = parts.scheme == "https"
        self.host, self.port = parts.hostname, parts.port or (443 if secure else 80)
        if secure:
            self.context = context or ssl.create_default_context()


class _Timed(io.RawIOBase):
    """What comes from a socket, each piece in the time that is left.

    A timeout of the socket's own begins anew with each of them, and of a head there may be many.
    """

    def __init__(self, sock: socket.socket, left: Callable[[], Optional[float]]) -> None:
        super().__init__()
        self._sock, self._left = sock, left
        self._raw = sock.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> Optional[int]:
        self._sock.settimeout(self._left())
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Answer(http.client.HTTPResponse):
    """The final answer: the library itself reads past 100 alone, not past 102 or 103."""

    def __init__(
        self,
        sock: socket.socket,
        left: Callable[[], Optional[float]],
        method: Optional[str],
    ) -> None:
        timed: Any = io.BufferedReader(_Timed(sock, left))
        super().__init__(sock, method=method)
        self.fp.close()
        self.fp = timed

    def begin(self) -> None:
        super().begin()
        while 101 < self.status < 200:
            self.headers = None  # type: ignore[assignment]  # which makes it begin again
            super().begin()

    trailer: Optional[http.client.HTTPMessage] = None

    def _read_and_discard_trailer(self) -> None:  # the library's name; what it drops is kept
        self.trailer = http.client.parse_headers(self.fp)


class _Connection(http.client.HTTPConnection):
    def __init__(self, target: Target, left: Callable[[], Optional[float]]) -> None:
        super().__init__(target.host, target.port)
        self.target = target
        self._left = left

    def response_class(  # type: ignore[override]
        self, sock: socket.socket, method: Optional[str] = None
    ) -> _Answer:
        return _Answer(sock, self._left, method)

    def connect(self) -> None:
        if self.target.path is not None:
            self.sock = self._dial(socket.AF_UNIX, self.target.path)
            return
        self.sock = self._dial_any()
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.target.context is not None:
            self.sock.settimeout(self._left())
            self.sock = self.target.context.wrap_socket(self.sock, server_hostname=self.target.host)

    def _dial(self, family: int, address: Any) -> socket.socket:
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.settimeout(self._left())
            sock.connect(address)
        except BaseException:
            sock.close()
            raise
        return sock

    def _dial_any(self) -> socket.socket:
        """All addresses of the name share the time that is left."""
        failed: OSError = OSError("The name has no address.")
        for found in socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM):
            try:
                return self._dial(found[0], found[4])
            except OSError as err:
                failed = err
        raise failed


def source_size(data: Source) -> Optional[int]:
    """Bytes that will come, where that can be known: of bytes, text and regular files."""
    if isinstance(data, str):
        return len(data.encode())
    if isinstance(data, (bytes, bytearray)):
        return len(data)
    if isinstance(data, memoryview):
        return data.nbytes
    file: Any = data
    try:
        size = os.fstat(file.fileno()).st_size
        at: int = file.tell()
    except (AttributeError, OSError, ValueError):
        return None
    return max(size - at, 0) if size > 0 else None  # 0: /proc, pipes, or really empty


def pieces(data: Source) -> Iterable[bytes]:
    """The bytes of a source, some at a time."""
    if isinstance(data, str):
        data = data.encode()
    if isinstance(data, (bytes, bytearray, memoryview)):
        view = memoryview(data).cast("B")
        for at in range(0, len(view), BLOCK):
            yield bytes(view[at : at + BLOCK])
    elif hasattr(data, "read"):
        while piece := data.read(BLOCK):
            if not isinstance(piece, bytes):
                raise TypeError("A file to write must be opened in binary mode.")
            yield piece
    else:
        yield from data


class Exchange:
    """A request that was sent and an answer whose head is there. Close it."""

    status: int

    def __init__(self, target: Target, deadline: Optional[float]) -> None:
        self._until = None if deadline is None else time.monotonic() + deadline
        self._target = target
        self._conn = _Connection(target, self._left)
        self._sock: Optional[socket.socket] = None
        self._answer: Optional[http.client.HTTPResponse] = None
        self._todo: Optional[int] = None

    def _left(self) -> Optional[float]:
        if self._until is None:
            return None
        left = self._until - time.monotonic()
        if left <= 0:
            raise DeadlineError("The call took longer than its deadline.")
        return min(left, WAIT_MAX)

    def _arm(self) -> None:
        if self._until is not None and self._sock is not None:
            self._sock.settimeout(self._left())

    def _translate(self, err: BaseException) -> RunboxError:
        if isinstance(err, RunboxError):
            return err
        if isinstance(err, (TimeoutError, socket.timeout)):  # one class from 3.10 on
            return DeadlineError("The call took longer than its deadline.")
        return TransportError(f"The connection failed: {err or type(err).__name__}.")

    def send(
        self,
        method: str,
        path: str,
        headers: Mapping[str, Field],
        body: Source,
        size: Optional[int],
    ) -> None:
        """Sends the request, and reads the answer's head."""
        try:
            self._conn.connect()
            self._sock = self._conn.sock
            self._arm()
            self._send_head(method, path, headers, size)
            self._send_body(body, size)
            self._answer = self._conn.getresponse()
        except (OSError, http.client.HTTPException) as err:
            self.close()
            raise self._translate(err) from err
        except BaseException:
            self.close()
            raise
        self.status = self._answer.status
        length = self.size()
        if method != "HEAD" and not self._answer.chunked:
            self._todo = length

    def _send_head(
        self, method: str, path: str, headers: Mapping[str, Field], size: Optional[int]
    ) -> None:
        self._conn.putrequest(method, path, skip_accept_encoding=True)
        self._conn.putheader("Connection", "close")
        for name, value in headers.items():
            text = value.decode("latin-1") if isinstance(value, bytes) else value
            if any(c < " " or c == "\x7f" for c in text):
                raise RunboxError(f"The value of {name} can't have control characters in it.")
            self._conn.putheader(name, value)
        if size is not None:
            self._conn.putheader("Content-Length", str(size))
        else:
            self._conn.putheader("Transfer-Encoding", "chunked")
        self._conn.endheaders()

    def _answered(self) -> bool:
        """The server refuses before all is sent, and won't read much more.

        Under TLS there may be something to read that is no answer.
        """
        if self._sock is None or self._target.context is not None:
            return False
        poll = select.poll()
        poll.register(self._sock, select.POLLIN)
        return bool(poll.poll(0))

    def _send_body(self, body: Source, size: Optional[int]) -> None:
        sent = 0
        for piece in pieces(body):
            if not piece:
                continue
            sent += len(piece)
            if size is not None and sent > size:
                raise RunboxError("There are more bytes to write than the size given.")
            self._arm()
            if self._answered():
                return
            try:
                if size is None:
                    self._conn.send(b"%x\r\n" % len(piece) + piece + b"\r\n")
                else:
                    self._conn.send(piece)
            except (BrokenPipeError, ConnectionResetError):
                return  # refused before all was sent: the answer says why
        if size is not None and sent < size:
            raise RunboxError("There are fewer bytes to write than the size given.")
        if size is None:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self._conn.send(b"0\r\n\r\n")

    def header(self, name: str) -> Optional[str]:
        """A field of the answer's head."""
        return self._answer.getheader(name) if self._answer is not None else None

    def trailer(self, name: str) -> Optional[str]:
        """A field behind the answer's body, once that was read to its end."""
        fields = getattr(self._answer, "trailer", None)
        return None if fields is None else fields.get(name)

    def size(self) -> Optional[int]:
        """Content-Length, of HEAD's answer too."""
        value = self.header("Content-Length")
        if value is None:
            return None
        if not value.isascii() or not value.isdigit() or len(value) > LENGTH_DIGITS:
            self.close()
            raise TransportError("The answer's length is no number.")
        return int(value)

    def read(self, most: int = BLOCK) -> bytes:
        """What is there, at most ``most`` bytes; b"" at the end, which is a whole one."""
        if self._answer is None:
            raise TransportError("The answer is closed.")
        try:
            data = self._answer.read1(most)
        except (OSError, ValueError, http.client.HTTPException) as err:
            self.close()
            raise self._translate(err) from err
        if self._todo is not None:
            self._todo -= len(data)
            if not data and self._todo > 0:
                self.close()
                raise TransportError("The connection ended inside the answer.")
        return data

    def read_all(self, most: Optional[int] = None) -> bytes:
        """The whole body, or its first bytes."""
        parts = []
        have = 0
        while most is None or have < most:
            data = self.read()
            if not data:
                break
            parts.append(data)
            have += len(data)
        return b"".join(parts)

    def check(self, good: tuple[int, ...]) -> None:
        """Raises what the answer says, if it is an error, or that it isn't the daemon's."""
        if self.status < 400:
            packed = (self.header("Content-Encoding") or "identity").lower() != "identity"
            if self.status in good and not packed:
                return
            self.close()
            what = "is packed" if packed else f"has the status {self.status}"
            raise TransportError(f"The answer {what}, as none of the daemon's.")
        try:
            body = self.read_all(ERROR_MAX)
        finally:
            self.close()
        if not body and self.status in HEAD_CODES:
            body = HEAD_CODES[self.status]
        raise api_error(self.status, body, self.header("Retry-After"))

    def abort(self) -> None:
        """Ends the connection under a read of another thread, too."""
        if self._sock is not None:
            with contextlib.suppress(OSError):
                self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Drops the connection, whatever is still to come."""
        if self._answer is not None:
            self._answer.close()
        self._conn.close()
