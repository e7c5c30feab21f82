"""Tidy CSV tables: a row for every metric of every run, and one for every query of an arm."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from harness.store.runs import StoredRun
from reports.compare import Row as CompareRow
from reports.formatting import utc
from reports.query_breakdown import KINDS, BreakdownRow
from reports.run_configuration import emulated_tiers, placement_name
from reports.values import measured

COLUMNS = (
    "run_id",
    "experiment",
    "started_utc",
    "workload",
    "params",
    "driver",
    "engine",
    "engine_version",
    "placement",
    "host_mode",
    "block",
    "status",
    "emulated",
    "metric",
    "labels",
    "unit",
    "better",
    "value",
    "note",
)


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


QUERY_COLUMNS = (
    "panel",
    "query",
    "arm",
    "duration_ns",
    "limit_ns",
    "runs_at_limit",
    "ratio_to_baseline",
    "outcome",
    "scan_ns",
    "join_ns",
    "aggregate_ns",
    "sort_ns",
    "other_ns",
    "outside_ns",
    "plan_over_measured_low",
    "plan_over_measured_high",
    "why_plan_is_off",
    "tier_read_bytes",
    "tier_write_bytes",
    "io_read_bytes",
    "syscall_read_bytes",
    "spilled_bytes",
    "working_set_bytes",
)


def queries_as_csv(found: Iterable[tuple[str, BreakdownRow]]) -> str:
    """The breakdown of every query, medians, by the panel's title."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(QUERY_COLUMNS)
    for panel, row in found:
        writer.writerow([_inert(cell) for cell in (panel, *_query_cells(row))])
    return stream.getvalue()


def _query_cells(row: BreakdownRow) -> tuple[object, ...]:
    one, compared = row.anatomy, row.compared
    return (
        one.query,
        row.arm.marked_name,
        _number(one.duration.median if one.duration else None),
        _number(one.limit_ns),
        one.limited,
        _number(compared.estimate.ratio if compared and compared.estimate else None),
        _outcome(compared) if compared else "",
        *(_number(one.kinds.get(kind)) for kind in KINDS),
        _number(one.fit.lowest if one.fit else None),
        _number(one.fit.highest if one.fit else None),
        one.fit.why if one.fit else "",
        ";".join(f"{tier}={size:.0f}" for tier, size in sorted(one.read.items())),
        ";".join(f"{tier}={size:.0f}" for tier, size in sorted(one.written.items())),
        *(_number(one.size(n)) for n in ("io_read", "syscall_read", "spilled", "working_set")),
    )


def _outcome(row: CompareRow) -> str:
    """``shown``, ``not shown``, or ``cannot be shown (6 of 11 repeats)``."""
    if row.judgement is None or row.estimate is None:
        return ""
    if row.judgement.outcome != "cannot be shown":
        return row.judgement.outcome
    repeats = min(row.estimate.n_a, row.estimate.n_b)
    return f"cannot be shown ({repeats} of {row.judgement.repeats_needed} repeats)"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.17g}"


def _about(run: StoredRun) -> tuple[object, ...]:
    result, spec = run.run, run.run["spec"]
    return (
        run.run_id,
        result["experiment"]["name"],
        utc(result["started_unix_ns"]),
        spec["workload"],
        _params(spec["params"]),
        spec["driver"],
        spec["engine"],
        run.manifest["engine"]["version"] if run.manifest else "",
        placement_name(spec),
        result["host_mode"],
        spec["block"],
        result["status"],
        "; ".join(f"{e['tier']} by {e['by']}" for e in emulated_tiers(result)),
    )


def _params(params: Mapping[str, Any]) -> str:
    """``warehouses=10;users=8;…``: all that have a value."""
    return ";".join(
        f"{name}={value if isinstance(value, str) else json.dumps(value, sort_keys=True)}"
        for name, value in params.items()
        if value is not None
    )


def _metrics(run: StoredRun) -> Iterable[tuple[object, ...]]:
    found = measured(run)
    for quantity, one in found.items():
        labels = ";".join(f"{name}={value}" for name, value in quantity.labels)
        value = "" if one.value is None else f"{one.value:.17g}"
        yield one.metric, labels, one.unit, one.better, value, one.note
    if not found:
        error = run.run["error"]
        yield (
            "",
            "",
            "",
            "",
            "",
            f"{error['problem']}: {error['context']}" if error else "no metrics",
        )


def _inert(cell: object) -> object:
    """A text that a spreadsheet would take for a formula gets an apostrophe before it."""
    if isinstance(cell, str) and cell[:1] in ("=", "+", "@", "\t", "\r"):
        return f"'{cell}"
    return cell
