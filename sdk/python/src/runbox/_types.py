"""What comes back, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Optional


@dataclass(frozen=True)
class Result:
    """A command that has ended, and its output.

    ``signal``: the name of the one that ended it. ``oom_killed``: the kernel ended something of it
    for want of memory. ``quota_exceeded``: the box ended it, as it made its workspace too large.
    """

    stdout: str
    stderr: str
    exit_code: int
    signal: Optional[str]
    timed_out: bool
    duration_ms: int
    stdout_truncated: bool
    stderr_truncated: bool
    oom_killed: bool = False
    quota_exceeded: bool = False


@dataclass(frozen=True)
class Output:
    """Some output of a running command; ``stream`` is "stdout" or "stderr"."""

    stream: str
    text: str


@dataclass(frozen=True)
class Exit:
    """How a command ended; see Result."""

    exit_code: int
    signal: Optional[str]
    timed_out: bool
    duration_ms: int
    stdout_bytes: int
    stderr_bytes: int
    oom_killed: bool = False
    quota_exceeded: bool = False


@dataclass(frozen=True)
class Stored:
    """A file that was written."""

    path: str
    size: int
    etag: Optional[str]
    created: bool


@dataclass(frozen=True)
class FileInfo:
    """A file or folder, without its content; ``size`` and ``etag`` are a file's."""

    path: str
    is_directory: bool
    size: Optional[int]
    etag: Optional[str]


@dataclass(frozen=True)
class Placed:
    """One file of several that were written."""

    path: str
    size: int
    created: bool


@dataclass(frozen=True)
class Entry:
    """One name in a folder. ``raw``: percent-encoded, where it isn't UTF-8."""

    name: str
    type: str
    size: int
    mode: str
    mtime: float
    raw: Optional[str] = None


@dataclass(frozen=True)
class Listing:
    """A folder's names; ``truncated`` where there were too many."""

    path: str
    entries: tuple[Entry, ...]
    truncated: bool


@dataclass(frozen=True)
class Usage:
    """What a workspace takes: ``bytes`` as ``du`` counts them; a ``quota`` of 0 is none."""

    bytes: int
    entries: int
    quota: int


@dataclass(frozen=True)
class Capabilities:
    """What a box offers. Limits: bytes, or milliseconds where the name ends in ``_ms``."""

    name: str
    version: str
    mode: str
    limits: Mapping[str, int]
    layers: tuple[str, ...]
    routes: tuple[str, ...]
