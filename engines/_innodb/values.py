"""The values of a server's setting: their spellings, and those that a release accepts.

The accepted values come from the server itself (``--verbose --help`` only reads settings), so that
no table of releases is needed. Only the words to try are known in advance.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

#: Servers round sizes (a buffer pool to whole chunks); a larger difference is an error.
_ROUNDING = 0.05
#: Smaller numbers are counts (threads, connections) and must be equal.
_LEAST_SIZE = 2**16
_SUFFIXES = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50, "E": 2**60}
_SIZE = re.compile(r"^([+-]?\d+(?:\.\d+)?)([KMGTPE]?)B?$", re.IGNORECASE)
_TRUE, _FALSE = {"on", "true", "1", "yes"}, {"off", "false", "0", "no"}

#: Some settings → the values of all settings with them; empty if the server rejects one.
ReadSettings = Callable[[Mapping[str, str]], Mapping[str, str]]

#: Words that some release of MySQL or MariaDB accepts, by setting.
_WORDS: Mapping[str, tuple[str, ...]] = {
    "binlog_format": ("ROW", "MIXED", "STATEMENT"),
    "innodb_doublewrite": ("ON", "OFF", "DETECT_AND_RECOVER", "DETECT_ONLY", "FAST"),
    "innodb_flush_method": (
        "fsync",
        "O_DSYNC",
        "O_DIRECT",
        "O_DIRECT_NO_FSYNC",
        "littlesync",
        "nosync",
    ),
}
_TRUTHS = {"true", "false", "on", "off"}
_LEAST, _MOST = "0", str(2**62)
#: A larger bound is the width of the number, not a limit of the server.
_NO_BOUND = 2.0**47


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


def accepted(name: str, read: ReadSettings) -> str:
    """``innodb_write_io_threads from 1 to 64``; empty if it is not known."""
    default = read({}).get(name, "")
    if words := _WORDS.get(name):
        valid = [word for word in words if same_value(word, read({name: word}).get(name, ""))]
        return f"{name}: {', '.join(valid)}"
    if default.lower() in _TRUTHS:
        return f"{name}: ON, OFF"
    if size_bytes(default) is None:
        return ""
    low, high = (read({name: value}).get(name, "") for value in (_LEAST, _MOST))
    if (size_bytes(high) or _NO_BOUND) >= _NO_BOUND:
        return f"{name} from {low}" if low else ""
    return f"{name} from {low} to {high}"
