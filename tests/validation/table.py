"""table.py: all checks, in the order in which they are run: what may leave a mess is last."""


def load():
    from . import framing, paths, requests, kernel, boxes, shells, races, loads  # noqa: F401
