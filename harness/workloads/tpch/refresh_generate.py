"""Makes refresh sets: dbgen's update sets (``dbgen -U``), byte for byte.

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
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from harness.errors import RunFailed, UsageError
from harness.progress import Progress
from harness.workloads.tpch.data import generator, run_generator
from harness.workloads.tpch.dbgen import WIDE_SCALE, ScaledColumns, order_key
from harness.workloads.tpch.refresh_data import (
    LARGEST_SET,
    RefreshData,
    grouped_rows,
    orders_per_set,
    pair_in,
    set_folder,
)
from harness.workloads.tpch.tables import expected_rows

#: Text of an order and its lines, on the average.
_BYTES_PER_ORDER = 620
_ORDERS_PER_SCALE = 1_500_000
_COMPARED_ORDERS = 1000
#: With fewer, the generator's own scale factor would have no suppliers.
_FEWEST_ORDERS = 15_000
#: Gap of the keys that sets 1 … 999 put in.
_GAP = 1


def prepare(scale: float, sets: range, folder: Path, progress: Progress) -> RefreshData:
    """Make those of ``sets`` (1 …) that ``folder`` does not hold yet, each one atomically.

    ``folder``: no other process makes sets in it meanwhile. UsageError for sets or scales that
    have none, RunFailed where the generator fails or the disk is full.
    """
    _refuse(scale, sets)
    missing = [number for number in sets if not set_folder(folder, number).exists()]
    if missing:
        try:
            _make(scale, range(missing[0], missing[-1] + 1), folder, progress)
        except OSError as error:
            raise RunFailed(
                f"refresh sets in {folder}", str(error), f"make room ({_size(scale, sets)})"
            ) from error
    return RefreshData(scale, folder)


def refresh_bytes(scale: float, sets: range) -> int:
    """Estimate of the bytes that :func:`prepare` writes, while it works."""
    orders = orders_per_set(scale) * len(sets)
    # The generator's parts, and the sets made of them: both put in and taken out.
    return (4 * orders + 2 * _FEWEST_ORDERS) * _BYTES_PER_ORDER


def _size(scale: float, sets: range) -> str:
    return f"about {refresh_bytes(scale, sets) / 1e9:.3g} GB"


def _refuse(scale: float, sets: range) -> None:
    if scale >= WIDE_SCALE:
        raise UsageError(
            f"refresh sets at scale {scale:,g}",
            f"from scale {WIDE_SCALE:,} on dbgen draws keys in another way, which is not done here",
            "choose a smaller scale, or run without refresh functions",
        )
    if sets and not (min(sets) >= 1 and max(sets) <= LARGEST_SET):
        raise UsageError(
            f"refresh sets {min(sets)} … {max(sets)}",
            f"there are {LARGEST_SET}: then every order of the base has been replaced",
            "use fewer streams",
        )


def _make(scale: float, sets: range, folder: Path, progress: Progress) -> None:
    """Make ``sets`` under temporary names and rename each when it is whole."""
    size = orders_per_set(scale)
    base = expected_rows("orders", scale) or 0
    first, end = (sets.start - 1) * size, (sets.stop - 1) * size
    work = folder / "partial"
    shutil.rmtree(work, ignore_errors=True)  # of one that was killed
    work.mkdir(parents=True)
    try:
        with progress.task(f"make refresh sets at scale {scale:g}", len(sets)) as task:
            inserted = _rows(scale, base + first, base + end, _GAP, work / "inserted", progress)
            removed = _rows(scale, first, end, 0, work / "removed", progress)
            for number in sets:
                _write_set(work, number, size, inserted, removed)
                if not set_folder(folder, number).exists():
                    set_folder(work, number).rename(set_folder(folder, number))
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
    orders, lineitem = _last_part(made_at, total // (total - first), work, progress)
    _compare(made_at, first, orders, lineitem)
    offset = first - (expected_rows("orders", scale) or 0) if gap else first
    columns = ScaledColumns(scale, first)
    rows = grouped_rows(orders, lineitem, order_key(first, 0))
    for row, (head, lines) in enumerate(rows, offset):
        yield columns.rewrite(head, lines, order_key(row, gap))


def _last_part(scale: float, parts: int, work: Path, progress: Progress) -> tuple[Path, Path]:
    """Have the last part of orders and lineitem made; their files.

    Where a part begins the generator decides for each table, a little before its share.
    """
    work.mkdir()
    arguments = [
        *("tbl", "--tables", "orders,lineitem", "--scale-factor", repr(scale)),
        *("--parts", str(parts), "--part", str(parts)),
    ]
    rows = (expected_rows("orders", scale) or 0) // parts
    title = f"part {parts} of {parts} of TPC-H orders"
    run_generator(arguments, work, rows * _BYTES_PER_ORDER, title, progress)
    orders, lineitem = (work / table / f"{table}.{parts}.tbl" for table in ("orders", "lineitem"))
    return orders, lineitem


def _compare(scale: float, first: int, orders: Path, lineitem: Path) -> None:
    """RunFailed where the generator's rows from ``first`` on are not those that dbgen draws."""
    columns = ScaledColumns(scale, first)
    rows = islice(grouped_rows(orders, lineitem, order_key(first, 0)), _COMPARED_ORDERS)
    for row, (head, lines) in enumerate(rows, first):
        if columns.rewrite(head, lines, order_key(row, 0)) != (head, lines):
            raise RunFailed(
                "refresh sets",
                f"{generator()} draws order {row + 1:,} of scale {scale:g} otherwise than dbgen",
                "install the version of tpchgen-cli that the harness requires",
            )


def _write_set(work: Path, number: int, size: int, inserted: _Rows, removed: _Rows) -> None:
    set_folder(work, number).mkdir()
    pair = pair_in(work, number)
    _write(pair.orders, pair.lineitem, size, inserted)
    _write(pair.removed_orders, pair.removed_lineitem, size, removed)


def _write(orders: Path, lineitem: Path, size: int, rows: _Rows) -> None:
    """The next ``size`` orders and their lines."""
    count = 0
    with orders.open("x", encoding="ascii") as heads, lineitem.open("x", encoding="ascii") as tails:
        for head, lines in islice(rows, size):
            heads.write(head)
            tails.writelines(lines)
            count += 1
    if count != size:
        raise RunFailed(f"{orders.name}: {size} orders", f"the generator made {count}", "run again")
