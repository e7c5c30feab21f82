"""Explanations as text and as JSON, for the terminal and the report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from reports.basis import apart
from reports.explain.comparisons import SUITE_ALIKE, Base, Explained
from reports.explain.known import Known, Missing, Reason
from reports.explain.score import LEAST_POINTS, Correlation, ModelScore, Realised, Score
from reports.explain.slopes import Slope
from reports.formatting import NOTHING, percent, significant, times_at_most

HEAD = (
    "engine and workload",
    "compared",
    "device ratio",
    "ceiling",
    "sensitivity",
    "predicted",
    "measured",
    "realised fraction",
)
#: Of a device ratio whose suite was unlike the runs.
_MARK = "*"
_WHY: Mapping[Reason, str] = {
    "no trace": "no I/O trace",
    "no suite": "needs harness run micro --like",
    "suite incomplete": "the suite lacks calls of the run",
    "no waits": "no waits",
    "no ceiling": "none",
    "a rate was set": "a rate was set",
    "memory moved": "memory is no device of files",
    "delays planted": "delays were planted",
    "no part moved": "no part is on another tier",
    "no what-if": "needs harness whatif",
    "what-if unlike A": "the what-if was not like A's runs",
    "not linear": "not linear: not extrapolated",
    "not monotonic": "not monotonic: not extrapolated",
    "below zero": "below zero: not extrapolated",
    "below floor": "below the time spent elsewhere: not extrapolated",
    "too uncertain": "too uncertain: measure longer",
    "above the ceiling": "above the ceiling: not extrapolated",
    "not measured": "not measured",
    "not resolvable": "not resolvable",
}


def cells(row: Explained) -> tuple[str, ...]:
    """One for each of ``HEAD``."""
    ceiling = row.ceiling
    at_most = "at most " + times_at_most(ceiling.value) if not isinstance(ceiling, Missing) else ""
    above = "; measured above it: one of the two is wrong" if row.above_ceiling else ""
    query = f", query {row.query}" if row.query else ""
    return (
        row.where + query + (f" ({row.query_class})" if row.query_class else ""),
        f"{row.b} against {row.a}",
        known_text(row.device_ratio, "×") + (f" {_MARK}" if row.suite_unlike_run else ""),
        at_most + above or known_text(ceiling),
        _slopes_text(row.sensitivity),
        _predicted_text(row),
        known_text(row.measured, "×"),
        known_text(row.realised),
    )


def commands(rows: Sequence[Explained]) -> list[str]:
    """Those that give what is missing, each once."""
    every = (k for row in rows for k in (row.device_ratio, row.sensitivity, row.predicted))
    return list(dict.fromkeys(c for k in every if isinstance(k, Missing) for c in k.commands))


def suite_note(rows: Sequence[Explained]) -> str:
    """What the mark of a device ratio means; empty without one."""
    found = [row.suite_over_run or 0.0 for row in rows if row.suite_unlike_run]
    if not found:
        return ""
    ends = dict.fromkeys(significant(end) for end in (min(found), max(found)))
    low, high = SUITE_ALIKE
    return (
        f"{_MARK}: on the baseline's own tiers, the suite's calls took {' to '.join(ends)} times "
        f"as long as in its runs (alike: {low} to {high}): their device ratio may be another one"
    )


def not_used(rows: Sequence[Explained]) -> list[str]:
    """What-ifs of other conditions, and what they differ in."""
    every = (row.sensitivity for row in rows)
    return list(dict.fromkeys(k.detail for k in every if isinstance(k, Missing) and k.detail))


def known_text(known: Known, unit: str = "") -> str:
    """``1.90× [1.60, 2.20]``, with its coverage where that is below 95 %; or why not known."""
    if isinstance(known, Missing):
        return _WHY[known.why]
    text = significant(known.value) + unit
    if known.low is None or known.high is None:
        return text
    coverage = "" if known.covered else f" at {percent(known.confidence)}"
    return f"{text} [{significant(known.low)}, {significant(known.high)}]{coverage}"


def correlation_text(one: Correlation) -> str:
    """Of device ratio and speed-up."""
    if one.rho is None or one.chance_low is None or one.chance_high is None or one.p is None:
        return "device ratios do not differ" if one.points >= LEAST_POINTS else few(one.points)
    chance = f"[{one.chance_low:.2f}, {one.chance_high:.2f}]"
    return f"{one.rho:.2f} over {one.points} points (by chance {chance}, p = {one.p:.2g})"


def few(points: int) -> str:
    """In place of a coefficient or an average."""
    return f"too few points ({points} of {LEAST_POINTS})"


def realised_cells(one: Realised) -> tuple[str, ...]:
    """Of which points, median, range, number, and how many are not resolvable."""
    found = one.summary
    name = "log and data" if (one.by, one.name) == ("moved", "all") else one.name
    return (
        f"{one.by}: {name}",
        few(one.points) if one.median is None else significant(one.median),
        f"{significant(found.low)} – {significant(found.high)}" if found else NOTHING,
        str(one.points),
        str(one.unresolved),
    )


REALISED_HEAD = ("realised fraction by", "median", "range", "points", "not resolvable")
MODEL_HEAD = ("model", "points", "median error", "largest error")
_MODELS = {
    "device ratio": "device ratio alone",
    "waits": "waits and device ratio (Amdahl)",
    "causal": "causal (what-if)",
}


def model_cells(one: ModelScore) -> tuple[str, ...]:
    """Errors of the predicted latency."""
    n = len(one.errors)
    if one.median is None or one.largest is None:
        return _MODELS[one.model], str(n), few(n), few(n)
    return _MODELS[one.model], str(n), percent(one.median), percent(one.largest)


def table(rows: Sequence[Explained], found: Score) -> RenderableType:
    """For the terminal."""
    return Lines(
        _table("Device and engine", HEAD, [cells(row) for row in rows]),
        Text(
            f"rank correlation of device ratio and speed-up: {correlation_text(found.correlation)}"
        ),
        *([Text(note)] if (note := suite_note(rows)) else []),
        *map(Text, _basis(rows)),
        *(Text(f"missing: {command}") for command in commands(rows)),
        *(Text(f"not used: {why}") for why in not_used(rows)),
        *(
            [_table("", REALISED_HEAD, [realised_cells(one) for one in found.realised])]
            if found.realised
            else []
        ),
        _table(
            "Errors of latencies predicted without B's runs",
            MODEL_HEAD,
            [model_cells(one) for one in found.models],
        ),
    )


def _basis(rows: Sequence[Explained]) -> Iterator[str]:
    shared, more = apart(
        (f"{row.where}, {row.b} against {row.a}", row.rests_on) for row in rows if not row.query
    )
    if shared:
        yield f"each comparison rests on: {shared}"
    for text, names in more.items():
        yield f"{'; '.join(names)} rests{' also' if shared else ''} on: {text}"


def to_json(rows: Sequence[Explained], found: Score) -> dict[str, Any]:
    """``{comparisons, correlation, realised, models}``; docs/explain.md has the fields."""
    correlation = found.correlation
    return {
        "comparisons": [_row_json(row) for row in rows],
        "correlation": {
            "points": correlation.points,
            "rho": correlation.rho,
            "chance": None
            if correlation.rho is None
            else [correlation.chance_low, correlation.chance_high],
            "p": correlation.p,
            "note": _note(correlation.points),
        },
        "realised": [
            {
                "by": one.by,
                "name": one.name,
                "unresolved": one.unresolved,
                "n": one.points,
                "median": one.median,
                "low": one.summary.low if one.summary else None,
                "high": one.summary.high if one.summary else None,
                "note": _note(one.points),
            }
            for one in found.realised
        ],
        "models": {
            one.model: {
                "points": len(one.errors),
                "median_error": one.median,
                "largest_error": one.largest,
                "note": _note(len(one.errors)),
                "errors": [{**_name_json(each.point), "error": each.error} for each in one.errors],
            }
            for one in found.models
        },
    }


def _note(points: int) -> str | None:
    return "too few points" if points < LEAST_POINTS else None


def _row_json(row: Explained) -> dict[str, Any]:
    return {
        **_name_json(row),
        "engine": row.engine,
        "workload": row.workload,
        "moved": list(row.moved),
        "query_class": row.query_class or None,
        "device_ratio": _known_json(row.device_ratio),
        "suite_over_run": row.suite_over_run,
        "ceiling": _known_json(row.ceiling),
        "above_ceiling": row.above_ceiling,
        "sensitivity": _missing_json(row.sensitivity)
        if isinstance(row.sensitivity, Missing)
        else [_slope_json(one) for one in row.sensitivity],
        "by_waits": _known_json(row.by_waits),
        "predicted": _known_json(row.predicted),
        "base": _base_json(row.base),
        "measured": _known_json(row.measured),
        "realised_fraction": _known_json(row.realised),
        "rests_on": [fact.to_json() for fact in row.rests_on],
    }


def _name_json(row: Explained) -> dict[str, Any]:
    return {"where": row.where, "a": row.a, "b": row.b, "query": row.query or None}


def _known_json(known: Known) -> dict[str, Any]:
    if isinstance(known, Missing):
        return _missing_json(known)
    confidence = None if known.low is None else known.confidence
    return {"value": known.value, "low": known.low, "high": known.high, "confidence": confidence}


def _missing_json(one: Missing) -> dict[str, Any]:
    return {
        "value": None,
        "why": one.why,
        "commands": list(one.commands),
        "detail": one.detail or None,
    }


def _base_json(base: Base | None) -> dict[str, Any] | None:
    if base is None:
        return None
    return {"latency_ns": base.latency.to_json(), "measured_ns": base.measured_ns}


def _slope_json(one: Slope) -> dict[str, Any]:
    return {
        "part": one.part,
        "operation": one.operation,
        "query": one.query or None,
        "slope": one.line.fit.slope.to_json(),
        "linear": one.linear,
        "run": one.run_id,
    }


def _predicted_text(row: Explained) -> str:
    """``1.37× [1.20, 1.60], of 35.9 ms (measured: 36.6 ms)``."""
    text = known_text(row.predicted, "×")
    if row.base is None:
        return text
    return f"{text}{': ' if isinstance(row.predicted, Missing) else ', of '}{row.base}"


def _slopes_text(found: tuple[Slope, ...] | Missing) -> str:
    if isinstance(found, Missing):
        return _WHY[found.why]
    return ", ".join(map(_slope_text, found))


def _slope_text(one: Slope) -> str:
    of_query = f" of query {one.query}" if one.query else ""
    slope = one.line.fit.slope
    interval = f"{significant(slope.value)} [{significant(slope.low)}, {significant(slope.high)}]"
    return f"{one.part}.{one.operation}{of_query} {interval}{'' if one.linear else ' (not linear)'}"


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    shown = Table(title=Text(title) if title else None, title_justify="left")
    for name in head:
        shown.add_column(Text(name))
    for row in rows:
        shown.add_row(*(Text(cell) for cell in row))
    return shown
