"""Make refresh sets: dbgen's update sets (``dbgen -U``), byte for byte.

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
from harness.workloads.tpch.dbgen_columns import WIDE_SCALE, ScaledColumns, order_key
from harness.workloads.tpch.refresh_data import (
    PRIMARY_KEYS,
    Files,
    RefreshData,
    grouped_rows,
    orders_per_set,
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
