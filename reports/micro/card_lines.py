"""A line of the card, and the words that its parts share: verdicts, places on an axis, rates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harness.units import counted, format_bytes
from reports.formatting import NOTHING, p_text, quantity_text
from reports.statistics import Ratio
from reports.values import Point

#: Between the parts of a cell of the card.
LINE = ";\n"


@dataclass(frozen=True)
class Finding:
    """One line of the card.

    ``answer``: what is best, in a few words; ``figures``: the numbers that it is read from;
    ``rows``: what these were before they were words.
    """

    question: str
    answer: str
    figures: str
    rows: tuple[Any, ...]


def p_of(ratio: Ratio) -> str:
    """Return the p of a verdict, adjusted for all verdicts of the card."""
    return p_text(ratio.decision.adjusted_p) if ratio.decision else NOTHING


def why_not_shown(ratio: Ratio) -> str:
    """Return why a ratio is not shown; empty where it is."""
    reasons = {
        "bound-in-interval": f"the interval holds {ratio.bound:g}",
        "not-shown": f"not shown among the card's other verdicts, p {p_of(ratio)}",
    }
    if ratio.reason != "too-few-repeats" or ratio.decision is None:
        return reasons.get(ratio.reason, "")
    others = ratio.decision.family - 1
    among = f" with the card's {counted(others, 'other verdict')}" if others else ""
    repeats, needed = counted(ratio.repeats, "repeat"), ratio.decision.repeats_needed
    return f"cannot be shown with {repeats}, {needed} are needed{among}"


def place_text(axis: str, point: Point) -> str:
    """Return where a point lies on an axis: ``4 threads``, ``256 B``, ``depth 8``."""
    if axis == "threads":
        return threads_text(point)
    number = point.number(axis)
    return format_bytes(number) if axis.endswith("_bytes") else f"depth {number:g}"


def threads_text(point: Point) -> str:
    """Return ``4 threads``."""
    return counted(int(point.number("threads")), "thread")


def rate_text(bytes_per_s: float) -> str:
    """Return ``2.1 GB/s``."""
    return quantity_text(bytes_per_s, "B/s")
