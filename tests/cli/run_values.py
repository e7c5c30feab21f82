"""Values in a run.json."""

from typing import Any

import pytest

from harness import hdr


def values(run: Any, name: str, label: str | None = None) -> Any:
    """A metric's value, or its values by a label."""
    metrics = [metric for metric in run["metrics"] if metric["name"] == name]
    if label is None:
        (metric,) = metrics
        return metric["value"]
    return {metric["labels"][label]: metric.get("value", metric.get("hdr")) for metric in metrics}


def uncontrolled(run: Any) -> dict[str, str]:
    """Return the values that the warnings name, by their codes."""
    return {warning["code"]: warning["found"] for warning in run["uncontrolled"]}


def waits_add_up(run: Any, durations: str) -> None:
    """The parts by resource are the mean latency, or the run warns."""
    parts = values(run, "wait_ns", "resource")
    metrics = [metric for metric in run["metrics"] if metric["name"] == durations]
    histograms = [hdr.decode(metric["hdr"]) for metric in metrics]
    count = sum(histogram.total for histogram in histograms)
    mean_ns = sum(histogram.mean * histogram.total for histogram in histograms) / count
    assert sum(parts.values()) >= 0.999 * mean_ns
    off = abs(values(run, "wait_accounted_share") - 1) > 0.1
    assert off == ("waits-unaccounted" in uncontrolled(run))
    if not off:  # a busy host may observe too few moments
        assert parts["processor"] > 0
        assert sum(parts.values()) == pytest.approx(mean_ns, rel=0.11)
