"""Client of a Sallyport daemon: commands with live output, and files.

``Seat`` speaks to ``sallyport seat``. Standard library only.
"""

from ._errors import ApiError, DeadlineError, RunboxError, TransportError
from ._types import Entry, Exit, FileInfo, Listing, Output, Result, Stored
from .seat import Body, Live, Seat

__all__ = [
    "ApiError",
    "Body",
    "DeadlineError",
    "Entry",
    "Exit",
    "FileInfo",
    "Listing",
    "Live",
    "Output",
    "Result",
    "RunboxError",
    "Seat",
    "Stored",
    "TransportError",
]
