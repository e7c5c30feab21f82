"""Explanations as JSON, and as the templates show them (templates/explain.j2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import correlation, median
from typing import Any, Literal

from harness.models.make import SUITE
from reports.basis import apart
from reports.explain.comparisons import Explained
from reports.json_form import as_json, attributes
from reports.statistics import Missing, Value

#: With fewer rows, ranks say nothing.
_LEAST_ROWS = 3
_COLUMNS = ("where", "a", "b", "moved", "ceiling", "above_ceiling", "call", "device", "models")


@dataclass(frozen=True)
class RankCorrelation:
    """Spearman's coefficient of a column with the measured speed-ups.

    ``rows``: that have both; ``rho``: None of too few, or where a column has one value.
    """

    of: Literal["device", "modelled"]
    rows: int
    rho: float | None


@dataclass(frozen=True)
class ExplainedView:
    """Every comparison of placements, with what explains it."""

    rows: tuple[Explained, ...]

    @property
    def errors(self) -> list[float]:
        """The sizes of the errors of modelled speed-ups, ascending."""
        return sorted(abs(row.error.value) for row in self.rows if isinstance(row.error, Value))

    @property
    def median_error(self) -> float | None:
        """Of their sizes; None without any."""
        return median(self.errors) if self.errors else None

    @property
    def correlations(self) -> tuple[RankCorrelation, ...]:
        """Of the devices' figures, and of the modelled speed-ups, with the measured ones."""
        return (
            _correlated("device", [(row.device, row.measured) for row in self.rows]),
            _correlated("modelled", [(row.modelled, row.measured) for row in self.rows]),
        )

    @property
    def to_measure(self) -> str:
        """The command that measures the tiers that lack figures; empty without any."""
        missing = (row.device for row in self.rows if isinstance(row.device, Missing))
        tiers = dict.fromkeys(text.partition(" by ") for one in missing for text in one.tiers)
        named = (f" --tier {name}" + f" --emulate {name}" * bool(by) for name, by, _ in tiers)
        return f"harness run micro --suite {SUITE}{''.join(named)}" if tiers else ""

    @property
    def rests_on(self) -> tuple[str, Mapping[str, list[str]]]:
        """What all comparisons rest on; and what else, with those that do."""
        return apart((f"{row.where}, {row.b} against {row.a}", row.rests_on) for row in self.rows)


def _correlated(
    of: Literal["device", "modelled"], cells: Sequence[tuple[Value | Missing, Value | Missing]]
) -> RankCorrelation:
    pairs = [
        (one.value, other.value)
        for one, other in cells
        if isinstance(one, Value) and isinstance(other, Value)
    ]
    if len(pairs) < _LEAST_ROWS or any(len(set(side)) == 1 for side in zip(*pairs, strict=True)):
        return RankCorrelation(of, len(pairs), None)
    x, y = (list(_ranks(side)) for side in zip(*pairs, strict=True))
    return RankCorrelation(of, len(pairs), correlation(x, y))


def _ranks(values: Sequence[float]) -> Iterator[float]:
    """The rank of each; of equal ones the mean."""
    ordered = sorted(values)
    return (ordered.index(one) + (ordered.count(one) - 1) / 2 for one in values)


def to_json(view: ExplainedView) -> dict[str, Any]:
    """``{comparisons, errors, correlations}``; docs/explain.md has the fields."""
    errors = view.errors
    return {
        "comparisons": [
            attributes(row, *_COLUMNS, "modelled", "measured", "error", "rests_on")
            for row in view.rows
        ],
        "errors": {
            "rows": len(errors),
            "median": view.median_error,
            "largest": max(errors, default=None),
        },
        "correlations": as_json(view.correlations),
    }
