"""Runs as one tidy CSV table: a row for every metric of every run."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from harness.reports.facts import emulated_tiers, placement_name
from harness.reports.values import measured
from harness.reports.words import utc
from harness.store import StoredRun

COLUMNS = (
    "run_id", "experiment", "started_utc", "workload", "engine", "engine_version", "placement",
    "host_mode", "block", "status", "emulated", "metric", "labels", "unit", "better", "value",
    "note",
)  # fmt: skip


def runs_as_csv(runs: Sequence[StoredRun]) -> str:
    """The table with a header; a run without metrics (a failed one) has one row without value."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(COLUMNS)
    for run in runs:
        about = _about(run)
        for row in _metrics(run):
            writer.writerow([_inert(cell) for cell in (*about, *row)])
    return stream.getvalue()


def _about(run: StoredRun) -> tuple[object, ...]:
    result, spec = run.run, run.run["spec"]
    return (
        run.run_id,
        result["experiment"]["name"],
        utc(result["started_unix_ns"]),
        spec["workload"],
        spec["engine"],
        run.manifest["engine"]["version"] if run.manifest else "",
        placement_name(spec),
        result["host_mode"],
        spec["block"],
        result["status"],
        "; ".join(f"{e['tier']} by {e['by']}" for e in emulated_tiers(result)),
    )


def _metrics(run: StoredRun) -> Iterable[tuple[object, ...]]:
    found = measured(run)
    for quantity, one in found.items():
        labels = ";".join(f"{name}={value}" for name, value in quantity.labels)
        value = "" if one.value is None else f"{one.value:.17g}"
        yield one.metric, labels, one.unit, one.better, value, one.note
    if not found:
        error = run.run["error"]
        yield "", "", "", "", "", f"{error['asked']}: {error['found']}" if error else "no metrics"


def _inert(cell: object) -> object:
    """A text that a spreadsheet would take for a formula gets an apostrophe before it."""
    if isinstance(cell, str) and cell[:1] in ("=", "+", "@", "\t", "\r"):
        return f"'{cell}"
    return cell
