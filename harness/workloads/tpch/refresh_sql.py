"""The refresh functions as SQL: RF1 puts new orders in, RF2 takes old ones out.

Clauses 2.6 and 2.7 give both as loops over orders; how many go into one transaction is
left open, as long as an order and its lines are never apart (clauses 2.6.3, 2.7.3). The
text is standard SQL that every engine takes unchanged: multi-row ``INSERT … VALUES``,
``DELETE … WHERE key IN``, dates as plain strings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from harness.workloads.tpch.refresh_data import RefreshPair, grouped_rows
from harness.workloads.tpch.tables import COLUMNS

#: Well below what any server takes in one packet by default.
LARGEST_STATEMENT_BYTES = 256 * 1024

#: A row of values by table: text and dates stand in quotes.
_VALUES = {
    table: "("
    + ",".join("'%s'" if kind in ("varchar", "date") else "%s" for kind in columns.values())
    + ")"
    for table, columns in COLUMNS.items()
}


def rf1_statements(pair: RefreshPair, batch_orders: int) -> Iterator[list[str]]:
    """The transactions of RF1, each a list of statements without BEGIN and COMMIT.

    Orders before their lines (the foreign key). One transaction at a time is read and
    held: about 3 KB of memory for each of its orders.
    """
    orders = grouped_rows(pair.orders, pair.lineitem)
    while batch := list(islice(orders, batch_orders)):
        yield [
            *_inserts("orders", [head for head, _ in batch]),
            *_inserts("lineitem", [line for _, lines in batch for line in lines]),
        ]


def rf2_statements(pair: RefreshPair, batch_orders: int) -> Iterator[list[str]]:
    """The transactions of RF2: lines before their orders (the foreign key)."""
    keys = iter(pair.delete_keys)
    while batch := [str(key) for key in islice(keys, batch_orders)]:
        yield [
            *_deletes("lineitem", "l_orderkey", batch),
            *_deletes("orders", "o_orderkey", batch),
        ]


def _inserts(table: str, lines: Sequence[str]) -> Iterator[str]:
    head = f"INSERT INTO {table} ({', '.join(COLUMNS[table])}) VALUES\n"
    return _statements(head, [_values(table, line) for line in lines], ",\n", "")


def _deletes(table: str, column: str, keys: Sequence[str]) -> Iterator[str]:
    return _statements(f"DELETE FROM {table} WHERE {column} IN (", keys, ",", ")")


def _values(table: str, line: str) -> str:
    """A row of a file as SQL; nearly all that a client does in RF1, so it is kept short."""
    return _VALUES[table] % tuple(line.replace("'", "''").split("|")[:-1])


def _statements(head: str, items: Sequence[str], between: str, foot: str) -> Iterator[str]:
    """``items`` in as few statements as LARGEST_STATEMENT_BYTES lets."""
    room = LARGEST_STATEMENT_BYTES - len(head) - len(foot)
    start = size = 0
    for position, item in enumerate(items):
        length = len(item) + len(between)
        if size + length > room and position > start:
            yield head + between.join(items[start:position]) + foot
            start, size = position, 0
        size += length
    if start < len(items):
        yield head + between.join(items[start:]) + foot
