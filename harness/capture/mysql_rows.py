"""Rows of MySQL and MariaDB as literals of SQL, which a result streams."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

from pymysql.constants import FIELD_TYPE
from pymysql.converters import escape_string
from pymysql.cursors import SSCursor

#: Rows that are read at a time, and bytes of a statement.
_ROWS, _STATEMENT_BYTES = 1000, 1 << 18
_NUMBERS = frozenset(
    {
        FIELD_TYPE.DECIMAL, FIELD_TYPE.NEWDECIMAL, FIELD_TYPE.TINY, FIELD_TYPE.SHORT,
        FIELD_TYPE.INT24, FIELD_TYPE.LONG, FIELD_TYPE.LONGLONG, FIELD_TYPE.FLOAT,
        FIELD_TYPE.DOUBLE, FIELD_TYPE.YEAR,
    }
)  # fmt: skip


def rows_of(connection: Any, query: str) -> list[tuple[Any, ...]]:
    """Return all rows of a short result."""
    with connection.cursor() as cursor:
        cursor.execute(query)
        return list(cursor.fetchall())


def literals_of(connection: Any, query: str) -> Iterator[list[tuple[str, ...]]]:
    """Yield the rows of a result of any length, some at a time, each value as SQL writes it."""
    with connection.cursor(SSCursor) as cursor:
        cursor.execute(query)
        types = [column[1] for column in cursor.description]
        while rows := cursor.fetchmany(_ROWS):
            yield [tuple(map(_literal, row, types)) for row in rows]


def write_rows(
    connection: Any, table: str, columns: Sequence[str], stream: BinaryIO, where: str = "TRUE"
) -> Iterator[int]:
    """Write rows ``c`` of a table as INSERT statements; yield how many, some at a time."""
    names = ", ".join(columns)
    insert = f"INSERT INTO {table} ({names}) VALUES\n".encode()
    pieces, size = list[bytes](), 0
    for rows in literals_of(connection, f"SELECT {names} FROM {table} c WHERE {where}"):
        for row in rows:
            piece = f"({','.join(row)})".encode()
            pieces.append(piece)
            size += len(piece)
            if size > _STATEMENT_BYTES:
                stream.write(insert + b",\n".join(pieces) + b";\n")
                pieces, size = [], 0
        yield len(rows)
    if pieces:
        stream.write(insert + b",\n".join(pieces) + b";\n")


def quoted(name: str) -> str:
    """Return a name as SQL has it."""
    return f"`{name.replace('`', '``')}`"


def _literal(value: str | bytes | None, kind: int) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"0x{value.hex()}" if value else "''"
    return value if kind in _NUMBERS else f"'{escape_string(value)}'"
