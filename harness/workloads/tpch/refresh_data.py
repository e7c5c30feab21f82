"""The rows that refresh functions put in and take out (clauses 2.6, 2.7 and 4.2.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from itertools import dropwhile, groupby
from pathlib import Path

from harness.engine import Scalar
from harness.errors import RunFailed
from harness.workloads.tpch.tables import COLUMNS, expected_rows

#: Each set replaces a thousandth of the base's orders; after this one dbgen begins another gap.
LARGEST_SET = 999

Row = tuple[Scalar, ...]
_READ: Mapping[str, Callable[[str], Scalar]] = {
    "integer": int,
    "bigint": int,
    "decimal(15,2)": Decimal,
    "date": date.fromisoformat,
    "varchar": str,
}


@dataclass(frozen=True)
class RefreshPair:
    """What one pair of refresh functions works on: the files of one of dbgen's update sets.

    ``orders`` and ``lineitem``: the rows that RF1 inserts, as dbgen's ``orders.tbl.uN``
    and ``lineitem.tbl.uN`` hold them (fields ended by ``|``, in the order of their keys).
    ``removed_orders`` and ``removed_lineitem``: the base's rows that RF2 deletes, in the
    same form; no engine is given them, checks and references are.
    """

    number: int
    orders: Path
    lineitem: Path
    removed_orders: Path
    removed_lineitem: Path

    @property
    def orders_rows(self) -> Iterator[Row]:
        """Typed rows that RF1 inserts into ``orders``."""
        return rows_of_file(self.orders, "orders")

    @property
    def lineitem_rows(self) -> Iterator[Row]:
        """Typed rows that RF1 inserts into ``lineitem``, grouped by order as orders are."""
        return rows_of_file(self.lineitem, "lineitem")

    @property
    def insert_keys(self) -> tuple[int, ...]:
        """Keys of the orders that RF1 inserts, ascending."""
        return _keys(self.orders)

    @property
    def delete_keys(self) -> tuple[int, ...]:
        """Keys of the orders that RF2 deletes, ascending (dbgen's ``delete.N``)."""
        return _keys(self.removed_orders)

    def inverse(self) -> RefreshPair:
        """The pair that undoes this one: puts back what it takes out, and the other way round."""
        return RefreshPair(
            self.number, self.removed_orders, self.removed_lineitem, self.orders, self.lineitem
        )


@dataclass(frozen=True)
class RefreshData:
    """Refresh sets on disk: a folder for each."""

    scale: float
    folder: Path

    def pair(self, number: int) -> RefreshPair:
        """The files of set ``number`` (1 …), which :func:`prepare` has made."""
        return pair_in(self.folder, number)


def orders_per_set(scale: float) -> int:
    """Orders that one refresh function inserts or deletes: SF × 1500 (clause 2.6.2), at least 1."""
    return max(1, (expected_rows("orders", scale) or 0) // 1000)


def set_folder(folder: Path, number: int) -> Path:
    """Folder of one set; it is there only when it is whole."""
    return folder / f"set-{number}"


def pair_in(folder: Path, number: int) -> RefreshPair:
    """The files of set ``number`` below ``folder``, by their names in dbgen where it has any."""
    place = set_folder(folder, number)
    return RefreshPair(
        number,
        place / f"orders.tbl.u{number}",
        place / f"lineitem.tbl.u{number}",
        place / f"removed-orders.tbl.u{number}",
        place / f"removed-lineitem.tbl.u{number}",
    )


def rows_of_file(file: Path, table: str) -> Iterator[Row]:
    """Typed rows of a file of dbgen's."""
    read = [_READ[kind] for kind in COLUMNS[table].values()]
    with file.open(encoding="ascii") as lines:
        for line in lines:
            fields = line.split("|")[:-1]
            yield tuple(convert(text) for convert, text in zip(read, fields, strict=True))


def grouped_rows(
    orders: Path, lineitem: Path, first_key: int = 0
) -> Iterator[tuple[str, list[str]]]:
    """Each order from ``first_key`` on with its lines, as text.

    Both files are in the order of their keys, and end with the same order.
    """

    def before(line: str) -> bool:
        return order_of(line) < first_key

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
