"""Client of a Sallyport daemon: commands with live output, and files.

``Seat`` speaks to ``sallyport seat``, ``Box`` to ``sallyport box``. Standard library only.
"""

from ._errors import ApiError, DeadlineError, RunboxError, TransportError
from ._streams import Body, Live
from ._types import (
    Capabilities,
    Entry,
    Exit,
    FileInfo,
    Listing,
    Output,
    Placed,
    Result,
    Stored,
    Usage,
)
from .box import Box, Workspace
from .seat import Seat

__all__ = [
    "ApiError",
    "Body",
    "Box",
    "Capabilities",
    "DeadlineError",
    "Entry",
    "Exit",
    "FileInfo",
    "Listing",
    "Live",
    "Output",
    "Placed",
    "Result",
    "RunboxError",
    "Seat",
    "Stored",
    "TransportError",
    "Usage",
    "Workspace",
]
