"""Speed-ups of memory on other nodes: stalls of loads that miss the last cache, by latency.

Of an operation's cycles on A, those in which execution stalled while a load missed the last cache
take longer on B as its latency is longer; all others do not. The counters are those of Spa (Melody,
ASPLOS 2025), which compares two measured arms; that stalls of A alone scale with the latency is
supposed, and that the processors decide. Interleaved pages have the mean latency of their tiers,
each at the bandwidth that its share of the pages asks of it. docs/prediction.md derives it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from harness.experiment.placement import parse_memory
from harness.store.runs import StoredRun
from harness.units import NS_PER_S
from reports.explain.baseline import Repeats, ascending
from reports.explain.ceilings import values_of
from reports.micro.devices import RATE, devices
from reports.micro.knees import curves
from reports.stalls import TOTAL

MEMORY = "memory"
#: Halvings of an interval that has the speed-up.
_HALVINGS = 60
_OF_REPEATS: Mapping[Repeats, Callable[[Sequence[float]], float]] = {
    Repeats.FASTEST: min,
    Repeats.TYPICAL: median,
    Repeats.SLOWEST: max,
}


@dataclass(frozen=True)
class MemorySpeedUp:
    """B over A: of the median latencies, and of those farthest apart."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class MemoryTier:
    """Latency and bandwidth of a tier's memory, by its runs of the suite ``baseline``.

    ``nodes``: the number of them; ``idle_ns``: of a dependent load alone, by repeat; ``loaded``:
    during loads of a bandwidth in B/s, by rising bandwidth; ``most``: the highest of all, infinite
    where none was measured.
    """

    nodes: int
    idle_ns: tuple[float, ...]
    loaded: tuple[tuple[float, tuple[float, ...]], ...] = ()
    most: float = math.inf

    @classmethod
    def of(cls, tier: str, runs: Sequence[StoredRun]) -> MemoryTier | None:
        """Return what the runs measured; None without the latency of a load alone."""
        idle_ns = tuple(
            sample
            for metric in (metric for run in runs for metric in run.result.metrics)
            if metric.name == "latency_ns" and metric.labels.get("measurement") == "chase"
            for sample in metric.samples or ()
        )
        if not idle_ns:
            return None
        measured = devices(runs)
        points = [point for each in measured for curve in curves(each) for point in curve.points]
        loads = [point for each in measured for point in each.select(RATE, operation="load")]
        nodes = [len(record.nodes) for run in runs for record in run.tiers if record.name == tier]
        return cls(
            max([1, *nodes]),
            idle_ns,
            tuple(sorted((point.rate, point.wait.samples) for point in points)),
            max((point.median for point in loads), default=math.inf),
        )

    def latency_ns(self, rate: float, repeats: Repeats) -> float:
        """Return the time of a dependent load during loads of a bandwidth, between measured ones
        by a straight line."""
        choose = _OF_REPEATS[repeats]
        times = ascending(
            [choose(times) for times in (self.idle_ns, *(ns for _, ns in self.loaded))]
        )
        return float(np.interp(rate, [0.0, *(measured for measured, _ in self.loaded)], times))


@dataclass(frozen=True)
class MemoryTiers:
    """The tiers of one arm's memory, each with its share of the pages."""

    shares: tuple[tuple[float, MemoryTier], ...]

    @classmethod
    def of(cls, pages: Sequence[tuple[int, MemoryTier]]) -> MemoryTiers:
        """Return tiers that have this number of pages each in a turn."""
        turn = sum(count for count, _ in pages)
        return cls(tuple((count / turn, tier) for count, tier in pages))

    @property
    def most(self) -> float:
        """The bandwidth at which the first of the tiers has none left, in B/s."""
        return min(tier.most / share for share, tier in self.shares)

    @property
    def loaded(self) -> bool:
        """Whether the latency during loads was measured of each."""
        return all(tier.loaded for _, tier in self.shares)

    def latency_ns(self, rate: float, repeats: Repeats) -> float:
        """Return the mean time of a load, where each tier moves its share of a bandwidth."""
        return sum(share * tier.latency_ns(share * rate, repeats) for share, tier in self.shares)


def weights_of(memory: str) -> dict[str, int] | None:
    """Return the pages that each tier's nodes have in a turn; None where the policy leaves it open.

    ``memory``: as a placement has it, or the name of a tier's stand-in.
    """
    place = parse_memory(memory) if ":" in memory else None
    if place is None or place.nodes:
        return {memory: 1}
    if place.policy == "weighted" and place.weights:
        return dict(zip(place.tiers, place.weights, strict=True))
    if place.policy == "interleave" or (len(place.tiers) == 1 and place.policy != "tiered"):
        return dict.fromkeys(place.tiers, 1)
    return None


def moved_per_s(run: StoredRun) -> float | None:
    """Return the bandwidth of the host's memory in B/s during the window, or the queries.

    None where memory of the run's kinds is not counted.
    """
    memory = run.spec.placement.memory if run.spec.placement else None
    stated = [record.facts.memory_kind for record in run.tiers if record.name == memory]
    kinds = {kind for text in stated if text for kind in text.split(", ")}
    values = values_of(run)
    for phase in ("window", "query"):
        counted = {
            kind: sum(
                value
                for quantity, value in values.items()
                if quantity.name in (f"{phase}_{kind}_read_bytes", f"{phase}_{kind}_write_bytes")
            )
            for kind in ("dram", "pmem", "cxl")
        }
        duration_ns = sum(
            value
            for quantity, value in values.items()
            if quantity.name == f"{phase}_duration_ns"
            and {label for label, _ in quantity.labels} <= {"query"}
        )
        moved = sum(counted.values())
        if moved and duration_ns and all(counted.get(kind) for kind in kinds):
            return moved / duration_ns * NS_PER_S
    return None


def memory_speed_up(
    cycles: Mapping[str, float], moved: float, a: MemoryTiers, b: MemoryTiers
) -> MemorySpeedUp:
    """Return by how much faster operations are with B's memory instead of A's.

    ``moved``: A's bandwidth in B/s; of 0, the latencies are those of a load alone.
    """
    rate = min(moved, a.most)
    limit = b.most / rate if rate else math.inf

    def speed_up(of_a: Repeats, of_b: Repeats) -> float:
        a_ns = a.latency_ns(rate, of_a)

        def at(speed: float) -> float:
            longer = b.latency_ns(speed * rate, of_b) / a_ns - 1
            return cycles[TOTAL] / (cycles[TOTAL] + cycles[MEMORY] * longer)

        # The faster B is, the more it moves, and the longer its loads take: at() falls.
        high = at(0.0)
        low = at(high)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if at(middle) > middle else (low, middle)
        return min(low, limit)

    return MemorySpeedUp(
        speed_up(Repeats.TYPICAL, Repeats.TYPICAL),
        speed_up(Repeats.FASTEST, Repeats.SLOWEST),
        speed_up(Repeats.SLOWEST, Repeats.FASTEST),
    )
