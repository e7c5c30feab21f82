"""What a release takes for a setting, in words: for the message that refuses another value.

The server itself is asked (``--verbose --help`` only reads settings), so that no table of
releases has to be kept. Known beforehand are only the words to try.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from engines._innodb.values import same_value, size_bytes

#: Name and value of one setting → the values that all settings would have, none for a refusal.
Ask = Callable[[Mapping[str, str]], Mapping[str, str]]

#: Words that some release of MySQL or MariaDB takes, by setting.
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
#: From here on a bound is the width of the number, not the server's choice.
_NO_BOUND = 2.0**47


def accepted(name: str, ask: Ask) -> str:
    """``innodb_write_io_threads from 1 to 64``; empty where it cannot be told."""
    usual = ask({}).get(name, "")
    if words := _WORDS.get(name):
        taken = [word for word in words if same_value(word, ask({name: word}).get(name, ""))]
        return f"{name}: {', '.join(taken)}"
    if usual.lower() in _TRUTHS:
        return f"{name}: ON, OFF"
    if size_bytes(usual) is None:
        return ""
    low, high = (ask({name: value}).get(name, "") for value in (_LEAST, _MOST))
    if (size_bytes(high) or _NO_BOUND) >= _NO_BOUND:
        return f"{name} from {low}" if low else ""
    return f"{name} from {low} to {high}"
