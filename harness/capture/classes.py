"""Classes of statements: texts with their literals left out."""

from __future__ import annotations

import re
from functools import lru_cache

from harness.capture.replay_file import Dialect

#: Longer texts are cut: their beginning decides.
_LONGEST = 2000
_NUMBER = r"(?<![\w$.])[-+]?(?:0x[0-9a-f]+|\d+(?:\.\d*)?(?:e[-+]?\d+)?|\.\d+(?:e[-+]?\d+)?)(?!\w)"
_SPACE = r"\s+|--[^\n]*|/\*(?!\+).*?\*/"
_TOKEN: dict[Dialect, re.Pattern[str]] = {
    "postgres": re.compile(
        r"""(?P<name>"(?:[^"]|"")*")|(?P<literal>\b[eE]'(?:[^'\\]|\\.|'')*(?:'|\Z)"""
        r"""|(?:\b[bBxXnN]|\b[uU]&)?'(?:[^']|'')*(?:'|\Z)|(?P<dollar>\$(?:[A-Za-z_]\w*)?\$).*?(?:(?P=dollar)|\Z)"""
        rf"""|{_NUMBER})|(?P<space>{_SPACE})""",
        re.IGNORECASE | re.DOTALL,
    ),
    "mysql": re.compile(
        r"""(?P<name>`(?:[^`]|``)*`)|(?P<literal>(?:\b[bBxXnN]|\b_\w+\s*)?'(?:[^'\\]|\\.|'')*(?:'|\Z)"""
        r"""|"(?:[^"\\]|\\.|"")*(?:\"|\Z)"""
        rf"""|{_NUMBER})|(?P<space>{_SPACE}|\#[^\n]*)""",
        re.IGNORECASE | re.DOTALL,
    ),
}
#: Lists of values are of one class, whatever their length.
_ROWS = re.compile(r"(\bvalues\s*)(\([^()]*\))(?:\s*,\s*\([^()]*\))+", re.IGNORECASE)
_IN = re.compile(r"\bin\s*\(\s*(?:\?|\$\d+)(?:\s*,\s*(?:\?|\$\d+))*\s*\)", re.IGNORECASE)
_TABLE = re.compile(
    r"\b(?:from|into|update|join|table|on|call)\s+(?:only\s+)?((?:[\w$]+|\"[^\"]+\"|`[^`]+`)"
    r"(?:\.(?:[\w$]+|\"[^\"]+\"|`[^`]+`))*)",
    re.IGNORECASE,
)


def class_text(sql: str, dialect: Dialect) -> str:
    """The statement with ``?`` for its literals, on one line, without comments."""
    return _class_text(sql, dialect) if len(sql) <= _LONGEST else _normalised(sql, dialect)


def _normalised(sql: str, dialect: Dialect) -> str:
    def replaced(match: re.Match[str]) -> str:
        if match["literal"] is not None:
            return "?"
        return " " if match["space"] is not None else match[0]

    text = _TOKEN[dialect].sub(replaced, sql[: 8 * _LONGEST]).strip().rstrip(";").rstrip()
    text = re.sub(" {2,}", " ", text)
    text = _ROWS.sub(r"\1\2, …", _IN.sub("IN (…)", text))
    return text[:_LONGEST]


_class_text = lru_cache(maxsize=20_000)(_normalised)


def class_name(text: str, taken: set[str]) -> str:
    """A short name for the text of a class, which it adds to ``taken``: ``select-orders-2``."""
    words = re.findall(r"\w+", text[:200])
    verb = words[0].lower() if words else "statement"
    table = _TABLE.search(text)
    plain = re.sub(r"[^\w.$-]", "", table[1]).lower() if table else ""
    stem = f"{verb}-{plain}" if plain else verb
    name, number = stem, 1
    while name in taken:
        number += 1
        name = f"{stem}-{number}"
    taken.add(name)
    return name
