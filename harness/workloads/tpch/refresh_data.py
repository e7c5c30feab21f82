"""The rows of refresh functions, and how they are made (clauses 2.6, 2.7 and 4.2.3).

Makes refresh sets: dbgen's update sets (``dbgen -U``), byte for byte.

dbgen fills update sets with the orders that would follow the base's last. tpchgen-cli
makes no update sets, but the last part of a scale factor that ends with the
needed orders consists of just these. What in them depends on the scale factor is drawn again
for the base's, and the keys are those of the gaps between the base's (clause 4.2.3). The
rows that a set takes out of the base are made in the same way and kept with it.

That the generator still draws as dbgen does is not believed: for the first orders of
every part that it makes, its own values have to come out of ours at its own scale.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from itertools import dropwhile, groupby, islice
from pathlib import Path
from typing import TypeAlias

from harness.engine import Scalar
from harness.errors import RunFailed, UsageError
from harness.progress import Progress
from harness.workloads.tpch.data import generator, run_generator
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


#: Text of an order and its lines, on the average.
_BYTES_PER_ORDER = 620
_ORDERS_PER_SCALE = 1_500_000
_COMPARED_ORDERS = 1000
#: With fewer, the generator's own scale factor would have no suppliers.
_FEWEST_ORDERS = 15_000
#: Gap of the keys that sets 1 … 999 put in.
_GAP = 1


def prepare(scale: float, sets: range, folder: Path, progress: Progress) -> RefreshData:
    """Make those of ``sets`` (within 1 … 999) that ``folder`` does not hold, each one atomically.

    ``folder``: no other process makes sets in it meanwhile. UsageError for a scale that has
    none, RunFailed where the generator fails or the disk is full.
    """
    if scale >= WIDE_SCALE:
        raise UsageError(
            f"refresh sets at scale {scale:,g}",
            f"from scale {WIDE_SCALE:,} on dbgen draws keys in another way, which is not done here",
            "choose a smaller scale, or run without refresh functions",
        )
    data = RefreshData(scale, folder)
    missing = [number for number in sets if not data.set_folder(number).exists()]
    if missing:
        try:
            _make(data, range(missing[0], missing[-1] + 1), progress)
        except OSError as error:
            room = f"make room (about {refresh_bytes(scale, sets) / 1e9:.3g} GB)"
            raise RunFailed(f"refresh sets in {folder}", str(error), room) from error
    return data


def refresh_bytes(scale: float, sets: range) -> int:
    """Estimate of the bytes that :func:`prepare` writes, while it works."""
    orders = orders_per_set(scale) * len(sets)
    # The generator's parts, and the sets made of them: both put in and taken out.
    return (4 * orders + 2 * _FEWEST_ORDERS) * _BYTES_PER_ORDER


def _make(data: RefreshData, sets: range, progress: Progress) -> None:
    """Make ``sets`` under temporary names and rename each when it is whole."""
    scale, work = data.scale, data.folder / "partial"
    made = RefreshData(scale, work)
    size = orders_per_set(scale)
    base = expected_rows("orders", scale) or 0
    first, end = (sets.start - 1) * size, (sets.stop - 1) * size
    shutil.rmtree(work, ignore_errors=True)  # of one that was killed
    work.mkdir(parents=True)
    try:
        with progress.task(f"make refresh sets at scale {scale:g}", len(sets)) as task:
            inserted = _rows(scale, base + first, base + end, _GAP, work / "inserted", progress)
            removed = _rows(scale, first, end, 0, work / "removed", progress)
            for number in sets:
                made.set_folder(number).mkdir()
                _write(made.pair(number).inserted, size, inserted)
                _write(made.pair(number).removed, size, removed)
                if not data.set_folder(number).exists():
                    made.set_folder(number).rename(data.set_folder(number))
                task.advance()
    finally:
        shutil.rmtree(work)


_Rows = Iterator[tuple[str, list[str]]]


def _rows(scale: float, first: int, end: int, gap: int, work: Path, progress: Progress) -> _Rows:
    """Orders ``first`` … ``end`` - 1 of the base and beyond, with the values of ``scale``.

    Keys are the base's where ``gap`` is 0, else the gap's, counted from the end of the base.
    """
    total = max(end, _FEWEST_ORDERS)
    # Half an order more, lest the product of the scale factor is cut to one less.
    made_at = (total + 0.5) / _ORDERS_PER_SCALE
    files = _last_part(made_at, total // (total - first), work, progress)
    _compare(made_at, first, files)
    offset = first - (expected_rows("orders", scale) or 0) if gap else first
    columns = ScaledColumns(scale, first)
    rows = grouped_rows(files, order_key(first, 0))
    for row, (head, lines) in enumerate(rows, offset):
        yield columns.rewrite(head, lines, order_key(row, gap))


def _last_part(scale: float, parts: int, work: Path, progress: Progress) -> Files:
    """Have the last part of orders and lineitem made; their files.

    Where a part begins the generator decides for each table, a little before its share.
    """
    work.mkdir()
    arguments = [
        *("tbl", "--tables", ",".join(PRIMARY_KEYS), "--scale-factor", repr(scale)),
        *("--parts", str(parts), "--part", str(parts)),
    ]
    rows = (expected_rows("orders", scale) or 0) // parts
    title = f"part {parts} of {parts} of TPC-H orders"
    run_generator(arguments, work, rows * _BYTES_PER_ORDER, title, progress)
    return {table: work / table / f"{table}.{parts}.tbl" for table in PRIMARY_KEYS}


def _compare(scale: float, first: int, files: Files) -> None:
    """RunFailed where the generator's rows from ``first`` on are not those that dbgen draws."""
    columns = ScaledColumns(scale, first)
    rows = islice(grouped_rows(files, order_key(first, 0)), _COMPARED_ORDERS)
    for row, (head, lines) in enumerate(rows, first):
        if columns.rewrite(head, lines, order_key(row, 0)) != (head, lines):
            raise RunFailed(
                "refresh sets",
                f"{generator()} draws order {row + 1:,} of scale {scale:g} otherwise than dbgen",
                "install the version of tpchgen-cli that the harness requires",
            )


def _write(files: Files, size: int, rows: _Rows) -> None:
    """The next ``size`` orders and their lines."""
    orders, lineitem = files["orders"], files["lineitem"]
    count = 0
    with orders.open("x", encoding="ascii") as heads, lineitem.open("x", encoding="ascii") as tails:
        for head, lines in islice(rows, size):
            heads.write(head)
            tails.writelines(lines)
            count += 1
    if count != size:
        raise RunFailed(f"{orders.name}: {size} orders", f"the generator made {count}", "run again")


# Columns as dbgen draws them ----------------------------------------------------
#
# dbgen gives every column a stream of its own of Park and Miller's generator (CACM 10/1988) and
# every row a fixed number of its draws, so that a stream can be set to any row. Customers, clerks,
# parts and suppliers are drawn from ranges that grow with the scale factor, and prices follow from
# the parts; all else that a row holds is the same at every scale (clause 4.2.3).

#: From here dbgen draws customers and parts from a generator of 64 bits.
WIDE_SCALE = 30_000
_MULTIPLIER = 16807
_MODULUS = 2**31 - 1
_MOST_LINES = 7
_CLERKS_PER_SCALE = 1000
_SUPPLIERS_PER_PART = 4
#: Every third customer has no orders.
_MORTALITY = 3


class _Stream:
    """The draws of one column from a row on, counted from 0."""

    def __init__(self, seed: int, draws_per_row: int, row: int) -> None:
        self._jump = pow(_MULTIPLIER, draws_per_row, _MODULUS)
        self._row_start = seed * pow(self._jump, row, _MODULUS) % _MODULUS

    def next_row(self, high: int, low: int = 1, draws: int = 1) -> list[int]:
        """The next row's first ``draws`` integers in [low, high]; in doubles, as dbgen's are."""
        state = self._row_start
        self._row_start = state * self._jump % _MODULUS
        span = float(high - low + 1)
        values = []
        for _ in range(draws):
            state = state * _MULTIPLIER % _MODULUS
            values.append(low + int(state / float(_MODULUS) * span))
        return values


class ScaledColumns:
    """The columns that depend on ``scale``, order by order from ``row`` (0: the first order)."""

    def __init__(self, scale: float, row: int) -> None:
        self._customers = _row_count("customer", scale)
        self._parts = _row_count("part", scale)
        self._suppliers = _row_count("supplier", scale)
        self._clerks = int(max(1, scale) * _CLERKS_PER_SCALE)
        self._customer = _Stream(851767375, 1, row)
        self._clerk = _Stream(1171034773, 1, row)
        self._part = _Stream(1808217256, _MOST_LINES, row)
        self._supplier = _Stream(2095021727, _MOST_LINES, row)

    def rewrite(self, order: str, lines: list[str], key: int) -> tuple[str, list[str]]:
        """The next order and its lines with ``key`` and the values of the scale.

        ``order`` and ``lines``: as dbgen's files hold the same row at another scale.
        """
        total = 0
        written = []
        parts = self._part.next_row(self._parts, draws=len(lines))
        choices = self._supplier.next_row(_SUPPLIERS_PER_PART - 1, 0, len(lines))
        for line, part, choice in zip(lines, parts, choices, strict=True):
            _, _, _, number, quantity, _, discount, tax, rest = line.split("|", 8)
            price = _retail_price(part) * int(quantity)
            total += price * (100 - _cents(discount)) // 100 * (100 + _cents(tax)) // 100
            supplier = self._supplier_of(part, choice)
            written.append(
                f"{key}|{part}|{supplier}|{number}|{quantity}|{_money(price)}"
                f"|{discount}|{tax}|{rest}"
            )
        _, _, status, _, date, priority, _, rest = order.split("|", 7)
        (clerk,) = self._clerk.next_row(self._clerks)
        return (
            f"{key}|{self._next_customer()}|{status}|{_money(total)}|{date}|{priority}"
            f"|Clerk#{clerk:09d}|{rest}",
            written,
        )

    def _next_customer(self) -> int:
        (customer,) = self._customer.next_row(self._customers)
        step = 1
        while customer % _MORTALITY == 0:
            customer = min(customer + step, self._customers)
            step = -step
        return customer

    def _supplier_of(self, part: int, choice: int) -> int:
        """One of the part's four suppliers (clause 4.2.3, PS_SUPPKEY)."""
        step = self._suppliers // _SUPPLIERS_PER_PART + (part - 1) // self._suppliers
        return (part + choice * step) % self._suppliers + 1


def order_key(row: int, gap: int) -> int:
    """Key of the order of ``row`` (0: the first): 8 of every 32 keys are in use.

    ``gap`` 0: the base's; 1 … 3: those of the refresh sets, between them (clause 4.2.3).
    """
    number = row + 1
    return number >> 3 << 5 | gap << 3 | number & 7


def row_of_key(key: int) -> tuple[int, int]:
    """The inverse of :func:`order_key`: (row, gap)."""
    return (key >> 5 << 3 | key & 7) - 1, key >> 3 & 3


def _row_count(table: str, scale: float) -> int:
    rows = expected_rows(table, scale)
    assert rows is not None
    return rows


def _retail_price(part: int) -> int:
    return 90_000 + part // 10 % 20_001 + part % 1000 * 100


def _cents(text: str) -> int:
    """``0.07`` as 7; dbgen writes two places always."""
    return int(text.replace(".", ""))


def _money(cents: int) -> str:
    return f"{cents // 100}.{cents % 100:02d}"
