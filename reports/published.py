"""A paper's own figures (``published.csv`` beside a profile), to lie beside what was measured.

Columns: figure, series (``engine/arm``), x, y, unit, read_off_error, metric where the
values are no query times, and note where a number was not plainly printed. They were printed
or read off a figure of another machine: context, never part of a comparison.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.store import schemas
from harness.units import GIB, parse_duration_ns, parse_size

#: What points are values of in a file without the column.
_TIMES = "query_duration_ns"
#: Units beside those of time and size: factor and unit of the harness's metric.
_RATES = {
    "k/min": (1000.0, "1/min"),
    "MB/s": (1e6, "B/s"),
    "GB/s": (1e9, "B/s"),
    "GiB/s": (float(GIB), "B/s"),
}


@dataclass(frozen=True)
class PublishedPoint:
    """One point; ``y_base`` and ``error_base`` in ns, bytes, or the unit as it is."""

    x: str
    y_base: float
    error_base: float


@dataclass(frozen=True)
class PublishedSeries:
    """The points of one engine and arm in one figure. ``base_unit``: ns, bytes or its own.

    ``metric``: the harness's metric that they are values of, labels in brackets.
    """

    figure: str
    engine: str
    arm: str
    base_unit: str
    points: tuple[PublishedPoint, ...]
    metric: str = _TIMES
    note: str = ""


def read_published(path: Path, figures: Sequence[str] = ()) -> list[PublishedSeries]:
    """The series of the figures named, of all where none is; UsageError names a bad line."""
    found: dict[tuple[str, ...], list[PublishedPoint]] = {}
    try:
        with path.open(newline="", encoding="utf-8") as stream:
            rows = list(csv.DictReader(stream))
    except (OSError, ValueError, csv.Error) as error:
        raise UsageError(f"published figures {path}", str(error), "check the path") from error
    for line, text in enumerate(rows, start=2):
        row = _row(text, f"{path}:{line}")
        factor, base_unit = _base(row["unit"])
        point = PublishedPoint(row["x"], row["y"] * factor, row["read_off_error"] * factor)
        key = (row["figure"], row["series"], base_unit, row["metric"], row["note"])
        found.setdefault(key, []).append(point)
    return [
        PublishedSeries(figure, *_engine_and_arm(series), base_unit, tuple(points), metric, note)
        for (figure, series, base_unit, metric, note), points in found.items()
        if figure in figures or not figures
    ]


def _engine_and_arm(series: str) -> tuple[str, str]:
    engine, _, arm = series.partition("/")
    return engine, arm


def _row(text: dict[str, Any], source: str) -> dict[str, Any]:
    row = {"metric": _TIMES, "note": ""} | {str(key): value for key, value in text.items()}
    for column in ("y", "read_off_error"):
        try:
            row[column] = float(row.get(column) or "")
            if not math.isfinite(row[column]):
                raise ValueError("not finite")
        except (ValueError, TypeError) as error:
            found = f"{column} is {text.get(column)!r}, not a finite number"
            raise UsageError(source, found) from error
    schemas.validate(row, "published-csv", source=source)
    return row


def _base(unit: str) -> tuple[float, str]:
    """The factor to ns, bytes or a rate's own unit, or 1 for a unit of neither."""
    if unit in _RATES:
        return _RATES[unit]
    for parse, base in ((parse_duration_ns, "ns"), (parse_size, "bytes")):
        try:
            return float(parse(f"1{unit}")), base
        except UsageError:
            continue
    return 1.0, unit
