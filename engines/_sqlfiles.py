"""The SQL files of an engine's folder: ``sql/<workload>/NN_<what>.sql``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

_COMMENT = re.compile(r"^\s*--.*$", re.MULTILINE)


def statements(folder: Path, stem: str) -> list[str]:
    """The statements of ``<stem>.sql`` without comments; empty where there is no such file.

    A statement ends with a semicolon at the end of a line.
    """
    path = folder / f"{stem}.sql"
    if not path.exists():
        return []
    text = _COMMENT.sub("", path.read_text(encoding="utf-8"))
    pieces = re.split(r";[ \t]*(?:--.*)?(?:\n|$)", text)
    return [piece.strip() for piece in pieces if piece.strip()]


def table_of(statement: str, tables: Iterable[str]) -> str | None:
    """The first of ``tables`` that the statement names, None where it names none."""
    names = set(tables)
    return next((word for word in re.findall(r"\w+", statement.lower()) if word in names), None)
