"""Whether two spellings of a server's setting mean the same value."""

from __future__ import annotations

import re

#: Sizes are rounded (a buffer pool to whole chunks): recorded, and an error beyond this share.
_ROUNDING = 0.05
#: What is smaller counts something (threads, connections) and is the same or is not.
_LEAST_SIZE = 2**16
_SUFFIXES = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50, "E": 2**60}
_SIZE = re.compile(r"^([+-]?\d+(?:\.\d+)?)([KMGTPE]?)B?$", re.IGNORECASE)
_TRUE, _FALSE = {"on", "true", "1", "yes"}, {"off", "false", "0", "no"}


def same_value(asked: str, found: str) -> bool:
    """Whether two spellings mean the same value, sizes within their rounding."""
    one, other = asked.strip().casefold(), found.strip().casefold()
    if one == other or one.rstrip("/") == other.rstrip("/"):
        return True
    if {one, other} <= _TRUE or {one, other} <= _FALSE:
        return True
    sizes = size_bytes(asked), size_bytes(found)
    if sizes[0] is not None and sizes[1] is not None:
        rounded = _ROUNDING * sizes[0] if min(sizes[0], sizes[1]) >= _LEAST_SIZE else 0.0
        return abs(sizes[0] - sizes[1]) <= rounded
    # Of a set of switches or modes the server tells all, the option file some.
    return "," in other and set(one.split(",")) <= set(other.split(","))


def size_bytes(text: str) -> float | None:
    """The number that a text with or without a unit means; None where it is no number."""
    match = _SIZE.match(text.strip())
    return float(match[1]) * _SUFFIXES[match[2].upper()] if match else None
