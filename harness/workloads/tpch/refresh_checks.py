"""Checks that refresh functions have changed what they had to, and nothing else.

RF1 and RF2 of a pair work on orders of the same numbers, one in the gap between the
base's keys, the other on the base's. So the rows in a pair's range of keys are known
completely, and :func:`check_pair` compares every value of them, found by the primary key.
All other rows :func:`check_tables` covers with counts and exact sums over both tables:
those of the source files, with the sets' rows added and taken off.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date
from decimal import Decimal
from functools import partial
from heapq import merge
from itertools import zip_longest
from pathlib import Path
from typing import TypeAlias

from harness.engine import Scalar
from harness.errors import RunFailed
from harness.store.result import Check
from harness.store.spec import content_hash
from harness.workloads.tpch.data import generator, read_source
from harness.workloads.tpch.dbgen_columns import row_of_key
from harness.workloads.tpch.reference import keep, kept_file, read_kept
from harness.workloads.tpch.refresh_data import (
    PRIMARY_KEYS,
    RefreshData,
    RefreshPair,
    Row,
    rows_of_file,
)
from harness.workloads.tpch.source_database import open_memory, open_views, rows_of, tbl_rows
from harness.workloads.tpch.tables import COLUMNS
from harness.workloads.window import checked

#: Rows of one statement.
Execute: TypeAlias = Callable[[str], Sequence[tuple[Scalar, ...]]]
#: Table, and what is summed over it, to its exact value.
Totals: TypeAlias = Mapping[str, Mapping[str, Decimal]]

#: Orders whose rows are fetched at once.
_WINDOW = 4096
#: In SQL that every engine takes. The products tie columns to their row: values that have
#: changed places leave plain sums as they were.
_SUMS: Mapping[str, Sequence[str]] = {
    "orders": (
        "count(*)",
        "sum(o_orderkey)",
        "sum(o_custkey)",
        "sum(o_totalprice)",
        "sum(o_orderkey % 1009 * o_custkey)",
        "sum(case when o_orderdate < '1995-06-17' then o_orderkey else 0 end)",
        "sum(case when o_orderstatus = 'F' then o_orderkey else 0 end)",
        "sum(length(o_comment))",
    ),
    "lineitem": (
        "count(*)",
        "sum(l_orderkey)",
        "sum(l_partkey)",
        "sum(l_suppkey)",
        "sum(l_quantity)",
        "sum(l_extendedprice)",
        "sum(l_discount)",
        "sum(l_tax)",
        "sum(l_orderkey % 1009 * l_partkey * l_linenumber)",
        "sum(case when l_shipdate < '1995-06-17' then l_orderkey else 0 end)",
        "sum(case when l_commitdate < l_receiptdate then l_orderkey else 0 end)",
        "sum(case when l_returnflag = 'R' then l_orderkey else 0 end)",
        "sum(length(l_comment))",
    ),
}


def check_pair(execute: Execute, pair: RefreshPair, *, deleted: bool = True) -> list[Check]:
    """Return whether all rows in the pair's range of keys are exactly those that belong there.

    RF1 of the pair has been executed; ``deleted``: RF2 has, too. Reads as many rows as the two
    have changed, by the primary key; one check a table.
    """
    return [
        _compare(table, pair.number, _expected(pair, table, deleted), _actual(execute, table, pair))
        for table in PRIMARY_KEYS
    ]


def check_tables(
    execute: Execute,
    data: RefreshData,
    base: Totals | None,
    *,
    inserted: Collection[int],
    deleted: Collection[int],
) -> list[Check]:
    """Return whether the whole tables are the base, with those sets inserted and those deleted.

    ``base``: of :func:`base_totals`; *unknown* without. One scan of either table, about
    what Q6 and a count cost; one check a table.
    """
    changes = [(1, data.pair(number).inserted) for number in inserted]
    changes += [(-1, data.pair(number).removed) for number in deleted]
    return [
        _check_table(execute, table, base, [(sign, files[table]) for sign, files in changes])
        for table in _SUMS
    ]


def base_totals(scale: float, source: Path | None) -> Totals | None:
    """Totals of the loaded data, from the source files or kept.

    None where both are missing, or the files have changed since they were made.
    """
    key = content_hash([scale, generator(), _SUMS])
    file = kept_file(scale, f"totals-{key}.json")
    stored = read_kept(
        file,
        lambda document: {
            table: {name: Decimal(document["totals"][table][name]) for name in names}
            for table, names in _SUMS.items()
        },
    )
    if stored is not None:
        return stored
    if source is None:
        return None
    try:
        # Sums without groups spill nothing.
        with open_views(read_source(source), None) as connection:
            totals = {table: _sums(partial(rows_of, connection), table, table) for table in _SUMS}
    except RunFailed:
        return None
    texts = {t: {name: str(value) for name, value in s.items()} for t, s in totals.items()}
    keep(file, {"scale": scale, "generator": generator(), "totals": texts})
    return totals


def _sums(execute: Execute, table: str, rows: str) -> dict[str, Decimal]:
    """Sums of ``table`` over ``rows``: its name, or an expression in its place."""
    names = _SUMS[table]
    (values,) = execute(f"SELECT {', '.join(names)} FROM {rows}")
    return {
        # A sum over no rows is NULL; a binary one is off in digits that money does not have.
        name: Decimal(str(round(value, 2) if isinstance(value, float) else value or 0))
        for name, value in zip(names, values, strict=True)
    }


def _check_table(
    execute: Execute, table: str, base: Totals | None, changes: Iterable[tuple[int, Path]]
) -> Check:
    """Check a table; ``changes``: files with rows that are added (1) or taken off (-1)."""
    name, labels = "refresh_totals", {"table": table}
    if base is None:
        missing = "no intact source data: what the untouched rows have to be is not known"
        return Check(name, "unknown", missing, labels)
    expected = dict(base[table])
    with open_memory(None) as connection:
        for sign, file in changes:
            rows = tbl_rows([str(file)], COLUMNS[table])
            part = _sums(partial(rows_of, connection), table, rows)
            expected = {each: expected[each] + sign * part[each] for each in expected}
    actual = _sums(execute, table, table)
    wrong = [
        f"{each}: expected {expected[each]}, found {actual[each]}"
        for each in expected
        if expected[each] != actual[each]
    ]
    return checked(name, wrong, f"{len(expected)} counts and sums agree", **labels)


def _expected(pair: RefreshPair, table: str, deleted: bool) -> Iterator[Row]:
    """The rows in the pair's range of keys, by the primary key."""
    files = [pair.inserted] if deleted else [pair.inserted, pair.removed]
    parts = (rows_of_file(file[table], table) for file in files)
    # Of lines of one order there are at most seven: their numbers keep their order.
    return merge(*parts, key=lambda row: _integer(row[0]))


def _actual(execute: Execute, table: str, pair: RefreshPair) -> Iterator[Row]:
    """The rows of the orders that have the pair's numbers, in the base or in any gap."""
    keys = pair.insert_keys
    numbers = range(row_of_key(keys[0])[0] + 1, row_of_key(keys[-1])[0] + 2)
    columns, order = ", ".join(COLUMNS[table]), ", ".join(PRIMARY_KEYS[table])
    # Of 32 keys 8 belong to the base: orders 8n … 8n + 7 and their gaps have keys from 32n on.
    for start in range(numbers.start // 8 * 8, numbers.stop, _WINDOW):
        last = 4 * min(start + _WINDOW, (numbers.stop + 7) // 8 * 8) - 1
        rows = execute(
            f"SELECT {columns} FROM {table} WHERE {PRIMARY_KEYS[table][0]} "
            f"BETWEEN {4 * start} AND {last} ORDER BY {order}"
        )
        yield from (row for row in rows if row_of_key(_integer(row[0]))[0] + 1 in numbers)


def _integer(value: Scalar) -> int:
    assert isinstance(value, int)
    return value


def _compare(table: str, number: int, expected: Iterator[Row], actual: Iterator[Row]) -> Check:
    name, labels = "refresh_rows", {"pair": str(number), "table": table}
    count = 0
    for want, have in zip_longest(expected, actual):
        if want is None or have is None or not _same(want, have):
            detail = f"row {count + 1}: expected {_shown(want)}, found {_shown(have)}"
            return Check(name, "failed", detail, labels)
        count += 1
    return Check(name, "passed", f"{count} rows agree", labels)


def _shown(row: Row | None) -> str:
    return "no more rows" if row is None else "|".join(map(str, row))


def _same(want: Row, have: Row) -> bool:
    """Return whether two rows are equal; the last column is the only text that is not padded."""
    if len(want) != len(have) or want[-1] != have[-1]:
        return False
    return all(map(_equal, want[:-1], have[:-1]))


def _equal(want: Scalar, have: Scalar) -> bool:
    if isinstance(have, str):  # a date may be a text
        return isinstance(want, str | date) and have.rstrip(" ") == str(want).rstrip(" ")
    if isinstance(have, float):
        return isinstance(want, Decimal) and round(Decimal(have), 2) == want
    return want == have
