"""A comparison as JSON and as a table for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from rich.console import Group as Renderables
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from reports.basis import line
from reports.compare import Comparison, Group, Row, Side
from reports.formatting import (
    NOTHING,
    interval_text,
    p_text,
    quantity_text,
    significant,
    times,
)
from reports.headline import SetRate
from reports.labels import in_words, value_text
from reports.metric_registry import metric_info
from reports.values import Quantity, Summary

# JSON ---------------------------------------------------------------------------


def to_json(comparison: Comparison, fail_above: float | None = None) -> dict[str, Any]:
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
        "groups": [_group_json(group, fail_above) for group in comparison.groups],
    }


def _group_json(group: Group, fail_above: float | None) -> dict[str, Any]:
    return {
        "context": dict(group.context),
        "headline": _quantity_json(group.headline.quantity),
        "second": _quantity_json(group.headline.second),
        "verdict": group.verdict,
        "regressed": None if fail_above is None else group.regressed(fail_above),
        "set_rate": _rate_json(group.headline.rate),
        "worsening": _change_json(group.worsening),
        "gain": _change_json(group.gain),
        "a": _side_json(group.a),
        "b": _side_json(group.b),
        "pairing": group.pairing,
        "why_unpaired": group.why_unpaired,
        "left_out": list(group.left_out),
        "warnings": [warning.to_json() for warning in group.warnings],
        "rests_on": [fact.to_json() for fact in group.rests_on],
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
    if row is None or row.decision is None:
        return None
    named = _quantity_json(row.quantity) or {}
    return named | {"ratio": row.ratio, "outcome": row.decision.outcome}


def _side_json(side: Side) -> dict[str, Any]:
    return {
        name: value if isinstance(value, str) else list(value) for name, value in vars(side).items()
    }


def _row_json(row: Row) -> dict[str, Any]:
    document: dict[str, Any] = {
        **(_quantity_json(row.quantity) or {}),
        "unit": row.unit,
        "better": row.better,
        "a": row.a.to_json() if row.a else None,
        "b": row.b.to_json() if row.b else None,
        "note": row.note,
    }
    if row.estimate is None or row.decision is None:
        return document | {"ratio": None, "outcome": None}
    return document | {
        "ratio": row.estimate.ratio,
        "interval": [row.estimate.low, row.estimate.high],
        "confidence": row.estimate.confidence,
        "p": row.estimate.p,
        "adjusted_p": row.decision.adjusted_p,
        "outcome": row.decision.outcome,
        "repeats_needed": row.decision.repeats_needed,
        "family": row.decision.family,
    }


# Terminal -----------------------------------------------------------------------

_LEGEND = (
    "Median of a percentile: of the repeats' percentiles. Interval: of each row, 95 % or the most "
    "the repeats allow. p: Holm over the headlines of an experiment, or its rows of a metric; a "
    "difference is resolved at p ≤ {alpha:g}."
)


def table(comparison: Comparison, everything: bool = False) -> RenderableType:
    """The comparison for a terminal: a table and the verdict for each group.

    ``everything`` adds counters and operator times to headlines and details.
    """
    parts: list[RenderableType] = []
    for group in comparison.groups:
        parts += [_group_table(group, everything), *_verdict(group), _what(group), Text()]
    parts += [Text(f"also differs: {one}", style="bold red") for one in comparison.differences]
    parts += [Text(f"not compared, failed: {r} ({w})") for r, w in comparison.excluded.items()]
    parts += [Text(f"not compared, without a counterpart: {text}") for text in comparison.unmatched]
    parts.append(Text(_LEGEND.format(alpha=comparison.alpha), style="dim"))
    return Renderables(*parts)


def _group_table(group: Group, everything: bool) -> Table:
    context = ", ".join(
        in_words(f, v) if f.startswith("params.") else value_text(f, v)
        for f, v in group.context.items()
        if v != "null"
    )
    names = (group.a.marked_name, group.b.marked_name)
    shown = Table(title=Text(f"{context}: {names[1]} against {names[0]}"))
    shown.add_column("metric")
    for name in (*(f"{name}, median" for name in names), "B is better by", "interval", "p", "n"):
        shown.add_column(Text(name), justify="right")
    shown.add_column("verdict")
    for row in group.rows:
        role = metric_info(row.quantity, row.better).role
        if everything or role in ("headline", "detail"):
            shown.add_row(*(Text(cell) for cell in _cells(row)))
    return shown


def _cells(row: Row) -> list[str]:
    medians = [_median(row.a, row), _median(row.b, row)]
    estimate, decision = row.estimate, row.decision
    if estimate is None or decision is None:
        return [row.title, *medians, "", "", "", "", row.note]
    paired = estimate.pairing == "paired"
    return [
        row.title,
        *medians,
        times(estimate.ratio),
        interval_text(estimate),
        p_text(decision.adjusted_p),
        str(estimate.n_a) if paired else f"{estimate.n_a}, {estimate.n_b}",
        _verdict_text(row),
    ]


def _verdict_text(row: Row) -> str:
    """``not resolvable (6 repeats, 11 needed)``."""
    parts: list[str] = [row.verdict]
    if row.better == "none" and row.shown:
        parts = ["higher" if row.ratio > 1 else "lower"]
    if row.verdict == "not resolvable" and row.estimate and row.decision:
        repeats = min(row.estimate.n_a, row.estimate.n_b)
        parts = [f"{row.verdict} ({repeats} repeats, {row.decision.repeats_needed} needed)"]
    if row.contrary:
        parts.append("medians point the other way")
    if row.ready_made:
        parts.append("one side is ready-made by its driver")
    return "; ".join(parts)


def _median(summary: Summary | None, row: Row) -> str:
    resolution = metric_info(row.quantity, row.better).resolution
    return quantity_text(summary.median, row.unit, resolution) if summary else NOTHING


def _verdict(group: Group) -> Iterator[Text]:
    """The verdict, what decides it, and what limits it."""
    a, b = group.a.marked_name, group.b.marked_name
    yield Text(f"verdict, {b} against {a}: {group.verdict}", style="bold")
    for name, quantity in (
        ("headline", group.headline.quantity),
        ("second", group.headline.second),
    ):
        if row := group.row(quantity):
            yield _row_line(name, row)
    yield from _rates(group)
    for name, change in (("largest worsening", group.worsening), ("largest gain", group.gain)):
        if change is not None:
            yield _row_line(name, change)
    yield Text(f"rests on: {line(group.rests_on)}")
    if group.pairing == "unpaired":
        yield Text(f"unpaired: {group.why_unpaired}", style="yellow")
    for warning in group.warnings:
        yield Text(str(warning), style="bold red")
    if group.left_out:
        yield Text(f"left out, without a pair: {', '.join(group.left_out)}")
    for side_ in (group.a, group.b):
        if side_.emulated:
            yield Text(f"EMULATED: {side_.name} ({', '.join(side_.emulated)})", style="bold red")
        if side_.unknown:
            yield Text(f"† answers not checked: {', '.join(side_.unknown)}", style="yellow")


def _rates(group: Group) -> Iterator[Text]:
    """How each side kept the rate that was set."""
    if (rate := group.headline.rate) is None:
        return
    yield Text(f"the rate was set by {rate.by}: latency is compared instead of throughput")
    for name, side in ((group.a.marked_name, rate.a), (group.b.marked_name, rate.b)):
        if side is not None:
            rates = f"{significant(side.done_per_s)} of {significant(side.offered_per_s)} per s"
            yield Text(f"  {name}: {rates}, missed in {side.missed} of {side.runs} repeats")


def _row_line(name: str, row: Row) -> Text:
    if row.estimate is None:
        return Text(f"{name}: {row.title}: {row.note}")
    ratio = f"{times(row.ratio)} {interval_text(row.estimate)}"
    return Text(f"{name}: {row.title}: {ratio}, {_verdict_text(row)}")


def _what(group: Group) -> Table:
    """The workload, its driver and every parameter."""
    shown = Table(title=Text("What was run"), show_header=False, title_justify="left")
    for name, value in group.what:
        shown.add_row(Text(name), Text(value))
    return shown
