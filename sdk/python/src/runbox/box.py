"""The box's client: one daemon, many identities, each with a workspace of its own."""

from __future__ import annotations

import ssl
import time
from collections.abc import Mapping
from typing import Optional, overload

from ._answers import is_type, make, member, read_object
from ._errors import ApiError, DeadlineError, RunboxError, TransportError
from ._http import Field, Source, Target
from ._multipart import Files, Form
from ._remote import Remote, Sandbox, _command, percent
from ._streams import Body, Live, Sink
from ._types import Capabilities, Listing, Placed, Result, Stored, Usage

READY_PAUSE = 0.2


def _field(what: str, text: str) -> bytes:
    """A header's value. What can't be one must not become two; the daemon judges the rest."""
    if not text or any(c <= " " or c == "\x7f" for c in text):
        raise ValueError(f"{what} must be visible text without blanks.")
    return text.encode()


class Workspace(Sandbox):
    """One identity's workspace; commands in it run one after the other. See Box.workspace."""

    _EXEC = "/v1/exec"
    _WRITE = "POST"

    def _file(self, path: str) -> str:
        return "/v1/files?path=" + percent(path)

    def _folder(self, path: str, recursive: bool) -> str:
        return f"/v1/list?path={percent(path)}" + ("&recursive=true" if recursive else "")

    def _removal(self, path: str, recursive: bool) -> str:
        return f"/v1/path?path={percent(path)}" + ("&recursive=true" if recursive else "")

    # ---- commands ----

    def execute(
        self,
        command: str,
        *,
        timeout: Optional[float] = None,
        env: Optional[Mapping[str, str]] = None,
        cwd: Optional[str] = None,
        stdin: Optional[str] = None,
        files: Optional[Files] = None,
        busy_wait: float = 0,
        deadline: Optional[float] = None,
    ) -> Result:
        """Runs one command, and returns when it has ended.

        ``timeout``: seconds after which the daemon kills it, which is a result, not an error.
        ``files``: attachments, a mapping of paths to what is written there before it runs.
        ``busy_wait``: seconds to ask again for, while the daemon answers "busy"; not with files.
        """
        body = _command(command, timeout, env, cwd, stdin)
        return self._execute(body, files, busy_wait, deadline)

    def stream(
        self,
        command: str,
        *,
        timeout: Optional[float] = None,
        env: Optional[Mapping[str, str]] = None,
        cwd: Optional[str] = None,
        stdin: Optional[str] = None,
        files: Optional[Files] = None,
        busy_wait: float = 0,
        deadline: Optional[float] = None,
    ) -> Live:
        """Starts one command, and returns once it runs: iterate for its output."""
        body = _command(command, timeout, env, cwd, stdin)
        return self._stream(body, files, busy_wait, deadline)

    # ---- files ----

    def put_path(
        self,
        path: str,
        data: Source,
        *,
        size: Optional[int] = None,
        new_only: bool = False,
        if_match: Optional[str] = None,
        deadline: Optional[float] = None,
    ) -> Stored:
        """As ``write``, by ``PUT /v1/path``, which never takes a body for a form."""
        target = "/v1/path?path=" + percent(path)
        return self._store(
            "PUT", target, data, size=size, new_only=new_only, if_match=if_match, deadline=deadline
        )

    def write_batch(
        self, files: Files, *, folder: str = "", deadline: Optional[float] = None
    ) -> tuple[Placed, ...]:
        """Writes files below ``folder``, all or none: a mapping of paths to what is in them.

        None is placed before all bytes are there; see docs/box.md "Multipart". At most 48.
        """
        form = Form(files)
        exchange = self._ask(
            "POST",
            "/v1/files/batch?path=" + percent(folder),
            {"Content-Type": form.content_type},
            body=form,
            size=form.size(),
            deadline=deadline,
        )
        return tuple(make(Placed, f) for f in member(read_object(exchange), "files", list))

    def list(
        self, path: str = "", *, recursive: bool = False, deadline: Optional[float] = None
    ) -> Listing:
        """A folder's names, sorted; ``recursive``: all below it, folders before their content."""
        return self._list(path, recursive, deadline)

    def archive(self, path: str = "", *, deadline: Optional[float] = None) -> Body:
        """A folder as a pax tar, made while it is read. Close it.

        Its ``whole`` tells at the end whether something was left out.
        """
        target = "/v1/archive?path=" + percent(path)
        exchange = self._ask("GET", target, deadline=deadline)
        if not is_type(exchange, "application/x-tar"):
            exchange.close()
            raise TransportError("The answer is no archive.")
        return Body(exchange)

    def download_archive(self, path: str, sink: Sink, *, deadline: Optional[float] = None) -> int:
        """Writes a folder's tar into ``sink`` as it comes; returns how many bytes."""
        with self.archive(path, deadline=deadline) as body:
            return body.copy_to(sink)

    def usage(self, *, deadline: Optional[float] = None) -> Usage:
        """What the workspace takes, and may take."""
        return make(Usage, read_object(self._ask("GET", "/v1/usage", deadline=deadline)))

    def delete_workspace(self, *, deadline: Optional[float] = None) -> None:
        """Removes all that is in the workspace and ends all that runs there."""
        self._ask("DELETE", "/v1/workspace", deadline=deadline, good=(204,)).close()


class Box(Remote):
    """A client of ``sallyport box`` at ``http://host:port``, ``https://...`` or ``unix:/path``.

    ``key``: one of the box's. It opens every identity's workspace: keep it on your own servers.
    ``deadline``: seconds that each call may take unless it says otherwise; None is for ever.
    ``context``: for https, where the daemon's certificate isn't one that the system trusts.
    Threads may share it.
    """

    def __init__(
        self,
        url: str,
        key: str,
        *,
        deadline: Optional[float] = None,
        context: Optional[ssl.SSLContext] = None,
    ) -> None:
        fields: dict[str, Field] = {"Authorization": b"Bearer " + _field("A key", key)}
        super().__init__(Target(url, context), deadline, fields)

    @overload
    def workspace(self, identity: str) -> Workspace: ...

    @overload
    def workspace(self, *, tenant: str, user: str) -> Workspace: ...

    def workspace(
        self,
        identity: Optional[str] = None,
        *,
        tenant: Optional[str] = None,
        user: Optional[str] = None,
    ) -> Workspace:
        """The workspace of an identity, or of a tenant's user. Asks nothing yet.

        A name is 1 to 256 bytes of visible text without blanks.
        """
        if identity is not None and tenant is None and user is None:
            named = {"X-Runbox-Identity": _field("An identity", identity)}
        elif identity is None and tenant is not None and user is not None:
            named = {
                "X-Runbox-Tenant": _field("A tenant", tenant),
                "X-Runbox-User": _field("A user", user),
            }
        else:
            raise ValueError("It takes an identity, or a tenant and a user.")
        return Workspace(self._target, self._deadline, {**self._fields, **named})

    def capabilities(self, *, deadline: Optional[float] = None) -> Capabilities:
        """Version, limits, layers of confinement, routes."""
        found = read_object(self._ask("GET", "/v1/capabilities", deadline=deadline))
        limits = member(found, "limits", dict)
        lists = [member(found, name, list) for name in ("layers", "routes")]
        if not all(isinstance(v, int) for v in limits.values()) or not all(
            isinstance(v, str) for one in lists for v in one
        ):
            raise TransportError("The answer has no usable capabilities.")
        return Capabilities(
            member(found, "name", str),
            member(found, "version", str),
            member(found, "mode", str),
            limits,
            tuple(lists[0]),
            tuple(lists[1]),
        )

    def metrics(self, *, deadline: Optional[float] = None) -> str:
        """Counters in Prometheus's text format."""
        exchange = self._ask("GET", "/metrics", deadline=deadline)
        try:
            if not is_type(exchange, "text/plain"):
                raise TransportError("The answer is no text.")
            return exchange.read_all().decode("utf-8", "replace")
        finally:
            exchange.close()

    def health(self, *, deadline: Optional[float] = None) -> str:
        """ "ok"; "draining" while the daemon shuts down."""
        return self._status("/healthz", deadline)

    def ready(self, *, deadline: Optional[float] = None) -> bool:
        """Whether commands can be run: the box has just run one, or tried to."""
        return self._status("/ready", deadline) == "ready"

    def wait_ready(self, deadline: Optional[float] = None) -> None:
        """Asks until the box is ready, also while nobody listens yet. DeadlineError when late."""
        if deadline is None:
            deadline = self._deadline
        until = None if deadline is None else time.monotonic() + deadline
        last: Optional[RunboxError] = None
        while True:
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                raise DeadlineError("The box was not ready in time.") from last
            try:
                if self.ready(deadline=left):
                    return
            except DeadlineError:
                raise DeadlineError("The box was not ready in time.") from last
            except TransportError as err:
                last = err
            except ApiError as err:
                if err.status != 503:
                    raise
                last = err
            time.sleep(READY_PAUSE if left is None else min(READY_PAUSE, left))
