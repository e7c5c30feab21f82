"""Percentiles that a histogram can tell, and what is said where it holds too few durations."""

from __future__ import annotations

from collections.abc import Sequence

from harness import hdr
from reports.formatting import quantity_text
from reports.micro.prices import NOTHING


def told(histogram: hdr.Histogram, percent: float) -> float | None:
    """In the histogram's unit; None where it holds too few durations."""
    return histogram.percentile(percent) if histogram.total >= hdr.fewest(percent) else None


def text(histogram: hdr.Histogram, percent: float, unit: str = "ns") -> str:
    """``9.06 µs``, or the dash that stands for what cannot be told."""
    value = told(histogram, percent)
    return NOTHING if value is None else quantity_text(value, unit)


def count_text(histogram: hdr.Histogram, percents: Sequence[float]) -> str:
    """``2,000 (too few for p99.99)``: how many durations, and what the dashes are for."""
    missing = [f"p{percent:g}" for percent in percents if told(histogram, percent) is None]
    few = f" (too few for {', '.join(missing)})" if missing else ""
    return f"{histogram.total:,}{few}"


def why_dashes(histograms: Sequence[hdr.Histogram], percents: Sequence[float]) -> str:
    """``—: too few operations, p99.99 takes 10,000``; empty where all is told."""
    missing = [
        f"p{percent:g} takes {hdr.fewest(percent):,}"
        for percent in percents
        if any(told(histogram, percent) is None for histogram in histograms)
    ]
    return f"{NOTHING}: too few operations, {', '.join(missing)}" if missing else ""
