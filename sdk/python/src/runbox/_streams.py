"""What is read as it comes: a file's or an archive's bytes, and a running command's output."""

from __future__ import annotations

import io
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Optional, Protocol, Union

from ._answers import make, member, parse
from ._errors import ApiError, TransportError
from ._http import BLOCK, Exchange
from ._types import Exit, Output

LINE_MAX = 1 << 20


class Sink(Protocol):
    """What bytes can be written to: a binary file, a socket's file, a response."""

    def write(self, data: memoryview, /) -> object:
        """Takes all of it or, like a raw file, says how much."""


class Body(io.RawIOBase):
    """Bytes as they come. A file object; iterating yields pieces, not lines.

    ``size`` is None where it isn't known before (an archive); ``etag`` is a file's. A connection
    that ends too early raises TransportError: what was read until then is not all.
    """

    def __init__(self, exchange: Exchange) -> None:
        super().__init__()
        self._exchange = exchange
        self.size = exchange.size()
        self.etag = exchange.header("ETag")
        self._made: Optional[str] = None

    def _read(self, most: int) -> bytes:
        data = self._exchange.read(most)
        if not data:
            self._made = self._exchange.trailer("X-Runbox-Archive")
        return data

    @property
    def whole(self) -> Optional[bool]:
        """Of an archive that was read to its end: False if something was left out of it.

        None before, and where a proxy took the answer's trailer away.
        """
        return {"whole": True, "partial": False}.get(self._made or "")

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Any) -> int:
        """As of any raw file: fewer bytes than asked for are normal, 0 is the end."""
        data = self._read(min(len(buffer), BLOCK))
        buffer[: len(data)] = data
        return len(data)

    def readall(self) -> bytes:
        """All that is left."""
        return b"".join(self)

    def __iter__(self) -> Iterator[bytes]:
        while data := self._read(BLOCK):
            yield data

    def copy_to(self, sink: Sink) -> int:
        """Writes all that is left; returns how many bytes that were."""
        count = 0
        for piece in self:
            count += len(piece)
            rest = memoryview(piece)
            while rest:
                taken = sink.write(rest)
                if not isinstance(taken, int):
                    break  # what isn't a raw file takes all
                rest = rest[taken:]
        return count

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
        found = parse(data.encode())
        return name, found

    def __iter__(self) -> Iterator[Union[Output, Exit]]:
        while self.exit is None:
            name, data = self._event()
            if name in ("stdout", "stderr"):
                yield Output(name, member(data, "text", str))
            elif name == "exit":
                self.exit = make(Exit, data)
                self._exchange.close()
                yield self.exit
            elif name == "error":
                self.close()
                raise ApiError(
                    member(data, "error", str), code=member(data, "code", str), status=200
                )
