"""SQL statements in messages."""

from __future__ import annotations

_LENGTH = 200


def head(sql: str, length: int = _LENGTH) -> str:
    """The statement on one line, cut to what fits into a message."""
    line = " ".join(sql.split())
    return line if len(line) <= length else f"{line[:length]} …"
