"""multipart/form-data as a stream: no file is held in memory, and none is read before its turn."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping
from typing import Optional, Union

from ._errors import RunboxError
from ._http import Source, pieces, source_size

Files = Union[Mapping[str, Source], Iterable[tuple[str, Source]]]


def _quoted(name: str) -> str:
    if any(c < " " or c == "\x7f" for c in name):
        raise RunboxError("A file's name can't have control characters in it.")
    return name.replace("\\", "\\\\").replace('"', '\\"')


class Form:
    """A body of an optional part "request" and any number of files, each under its path."""

    def __init__(self, files: Files, request: Optional[bytes] = None) -> None:
        boundary = secrets.token_hex(16)
        self.content_type = f"multipart/form-data; boundary={boundary}"
        self._end = f"--{boundary}--\r\n".encode()
        self._parts: list[tuple[bytes, Source]] = []
        start = f'--{boundary}\r\nContent-Disposition: form-data; name="'
        if request is not None:
            head = f'{start}request"\r\nContent-Type: application/json\r\n\r\n'
            self._parts.append((head.encode(), request))
        for path, data in files.items() if isinstance(files, Mapping) else files:
            head = f'{start}file"; filename="{_quoted(path)}"\r\n\r\n'
            try:
                self._parts.append((head.encode(), data))
            except UnicodeEncodeError as err:
                raise RunboxError(f"A file's name can't be sent: {err}.") from err

    def size(self) -> Optional[int]:
        """Of the whole body, where that of every file can be known."""
        total = len(self._end)
        for head, data in self._parts:
            size = source_size(data)
            if size is None:
                return None
            total += len(head) + size + 2
        return total

    def __iter__(self) -> Iterator[bytes]:
        for head, data in self._parts:
            yield head
            yield from pieces(data)
            yield b"\r\n"
        yield self._end
