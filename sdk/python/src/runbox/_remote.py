"""What a seat and a workspace of a box have in common, but for the addresses."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from email.utils import formatdate
from typing import Any, Optional
from urllib.parse import quote

from ._answers import is_type, make, member, read_object
from ._errors import ApiError, DeadlineError, RunboxError, TransportError
from ._http import Exchange, Field, Source, Target, source_size
from ._multipart import Files, Form
from ._streams import Body, Live, Sink
from ._types import Entry, FileInfo, Listing, Result, Stored


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


def percent(path: str, safe: str = "") -> str:
    """A path as it stands in an address."""
    try:
        return quote(path, safe=safe)
    except UnicodeEncodeError as err:
        raise RunboxError(f"The path can't be sent: {err}.") from err


def _date(seconds: float) -> str:
    """As headers have it. A condition that isn't a date would be none."""
    try:
        return formatdate(seconds, usegmt=True)
    except (ValueError, OverflowError, OSError) as err:
        raise RunboxError(f"The time can't be sent: {err}.") from err


def _is_part(exchange: Exchange, start: int, end: Optional[int]) -> bool:
    """Whether the answer is this part of a file, or as much of it as there is."""
    field = exchange.header("Content-Range") or ""
    found = re.fullmatch(r"bytes ([0-9]+)-([0-9]+)/([0-9]+)", field)
    if exchange.status != 206 or found is None:
        return False
    first, last, total = map(int, found.groups())
    until = total if end is None else min(end, total)
    return first == start and last + 1 == until and exchange.size() == until - start


class Remote:
    """Asks a daemon. ``fields``: headers of every request."""

    def __init__(
        self, target: Target, deadline: Optional[float], fields: Mapping[str, Field]
    ) -> None:
        self._target = target
        self._deadline = deadline
        self._fields = dict(fields)

    def _exchange(self, deadline: Optional[float]) -> Exchange:
        return Exchange(self._target, self._deadline if deadline is None else deadline)

    def _ask(
        self,
        method: str,
        path: str,
        headers: Optional[Mapping[str, Field]] = None,
        *,
        body: Source = b"",
        size: Optional[int] = 0,
        deadline: Optional[float] = None,
        good: tuple[int, ...] = (200,),
    ) -> Exchange:
        exchange = self._exchange(deadline)
        exchange.send(method, path, {**self._fields, **(headers or {})}, body, size)
        exchange.check(good)
        return exchange

    def _status(self, path: str, deadline: Optional[float]) -> str:
        """The one word of an answer that a daemon gives with 200 or 503."""
        exchange = self._exchange(deadline)
        exchange.send("GET", path, {}, b"", 0)
        if exchange.status != 503:
            exchange.check((200,))
        return member(read_object(exchange), "status", str)


class Sandbox(Remote):
    """One workspace. Not made by itself: see Seat, and Box.workspace."""

    _EXEC = ""
    _WRITE = ""  # the method, to what _file says

    def _file(self, path: str) -> str:
        raise NotImplementedError

    def _folder(self, path: str, recursive: bool) -> str:
        raise NotImplementedError

    def _removal(self, path: str, recursive: bool) -> str:
        raise NotImplementedError

    # ---- commands ----

    def _run(
        self,
        body: bytes,
        accept: str,
        files: Optional[Files],
        busy_wait: float,
        deadline: Optional[float],
    ) -> Exchange:
        """Asks again only where the daemon said "busy" and the caller asked for that."""
        headers = {"Accept": accept, "Content-Type": "application/json"}
        if files is not None:
            if busy_wait > 0:
                raise ValueError("A command with files can't be sent twice: leave out busy_wait.")
            form = Form(files, body)
            headers["Content-Type"] = form.content_type
            return self._ask(
                "POST", self._EXEC, headers, body=form, size=form.size(), deadline=deadline
            )
        if deadline is None:
            deadline = self._deadline
        began = time.monotonic()
        while True:
            gone = time.monotonic() - began
            left = None if deadline is None else deadline - gone
            try:
                return self._ask(
                    "POST", self._EXEC, headers, body=body, size=len(body), deadline=left
                )
            except ApiError as err:
                gone = time.monotonic() - began
                if err.code != "busy" or gone >= busy_wait:
                    raise
                pause = min(err.retry_after or 1.0, busy_wait - gone)
                if deadline is not None and gone + pause >= deadline:
                    raise DeadlineError("The call took longer than its deadline.") from err
                time.sleep(pause)

    def _execute(
        self, body: bytes, files: Optional[Files], busy_wait: float, deadline: Optional[float]
    ) -> Result:
        exchange = self._run(body, "application/json", files, busy_wait, deadline)
        return make(Result, read_object(exchange))

    def _stream(
        self, body: bytes, files: Optional[Files], busy_wait: float, deadline: Optional[float]
    ) -> Live:
        exchange = self._run(body, "text/event-stream", files, busy_wait, deadline)
        if not is_type(exchange, "text/event-stream"):
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
        """A file's bytes as a stream: from ``start`` up to, without, ``end``. Close it."""
        headers = {}
        if start or end is not None:
            if start < 0 or (end is not None and end <= start):
                raise ValueError("A range must be of at least one byte, from 0 or more on.")
            headers["Range"] = f"bytes={start}-{'' if end is None else end - 1}"
        good = (200, 206) if headers else (200,)
        exchange = self._ask("GET", self._file(path), headers, deadline=deadline, good=good)
        if headers and not _is_part(exchange, start, end):
            exchange.close()
            raise TransportError("The answer is not the range asked for.")
        if is_type(exchange, "application/json"):  # a seat lists a folder on the same path
            exchange.close()
            raise ApiError("The path is a folder.", code="is_a_directory", status=exchange.status)
        if not is_type(exchange, "application/octet-stream"):
            exchange.close()
            raise TransportError("The answer is no file.")
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
            return body.readall()

    def download(
        self,
        path: str,
        sink: Sink,
        *,
        start: int = 0,
        end: Optional[int] = None,
        deadline: Optional[float] = None,
    ) -> int:
        """Writes a file's bytes into ``sink`` as they come; returns how many."""
        with self.open(path, start=start, end=end, deadline=deadline) as body:
            return body.copy_to(sink)

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
        return self._store(
            self._WRITE,
            self._file(path),
            data,
            size=size,
            new_only=new_only,
            if_match=if_match,
            deadline=deadline,
        )

    def delete_path(
        self,
        path: str,
        *,
        recursive: bool = False,
        if_match: Optional[str] = None,
        unmodified_since: Optional[float] = None,
        deadline: Optional[float] = None,
    ) -> None:
        """Removes a file, a link itself, an empty folder or, if ``recursive``, any folder.

        ``if_match``: only the file that has this entity tag. ``unmodified_since``: seconds since
        1970, as a listing's ``mtime``; only what didn't change after that second.
        """
        headers = {}
        if if_match is not None:
            headers["If-Match"] = if_match
        if unmodified_since is not None:
            headers["If-Unmodified-Since"] = _date(unmodified_since)
        removal = self._removal(path, recursive)
        self._ask("DELETE", removal, headers, deadline=deadline, good=(204,)).close()

    def _store(
        self,
        method: str,
        target: str,
        data: Source,
        *,
        size: Optional[int],
        new_only: bool,
        if_match: Optional[str],
        deadline: Optional[float],
    ) -> Stored:
        headers = {"Content-Type": "application/octet-stream"}
        if new_only:
            headers["If-None-Match"] = "*"
        if if_match is not None:
            headers["If-Match"] = if_match
        if size is None:
            size = source_size(data)
        exchange = self._ask(
            method, target, headers, body=data, size=size, deadline=deadline, good=(200, 201)
        )
        etag, created = exchange.header("ETag"), exchange.status == 201
        found = read_object(exchange)
        return Stored(member(found, "path", str), member(found, "size", int), etag, created)

    def _list(self, path: str, recursive: bool, deadline: Optional[float]) -> Listing:
        found = read_object(self._ask("GET", self._folder(path, recursive), deadline=deadline))
        entries = member(found, "entries", list)
        return Listing(
            member(found, "path", str),
            tuple(make(Entry, e) for e in entries),
            member(found, "truncated", bool),
        )

    def head(self, path: str = "", *, deadline: Optional[float] = None) -> FileInfo:
        """What is there, without its content."""
        try:
            return self._head(path, deadline)
        except ApiError as err:
            if err.status != 400:
                raise
        try:  # HEAD doesn't say why
            self.open(path, deadline=deadline).close()
        except ApiError as err:
            if err.code == "is_directory":
                return FileInfo(path, True, None, None)
            raise
        return self._head(path, deadline)  # it changed meanwhile

    def _head(self, path: str, deadline: Optional[float]) -> FileInfo:
        exchange = self._ask("HEAD", self._file(path), deadline=deadline)
        exchange.close()
        folder = is_type(exchange, "application/json")
        if not folder and not is_type(exchange, "application/octet-stream"):
            raise TransportError("The answer is neither a file nor a folder.")
        size = None if folder else exchange.size()
        return FileInfo(path, folder, size, exchange.header("ETag"))
