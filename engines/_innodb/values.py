"""Comparison of two spellings of a server's setting."""

from __future__ import annotations

import re

#: Servers round sizes (a buffer pool to whole chunks); a larger difference is an error.
_ROUNDING = 0.05
#: Smaller numbers are counts (threads, connections) and must be equal.
_LEAST_SIZE = 2**16
_SUFFIXES = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50, "E": 2**60}
_SIZE = re.compile(r"^([+-]?\d+(?:\.\d+)?)([KMGTPE]?)B?$", re.IGNORECASE)
_TRUE, _FALSE = {"on", "true", "1", "yes"}, {"off", "false", "0", "no"}


def same_value(requested: str, reported: str) -> bool:
    """Whether two spellings mean the same value, up to the rounding of sizes."""
    one, other = requested.strip().casefold(), reported.strip().casefold()
    if one == other or one.rstrip("/") == other.rstrip("/"):
        return True
    if {one, other} <= _TRUE or {one, other} <= _FALSE:
        return True
    sizes = size_bytes(requested), size_bytes(reported)
    if sizes[0] is not None and sizes[1] is not None:
        rounded = _ROUNDING * sizes[0] if min(sizes[0], sizes[1]) >= _LEAST_SIZE else 0.0
        return abs(sizes[0] - sizes[1]) <= rounded
    # The server reports all of a set of switches or modes, the option file only some.
    return "," in other and set(one.split(",")) <= set(other.split(","))


def size_bytes(text: str) -> float | None:
    """The number of a text with or without a unit; None if it is not a number."""
    match = _SIZE.match(text.strip())
    return float(match[1]) * _SUFFIXES[match[2].upper()] if match else None
