r"""The SQL files of an engine's folder: ``sql/<workload>/NN_<what>.sql``.

What several engines say in the same words stands once, in ``engines/_sql/<workload>/``. An
engine's file takes it in with psql's own word for it, on a line of its own, relative to
the file::

    \ir ../../../_sql/tpch/20_keys.sql
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

_COMMENT = re.compile(r"^\s*--.*$", re.MULTILINE)
_INCLUDE = re.compile(r"^\\ir (?P<path>\S+)[ \t]*\n", re.MULTILINE)


def text_of(file: Path) -> str:
    """The file with what it takes in."""
    text = file.read_text(encoding="utf-8")
    return _INCLUDE.sub(lambda line: text_of(file.parent / line["path"]), text)


def statements(folder: Path, stem: str) -> list[str]:
    """The statements of ``<stem>.sql`` without comments; empty where there is no such file.

    A statement ends with a semicolon at the end of a line.
    """
    path = folder / f"{stem}.sql"
    if not path.exists():
        return []
    text = _COMMENT.sub("", text_of(path))
    pieces = re.split(r";[ \t]*(?:--.*)?(?:\n|$)", text)
    return [piece.strip() for piece in pieces if piece.strip()]


def tables_of(statement: str, tables: Iterable[str]) -> list[str]:
    """Those of ``tables`` that the statement names, in the order of their first mention."""
    names = set(tables)
    words = re.findall(r"\w+", statement.lower())
    return list(dict.fromkeys(word for word in words if word in names))
