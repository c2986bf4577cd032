"""The seat's client: one workspace, one command at a time. The daemon's answers are checked."""

from __future__ import annotations

import io
import json
import ssl
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Callable, Optional, TypeVar, Union
from urllib.parse import quote

from ._errors import ApiError, RunboxError, TransportError
from ._http import BLOCK, Exchange, Source, Target, source_size
from ._types import Entry, Exit, FileInfo, Listing, Output, Result, Stored

T = TypeVar("T")
LINE_MAX = 1 << 20


class Body(io.RawIOBase):
    """A file's bytes as they come. A file object; iterating yields pieces, not lines."""

    def __init__(self, exchange: Exchange) -> None:
        super().__init__()
        self._exchange = exchange
        self.size = exchange.size()
        self.etag = exchange.header("ETag")

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Any) -> int:
        """As of any raw file: fewer bytes than asked for are normal, 0 is the end."""
        data = self._exchange.read(min(len(buffer), BLOCK))
        buffer[: len(data)] = data
        return len(data)

    def readall(self) -> bytes:
        """All that is left."""
        return b"".join(self)

    def __iter__(self) -> Iterator[bytes]:
        while data := self._exchange.read():
            yield data

    def close(self) -> None:
        """Drops the connection, whatever is still to come."""
        if not self.closed:
            self._exchange.close()
        super().close()


class Live:
    """A running command's output as it comes: iterate, in a ``with``.

    Not reading stops the command, once the buffers between are full. Closing kills it.
    ``exit`` is there after the last event.
    """

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._buffer = bytearray()
        self._looked = 0
        self.exit: Optional[Exit] = None

    def __enter__(self) -> Live:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        value: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def close(self) -> None:
        """Kills the command if it still runs. Another thread may call it."""
        self._exchange.abort()
        self._exchange.close()

    def _line(self) -> str:
        while (end := self._buffer.find(b"\n", self._looked)) < 0:
            self._looked = len(self._buffer)
            if self._looked > LINE_MAX:
                raise TransportError("A line of the stream is too long.")
            data = self._exchange.read()
            if not data:
                raise TransportError("The stream ended before the command did.")
            self._buffer += data
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        self._looked = 0
        try:
            return line.decode("utf-8")
        except UnicodeDecodeError:
            raise TransportError("The stream is not UTF-8.") from None

    def _event(self) -> tuple[str, dict[str, Any]]:
        name, data = "", ""
        while line := self._line():
            field, _, value = line.partition(":")
            if field == "event":
                name = value.removeprefix(" ")
            elif field == "data":
                data = value.removeprefix(" ")
        if not name and not data:
            return "", {}  # a comment
        found = _parse(data.encode())
        return name, found

    def __iter__(self) -> Iterator[Union[Output, Exit]]:
        while self.exit is None:
            name, data = self._event()
            if name in ("stdout", "stderr"):
                yield Output(name, _member(data, "text", str))
            elif name == "exit":
                self.exit = _make(Exit, data)
                self._exchange.close()
                yield self.exit
            elif name == "error":
                self.close()
                raise ApiError(
                    _member(data, "error", str), code=_member(data, "code", str), status=200
                )


def _parse(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise TransportError("The answer is not a JSON object.")
    return found


def _member(found: dict[str, Any], name: str, kind: type[T]) -> T:
    value = found.get(name)
    if not isinstance(value, kind):
        raise TransportError(f'The answer has no usable "{name}".')
    return value


# By the annotations of the classes in _types, which are text. A bool is an int to isinstance.
_KINDS: dict[str, Callable[[Any], bool]] = {
    "str": lambda v: isinstance(v, str),
    "bool": lambda v: isinstance(v, bool),
    "int": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "float": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
    "Optional[str]": lambda v: v is None or isinstance(v, str),
}


def _make(kind: Callable[..., T], found: object) -> T:
    """A newer daemon may have more members than we know."""
    if not isinstance(found, dict):
        raise TransportError("The answer holds something that is no object.")
    fields = kind.__dataclass_fields__  # type: ignore[attr-defined]
    known = {k: v for k, v in found.items() if k in fields}
    for name, value in known.items():
        if not _KINDS[fields[name].type](value):
            raise TransportError(f'The answer has no usable "{name}".')
    try:
        return kind(**known)
    except TypeError:
        raise TransportError("The answer lacks a member.") from None


def _is(exchange: Exchange, kind: str) -> bool:
    return (exchange.header("Content-Type") or "").split(";")[0] == kind


def _path(path: str) -> str:
    return "/files/" + quote(path, safe="/")


def _command(
    command: str,
    timeout: Optional[float],
    env: Optional[Mapping[str, str]],
    cwd: Optional[str],
    stdin: Optional[str],
) -> bytes:
    members: dict[str, Any] = {"command": command}
    for name, value in (("timeout", timeout), ("cwd", cwd), ("stdin", stdin)):
        if value is not None:
            members[name] = value
    if env is not None:
        members["env"] = dict(env)
    try:
        return json.dumps(members, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, UnicodeEncodeError) as err:
        raise RunboxError(f"The command can't be sent: {err}.") from err


class Seat:
    """A client of ``sallyport seat`` at ``http://host:port``, ``https://...`` or ``unix:/path``.

    ``deadline``: seconds that each call may take unless it says otherwise; None is for ever.
    ``context``: for https, where the daemon's certificate isn't one that the system trusts.
    Threads may share it.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8080",
        *,
        deadline: Optional[float] = None,
        context: Optional[ssl.SSLContext] = None,
    ) -> None:
        self._target = Target(url, context)
        self._deadline = deadline

    def _ask(
        self,
        method: str,
        path: str,
        headers: Optional[Mapping[str, str]] = None,
        *,
        body: Source = b"",
        size: Optional[int] = 0,
        deadline: Optional[float] = None,
    ) -> Exchange:
        exchange = Exchange(self._target, self._deadline if deadline is None else deadline)
        exchange.send(method, path, headers or {}, body, size)
        exchange.check()
        return exchange

    def _json(self, exchange: Exchange) -> dict[str, Any]:
        try:
            return _parse(exchange.read_all())
        finally:
            exchange.close()

    # ---- commands ----

    def execute(
        self,
        command: str,
        *,
        timeout: Optional[float] = None,
        env: Optional[Mapping[str, str]] = None,
        cwd: Optional[str] = None,
        stdin: Optional[str] = None,
        deadline: Optional[float] = None,
    ) -> Result:
        """Runs one command, and returns when it has ended.

        ``timeout``: seconds after which the daemon kills it, which is a result, not an error.
        """
        body = _command(command, timeout, env, cwd, stdin)
        exchange = self._ask(
            "POST",
            "/execute",
            {"Content-Type": "application/json"},
            body=body,
            size=len(body),
            deadline=deadline,
        )
        return _make(Result, self._json(exchange))

    def stream(
        self,
        command: str,
        *,
        timeout: Optional[float] = None,
        env: Optional[Mapping[str, str]] = None,
        cwd: Optional[str] = None,
        stdin: Optional[str] = None,
        deadline: Optional[float] = None,
    ) -> Live:
        """Starts one command, and returns once it runs: iterate for its output."""
        body = _command(command, timeout, env, cwd, stdin)
        headers = {"Content-Type": "application/json", "Accept": "text/event-stream"}
        exchange = self._ask(
            "POST", "/execute", headers, body=body, size=len(body), deadline=deadline
        )
        if not _is(exchange, "text/event-stream"):
            exchange.close()
            raise TransportError("The daemon doesn't stream output.")
        return Live(exchange)

    # ---- files ----

    def open(
        self,
        path: str,
        *,
        start: int = 0,
        end: Optional[int] = None,
        deadline: Optional[float] = None,
    ) -> Body:
        """A file's bytes as a stream: from ``start`` up to, without, ``end``."""
        headers = {}
        if start or end is not None:
            if start < 0 or (end is not None and end <= start):
                raise ValueError("A range must be of at least one byte, from 0 or more on.")
            headers["Range"] = f"bytes={start}-{'' if end is None else end - 1}"
        exchange = self._ask("GET", _path(path), headers, deadline=deadline)
        if headers and exchange.status != 206:
            exchange.close()
            raise TransportError("The answer is not the range asked for.")
        if not _is(exchange, "application/octet-stream"):
            exchange.close()  # the daemon lists a folder on the same path
            raise ApiError("The path is a folder.", code="is_a_directory", status=exchange.status)
        return Body(exchange)

    def read(
        self,
        path: str,
        *,
        start: int = 0,
        end: Optional[int] = None,
        deadline: Optional[float] = None,
    ) -> bytes:
        """A file's bytes, all in memory."""
        with self.open(path, start=start, end=end, deadline=deadline) as body:
            return b"".join(body)

    def write(
        self,
        path: str,
        data: Source,
        *,
        size: Optional[int] = None,
        new_only: bool = False,
        if_match: Optional[str] = None,
        deadline: Optional[float] = None,
    ) -> Stored:
        """Replaces a file, atomically; missing folders are made.

        ``data``: bytes, text, a binary file or an iterable of bytes, sent as it comes. ``size``:
        how many bytes, where we can't know. ``new_only``: nothing may be there yet. ``if_match``:
        only over the file that has this entity tag.
        """
        headers = {"Content-Type": "application/octet-stream"}
        if new_only:
            headers["If-None-Match"] = "*"
        if if_match is not None:
            headers["If-Match"] = if_match
        if size is None:
            size = source_size(data)
        exchange = self._ask("PUT", _path(path), headers, body=data, size=size, deadline=deadline)
        etag, created = exchange.header("ETag"), exchange.status == 201
        found = self._json(exchange)
        return Stored(_member(found, "path", str), _member(found, "size", int), etag, created)

    def delete(
        self, path: str, *, recursive: bool = False, deadline: Optional[float] = None
    ) -> None:
        """Removes a file, a link itself, an empty folder or, if ``recursive``, any folder."""
        query = "?recursive=true" if recursive else ""
        self._ask("DELETE", _path(path) + query, deadline=deadline).close()

    def list(self, path: str = "", *, deadline: Optional[float] = None) -> Listing:
        """A folder's names, sorted."""
        folder = path.rstrip("/") + "/" if path.strip("/") else ""
        found = self._json(self._ask("GET", _path(folder), deadline=deadline))
        entries = _member(found, "entries", list)
        return Listing(
            _member(found, "path", str),
            tuple(_make(Entry, e) for e in entries),
            _member(found, "truncated", bool),
        )

    def head(self, path: str = "", *, deadline: Optional[float] = None) -> FileInfo:
        """What is there, without its content."""
        exchange = self._ask("HEAD", _path(path), deadline=deadline)
        exchange.close()
        folder = not _is(exchange, "application/octet-stream")
        size = None if folder else exchange.size()
        return FileInfo(path, folder, size, exchange.header("ETag"))

    def health(self, *, deadline: Optional[float] = None) -> str:
        """ "ok"; "draining" while the daemon shuts down."""
        exchange = Exchange(self._target, self._deadline if deadline is None else deadline)
        exchange.send("GET", "/healthz", {}, b"", 0)
        if exchange.status not in (200, 503):
            exchange.check()
        return _member(self._json(exchange), "status", str)
