"""Bytes that memory controllers and the tier's device moved while a configuration was measured.

PerMA-Bench (PVLDB 15(11), sections 4.4 and 4.5.1) reads such counters to say why two rates differ:
the prefetchers read more than was requested. The counters are the host's: what others move is
in them. They are read as all threads begin and as the last one has ended.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from harness.counters import difference, split
from harness.monitors._guarded import GuardedMonitor
from harness.store.result import Metric
from harness.tiers.linux.model import Tier
from harness.tiers.traffic import TierTraffic
from harness.units import NS_PER_S

#: Monitors whose totals are bytes that memory moved.
_MONITORS = ("memory-traffic", "cxl")
_BYTES = "_bytes"


@dataclass
class TrafficReader:
    """Reads cumulative bytes by counter (harness.counters), and how fast they grew between."""

    sources: Sequence[Callable[[], Mapping[str, float]]]
    _begin_ns: int = 0
    _begun: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, monitors: Sequence[GuardedMonitor], tier: Tier) -> Self | None:
        """Return a reader of the started monitors and the tier's device; None if nothing counts."""
        counting = [one.totals for one in monitors if one.name in _MONITORS]
        reader = cls([*counting, TierTraffic([tier]).read])
        return reader if reader._read() else None

    def begin(self) -> None:
        self._begun, self._begin_ns = self._read(), time.monotonic_ns()

    def rates(self) -> dict[str, float]:
        """Return bytes per second since ``begin``, by counter."""
        moved, passed_ns = difference(self._begun, self._read()), time.monotonic_ns()
        passed_ns -= self._begin_ns
        return {name: value * NS_PER_S / max(1, passed_ns) for name, value in moved.items()}

    def _read(self) -> dict[str, float]:
        return {name: value for source in self.sources for name, value in source().items()}


def traffic_metrics(
    labels: Mapping[str, str], rates: Sequence[Mapping[str, float]]
) -> Iterator[Metric]:
    """Yield the traffic of a configuration, a sample a repeat: of what was counted in each."""
    for counter in dict.fromkeys(name for one in rates for name in one):
        samples = tuple(one[counter] for one in rates if counter in one)
        if len(samples) == len(rates):
            name, own = split(counter)
            of_counter = {**labels, **own, "counter": name.removesuffix(_BYTES)}
            yield Metric("traffic_bytes_per_second", "B/s", "none", of_counter, samples=samples)
