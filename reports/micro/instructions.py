"""Instructions that access and persist bytes, policies of indexes, and the line after clwb."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from harness.sequences import grouped
from reports.micro.devices import DURATION, OPERATIONS, Device
from reports.micro.sweeps import beyond_caches, largest
from reports.values import Point


@dataclass(frozen=True)
class Instructions:
    """Instructions that a thread executes for one access."""

    operation: str
    flush: str = "none"
    fence: str = "none"

    @property
    def kind(self) -> str:
        """Without the fence, as the papers name them: ``store+clwb``."""
        return self.operation + (f"+{self.flush}" if self.flush != "none" else "")

    @property
    def title(self) -> str:
        """``store+clwb+sfence``."""
        return "+".join([self.operation, *(s for s in (self.flush, self.fence) if s != "none")])


LOAD = Instructions("load")
NTSTORE = Instructions("ntstore", fence="sfence")
CLWB = Instructions("store", "clwb", "sfence")
STORE = Instructions("store", "none", "sfence")


def sequence_of(point: Point) -> Instructions:
    """Return the instructions by a point's labels; those that are absent are none."""
    return Instructions(point["operation"], point["flush"] or "none", point["fence"] or "none")


def kind_of(point: Point) -> str:
    """Its instructions without their fence: ``store+clwb``."""
    return sequence_of(point).kind


#: What a policy varies.
_POLICY = ("measurement", "discipline", "flush", "fence", "added_fence")
_FLUSHED_LINE = "flushed_line"


def indexes(device: Device) -> Iterator[tuple[str, str, list[Point]]]:
    """Rates of each index and workload, by policy; flushes without a fence persist nothing.

    Of an index in a library, the policy is the library's.
    """
    points = [
        p
        for p in beyond_caches(device, device.select(OPERATIONS, kind="index"))
        if p["index"] != "library"
        and not p["binary"]
        and (p["fence"] != "none" or p["flush"] == "none")
    ]
    for (index, workload), same in grouped(
        ((p["index"], _of_workload(p)), p) for p in points
    ).items():
        yield index, workload, largest(same, *_POLICY)


def _of_workload(point: Point) -> str:
    """``a``; ``c, keys uniform``; ``insert, loaded_share 0.5``."""
    varied = (f"{name} {point[name]}" for name in ("keys", "loaded_share") if point[name])
    return ", ".join([str(point["workload"]), *varied])


def policy_of(point: Point) -> Instructions:
    """A discipline with its instructions; what is absent is the kernel's default."""
    fence, added = point["fence"] or "sfence", point["added_fence"]
    if added and added != "none":
        fence += f"+added {added}"
    return Instructions(point["discipline"] or "designed", point["flush"] or "clwb", fence)


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
        """Return what clwb does with a line; unclear midway, or if a miss takes hardly longer."""
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
