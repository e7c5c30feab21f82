"""A comparison as JSON and as a table for a terminal."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.console import Group as Renderables
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from reports.compare import Comparison, Group, Row, Side
from reports.conclusion import change_lines, conclusion, gain, rate_lines, worsening
from reports.headline import SetRate
from reports.labels import in_words, value_text
from reports.metric_registry import metric_info
from reports.values import Quantity, Summary
from reports.words import (
    difference_text,
    headline_text,
    interval_text,
    metric_title,
    p_text,
    quantity_text,
    times,
)


def to_json(comparison: Comparison) -> dict[str, Any]:
    """The comparison as ``harness compare --json`` prints it.

    ``ratio`` is how much better B is: A/B where lower is better, else B/A. ``verdict``: how B
    is against A, by the ``headline``; see docs/statistics.md.
    """
    return {
        "schema": 1,
        "over": list(comparison.over),
        "alpha": comparison.alpha,
        "differences": [difference.to_json() for difference in comparison.differences],
        "excluded": [{"run_id": k, "reason": v} for k, v in comparison.excluded.items()],
        "unmatched": list(comparison.unmatched),
        "groups": [_group_json(group) for group in comparison.groups],
    }


def table(comparison: Comparison, everything: bool = False) -> RenderableType:
    """The comparison for a terminal: a table per group, then what must be known beside it.

    ``everything`` adds counters and operator times to headlines and details.
    """
    parts: list[RenderableType] = []
    for group in comparison.groups:
        parts += [_group_table(group, everything), *_headlines(group), _what(group), Text()]
    if comparison.differences:
        parts.append(Text("They differ in more than is compared:", style="bold red"))
        parts += [Text(f"  {difference}", style="red") for difference in comparison.differences]
    parts += [Text(f"Not compared, failed: {r} ({w})") for r, w in comparison.excluded.items()]
    parts += [Text(f"Not compared, without a counterpart: {text}") for text in comparison.unmatched]
    parts.append(
        Text(
            "* Of a percentile: the median of the repeats' own. "
            "Interval: of each row by itself, 95 % or the most the repeats allow, which is stated; "
            "one repeat has none. p: Holm over the headlines of an experiment, or its rows of a "
            "metric; "
            f"shown means p ≤ {comparison.alpha:g}.",
            style="dim",
        )
    )
    return Renderables(*parts)


def _group_table(group: Group, everything: bool) -> Table:
    context = ", ".join(
        in_words(f, v) if f.startswith("params.") else value_text(f, v)
        for f, v in group.context.items()
        if v != "null"
    )
    shown = Table(title=Text(f"{context}: {group.a.marked_name} against {group.b.marked_name}"))
    shown.add_column("metric")
    for name in (group.a.marked_name, group.b.marked_name):
        shown.add_column(Text(f"{name}, median*"), justify="right")
    for name in ("B is better by", "interval", "p (Holm)", "n"):
        shown.add_column(name, justify="right")
    shown.add_column("difference")
    for row in group.rows:
        role = metric_info(row.quantity, row.better).role
        if everything or role in ("headline", "detail"):
            shown.add_row(*(Text(cell) for cell in _cells(row)))
    return shown


def _cells(row: Row) -> list[str]:
    medians = [_median(row.a, row), _median(row.b, row)]
    estimate, judgement = row.estimate, row.judgement
    if estimate is None or judgement is None:
        return [metric_title(row), *medians, "", "", "", "", row.note]
    n = str(estimate.n_a) if estimate.pairing == "paired" else f"{estimate.n_a}, {estimate.n_b}"
    return [
        metric_title(row),
        *medians,
        times(estimate.ratio),
        interval_text(estimate),
        p_text(judgement.adjusted_p),
        n,
        difference_text(row),
    ]


def _median(summary: Summary | None, row: Row) -> str:
    resolution = metric_info(row.quantity, row.better).resolution
    return quantity_text(summary.median, row.unit, resolution) if summary else "–"


def _headlines(group: Group) -> list[Text]:
    a, b = group.a.marked_name, group.b.marked_name
    lines = [Text(f"verdict, {b} against {a}: {conclusion(group)}", style="bold")]
    lines += [Text(f"{line}.") for line in rate_lines(group)]
    decides, rate = (group.headline.quantity, group.headline.second), group.headline.rate
    lines += [
        Text(f"{metric_title(row)}: {headline_text(b, row)}", style="bold")
        for row in group.rows
        if row.quantity in decides
        or (not rate and metric_info(row.quantity, row.better).role == "headline")
    ]
    lines += [Text(f"{line}.") for line in change_lines(group)]
    if group.pairing == "unpaired":
        lines.append(Text(f"Compared without pairs: {group.why_unpaired}.", style="yellow"))
    lines += [Text(f"{remark}.", style="bold red") for remark in group.remarks]
    if group.left_out:
        lines.append(Text(f"Left out, without a pair: {', '.join(group.left_out)}"))
    for side in (group.a, group.b):
        if side.emulated:
            stand_ins = ", ".join(side.emulated)
            lines.append(Text(f"{side.name} is EMULATED ({stand_ins})", style="bold red"))
        if side.unknown:
            lines.append(Text(f"† answers not checked: {', '.join(side.unknown)}", style="yellow"))
    return lines


def _what(group: Group) -> Table:
    """The workload, its driver and every parameter, under the numbers they were measured with."""
    shown = Table(title=Text("What was run"), show_header=False, title_justify="left")
    for name, value in group.what:
        shown.add_row(Text(name), Text(value))
    return shown


def _group_json(group: Group) -> dict[str, Any]:
    return {
        "context": dict(group.context),
        "headline": _quantity_json(group.headline.quantity),
        "second": _quantity_json(group.headline.second),
        "verdict": conclusion(group),
        "set_rate": _rate_json(group.headline.rate),
        "worsening": _change_json(worsening(group)),
        "gain": _change_json(gain(group)),
        "a": _side_json(group.a),
        "b": _side_json(group.b),
        "pairing": group.pairing,
        "why_unpaired": group.why_unpaired,
        "left_out": list(group.left_out),
        "remarks": list(group.remarks),
        "what_was_run": dict(group.what),
        "rows": [_row_json(row) for row in group.rows],
    }


def _quantity_json(quantity: Quantity | None) -> dict[str, Any] | None:
    if quantity is None:
        return None
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
    if row is None or row.estimate is None or row.judgement is None:
        return None
    return {
        **(_quantity_json(row.quantity) or {}),
        "ratio": row.estimate.ratio,
        "outcome": row.judgement.outcome,
    }


def _side_json(side: Side) -> dict[str, Any]:
    return {
        "name": side.name,
        "runs": list(side.runs),
        "emulated": list(side.emulated),
        "unknown": list(side.unknown),
    }


def _row_json(row: Row) -> dict[str, Any]:
    document: dict[str, Any] = {
        "metric": row.quantity.name,
        "labels": dict(row.quantity.labels),
        "unit": row.unit,
        "better": row.better,
        "a": row.a.to_json() if row.a else None,
        "b": row.b.to_json() if row.b else None,
        "note": row.note,
    }
    if row.estimate is None or row.judgement is None:
        return document | {"ratio": None, "outcome": None}
    return document | {
        "ratio": row.estimate.ratio,
        "interval": [row.estimate.low, row.estimate.high],
        "confidence": row.estimate.confidence,
        "p": row.estimate.p,
        "adjusted_p": row.judgement.adjusted_p,
        "outcome": row.judgement.outcome,
        "repeats_needed": row.judgement.repeats_needed,
        "family": row.judgement.family,
    }
