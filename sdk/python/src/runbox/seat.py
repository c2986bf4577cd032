"""The seat's client: one workspace, one command at a time. The daemon's answers are checked."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Optional

from ._http import Target
from ._remote import Sandbox, _command, percent
from ._streams import Live
from ._types import Listing, Result


class Seat(Sandbox):
    """A client of ``sallyport seat`` at ``http://host:port``, ``https://...`` or ``unix:/path``.

    ``deadline``: seconds that each call may take unless it says otherwise; None is for ever.
    ``context``: for https, where the daemon's certificate isn't one that the system trusts.
    Threads may share it.
    """

    _EXEC = "/execute"
    _WRITE = "PUT"

    def __init__(
        self,
        url: str = "http://127.0.0.1:8080",
        *,
        deadline: Optional[float] = None,
        context: Optional[ssl.SSLContext] = None,
    ) -> None:
        super().__init__(Target(url, context), deadline, {})

    def _file(self, path: str) -> str:
        return "/files/" + percent(path, safe="/")

    def _folder(self, path: str, recursive: bool) -> str:
        return self._file(path.rstrip("/") + "/" if path.strip("/") else "")

    def _removal(self, path: str, recursive: bool) -> str:
        return self._file(path) + ("?recursive=true" if recursive else "")

    def execute(
        self,
        command: str,
        *,
        timeout: Optional[float] = None,
        env: Optional[Mapping[str, str]] = None,
        cwd: Optional[str] = None,
        stdin: Optional[str] = None,
        busy_wait: float = 0,
        deadline: Optional[float] = None,
    ) -> Result:
        """Runs one command, and returns when it has ended.

        ``timeout``: seconds after which the daemon kills it, which is a result, not an error.
        ``busy_wait``: seconds to ask again for, while the daemon answers "busy".
        """
        return self._execute(_command(command, timeout, env, cwd, stdin), None, busy_wait, deadline)

    def stream(
        self,
        command: str,
        *,
        timeout: Optional[float] = None,
        env: Optional[Mapping[str, str]] = None,
        cwd: Optional[str] = None,
        stdin: Optional[str] = None,
        busy_wait: float = 0,
        deadline: Optional[float] = None,
    ) -> Live:
        """Starts one command, and returns once it runs: iterate for its output."""
        return self._stream(_command(command, timeout, env, cwd, stdin), None, busy_wait, deadline)

    def list(self, path: str = "", *, deadline: Optional[float] = None) -> Listing:
        """A folder's names, sorted."""
        return self._list(path, False, deadline)

    def health(self, *, deadline: Optional[float] = None) -> str:
        """ "ok"; "draining" while the daemon shuts down."""
        return self._status("/healthz", deadline)
