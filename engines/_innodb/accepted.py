"""The values that a release accepts for a setting, for the error about another value.

They come from the server itself (``--verbose --help`` only reads settings), so that no table of
releases is needed. Only the words to try are known in advance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from engines._innodb.values import same_value, size_bytes

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
