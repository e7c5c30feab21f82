"""The sample of a MySQL or MariaDB, see sample.py.

A row's place is its key: the primary key, or else a unique one without NULL. Rows of a table that
has neither are read again for each of its foreign keys; if others refer to it, all are taken.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO

from harness.capture.mysql_rows import literals_of, quoted, rows_of, write_rows
from harness.capture.sample import ChosenRows, LinkedTable, Place, SampledTable
from harness.progress import Progress

#: Rows that are looked up and read at a time: MariaDB makes a table of a list of 1,000 values.
_ROWS = 500
#: Types whose values may differ from what the server writes of them.
_INEXACT = frozenset({"float", "double"})
#: A value that SQLite is to compare as a number.
_WHOLE = re.compile(r"-?\d{1,18}")
_COLUMNS = """
    SELECT table_name, column_name, data_type, coalesce(generation_expression, '') = ''
    FROM information_schema.columns WHERE table_schema = DATABASE() ORDER BY ordinal_position
"""
_KEYS = """
    SELECT table_name, index_name, column_name, nullable = 'YES'
    FROM information_schema.statistics WHERE table_schema = DATABASE() AND non_unique = 0
    ORDER BY index_name <> 'PRIMARY', index_name, seq_in_index
"""
_FOREIGN_KEYS = """
    SELECT table_name, constraint_name, referenced_table_name, column_name, referenced_column_name
    FROM information_schema.key_column_usage
    WHERE table_schema = DATABASE() AND referenced_table_schema = DATABASE()
    ORDER BY constraint_name, ordinal_position
"""


def write_sample(
    connection: Any,
    with_rows: Mapping[str, float],
    share: float,
    scratch: Path,
    stream: BinaryIO,
    progress: Progress,
) -> list[SampledTable]:
    """Write INSERT statements, of a connection that has a snapshot.

    ``with_rows``: tables, and about how many rows each has. ``scratch``: for a file of the chosen
    rows. pymysql.Error where the server refuses.
    """
    tables = _tables(connection, with_rows, share)

    def parents_of(table: LinkedTable, places: list[Place]) -> Iterator[tuple[int, Place]]:
        for query in table.parents:
            yield from _chosen(connection, query + _are(table, places))

    sampled = []
    with closing(ChosenRows(scratch / "chosen", _ROWS)) as chosen:
        for table in tables:
            estimate = max(1.0, table.rows * share)
            with progress.task(f"draw from {table.name}", estimate, "rows") as task:
                for query in [_keys_of(table)] if table.key else table.parents:
                    rows = _chosen(connection, query + table.drawn, task.advance)
                    chosen.add(rows, drawn=bool(table.key))
        chosen.follow([table for table in tables if table.key], parents_of, progress)
        for table in tables:
            drawn, parents = chosen.counts(table.number)
            conditions: Iterable[str] = [table.drawn]
            if table.key:
                conditions = (_are(table, places) for places in chosen.places(table.number))
            written = 0
            with progress.task(f"read {table.name}", drawn + parents or None, "rows") as task:
                for condition in conditions:
                    for count in write_rows(
                        connection, table.name, table.columns, stream, condition
                    ):
                        written += count
                        task.advance(count)
            sampled.append(SampledTable(table.name, written - parents, parents, table.key))
    return sampled


def _tables(connection: Any, with_rows: Mapping[str, float], share: float) -> list[LinkedTable]:
    """Read what links tables; those to which others refer without a key are drawn as a whole."""
    columns = defaultdict[str, list[str]](list)
    inexact = set[tuple[str, str]]()
    for table, column, kind, plain in rows_of(connection, _COLUMNS):
        if kind in _INEXACT:
            inexact.add((table, column))
        if int(plain):
            columns[table].append(column)
    indexes = defaultdict[tuple[str, str], list[str]](list)
    unusable = set[tuple[str, str]]()
    for table, index, column, nullable in rows_of(connection, _KEYS):
        indexes[table, index].append(column)
        if int(nullable) or column is None or (table, column) in inexact:
            unusable.add((table, index))
    keys = dict[str, tuple[str, ...]]()
    for (table, index), names in indexes.items():
        if (table, index) not in unusable:
            keys.setdefault(table, tuple(map(quoted, names)))
    links = defaultdict[tuple[str, str, str], list[str]](list)
    for table, link, parent, column, referenced in rows_of(connection, _FOREIGN_KEYS):
        links[table, link, parent].append(f"p.{quoted(referenced)} = c.{quoted(column)}")
    numbers = {name: number for number, name in enumerate(with_rows)}
    parents = defaultdict[str, list[str]](list)
    for (table, _, parent), pairs in links.items():
        if parent in keys:
            key = ", ".join(f"p.{column}" for column in keys[parent])
            parents[table].append(
                f"SELECT DISTINCT {numbers[parent]}, {key} FROM {quoted(table)} c "
                f"JOIN {quoted(parent)} p ON {' AND '.join(pairs)} WHERE "
            )
    whole = {parent for _, _, parent in links if parent not in keys}
    return [
        LinkedTable(
            numbers[name],
            quoted(name),
            rows,
            stored := tuple(map(quoted, columns[name])),
            keyed := keys.get(name, ()),
            "TRUE" if name in whole else _hashed(keyed or stored, share),
            tuple(parents[name]),
        )
        for name, rows in with_rows.items()
        if columns[name]
    ]


def _hashed(columns: Sequence[str], share: float) -> str:
    """Return the condition of the rows ``c`` that are drawn."""
    values = ", ".join(f"CAST(c.{column} AS BINARY)" for column in columns)
    limit = f"{min(int(share * (1 << 64)), (1 << 64) - 1):016x}"
    return f"SHA2(CONCAT_WS(0x00, {values}), 256) < '{limit}'"


def _keys_of(table: LinkedTable) -> str:
    return f"SELECT {table.number}, {', '.join(table.key)} FROM {table.name} c WHERE "


def _chosen(
    connection: Any, query: str, advance: Callable[[int], None] | None = None
) -> Iterator[tuple[int, Place]]:
    """Yield table and place of each row that a query finds."""
    for rows in literals_of(connection, query):
        if advance is not None:
            advance(len(rows))
        for number, *values in rows:
            (place,) = values if len(values) == 1 else (f"({','.join(values)})",)
            yield int(number), int(place) if _WHOLE.fullmatch(place) else place


def _are(table: LinkedTable, places: Sequence[Place]) -> str:
    """Return the condition of the rows ``c`` at these places."""
    columns = ", ".join(f"c.{column}" for column in table.key)
    return f"({columns}) IN ({','.join(map(str, places))})"
