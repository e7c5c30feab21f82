"""Explanations as JSON, and as the templates show them (templates/explain.j2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reports.basis import apart
from reports.explain.comparisons import SUITE_ALIKE, Base, Explained
from reports.explain.known import Known, Missing
from reports.explain.score import LEAST_POINTS, Score
from reports.explain.slopes import Slope


@dataclass(frozen=True)
class ExplainedView:
    """Device and engine of every comparison of placements."""

    rows: tuple[Explained, ...]
    score: Score
    least_points: int = LEAST_POINTS
    suite_alike: tuple[float, float] = SUITE_ALIKE

    @property
    def commands(self) -> list[str]:
        """Those that give what is missing."""
        return commands(self.rows)

    @property
    def suite_over_run(self) -> tuple[float, ...]:
        """The ends of it where a suite was unlike the baseline's runs; empty otherwise."""
        found = [row.suite_over_run or 0.0 for row in self.rows if row.suite_unlike_run]
        return (min(found), max(found)) if found else ()

    @property
    def not_used(self) -> list[str]:
        """What-ifs of other conditions, and what they differ in."""
        every = (row.sensitivity for row in self.rows)
        return list(dict.fromkeys(k.detail for k in every if isinstance(k, Missing) and k.detail))

    @property
    def rests_on(self) -> tuple[str, Mapping[str, list[str]]]:
        """What all comparisons rest on; and what else, with those that do."""
        whole = (row for row in self.rows if not row.query)
        return apart((f"{row.where}, {row.b} against {row.a}", row.rests_on) for row in whole)


def commands(rows: Sequence[Explained]) -> list[str]:
    """Those that give what is missing, each once."""
    every = (k for row in rows for k in (row.device_ratio, row.sensitivity, row.predicted))
    return list(dict.fromkeys(c for k in every if isinstance(k, Missing) for c in k.commands))


def to_json(view: ExplainedView) -> dict[str, Any]:
    """``{comparisons, correlation, realised, models}``; docs/explain.md has the fields."""
    found, correlation = view.score, view.score.correlation
    return {
        "comparisons": [_row_json(row) for row in view.rows],
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
