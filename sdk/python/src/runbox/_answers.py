"""Answers read strictly: what isn't the daemon's is told as such, what is new in it is ignored."""

from __future__ import annotations

import json
from typing import Any, Callable, TypeVar

from ._errors import TransportError
from ._http import Exchange

T = TypeVar("T")


def parse(body: bytes) -> dict[str, Any]:
    """A JSON object."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise TransportError("The answer is not a JSON object.")
    return found


def member(found: dict[str, Any], name: str, kind: type[T]) -> T:
    """A member of this type."""
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


def make(kind: Callable[..., T], found: object) -> T:
    """A value of _types. A newer daemon may have more members than we know."""
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


def is_type(exchange: Exchange, kind: str) -> bool:
    """Whether the answer is of this media type."""
    return (exchange.header("Content-Type") or "").split(";")[0] == kind


def read_object(exchange: Exchange) -> dict[str, Any]:
    """All of an answer, which must be one JSON object. Closes it."""
    try:
        return parse(exchange.read_all())
    finally:
        exchange.close()
