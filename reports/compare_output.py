"""A comparison as JSON, and as the template shows it on a terminal."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from reports.compare import Comparison, Group
from reports.compared_rows import Row
from reports.headline import SetRate
from reports.json_form import as_json, attributes
from reports.labels import in_words, value_text
from reports.values import Quantity


def to_json(comparison: Comparison, fail_above: float | None = None) -> dict[str, Any]:
    """The comparison as ``harness compare --json`` prints it.

    ``ratio`` is how much better B is: A/B where lower is better, else B/A. ``verdict``: how B
    is against A, by the ``headline``; see docs/statistics.md.
    """
    return {
        "schema": 1,
        **attributes(comparison, "over", "alpha", "differences"),
        "excluded": [{"run_id": k, "reason": v} for k, v in comparison.excluded.items()],
        "unmatched": as_json(comparison.unmatched),
        "groups": [_group_json(group, fail_above) for group in comparison.groups],
    }


def _group_json(group: Group, fail_above: float | None) -> dict[str, Any]:
    return {
        "context": dict(group.context),
        "headline": group.headline.quantity and _quantity_json(group.headline.quantity),
        "second": group.headline.second and _quantity_json(group.headline.second),
        "verdict": group.verdict,
        "regressed": None if fail_above is None else group.regressed(fail_above),
        "set_rate": _rate_json(group.headline.rate),
        "worsening": _change_json(group.worsening),
        "gain": _change_json(group.gain),
        **attributes(group, "a", "b", "pairing", "why_unpaired", "left_out"),
        **attributes(group, "warnings", "rests_on"),
        "what_was_run": dict(group.what),
        "rows": [_row_json(row) for row in group.rows],
    }


def _quantity_json(quantity: Quantity) -> dict[str, Any]:
    return {"metric": quantity.name, "labels": dict(quantity.labels)}


def _rate_json(rate: SetRate | None) -> dict[str, Any] | None:
    """Operations per second of either side; ``not_kept``: the sides that did not keep the rate."""
    if rate is None:
        return None
    sides = {
        name: None if side is None else asdict(side) | {"kept": side.kept}
        for name, side in (("a", rate.a), ("b", rate.b))
    }
    return {"by": rate.by, "not_kept": list(rate.not_kept), **sides}


def _change_json(row: Row | None) -> dict[str, Any] | None:
    if row is None or row.decision is None:
        return None
    changed = {"ratio": row.ratio, "outcome": row.decision.outcome}
    return _quantity_json(row.quantity) | changed


def _row_json(row: Row) -> dict[str, Any]:
    document = {
        **_quantity_json(row.quantity),
        **attributes(row, "unit", "better", "a", "b", "note"),
    }
    if row.estimate is None or row.decision is None:
        return document | {"ratio": None, "outcome": None}
    return document | {
        "ratio": row.ratio,
        "interval": [row.estimate.low, row.estimate.high],
        **attributes(row.estimate, "confidence", "p"),
        **attributes(row.decision, "adjusted_p", "outcome", "repeats_needed", "family"),
    }


@dataclass(frozen=True)
class ComparisonView:
    """As templates/compare_page.j2 shows it; ``everything``: counters and operator times, too."""

    comparison: Comparison
    everything: bool = False

    def rows(self, group: Group) -> list[Row]:
        """Those shown of a group."""
        roles = ("headline", "detail")
        return [row for row in group.rows if self.everything or row.info.role in roles]

    @staticmethod
    def context(group: Group) -> str:
        """What both sides are."""
        return ", ".join(
            in_words(f, v) if f.startswith("params.") else value_text(f, v)
            for f, v in group.context.items()
            if v != "null"
        )
