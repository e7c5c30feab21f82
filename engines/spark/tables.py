"""The user's CREATE TABLE statements as Spark takes them: Parquet files have no keys."""

from __future__ import annotations

import re

from harness.errors import RunFailed
from harness.sql_script import head

_NAME, _PARENTHESES = r"(?:\w+|`[^`]+`)", r"\((?:[^()]|\([^()]*\))*\)"
_CREATED = re.compile(
    rf"create\s+table\s+(?:if\s+not\s+exists\s+)?(?P<name>{_NAME})\s*(?P<rest>\(.*)", re.I | re.S
)
#: Statements of ``tables.sql`` that only make keys and indexes.
_KEYS = re.compile(
    r"create\s+(?:unique\s+)?index\b"
    rf"|alter\s+table\b.*\badd\s+(?:constraint\s+{_NAME}\s+)?"
    r"(?:primary\s+key|unique|foreign\s+key|check)\b",
    re.I | re.S,
)
_QUOTED = r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`"
_TOKEN = re.compile(rf"{_QUOTED}|[(),]", re.S)
_ACTION = r"(?:cascade|restrict|no\s+action|set\s+(?:null|default))"
_CONSTRAINT = (
    rf"(?:\bconstraint\s+{_NAME}\s+)?\b(?:primary\s+key|unique|check\s*{_PARENTHESES}"
    rf"|references\s+{_NAME}(?:\.{_NAME})*(?:\s*{_PARENTHESES})?"
    rf"(?:\s+on\s+(?:delete|update)\s+{_ACTION})*)"
)
_OF_COLUMN = re.compile(rf"(?P<quoted>{_QUOTED})|\s*{_CONSTRAINT}", re.I | re.S)
_OF_TABLE = re.compile(
    rf"(?:constraint\s+{_NAME}\s+)?(?:primary\s+key|foreign\s+key|unique\s*\(|check\s*\()", re.I
)


def created(statement: str) -> tuple[str, str]:
    """Return a table's name and the statement that creates it, without keys and constraints.

    NOT NULL stays. RunFailed for any other statement.
    """
    match = _CREATED.fullmatch(statement.strip())
    if match is None:
        raise RunFailed(
            f"Spark: {head(statement)}",
            "not the definition of a table",
            "write create table NAME (COLUMN TYPE, …)",
        )
    columns, rest = _members(match["rest"])
    kept = [
        _OF_COLUMN.sub(lambda found: found["quoted"] or "", column).strip()
        for column in columns
        if not _OF_TABLE.match(column.strip())
    ]
    return match["name"], f"create table {match['name']} ({', '.join(kept)}){rest}"


def makes_keys(statement: str) -> bool:
    """Return whether the statement only makes keys or indexes."""
    return _KEYS.match(statement) is not None


def _members(text: str) -> tuple[list[str], str]:
    """Divide what begins with a parenthesis at its commas; return also what follows its end."""
    members, depth, begin = [], 0, 1
    for token in _TOKEN.finditer(text):
        depth += {"(": 1, ")": -1}.get(token[0], 0)
        if depth == 0 or (depth == 1 and token[0] == ","):
            members.append(text[begin : token.start()])
            begin = token.end()
        if depth == 0:
            break
    return members, text[begin:]
