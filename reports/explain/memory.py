"""Speed-ups of memory on other nodes: stalls of loads that miss the last cache, by latency.

Of an operation's cycles on A, those in which execution stalled while a load missed the last cache
take longer on B as its latency is longer (kernel ``chase`` of the suite ``baseline``); all others
do not. The counters are those of Spa (Melody, ASPLOS 2025), which compares two measured arms; that
stalls of A alone scale with the latency is supposed, and that the processors decide.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from harness.store.runs import StoredRun
from reports.stalls import TOTAL, per_operation

MEMORY = "memory"


@dataclass(frozen=True)
class MemorySpeedUp:
    """B over A: of the median latencies, and of those farthest apart."""

    value: float
    low: float
    high: float


def chase_ns(runs: Sequence[StoredRun]) -> list[float]:
    """Return the times of a dependent load of a tier, by repeat."""
    return [
        sample
        for metric in (metric for run in runs for metric in run.result.metrics)
        if metric.name == "latency_ns" and metric.labels.get("measurement") == "chase"
        for sample in metric.samples or ()
    ]


def memory_speed_up(
    cycles: Mapping[str, float], a_ns: Sequence[float], b_ns: Sequence[float]
) -> MemorySpeedUp:
    """Return by how much faster operations are with B's latencies instead of A's."""

    def speed_up(of_a: float, of_b: float) -> float:
        return cycles[TOTAL] / (cycles[TOTAL] + cycles[MEMORY] * (of_b / of_a - 1))

    return MemorySpeedUp(
        speed_up(median(a_ns), median(b_ns)),
        speed_up(min(a_ns), max(b_ns)),
        speed_up(max(a_ns), min(b_ns)),
    )


def memory_speed_ups(
    runs: Sequence[StoredRun], a_ns: Sequence[float], b_ns: Sequence[float]
) -> list[MemorySpeedUp]:
    """Return the speed-up by each of A's runs whose stalls were counted."""
    counted = [counts for run in runs if (counts := per_operation(run))]
    return [memory_speed_up(counts.cycles, a_ns, b_ns) for counts in counted]
