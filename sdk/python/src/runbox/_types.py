"""What comes back, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional


@dataclass(frozen=True)
class Result:
    """A command that has ended, and its output."""

    stdout: str
    stderr: str
    exit_code: int
    signal: Optional[str]
    timed_out: bool
    duration_ms: int
    stdout_truncated: bool
    stderr_truncated: bool
    oom_killed: bool = False


@dataclass(frozen=True)
class Output:
    """Some output of a running command; ``stream`` is "stdout" or "stderr"."""

    stream: str
    text: str


@dataclass(frozen=True)
class Exit:
    """How a command ended."""

    exit_code: int
    signal: Optional[str]
    timed_out: bool
    duration_ms: int
    stdout_bytes: int
    stderr_bytes: int
    oom_killed: bool = False


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
