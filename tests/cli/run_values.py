"""Values in a run.json."""

from typing import Any

import pytest

from harness import hdr


def values(run: Any, name: str, label: str | None = None) -> Any:
    """A metric's value, or its values by a label."""
    found = [metric for metric in run["metrics"] if metric["name"] == name]
    if label is None:
        (one,) = found
        return one["value"]
    return {one["labels"][label]: one.get("value", one.get("hdr")) for one in found}


def uncontrolled(run: Any) -> dict[str, str]:
    """What was found, by the codes of the warnings."""
    return {warning["code"]: warning["found"] for warning in run["uncontrolled"]}


def waits_add_up(run: Any, durations: str) -> None:
    """The parts by resource are the mean latency, or the run warns."""
    parts = values(run, "wait_ns", "resource")
    metrics = [metric for metric in run["metrics"] if metric["name"] == durations]
    found = [hdr.decode(metric["hdr"]) for metric in metrics]
    count = sum(one.total for one in found)
    mean_ns = sum(one.mean * one.total for one in found) / count
    assert parts["processor"] > 0
    assert sum(parts.values()) >= 0.999 * mean_ns
    off = abs(values(run, "wait_accounted_share") - 1) > 0.1
    assert off == ("waits-unaccounted" in uncontrolled(run))
    assert off or sum(parts.values()) == pytest.approx(mean_ns, rel=0.11)
