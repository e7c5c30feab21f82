"""Where the time of a window's average operation goes (harness.waits)."""

from __future__ import annotations

from collections.abc import Mapping

from harness import hdr
from harness.drivers.result import DriverResult
from harness.waits import Breakdown, explain, take


def explain_window(
    driven: DriverResult, counters: Mapping[str, float], users: int, closed: bool
) -> tuple[Breakdown | None, dict[str, float]]:
    """The parts of the mean latency, and the counters without those of waits.

    ``users``: of them each waits for its operation, and requests the next one at once, where
    ``closed``. None where waits or latencies are not known.
    """
    totals, rest = take(counters)
    if totals is None:
        return None, rest
    histograms = [
        hdr.decode(one.duration_hdr) for one in driven.operations.values() if one.duration_hdr
    ]
    count = sum(one.total for one in histograms)
    latency_ns = sum(one.mean * one.total for one in histograms if one.total)
    if not count and closed:
        count, latency_ns = driven.done_count or 0, float(users * driven.window_ns)
    return explain(totals, latency_ns, count, closed), rest
