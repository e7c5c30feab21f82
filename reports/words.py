"""Numbers and findings in words, the same in tables, charts and sentences."""

from __future__ import annotations

import math
from datetime import UTC, datetime

from harness.units import format_bytes, format_ns
from reports.compare import Row
from reports.metric_registry import metric_info
from reports.statistics import Estimate

EMULATED = "EMULATED"
#: Between parts of a table's cell: a page shows one a line, Markdown all in one.
LINE = ";\n"


def significant(value: float) -> str:
    """Three significant digits, never an exponent: ``1.90``, ``12.3``, ``1,230``."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    rounded = float(f"{value:.2e}")
    decimals = max(0, 2 - math.floor(math.log10(abs(rounded))))
    return f"{rounded:,.{decimals}f}"


def quantity_text(value: float, unit: str, resolution: float = 0.0) -> str:
    """A value with its unit: times and sizes scaled, counts whole, others with three digits.

    ``resolution``: the smallest step the value can take, in its unit; what is below it
    is not known to be nothing.
    """
    if 0 <= value < resolution:
        return f"< {quantity_text(resolution, unit)}"
    if unit == "ns":
        return format_ns(value)
    if unit in ("B", "bytes"):
        return format_bytes(value)
    if unit == "B/s":
        return f"{format_bytes(value)}/s"
    if unit == "1":  # a pure number, as in UCUM and OpenMetrics
        return f"{value:,.0f}" if value == int(value) else significant(value)
    return f"{significant(value)} {unit}".strip()


def range_text(low: float, high: float, unit: str, resolution: float = 0.0) -> str:
    """``2.36 – 7.72 ms``; each with its unit where these differ, one value where they agree."""
    ends = [quantity_text(value, unit, resolution) for value in (low, high)]
    if ends[0] == ends[1]:
        return ends[0]
    (first, _, shared), (_, _, other) = (end.partition(" ") for end in ends)
    return f"{first if shared == other else ends[0]} – {ends[1]}"


def with_article(noun: str) -> str:
    """``a transaction``, ``an operation``."""
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def times(ratio: float) -> str:
    """``1.90×``."""
    return f"{significant(ratio)}×"


def interval_text(estimate: Estimate) -> str:
    """``[1.60, 2.20]``, with what it covers where that is less than 95 %."""
    if estimate.low is None or estimate.high is None:
        return "(one repeat: no interval)"
    text = f"[{significant(estimate.low)}, {significant(estimate.high)}]"
    return text if estimate.confidence >= 0.9499 else f"{text} at {percent(estimate.confidence)}"


def coverage_text(estimate: Estimate) -> str:
    """``the interval covers 87.5 %``; ``one repeat: no interval``."""
    if estimate.low is None or estimate.high is None:
        return "one repeat: no interval"
    return f"the interval covers {percent(estimate.confidence)}"


def percent(share: float) -> str:
    """``95 %``, ``96.9 %``."""
    return f"{100 * share:.3g} %"


def p_text(p: float) -> str:
    """``0.031``; small ones as a bound."""
    return "< 0.0001" if p < 0.0001 else f"{p:.2g}"


def speedup_text(name: str, row: Row) -> str:
    """``pmem-both is 1.90× faster [1.60, 2.20]``; slower with the reciprocal."""
    estimate = row.estimate
    if estimate is None:
        return f"{name}: {row.note or 'no ratio'}"
    if row.better == "none":
        return f"{name} has {times(estimate.ratio)} as much {interval_text(estimate)}"
    more, less = _directions(row)
    if times(estimate.ratio) == times(1.0):
        alike = "fast" if more == "faster" else "high"
        return f"{name} is {times(1.0)} as {alike} {interval_text(estimate)}"
    if estimate.ratio > 1:
        return f"{name} is {times(estimate.ratio)} {more} {interval_text(estimate)}"
    turned = estimate.reciprocal()
    return f"{name} is {times(turned.ratio)} {less} {interval_text(turned)}"


def contrary(row: Row, a: float, b: float) -> bool:
    """Whether two medians stand the other way round than the ratio, which goes by pairs."""
    if row.estimate is None or a <= 0 or b <= 0:
        return False
    of_medians = a / b if row.better == "lower" else b / a
    ratios = (row.estimate.ratio, of_medians)
    return min(ratios) < 1 < max(ratios) and times(1.0) not in map(times, ratios)


def difference_text(row: Row) -> str:
    """The outcome, and where the medians beside it say the opposite of the ratio, that they do."""
    against = row.a is not None and row.b is not None and contrary(row, row.a.median, row.b.median)
    said = [outcome_text(row), "the medians stand the other way round" if against else ""]
    return "; ".join(filter(None, [*said, "one side as its driver tells it" if row.told else ""]))


def headline_text(name: str, row: Row) -> str:
    """As ``speedup_text`` with the outcome; no direction where no difference is shown."""
    if row.estimate is None or row.judgement is None or row.better == "none":
        return f"{speedup_text(name, row)}: {outcome_text(row)}"
    if row.judgement.outcome == "shown":
        return f"{speedup_text(name, row)}: {difference_text(row)}"
    measured = f"{name} measured {times(row.estimate.ratio)} {interval_text(row.estimate)}"
    return f"no difference shown, {measured}: {difference_text(row)}"


def _directions(row: Row) -> tuple[str, str]:
    if row.better == "higher":
        return "higher", "lower"
    return ("faster", "slower") if row.unit == "ns" else ("lower", "higher")


def outcome_text(row: Row) -> str:
    """``shown``, ``not shown``, or ``cannot be shown (6 of 11 repeats)``."""
    if row.judgement is None or row.estimate is None:
        return row.note
    if row.judgement.outcome != "cannot be shown":
        return row.judgement.outcome
    have = min(row.estimate.n_a, row.estimate.n_b)
    return f"cannot be shown ({have} of {row.judgement.repeats_needed} repeats)"


def metric_title(row: Row) -> str:
    """``query time, query 6``."""
    title = metric_info(row.quantity, row.better).title
    labels = row.quantity.labels_text()
    return f"{title}, {labels}" if labels else title


def counted(n: int, noun: str) -> str:
    """``1 repeat``, ``6 repeats``."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def utc(unix_ns: int) -> str:
    """``2026-11-21 07:16:55 UTC``."""
    return datetime.fromtimestamp(unix_ns / 1e9, tz=UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
