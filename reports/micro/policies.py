"""Persistent indexes under each flush, fence and discipline, and whether clwb keeps a line cached.

BENTŌ (2025), Section 3: clwb gains over clflush where lines that were flushed are used again soon,
on processors whose clwb leaves them in the cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from reports.micro.points import DURATION, OPERATIONS, Device, Point
from reports.micro.questions import Instructions, beyond_caches, largest

FLUSHES_PER_WRITE = "flushes_per_write"
#: What a policy varies.
_POLICY = ("measurement", "discipline", "flush", "fence")
_FLUSHED_LINE = "flushed_line"


def indexes(device: Device) -> Iterator[tuple[str, str, list[Point]]]:
    """Rates of each index and workload, by policy; flushes without a fence persist nothing."""
    points = [
        p
        for p in beyond_caches(device, device.select(OPERATIONS, kind="index"))
        if p["fence"] != "none" or p["flush"] == "none"
    ]
    for index, workload in dict.fromkeys((p["index"], p["workload"]) for p in points):
        same = [p for p in points if (p["index"], p["workload"]) == (index, workload)]
        yield index, workload, largest(same, *_POLICY)


def policy_of(point: Point) -> Instructions:
    """A discipline with its instructions; what is absent is the kernel's default."""
    return Instructions(
        point["discipline"] or "designed", point["flush"] or "clwb", point["fence"] or "sfence"
    )


@dataclass(frozen=True)
class FlushedLine:
    """Median time of a load of a line that was stored, flushed and fenced just before, ns.

    ``cached``: without a flush; ``evicted``: by clflush.
    """

    clwb: float
    cached: float
    evicted: float

    @property
    def outcome(self) -> Literal["kept", "evicted", "unclear"]:
        """What clwb does with the line: unclear midway, or where a miss takes hardly longer."""
        missing = self.evicted - self.cached
        share = (self.clwb - self.cached) / missing if missing > self.cached / 2 else 0.5
        return "kept" if share < 0.25 else "evicted" if share > 0.75 else "unclear"


def flushed_line(device: Device) -> FlushedLine | None:
    """None where one of the three was not measured."""
    points = device.select(DURATION, measurement=_FLUSHED_LINE, before="written")
    medians = {p["written_by"]: p.median for p in largest(points, "written_by")}
    if not medians.keys() >= {"clwb", "store", "clflush"}:
        return None
    return FlushedLine(medians["clwb"], medians["store"], medians["clflush"])
