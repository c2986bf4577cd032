"""What can go wrong, by who said so. Trusts nobody: an answer may hold anything."""

from __future__ import annotations

import json
from typing import Optional


class RunboxError(Exception):
    """Any failure of a call."""


class ApiError(RunboxError):
    """The daemon answered with an error.

    ``code`` is for programs ("busy", "not_found", ...), the text is for people. ``status`` is the
    HTTP status; 200 where the error came after a stream had begun. ``retry_after`` is in seconds.
    """

    def __init__(
        self, message: str, *, code: str, status: int, retry_after: Optional[float] = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.retry_after = retry_after


class TransportError(RunboxError):
    """There was no answer, or only a part of one, or it wasn't the daemon's."""


class DeadlineError(RunboxError, TimeoutError):
    """The call took longer than its ``deadline``."""


def retry_seconds(value: Optional[str]) -> Optional[float]:
    """Retry-After in seconds; None without one that we can read."""
    if value is None or not value.isascii() or not value.isdigit():
        return None
    return float(value)


def api_error(status: int, body: bytes, retry_after: Optional[str]) -> ApiError:
    """The error that an answer holds; one without our JSON gets a code of its own."""
    try:
        found = json.loads(body)
        message, code = found["error"], found["code"]
        if not isinstance(message, str) or not isinstance(code, str):
            raise TypeError
    except (ValueError, KeyError, TypeError, RecursionError):
        message, code = f"The server answered with status {status}.", "unknown"
    return ApiError(message, code=code, status=status, retry_after=retry_seconds(retry_after))
