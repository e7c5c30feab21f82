"""Explanations as JSON, and as the templates show them (templates/explain.j2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reports.basis import apart
from reports.explain.comparisons import Explained
from reports.json_form import attributes


@dataclass(frozen=True)
class ExplainedView:
    """Every comparison of placements, with what explains it."""

    rows: tuple[Explained, ...]

    @property
    def rests_on(self) -> tuple[str, Mapping[str, list[str]]]:
        """What all comparisons rest on; and what else, with those that do."""
        return apart((f"{row.where}, {row.b} against {row.a}", row.rests_on) for row in self.rows)


def to_json(view: ExplainedView) -> dict[str, Any]:
    """``{comparisons}``; docs/explain.md has the fields."""
    return {
        "comparisons": [
            attributes(
                row, "where", "a", "b", "moved", "ceiling", "above_ceiling", "measured", "rests_on"
            )
            for row in view.rows
        ]
    }
