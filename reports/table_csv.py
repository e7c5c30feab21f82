"""Tidy CSV tables: a row for every metric of every run, and one for every query of an arm."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from harness.store.run_row import run_row
from harness.store.runs import StoredRun
from harness.store.spec import JsonObject
from reports.arm import Arm
from reports.compared_rows import Row as CompareRow
from reports.formatting import utc
from reports.query_breakdown import KINDS, BreakdownRow
from reports.run_configuration import emulations
from reports.series import Panel
from reports.values import Quantity, measured


def runs_as_csv(runs: Sequence[StoredRun], panels: Sequence[Panel] = ()) -> str:
    """The table with a header; a run without metrics (a failed one) has one row without value.

    With ``panels``, each row also has what the report's tables show of its arm: the median and
    range of repeats, and the comparison with the baseline.
    """
    arms: dict[str, _OfArm] = {}
    for panel in panels:
        for arm in panel.arms:
            arms |= dict.fromkeys((run.run_id for run in arm.runs), _OfArm(panel, arm))
    about = ((run, _about(run)) for run in runs)
    return _csv(
        {**run_cells, **row}
        for run, run_cells in about
        for row in _metrics(run, arms.get(run.run_id))
    )


def queries_as_csv(breakdowns: Iterable[tuple[str, BreakdownRow]]) -> str:
    """The breakdown of every query, medians, by the panel's title."""
    return _csv({"panel": panel, **_query(row)} for panel, row in breakdowns)


#: What a spreadsheet takes for a formula, where a cell begins: also after characters that divide
#: cells or lines in other countries' settings, in any width, but not a number.
_FORMULA = re.compile(
    r"(^|[;\t\r\n])(?=[\s\"']*[=+\-@\uff1d\uff0b\uff0d\uff20])"
    r"(?![+-]?\d+(\.\d*)?([eE][+-]?\d+)?(;|$))"
)


def inert(cell: object) -> object:
    """Return a cell that no spreadsheet takes for a formula: an apostrophe makes it a text."""
    return _inert_text(cell) if isinstance(cell, str) else cell


@lru_cache(4096)  # a run's texts are in each of its rows
def _inert_text(text: str) -> str:
    return _FORMULA.sub(r"\1'", text)


def _csv(rows: Iterable[Mapping[str, object]]) -> str:
    """The rows under the names of their columns, which all rows share."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    for index, row in enumerate(rows):
        if not index:
            writer.writerow(row)
        writer.writerow(map(inert, row.values()))
    return stream.getvalue()


def _query(row: BreakdownRow) -> dict[str, object]:
    query, compared = row.query, row.compared
    numbers = {
        "duration_ns": query.duration.median if query.duration else None,
        "limit_ns": query.limit_ns,
        "runs_at_limit": query.limited,
        "ratio_to_baseline": compared.ratio if compared and compared.estimate else None,
    }
    fits = {
        "plan_over_measured_low": query.fit.lowest if query.fit else None,
        "plan_over_measured_high": query.fit.highest if query.fit else None,
    }
    return {
        "query": query.query,
        "arm": row.arm.marked_name,
        **{name: _number(value) for name, value in numbers.items()},
        "outcome": _outcome(compared) if compared else "",
        **{f"{kind}_ns": _number(query.kinds.get(kind)) for kind in KINDS},
        **{name: _number(value) for name, value in fits.items()},
        "why_plan_is_off": query.fit.why if query.fit else "",
        "tier_read_bytes": _by_tier(query.read),
        "tier_write_bytes": _by_tier(query.written),
        **{f"{name}_bytes": _number(query.size(name)) for name in _SIZES},
    }


_SIZES = ("io_read", "syscall_read", "spilled", "working_set")


def _by_tier(sizes: Mapping[str, float]) -> str:
    return ";".join(f"{tier}={size:.0f}" for tier, size in sorted(sizes.items()))


def _outcome(row: CompareRow) -> str:
    """``shown``, ``not shown``, or ``cannot be shown (6 of 11 repeats)``."""
    if row.decision is None or row.estimate is None:
        return ""
    if row.decision.outcome != "cannot be shown":
        return row.decision.outcome
    repeats = row.estimate.repeats
    return f"cannot be shown ({repeats} of {row.decision.repeats_needed} repeats)"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.17g}"


def _about(run: StoredRun) -> dict[str, object]:
    more: dict[str, object] = {
        "started_utc": utc(run.head.started_unix_ns),
        "params": _params(run.spec.params),
        "emulated": "; ".join(emulations([run])),
    }
    row = run_row(run, [name for name in _ABOUT if name not in more])
    return {name: more[name] if name in more else row[name] for name in _ABOUT}


#: Columns of a run; ``started_utc``, ``params`` and ``emulated`` are written as texts.
_ABOUT = (
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
)


def _params(params: JsonObject) -> str:
    """``warehouses=10;users=8;…``: all that have a value."""
    return ";".join(
        f"{name}={value if isinstance(value, str) else json.dumps(value, sort_keys=True)}"
        for name, value in params.items()
        if value is not None
    )


class _OfArm:
    """Cells of a report's tables for an arm's quantities."""

    def __init__(self, panel: Panel, arm: Arm) -> None:
        self._arm = arm
        groups = (group for group in panel.groups if group.b.name == arm.name)
        self._rows = {row.quantity: row for group in groups for row in group.rows}

    def cells(self, quantity: Quantity | None) -> dict[str, str]:
        """By column; empty ones where nothing is known."""
        cells = dict.fromkeys(_OF_ARM, "") | {"arm": self._arm.marked_name}
        if quantity is None:
            return cells
        if point := self._arm.point(quantity):
            summary = point.summary
            numbers = {
                "median": summary.median,
                "low": summary.low,
                "high": summary.high,
                "repeats": summary.n,
            }
            cells |= {name: _number(value) for name, value in numbers.items()}
        row = self._rows.get(quantity)
        if row is None or row.estimate is None or row.decision is None:
            return cells
        compared = {
            "times_better": row.ratio,
            "interval_low": row.estimate.low,
            "interval_high": row.estimate.high,
            "interval_confidence": row.estimate.confidence,
            "p": row.decision.adjusted_p,
        }
        cells |= {name: _number(value) for name, value in compared.items()}
        return cells | {"verdict": row.verdict if row.has_verdict else ""}


_OF_ARM = (
    "arm",
    "median",
    "low",
    "high",
    "repeats",
    "times_better",
    "interval_low",
    "interval_high",
    "interval_confidence",
    "p",
    "verdict",
)


def _metrics(run: StoredRun, of_arm: _OfArm | None) -> Iterator[dict[str, str]]:
    values = measured(run)
    for quantity, point in values.items():
        labels = ";".join(f"{name}={text}" for name, text in quantity.labels)
        number = _number(point.value)
        cells = (point.stored_as, labels, point.unit, point.better, number, point.note)
        more = of_arm.cells(quantity) if of_arm else {}
        yield dict(zip(_METRIC, cells, strict=True)) | more
    if not values:
        why = str(run.result.error or "no metrics")
        more = of_arm.cells(None) if of_arm else {}
        yield dict.fromkeys(_METRIC, "") | {"note": why} | more


_METRIC = ("metric", "labels", "unit", "better", "value", "note")
