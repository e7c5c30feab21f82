"""A comparison as JSON, and as sections."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from harness.store.documents import as_json, attributes
from harness.warnings import RunWarning
from reports.answers import answer_blocks, gains_of
from reports.arm import Arm, unknown_checks
from reports.compare import Comparison, Group
from reports.compared_rows import Row
from reports.explain.causes import explanation
from reports.formatting import (
    NOTHING,
    interval_text,
    p_text,
    quantity_text,
    significant,
    times,
    verdict_text,
)
from reports.headline import SetRate
from reports.host_rates import compared_hosts, comparison_blocks
from reports.labels import in_words, value_text, what_was_run
from reports.other_plans import other_plans_text
from reports.price_list import PriceList
from reports.sections import (
    Block,
    Cell,
    Facts,
    Lines,
    Paragraph,
    Section,
    Span,
    Table,
    Text,
    badge,
    note,
)
from reports.values import Quantity


def to_json(
    comparison: Comparison, fail_above: float | None = None, prices: PriceList | None = None
) -> dict[str, Any]:
    """The comparison as ``harness compare --json`` prints it.

    ``ratio`` is how much better B is: A/B where lower is better, else B/A. ``verdict``: how B
    is against A, by the ``headline``; see docs/statistics.md.
    """
    by_limit: Sequence[Sequence[bool | None]] = [[None] * len(comparison.groups)] * 2
    if fail_above is not None:
        by_limit = [comparison.regressed(fail_above), comparison.inconclusive(fail_above)]
    return {
        "schema": 1,
        **attributes(comparison, "over", "alpha", "differences"),
        "excluded": [{"run_id": k, "reason": v} for k, v in comparison.excluded.items()],
        "unmatched": as_json(comparison.unmatched),
        "groups": [
            _group_json(*each) | {"hosts": as_json(compared_hosts(each[0], prices))}
            for each in zip(comparison.groups, *by_limit, strict=True)
        ],
        "gains_most": [gains.to_json() for gains in gains_of(comparison.groups)],
    }


def _group_json(group: Group, regressed: bool | None, inconclusive: bool | None) -> dict[str, Any]:
    return {
        "context": dict(group.context),
        "headline": group.headline.quantity and _quantity_json(group.headline.quantity),
        "second": group.headline.second and _quantity_json(group.headline.second),
        "verdict": group.verdict,
        "why": as_json(explanation(group).causes),
        "other_plans": list(group.other_plans),
        "model_error": group.model_error and attributes(group.model_error, "low", "high"),
        "regressed": regressed,
        "inconclusive": inconclusive,
        "set_rate": _rate_json(group.headline.rate),
        "worsening": _change_json(group.worsening),
        "gain": _change_json(group.gain),
        "a": _arm_json(group.a),
        "b": _arm_json(group.b),
        **attributes(group, "pairing", "why_unpaired", "left_out"),
        **attributes(group, "warnings", "rests_on"),
        "what_was_run": dict(group.what),
        "rows": [_row_json(row) for row in group.rows],
    }


def _arm_json(arm: Arm) -> dict[str, Any]:
    runs = [run.run_id for run in arm.runs]
    return {"name": arm.name, "runs": runs, **attributes(arm, "emulated", "unknown")}


def _quantity_json(quantity: Quantity) -> dict[str, Any]:
    return {"metric": quantity.name, "labels": dict(quantity.labels)}


def _rate_json(rate: SetRate | None) -> dict[str, Any] | None:
    """Operations per second of either side; ``not_kept``: the sides that did not keep the rate."""
    if rate is None:
        return None
    sides = {
        name: None if side is None else asdict(side) | {"kept": side.met}
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
        **attributes(row, "unit", "better", "a", "b", "why", "note"),
    }
    if row.estimate is None or row.decision is None:
        return document | {"ratio": None, "outcome": None}
    return document | {
        "ratio": row.ratio,
        "interval": [row.estimate.low, row.estimate.high],
        **attributes(row.estimate, "confidence", "p"),
        **attributes(row.decision, "adjusted_p", "outcome", "repeats_needed", "family"),
    }


def comparison_page(
    comparison: Comparison,
    everything: bool = False,
    usual: Mapping[str, str] | None = None,
    following: str = "",
    prices: PriceList | None = None,
    charts: Iterable[Block] = (),
) -> Iterator[Block]:
    """Yield the blocks that ``harness compare`` prints, the answers first.

    ``everything``: counters and operator times, too. ``usual``: values that are not shown
    (:func:`what_was_run`). ``following``: the command that comes next. ``prices``: of hosts.
    ``charts``: what follows the answers on a page.
    """
    titles = [_context(group) for group in comparison.groups]
    several = len(titles) > 1
    groups = zip(titles, comparison.groups, strict=True)
    answers = [(title if several else "", group) for title, group in groups]
    yield from (Paragraph(f"{gains.text}.") for gains in gains_of(comparison.groups))
    yield from answer_blocks(answers, following)
    yield from charts
    for difference in comparison.differences:
        yield Paragraph(f"also differs: {difference}", "warning")
    for run, why in comparison.excluded.items():
        yield Paragraph(f"not compared, failed: {run} ({why})")
    for left in comparison.unmatched:
        yield Paragraph(f"not compared, without a counterpart: {left}")
    for title, group in zip(titles, comparison.groups, strict=True):
        if hosts := compared_hosts(group, prices):
            yield from comparison_blocks(hosts)
        yield from _group_blocks(title, group, everything, usual)
    yield note(
        "Values are medians; of a percentile, of the repeats' percentiles. Interval: of each row, "
        "95 %, or what is printed next to it. p: Holm over the headlines of an experiment, or its "
        f"rows of a metric; a difference is resolved at p ≤ {comparison.alpha}."
    )


#: What a reader expects, and so is not said.
_USUAL = {("host_mode", "Default"), ("tuning", "computed")}


def _context(group: Group) -> str:
    return ", ".join(
        in_words(f, v) if f.startswith("params.") else value_text(f, v)
        for f, v in group.context.items()
        if v != "null" and (f, v) not in _USUAL
    )


def _group_blocks(
    title: str, group: Group, everything: bool, usual: Mapping[str, str] | None
) -> Iterator[Block]:
    a, b = group.a.marked_name, group.b.marked_name
    if group.headline.rate:
        yield Paragraph(
            f"The rate was set by {group.headline.rate.by}: latency is compared instead of "
            f"throughput. {rate_text(group)}"
        )
    if group.pairing == "unpaired":
        yield Paragraph(f"unpaired: {group.why_unpaired}", "caution")
    yield Lines("items", [str(warning) for warning in group.warnings])
    if group.left_out:
        yield Paragraph(f"left out, without a pair: {', '.join(group.left_out)}")
    for side in (group.a, group.b):
        if side.unknown:
            checks = f"† checks unknown ({unknown_checks(side.runs)})"
            yield Paragraph(f"{checks}: {', '.join(side.unknown)}", "caution")
    shown = [r for r in group.rows if everything or r.info.role in ("headline", "detail")]
    first = [group.deciding, group.row(group.headline.second)]
    shown.sort(key=lambda row: first.index(row) if row in first else len(first))
    yield Table(
        f"{title}: {b} against {a}",
        ("metric", a, b, "B is better by", "p", "n", "verdict"),
        [_cells(row, group.other_plans) for row in shown if row.estimate],
        "numbers",
    )
    without = [f"{row.title} ({row.note or 'no ratio'})" for row in shown if not row.estimate]
    if without:
        yield note(f"Not compared: {'; '.join(without)}.")
    facts = what_was_run([(side.name, side.runs) for side in (group.a, group.b)], usual)
    more = "; -v prints every parameter" if usual else ""
    yield Section(f"What was run{more}", [Facts(facts)], kind="sub")


def _cells(row: Row, other_plans: Sequence[str]) -> list[Cell]:
    assert row.estimate is not None and row.decision is not None
    medians = [
        quantity_text(side.median, row.unit, row.info.resolution) if side else NOTHING
        for side in (row.a, row.b)
    ]
    better = f"{times(row.ratio)} {interval_text(row.estimate)}"
    p = p_text(row.decision.adjusted_p) if row.has_verdict else NOTHING
    verdict: list[str | Span] = [badge(row.verdict)] if row.has_verdict else []
    verdict += [f"; {text}" for text in remarks(row)]
    if row.quantity.label("query") in other_plans:
        verdict.append("; other plan")
    return [row.title, *medians, better, p, repeats_text(row), tuple(verdict)]


def comparison_table(title: str, named_groups: Iterable[tuple[str, Group]]) -> Table:
    """The headline of every comparison, by where it is of."""
    named_groups = list(named_groups)
    baselines = list(dict.fromkeys(group.a.marked_name for _, group in named_groups))
    rows = []
    for where, group in named_groups:
        row, compared = group.deciding, group.b.marked_name
        if len(baselines) > 1:
            compared += f" against {group.a.marked_name}"
        verdict: Cell = badge(group.verdict, group.emulated)
        if plans := other_plans_text(group.other_plans):
            verdict = (badge(group.verdict, group.emulated), f"; {plans}")
        cells: list[Cell] = [where, compared, verdict]
        if row and row.estimate:
            medians = NOTHING
            if row.a and row.b:
                sides = (row.a.median, row.b.median)
                medians = " → ".join(quantity_text(value, row.unit) for value in sides)
            ratio = f"{times(row.ratio)} {interval_text(row.estimate)}"
            cells += [ratio, row.title, medians, repeats_text(row)]
        else:
            note_text = row.note if row else "no single result stands for the whole"
            cells += [NOTHING, note_text, NOTHING, NOTHING]
        rows.append([*cells, change_text(group.worsening)])
    head = ("engine and workload", "measured on", "verdict", "speed-up", "by", "medians", "repeats")
    against = f" against {baselines[0]}" if len(baselines) == 1 else ""
    return Table(title + against, (*head, "largest worsening"), rows, "answers")


def change_text(row: Row | None) -> str:
    """``query time, query 6: 1.90× (faster)``."""
    if row is None:
        return NOTHING
    if row.estimate is None:
        return f"{row.title}: {row.note}"
    return f"{row.title}: {times(row.ratio)} ({verdict_text(row.verdict)})"


# Words of a comparison, on every page -------------------------------------------------


def verdict_cell(row: Row, notes: bool = True) -> tuple[str | Span, ...]:
    """The verdict of a row, with what must be known of it; ``notes``: with the row's own, too."""
    parts: list[str | Span] = []
    if row.estimate and row.has_verdict:
        parts.append(badge(row.verdict))
        if row.verdict == "not resolvable" and row.decision:
            n = row.estimate.repeats
            parts.append(f" ({n} of {row.decision.repeats_needed} repeats)")
        parts += [f"; {text}" for text in remarks(row, notes)]
    if row.note and (notes or not row.estimate):
        parts.append(f"; {row.note}" if parts else row.note)
    return tuple(parts)


def remarks(row: Row, notes: bool = False) -> Iterator[str]:
    """Yield the notes on a row's verdict, without its own note, which ``notes`` shows."""
    if row.has_verdict and row.contrary:
        yield "the medians point the other way"
    if row.has_verdict and row.ready_made and not notes:
        yield "one side is ready-made by its driver"


def repeats_text(row: Row) -> str:
    """``6``, ``6, 5`` or ``6 of 11`` repeats of a row with an estimate."""
    assert row.estimate is not None
    n_a, n_b = row.estimate.n_a, row.estimate.n_b
    repeats = f"{n_a}" if row.estimate.pairing == "paired" else f"{n_a}, {n_b}"
    if row.verdict == "not resolvable" and row.decision:
        return f"{repeats} of {row.decision.repeats_needed}"
    return repeats


def rate_text(group: Group) -> str:
    """How each side kept the rate, as far as its driver reports that."""
    rate, text = group.headline.rate, ""
    sides = {group.a.marked_name: rate and rate.a, group.b.marked_name: rate and rate.b}
    for name, side in sides.items():
        if side:
            done, offered = significant(side.done_per_s), significant(side.offered_per_s)
            partly = side.missed and side.missed != side.runs
            missed = f", missed in {side.missed} of {side.runs} repeats" if partly else ""
            phrase = "kept" if side.met else "did not keep"
            text += f"{name} {phrase} the rate ({done} of {offered} per s{missed}). "
    return text


def warning_lines(warnings: Sequence[RunWarning]) -> Lines:
    """Each with its code and its fix."""
    return Lines("items", [_warning(warning) for warning in warnings])


def _warning(warning: RunWarning) -> Text:
    text = f"{warning.problem}: {warning.context}{f'. Fix: {warning.hint}' if warning.hint else ''}"
    return (Span(warning.code, "code"), f" {text}") if warning.code else text


def rests_on_others(shared: str, others: Mapping[str, Sequence[str]]) -> Iterator[Block]:
    """Yield what only some comparisons rest on, with their names."""
    also = " also" if shared else ""
    for text, compared in others.items():
        verb = "rests" if len(compared) == 1 else "rest"
        yield note(f"{'; '.join(compared)}: {verb}{also} on {text}.")
