"""Runs as tables: DuckDB builds them for ``harness runs sql``, and writes them as Parquet files.

docs/results.md has the columns and their units.
"""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from harness import hdr
from harness.store.result import Metric, label_text
from harness.store.run_row import COLUMNS, run_row
from harness.store.runs import StoredRun
from harness.store.spec import JsonObject
from harness.supervise import workdirs
from harness.supervise.own_files import make_own, replacing

Row = dict[str, Any]
_PERCENTILES = {"p50": 50.0, "p95": 95.0, "p99": 99.0, "p99_9": 99.9}


def _with(row: Row, more: JsonObject, prefix: str) -> Row:
    """Add columns to a row; one whose name is taken gets the prefix."""
    return row | {f"{prefix}{name}" if name in row else name: v for name, v in more.items()}


def _run_rows(run: StoredRun) -> Iterator[Row]:
    settings = {f"setting_{name}": str(value) for name, value in run.spec.settings.items()}
    env = {f"env_{name}": value for name, value in run.spec.env.items()}
    yield _with(run_row(run), run.spec.params, "param_") | settings | env


def _metrics(run: StoredRun) -> Iterator[tuple[Row, Metric]]:
    for number, metric in enumerate(run.result.metrics):
        row = {"run_id": run.run_id, "number": number, "metric": metric.name}
        yield row, metric


def _metric_rows(run: StoredRun) -> Iterator[Row]:
    for row, metric in _metrics(run):
        values: Row = {"unit": metric.unit, "better": metric.better}
        values |= {"value": None, "count": 1, **dict.fromkeys(_PERCENTILES)}
        if metric.hdr is None:
            count = 1 if metric.samples is None else len(metric.samples)
            values |= {"value": metric.median, "count": count}
        else:
            times = hdr.decode(metric.hdr)
            values |= {"count": times.total} | {
                name: times.percentile(percent)
                for name, percent in _PERCENTILES.items()
                if times.total >= hdr.fewest(percent)
            }
        labels = {name: label_text(label) for name, label in metric.labels.items()}
        yield _with(row | values, labels, "label_")


def _sample_rows(run: StoredRun) -> Iterator[Row]:
    for row, metric in _metrics(run):
        for number, value in enumerate(metric.samples or ()):
            yield row | {"sample": number, "value": value}


def _histogram_rows(run: StoredRun) -> Iterator[Row]:
    for row, metric in _metrics(run):
        if metric.hdr is None:
            continue
        times = hdr.decode(metric.hdr)
        low, high = times.layout.bounds()
        for at in np.flatnonzero(times.counts):
            bounds = {"low_ns": int(low[at]), "high_ns": int(high[at])}
            yield row | bounds | {"count": int(times.counts[at])}


def _series_rows(run: StoredRun) -> Iterator[Row]:
    folder = run.directory / "artifacts"
    for path in sorted([*folder.glob("monitor-*.json"), *folder.glob("series.json")]):
        yield from _points(run.artifact(path.stem), {"run_id": run.run_id, "source": path.stem}, "")


def _points(value: Any, row: Row, name: str) -> Iterator[Row]:
    """Each number of a list of observations, which have the time of their making."""
    match value:
        case {"monotonic_ns": int(at), **rest}:
            for key, number in _numbers(rest, name):
                yield row | {"monotonic_ns": at, "name": key, "value": number}
        case {}:
            for key, inner in value.items():
                yield from _points(inner, row, name if key == "samples" else f"{name}{key}.")
        case []:
            pass
        case [*items]:
            for item in items:
                yield from _points(item, row, name)


def _numbers(value: Any, name: str) -> Iterator[tuple[str, float]]:
    match value:
        case bool():
            pass
        case int() | float():
            yield name.removesuffix("."), value
        case {}:
            for key, inner in value.items():
                yield from _numbers(inner, f"{name}{key}.")


_METRIC = {"run_id": "VARCHAR", "number": "BIGINT", "metric": "VARCHAR"}
_BOUNDS = dict.fromkeys(("low_ns", "high_ns", "count"), "BIGINT")
_POINT = {"run_id": "VARCHAR", "source": "VARCHAR", "monotonic_ns": "BIGINT", "name": "VARCHAR"}
_VALUE = {"value": "DOUBLE"}
#: Rows of a run by table, and its columns; those of runs and metrics have more.
_TABLES: Mapping[str, tuple[Callable[[StoredRun], Iterable[Row]], Mapping[str, str]]] = {
    "runs": (_run_rows, {column.name: column.type for column in COLUMNS}),
    "metrics": (_metric_rows, {**_METRIC, "unit": "VARCHAR", "better": "VARCHAR", **_VALUE}),
    "samples": (_sample_rows, {**_METRIC, "sample": "BIGINT", **_VALUE}),
    "histograms": (_histogram_rows, {**_METRIC, **_BOUNDS}),
    "series": (_series_rows, {**_POINT, **_VALUE}),
}
#: How Python's csv writes, which DuckDB would guess.
_CSV = """FORMAT csv, AUTO_DETECT false, HEADER false, DELIMITER ',', QUOTE '"', ESCAPE '"'"""
#: Tables whose columns follow from the runs.
_OPEN = ("runs", "metrics")
TABLES = tuple(_TABLES)


@contextmanager
def database(
    runs: Sequence[StoredRun], tables: Collection[str] = TABLES
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a database in memory with the tables of these runs."""
    with workdirs.temporary() as folder, _empty_database(folder) as connection:
        for table in tables:
            rows_of, columns = _TABLES[table]
            file = folder / table
            types = _ColumnTypes(columns)
            with file.open("w", encoding="utf-8", newline="") as stream:
                for run in runs:
                    if table in _OPEN:
                        rows = map(types.row, rows_of(run))
                        stream.writelines(json.dumps(row) + "\n" for row in rows)
                    else:  # many rows: CSV takes a fraction of the time
                        writer = csv.writer(stream, lineterminator="\n")
                        writer.writerows(row.values() for row in rows_of(run))
            if table in _OPEN:
                connection.read_json(
                    str(file), columns=types.declared, format="newline_delimited"
                ).create(table)
            else:
                declared = ", ".join(f"{name} {kind}" for name, kind in columns.items())
                connection.execute(f"CREATE TABLE {table} ({declared})")
                connection.execute(f"COPY {table} FROM '{file}' ({_CSV})")
        yield connection


def _empty_database(folder: Path) -> duckdb.DuckDBPyConnection:
    """Return a database that loads nothing by itself; ``folder``: where large queries spill."""
    settings: dict[str, str | bool | int | float | list[str]] = {
        "temp_directory": str(folder),
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "python_enable_replacements": False,  # a name is no variable of this program
    }
    return duckdb.connect(":memory:", config=settings)


def refuse_files(connection: duckdb.DuckDBPyConnection) -> None:
    """From here on, refuse statements that use files or extensions, or that change settings."""
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


#: The narrowest first.
_NUMBERS = ("BIGINT", "HUGEINT", "DOUBLE")


class _ColumnTypes:
    """The type of each column: as stated, else from the values of its rows.

    A text is never a date.
    """

    def __init__(self, stated: Mapping[str, str]) -> None:
        self._types: dict[str, str | None] = dict(stated)
        #: A column's name by the member's; DuckDB does not tell capitals from small letters.
        self._names = dict(zip(stated, stated, strict=True))
        self._taken = {name.lower() for name in stated}

    @property
    def declared(self) -> dict[str, str]:
        return {name: kind or "VARCHAR" for name, kind in self._types.items()}

    def row(self, row: Row) -> Row:
        """Note the types of a row's values; return the row under the names of columns."""
        named = {self._names.get(member) or self._name(member): v for member, v in row.items()}
        for name, value in named.items():
            self._types[name] = _wider(self._types.get(name), _type_of(value))
        return named

    def _name(self, member: str) -> str:
        name = member
        while name.lower() in self._taken:
            name += "_"
        self._taken.add(name.lower())
        self._names[member] = name
        return name


_SCALARS = {bool: "BOOLEAN", int: "BIGINT", float: "DOUBLE", str: "VARCHAR", dict: "JSON"}


def _type_of(value: Any) -> str | None:
    if isinstance(value, list):
        return f"{reduce(_wider, map(_type_of, value), None) or 'VARCHAR'}[]"
    if type(value) is int and not -(2**63) <= value < 2**63:
        return "HUGEINT"
    return _SCALARS.get(type(value))


def _wider(kind: str | None, other: str | None) -> str | None:
    """The type that has the values of both; None is of no value."""
    if kind is None or other is None or kind == other:
        return kind or other
    if kind in _NUMBERS and other in _NUMBERS:
        return max(kind, other, key=_NUMBERS.index)
    if kind.endswith("[]") and other.endswith("[]"):
        return f"{_wider(kind[:-2], other[:-2])}[]"
    return "VARCHAR"


def write_parquet(runs: Sequence[StoredRun], folder: Path) -> list[Path]:
    """Write each table as a Parquet file into the folder; return the files."""
    make_own(folder)
    written = []
    with database(runs) as connection, workdirs.temporary() as private:
        for table in TABLES:
            made = private / f"{table}.parquet"
            connection.execute(f"COPY {table} TO '{made}' (FORMAT parquet, COMPRESSION zstd)")
            with made.open("rb") as source, replacing(folder / made.name) as target:
                shutil.copyfileobj(source, target)
            written.append(folder / made.name)
    return written
