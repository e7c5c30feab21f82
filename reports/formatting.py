"""Numbers as text, the same in tables, charts, pages and on the terminal."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from harness.units import format_bytes, format_ns

if TYPE_CHECKING:
    from reports.statistics import Value

EMULATED, MODELLED = "EMULATED", "MODELLED"
#: In the text of a tier that is a device's model: ``fast by the model zero``.
BY_MODEL = " by the model "
_NOTES = {
    EMULATED: "A stand-in on which syncing is free: its speed is a ceiling, not a measurement of "
    "the device.",
    MODELLED: "File operations take the time of a device's model: a result is worth what the model "
    "is worth.",
}
#: The unit of a ratio.
TIMES = "×"
#: An empty cell: not measured.
NOTHING = "–"


def stand_in_mark(emulated: Sequence[str]) -> str:
    """``EMULATED``, ``MODELLED`` or both, of stand-ins; empty without any."""
    marks = [MODELLED if BY_MODEL in text else EMULATED for text in emulated]
    return ", ".join(dict.fromkeys(sorted(marks)))


def stand_in_text(emulated: Sequence[str]) -> str:
    """``MODELLED fast by the model zero``: the marks of stand-ins, and what they are."""
    return f"{stand_in_mark(emulated)} {', '.join(emulated)}".strip()


def number_mark(emulated: Sequence[str]) -> str:
    """The mark of a single number: of models, also their names and what they are worth."""
    models = [text for text in emulated if BY_MODEL in text]
    return f"{stand_in_mark(emulated)} {', '.join(models)}".strip()


def stand_in_note(emulated: Sequence[str]) -> str:
    """Say what numbers of stand-ins are worth."""
    mark = stand_in_mark(emulated)
    return " ".join(note for name, note in _NOTES.items() if name in mark)


def verdict_text(verdict: str) -> str:
    """As it is shown: of no difference, that none is shown, since that is not "equal"."""
    return "no difference shown" if verdict == "no difference" else verdict


def significant(value: float) -> str:
    """Three significant digits, never an exponent: ``1.90``, ``12.3``, ``1,230``."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    rounded = float(f"{value:.2e}")
    decimals = max(0, 2 - math.floor(math.log10(abs(rounded))))
    return f"{rounded:,.{decimals}f}"


def quantity_text(value: float, unit: str, resolution: float = 0.0) -> str:
    """A value with its unit: times and sizes scaled, counts whole, others with three digits.

    ``resolution``: the smallest step of the value, in its unit; smaller values are unknown.
    """
    if 0 <= value < resolution:
        return f"< {quantity_text(resolution, unit)}"
    if scaled := _SCALED.get(unit):
        return scaled(value)
    if unit == "1":  # a pure number, as in UCUM and OpenMetrics
        return f"{value:,.0f}" if value == int(value) else significant(value)
    return f"{significant(value)} {unit}".strip()


_SCALED: Mapping[str, Callable[[float], str]] = {
    "ns": format_ns,
    "B": format_bytes,
    "bytes": format_bytes,
    "B/s": lambda value: f"{format_bytes(value)}/s",
    TIMES: lambda value: f"{significant(value)}{TIMES}",
}


def range_text(low: float, high: float, unit: str, resolution: float = 0.0) -> str:
    """``2.36 – 7.72 ms``; each with its unit where these differ, one value where they agree."""
    ends = [quantity_text(value, unit, resolution) for value in (low, high)]
    if ends[0] == ends[1]:
        return ends[0]
    (first, _, shared), (_, _, other) = (end.partition(" ") for end in ends)
    return f"{first if shared == other else ends[0]} – {ends[1]}"


def share_text(part: float, whole: float, unit: str) -> str:
    """``16 of 410 µs``; each with its unit where these differ."""
    first, second = quantity_text(part, unit), quantity_text(whole, unit)
    (number, _, part_unit), (_, _, whole_unit) = first.partition(" "), second.partition(" ")
    return f"{number if part_unit == whole_unit or not part else first} of {second}"


def gain_text(ratio: float) -> str:
    """Return the gain of a speed-up, rounded up: ``4 %``, from a factor of two on ``2.05×``."""
    if ratio >= 2:
        return times_at_most(ratio)
    return f"{max(1, math.ceil(100 * (ratio - 1) - 1e-9))} %"


def times(ratio: float) -> str:
    """Format a ratio: ``1.90×``."""
    return quantity_text(ratio, TIMES)


def times_at_most(ratio: float) -> str:
    """A bound: ``1.91×`` of 1.901, rounded up."""
    step = 10.0 ** (math.floor(math.log10(ratio)) - 2)
    return times(math.ceil(ratio / step - 1e-9) * step)


def interval_text(estimate: Value) -> str:
    """``[1.60, 2.20]``, with its coverage where that is below 95 %; a dash without one."""
    if estimate.low is None or estimate.high is None:
        return NOTHING
    text = f"[{significant(estimate.low)}, {significant(estimate.high)}]"
    return text if estimate.confidence >= 0.9499 else f"{text} at {percent(estimate.confidence)}"


def ratio_text(estimate: Value) -> str:
    """``1.90× [1.60, 2.20]``; of a single repeat the ratio alone."""
    interval = interval_text(estimate)
    return times(estimate.value) + (f" {interval}" if interval != NOTHING else "")


def percent(share: float) -> str:
    """Format a share: ``95 %``, ``96.9 %``."""
    return f"{100 * share:.3g} %"


def p_text(p: float) -> str:
    """Format a p: ``0.031``; small ones as a bound."""
    return "< 0.0001" if p < 0.0001 else f"{p:.2g}"


def utc(unix_ns: int) -> str:
    """Format a time stamp: ``2026-11-21 07:16:55 UTC``."""
    return datetime.fromtimestamp(unix_ns / 1e9, tz=UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
