"""The sample of a PostgreSQL, see sample.py: a row's place is its physical one (``ctid``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO

import psycopg

from harness.capture.sample import ChosenRows, LinkedTable, Place, SampledTable
from harness.errors import UsageError
from harness.progress import Progress

#: Rows that are looked up and read at a time.
_ROWS = 2000
_OFFSET_BITS = 16
_OLDEST = 120000
#: As pg_dump has it: forms of values that do not depend on the server's settings.
_SESSION = """
    SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY;
    SET search_path = '';
    SET client_encoding = 'UTF8'; SET datestyle = ISO; SET intervalstyle = postgres;
    SET extra_float_digits = 3; SET bytea_output = hex; SET row_security = off;
    SET statement_timeout = 0; SET lock_timeout = 0; SET idle_in_transaction_session_timeout = 0
"""
_OWN_SCHEMA = "n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'"
_TABLES = f"""
    SELECT c.oid::bigint, quote_ident(n.nspname) || '.' || quote_ident(c.relname), c.reltuples,
        ARRAY(
            SELECT quote_ident(a.attname) FROM pg_attribute a
            WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
                AND a.attgenerated = '' ORDER BY a.attnum
        ),
        (
            SELECT ARRAY(
                SELECT quote_ident(a.attname)
                FROM unnest(i.indkey::int2[]) WITH ORDINALITY k(number, place)
                JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.number
                WHERE k.place <= i.indnkeyatts ORDER BY k.place
            )
            FROM pg_index i
            WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid AND i.indpred IS NULL
                AND i.indexprs IS NULL AND NOT EXISTS (
                    SELECT FROM unnest(i.indkey::int2[]) k(number)
                    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.number
                    WHERE NOT a.attnotnull
                )
            ORDER BY i.indisprimary DESC, i.indexrelid LIMIT 1
        )
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind = 'r' AND c.relpersistence <> 't' AND {_OWN_SCHEMA} AND NOT EXISTS (
        SELECT FROM pg_depend d
        WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e'
    )
    ORDER BY n.nspname, c.relname
"""
#: Partitions repeat the constraint of their table, which has others for partitions it refers to.
_FOREIGN_KEYS = """
    SELECT f.conrelid::bigint,
        CASE WHEN p.relkind = 'r' THEN 'ONLY ' ELSE '' END
            || quote_ident(n.nspname) || '.' || quote_ident(p.relname),
        ARRAY(
            SELECT 'p.' || quote_ident(b.attname) || ' OPERATOR(' || quote_ident(s.nspname) || '.'
                || o.oprname || ') c.' || quote_ident(a.attname)
            FROM unnest(f.conkey, f.confkey, f.conpfeqop) WITH ORDINALITY
                k(child, parent, equal, place)
            JOIN pg_operator o ON o.oid = k.equal JOIN pg_namespace s ON s.oid = o.oprnamespace
            JOIN pg_attribute a ON a.attrelid = f.conrelid AND a.attnum = k.child
            JOIN pg_attribute b ON b.attrelid = f.confrelid AND b.attnum = k.parent
            ORDER BY k.place
        )
    FROM pg_constraint f JOIN pg_class p ON p.oid = f.confrelid
    JOIN pg_namespace n ON n.oid = p.relnamespace
    WHERE f.contype = 'f' AND NOT EXISTS (
        SELECT FROM pg_constraint up WHERE up.oid = f.conparentid AND up.conrelid = f.conrelid
    )
    ORDER BY f.conrelid, f.conname
"""
_SEQUENCES = f"""
    SELECT 'SELECT pg_catalog.setval('
        || quote_literal(quote_ident(n.nspname) || '.' || quote_ident(s.sequencename))
        || ', ' || s.last_value || ', true);'
    FROM pg_sequences s JOIN pg_namespace n ON n.nspname = s.schemaname
    WHERE s.last_value IS NOT NULL AND {_OWN_SCHEMA}
    ORDER BY 1
"""


def write_sample(
    connection: psycopg.Connection[Any],
    share: float,
    scratch: Path,
    stream: BinaryIO,
    progress: Progress,
) -> list[SampledTable]:
    """Write COPY statements with their rows, as pg_dump does, of a connection that is not used yet.

    ``scratch``: for a file of the chosen rows. psycopg.Error where the server refuses.
    """
    if connection.info.server_version < _OLDEST:
        raise UsageError(
            f"--rows of PostgreSQL {connection.info.server_version // 10000}",
            "it needs release 12 or later",
            "leave --rows out: all rows are dumped",
        )
    connection.execute(_SESSION)
    tables = _tables(connection, share)

    def parents_of(table: LinkedTable, places: list[Place]) -> Iterator[tuple[int, Place]]:
        ctids = [_ctid(place) for place in places]
        for query in table.parents:
            yield from _chosen(connection.execute(query.encode(), (ctids,)).fetchall())

    with closing(ChosenRows(scratch / "chosen", _ROWS)) as chosen:
        for table in tables:
            _draw(connection, table, share, chosen, progress)
        chosen.follow(tables, parents_of, progress)
        sampled = []
        for table in tables:
            drawn, parents = chosen.counts(table.number)
            sampled.append(SampledTable(table.name, drawn, parents, table.key))
            if drawn + parents:
                with progress.task(f"read {table.name}", drawn + parents, "rows") as task:
                    _write(connection, table, chosen.places(table.number), stream, task.advance)
    for (statement,) in connection.execute(_SEQUENCES):
        stream.write(f"{statement}\n".encode())
    return sampled


def _tables(connection: psycopg.Connection[Any], share: float) -> list[LinkedTable]:
    parents: dict[int, list[str]] = {}
    for oid, parent, pairs in connection.execute(_FOREIGN_KEYS):
        parents.setdefault(oid, []).append(f"{parent} p ON {' AND '.join(pairs)}")
    tables = []
    for oid, name, rows, columns, key in connection.execute(_TABLES):
        queries = tuple(
            f"SELECT DISTINCT p.tableoid::bigint, p.ctid::text FROM ONLY {name} c "
            f"JOIN {parent} WHERE c.ctid = ANY(%s::text[]::tid[])"
            for parent in parents.get(oid, ())
        )
        values = f"ROW({', '.join(key)})" if key else "t"
        drawn = (
            f'hashtextextended({values}::text COLLATE "C", 0) & {(1 << 63) - 1} '
            f"< {int(share * (1 << 63))}"
        )
        tables.append(
            LinkedTable(oid, name, rows, tuple(columns), tuple(key or ()), drawn, queries)
        )
    return [table for table in tables if table.columns]


def _draw(
    connection: psycopg.Connection[Any],
    table: LinkedTable,
    share: float,
    chosen: ChosenRows,
    progress: Progress,
) -> None:
    query = (
        f"SELECT {table.number}::bigint, t.ctid::text FROM ONLY {table.name} t WHERE {table.drawn}"
    )
    estimate = max(1.0, table.rows * share)
    with (
        progress.task(f"draw from {table.name}", estimate, "rows") as task,
        connection.cursor("drawn") as cursor,
    ):
        cursor.execute(query.encode())
        while rows := cursor.fetchmany(_ROWS):
            chosen.add(_chosen(rows), drawn=True)
            task.advance(len(rows))


def _chosen(rows: Sequence[tuple[int, str]]) -> Iterator[tuple[int, Place]]:
    return ((oid, _number(ctid)) for oid, ctid in rows)


def _write(
    connection: psycopg.Connection[Any],
    table: LinkedTable,
    places: Iterator[list[Place]],
    stream: BinaryIO,
    advance: Callable[[int], None],
) -> None:
    columns = ", ".join(table.columns)
    stream.write(f"COPY {table.name} ({columns}) FROM stdin;\n".encode())
    for some in places:
        ctids = ",".join(f'"{_ctid(place)}"' for place in some)
        query = (
            f"COPY (SELECT {columns} FROM ONLY {table.name} "
            f"WHERE ctid = ANY('{{{ctids}}}'::tid[])) TO STDOUT"
        )
        with connection.cursor() as cursor, cursor.copy(query.encode()) as rows:
            for block in rows:
                stream.write(block)
        advance(len(some))
    stream.write(b"\\.\n\n")


def _number(ctid: str) -> int:
    block, offset = ctid.strip("()").split(",")
    return int(block) << _OFFSET_BITS | int(offset)


def _ctid(place: Place) -> str:
    number = int(place)
    return f"({number >> _OFFSET_BITS},{number & ((1 << _OFFSET_BITS) - 1)})"
