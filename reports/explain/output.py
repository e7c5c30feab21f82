"""Explanations as JSON, and as the templates show them (templates/explain.j2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reports.basis import apart
from reports.explain.comparisons import SUITE_ALIKE, Explained
from reports.explain.known import Missing
from reports.explain.score import LEAST_POINTS, Score
from reports.json_form import as_json, attributes


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
            **attributes(correlation, "points", "rho"),
            "chance": None
            if correlation.rho is None
            else [correlation.chance_low, correlation.chance_high],
            "p": correlation.p,
            "note": _note(correlation.points),
        },
        "realised": [
            {
                **attributes(one, "by", "name", "unresolved"),
                "n": one.points,
                "median": one.median,
                **attributes(one.summary, "low", "high"),
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
        **attributes(row, "engine", "workload", "moved"),
        "query_class": row.query_class or None,
        **attributes(row, "device_ratio", "suite_over_run", "ceiling", "above_ceiling"),
        **attributes(row, "sensitivity", "by_waits", "predicted", "base", "measured"),
        "realised_fraction": as_json(row.realised),
        "rests_on": as_json(row.rests_on),
    }


def _name_json(row: Explained) -> dict[str, Any]:
    return {"where": row.where, "a": row.a, "b": row.b, "query": row.query or None}
