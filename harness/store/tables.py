"""Runs as tables: DuckDB builds them for ``harness runs sql``, and writes them as Parquet files.

docs/results.md has the columns and their units.
"""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from harness import hdr
from harness.store.result import Metric
from harness.store.runs import StoredRun
from harness.store.spec import JsonObject
from harness.supervise import workdirs
from harness.supervise.user_files import make_own, replacing

Row = dict[str, Any]
_PERCENTILES = {"p50": 50.0, "p95": 95.0, "p99": 99.0, "p99_9": 99.9}


def _with(row: Row, more: JsonObject, prefix: str) -> Row:
    """Add columns to a row; one whose name is taken gets the prefix."""
    return row | {f"{prefix}{name}" if name in row else name: v for name, v in more.items()}


def _run_rows(run: StoredRun) -> Iterator[Row]:
    head, spec, manifest = run.result, run.spec, run.manifest
    row = {
        "run_id": run.run_id,
        "status": head.status,
        "experiment": head.experiment.name,
        "block": spec.block,
        "workload": spec.workload,
        "engine": spec.engine,
        "engine_version": manifest.engine.version if manifest else None,
        "driver": spec.driver,
        "placement": spec.placement.name if spec.placement else spec.label,
        "arm": spec.label if spec.placement else None,
        "host_id": manifest.host["host_id"] if manifest else None,
        "started_unix_ns": head.started_unix_ns,
        "duration_ns": head.duration_ns,
        "data_bytes": head.data_bytes,
        "memory_bytes": head.memory_bytes,
        "emulate": ", ".join(spec.emulate),
        "modelled": ", ".join(head.modelled),
        "plant": ", ".join(spec.plant),
        "memory_limit_bytes": spec.memory_limit_bytes,
        "threads": spec.threads,
        "seed": spec.seed,
    }
    settings = {f"setting_{name}": str(value) for name, value in spec.settings.items()}
    yield _with(row, spec.params, "param_") | settings


def _metrics(run: StoredRun) -> Iterator[tuple[Row, Metric]]:
    for number, metric in enumerate(run.result.metrics):
        row = {"run_id": run.run_id, "number": number, "metric": metric.name}
        yield row, metric


def _metric_rows(run: StoredRun) -> Iterator[Row]:
    for row, metric in _metrics(run):
        found: Row = {"unit": metric.unit, "better": metric.better}
        found |= {"value": None, "count": 1, **dict.fromkeys(_PERCENTILES)}
        if metric.hdr is None:
            count = 1 if metric.samples is None else len(metric.samples)
            found |= {"value": metric.median, "count": count}
        else:
            times = hdr.decode(metric.hdr)
            found |= {"count": times.total} | {
                name: times.percentile(percent)
                for name, percent in _PERCENTILES.items()
                if times.total >= hdr.fewest(percent)
            }
        yield _with(row | found, metric.labels, "label_")


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


_METRIC = "run_id VARCHAR, number BIGINT, metric VARCHAR"
#: Rows of a run by table, and its columns; of runs and metrics those without any row.
_TABLES: Mapping[str, tuple[Callable[[StoredRun], Iterable[Row]], str]] = {
    "runs": (_run_rows, "run_id VARCHAR"),
    "metrics": (_metric_rows, f"{_METRIC}, value DOUBLE"),
    "samples": (_sample_rows, f"{_METRIC}, sample BIGINT, value DOUBLE"),
    "histograms": (_histogram_rows, f"{_METRIC}, low_ns BIGINT, high_ns BIGINT, count BIGINT"),
    "series": (
        _series_rows,
        "run_id VARCHAR, source VARCHAR, monotonic_ns BIGINT, name VARCHAR, value DOUBLE",
    ),
}
#: Tables whose columns follow from the runs.
_OPEN = ("runs", "metrics")
TABLES = tuple(_TABLES)


def database(
    runs: Sequence[StoredRun], tables: Collection[str] = TABLES
) -> duckdb.DuckDBPyConnection:
    """Return a database in memory with the tables of these runs."""
    connection = duckdb.connect(":memory:")
    with workdirs.temporary() as folder:
        for table in tables:
            rows_of, columns = _TABLES[table]
            file = folder / table
            with file.open("w", encoding="utf-8", newline="") as stream:
                for run in runs:
                    if table in _OPEN:
                        stream.writelines(json.dumps(row) + "\n" for row in rows_of(run))
                    else:  # many rows: CSV takes a fraction of the time
                        rows = csv.writer(stream, lineterminator="\n")
                        rows.writerows(row.values() for row in rows_of(run))
            # However many keys rows have, and however few rows have each: a key is a column.
            options = "format='newline_delimited', sample_size=-1, map_inference_threshold=-1"
            if file.stat().st_size == 0:
                connection.execute(f"CREATE TABLE {table} ({columns})")
            elif table in _OPEN:
                source = f"SELECT * FROM read_json('{file}', {options})"
                connection.execute(f"CREATE TABLE {table} AS {source}")
            else:
                connection.execute(f"CREATE TABLE {table} ({columns})")
                connection.execute(f"COPY {table} FROM '{file}' (FORMAT csv, HEADER false)")
    return connection


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
