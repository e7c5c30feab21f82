"""The rows of refresh functions, read from their files (clauses 2.6 and 2.7)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from itertools import dropwhile, groupby
from pathlib import Path
from typing import TypeAlias

from harness.engine import Scalar
from harness.errors import RunFailed
from harness.workloads.tpch.tables import COLUMNS, expected_rows

#: Each set replaces a thousandth of the base's orders; after this one dbgen begins another gap.
LARGEST_SET = 999
#: Of the tables that refresh functions change; the key of the order comes first.
PRIMARY_KEYS: Mapping[str, Sequence[str]] = {
    "orders": ("o_orderkey",),
    "lineitem": ("l_orderkey", "l_linenumber"),
}

#: A file for each of these tables.
Files: TypeAlias = Mapping[str, Path]
Row: TypeAlias = tuple[Scalar, ...]
_READ: Mapping[str, Callable[[str], Scalar]] = {
    "integer": int,
    "bigint": int,
    "decimal(15,2)": Decimal,
    "date": date.fromisoformat,
    "varchar": str,
}


@dataclass(frozen=True)
class RefreshPair:
    """The data of one pair of refresh functions: the files of one of dbgen's update sets.

    ``inserted``: by table, the rows that RF1 inserts, as dbgen's ``orders.tbl.uN`` and
    ``lineitem.tbl.uN`` hold them (fields ended by ``|``, in the order of their keys).
    ``removed``: the base's rows that RF2 deletes, in the same form; no engine is given them,
    checks and references are.
    """

    number: int
    inserted: Files
    removed: Files

    @property
    def insert_keys(self) -> tuple[int, ...]:
        """Keys of the orders that RF1 inserts, ascending."""
        return _keys(self.inserted["orders"])

    @property
    def delete_keys(self) -> tuple[int, ...]:
        """Keys of the orders that RF2 deletes, ascending (dbgen's ``delete.N``)."""
        return _keys(self.removed["orders"])


@dataclass(frozen=True)
class RefreshData:
    """Refresh sets on disk: a folder for each."""

    scale: float
    folder: Path

    def set_folder(self, number: int) -> Path:
        """Folder of one set; it is there only when it is whole."""
        return self.folder / f"set-{number}"

    def pair(self, number: int) -> RefreshPair:
        """The files of set ``number`` (1 …), by their names in dbgen where it has any."""
        place = self.set_folder(number)
        return RefreshPair(
            number,
            inserted={table: place / f"{table}.tbl.u{number}" for table in PRIMARY_KEYS},
            removed={table: place / f"removed-{table}.tbl.u{number}" for table in PRIMARY_KEYS},
        )


def orders_per_set(scale: float) -> int:
    """Orders that one refresh function inserts or deletes: SF × 1500 (clause 2.6.2), at least 1."""
    return max(1, (expected_rows("orders", scale) or 0) // 1000)


def rows_of_file(file: Path, table: str) -> Iterator[Row]:
    """Typed rows of a file of dbgen's."""
    read = [_READ[kind] for kind in COLUMNS[table].values()]
    with file.open(encoding="ascii") as lines:
        for line in lines:
            fields = line.split("|")[:-1]
            yield tuple(convert(text) for convert, text in zip(read, fields, strict=True))


def grouped_rows(files: Files, first_key: int = 0) -> Iterator[tuple[str, list[str]]]:
    """Each order from ``first_key`` on with its lines, as text.

    Both files are in the order of their keys, and end with the same order.
    """

    def before(line: str) -> bool:
        return order_of(line) < first_key

    orders, lineitem = files["orders"], files["lineitem"]
    with orders.open(encoding="ascii") as heads, lineitem.open(encoding="ascii") as lines:
        groups = groupby(dropwhile(before, lines), key=order_of)
        for head, (key, group) in zip(dropwhile(before, heads), groups, strict=True):
            if key != order_of(head):
                raise RunFailed(
                    f"rows of {orders}",
                    f"{lineitem.name} has lines of order {key} where those of "
                    f"{order_of(head)} belong",
                    f"remove {orders.parent} and run again",
                )
            yield head, list(group)


def order_of(line: str) -> int:
    """Key of the order that a row of ``orders`` or ``lineitem`` belongs to."""
    return int(line[: line.index("|")])


def _keys(orders: Path) -> tuple[int, ...]:
    with orders.open(encoding="ascii") as lines:
        return tuple(order_of(line) for line in lines)
