"""Runs as time series for Apache Otava, which finds the points at which a metric changes.

A CSV file for each series, with a row for each run, and the configuration that names them. Otava
takes no empty cell, so a column is a metric that all runs of the series have. A run at a time limit
has no totals, which would leave none to the others either: it is left out, as failed ones are.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import yaml

from harness.sequences import grouped
from harness.store.runs import StoredRun
from reports.values import Quantity, duration_of, measured

_TIME = "time"
_ATTRIBUTES = ("run_id", "harness_version", "engine_version")
#: Otava's ``direction``.
_DIRECTIONS = {"higher": 1, "lower": -1}


def files(runs: Sequence[StoredRun], configuration: Path) -> dict[Path, str]:
    """The configuration and its CSV files, which lie next to it."""
    series = grouped(
        (_name(run), run)
        for run in sorted(runs, key=lambda one: int(one.head.started_unix_ns))
        if run.head.status != "failed" and not any(duration_of(q.name) for q in measured(run))
    )
    found: dict[Path, str] = {}
    tests: dict[str, Any] = {}
    for name, own in series.items():
        file = configuration.absolute().with_name(f"{name}.csv")
        values = [_values(run) for run in own]
        shared = [q for q in values[0] if all(q in one for one in values)]
        found[file] = _table(own, values, shared)
        tests[name] = {
            "type": "csv",
            "file": str(file),
            "time_column": _TIME,
            "attributes": list(_ATTRIBUTES),
            "metrics": {
                _column(q): {"column": _column(q), "direction": values[0][q][1]} for q in shared
            },
        }
    text = yaml.safe_dump({"tests": tests}, sort_keys=False, allow_unicode=True)
    return found | {configuration: text}


def _name(run: StoredRun) -> str:
    """``nightly.postgres.tpcc.ssd-both.1a2b3c``: what is the same in all runs of a series."""
    spec, host = run.spec, run.head.host
    place = spec.where.replace(",", "-").replace(" ", "-")
    same = sha256(f"{run.spec.series()} {host and host.host_id}".encode()).hexdigest()[:6]
    name = (run.result.experiment.name, spec.engine, spec.workload, place, same)
    return ".".join(name).replace("/", "-")


def _values(run: StoredRun) -> Mapping[Quantity, tuple[float, int]]:
    """Value and direction of each metric of which one direction is better."""
    return {
        quantity: (one.value, _DIRECTIONS[one.better])
        for quantity, one in measured(run).items()
        if one.value is not None and one.better in _DIRECTIONS
    }


def _column(quantity: Quantity) -> str:
    return ".".join((quantity.name, *(f"{name}={value}" for name, value in quantity.labels)))


def _table(
    runs: Sequence[StoredRun],
    values: Sequence[Mapping[Quantity, tuple[float, int]]],
    shared: Sequence[Quantity],
) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow((_TIME, *_ATTRIBUTES, *map(_column, shared)))
    for run, own in zip(runs, values, strict=True):
        began = datetime.fromtimestamp(run.result.started_unix_ns / 1e9, UTC)
        versions = (
            (run.manifest.harness.version, run.manifest.engine.version)
            if run.manifest
            else ("", "")
        )
        numbers = (f"{own[q][0]:.17g}" for q in shared)
        writer.writerow((f"{began:%Y-%m-%d %H:%M:%S %z}", run.run_id, *versions, *numbers))
    return stream.getvalue()
