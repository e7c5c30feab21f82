"""How long a fitted suite takes on a machine that is otherwise idle: what is asked for, and set-up.

Chases are laid out anew for each measurement, which takes longer than the measurement where
their range is large. What counts end takes what it takes: that is not known beforehand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.micro.chains import LINE_BYTES
from harness.micro.fit import Room, TargetKey, targets_of
from harness.micro.model import Job, Measurement
from harness.units import GIB

#: Of processor time on an EPYC of 2023 with 1 GiB: drawing a node's place and writing its
#: pointer; the empty body that goes before each measurement with stamps; zeroing and touching
#: a GiB; the program's start.
_NODE_NS, _EMPTY_BODY_NS, _TOUCH_GIB_NS, _START_NS = 35, 5_000_000, 250_000_000, 200_000_000


@dataclass(frozen=True)
class Estimate:
    """``measuring_ns``: warm-up and duration, exactly as asked for; ``setup_ns``: about.

    ``counted``: configurations that end by a number of operations, whose time is in neither.
    """

    measuring_ns: int
    setup_ns: int
    counted: int

    @property
    def total_ns(self) -> int:
        """Of all that is known."""
        return self.measuring_ns + self.setup_ns


def estimate(measurements: Sequence[Measurement], room: Room, repeats: int) -> Estimate:
    """Of the program's whole run."""
    sizes: dict[TargetKey, int] = {}
    for one in measurements:
        for key, size in targets_of(one, room).items():
            sizes[key] = max(size, sizes.get(key, 0))
    once = _START_NS + round(sum(sizes.values()) / GIB * _TOUCH_GIB_NS)
    each = sum(_setup_ns(job) for one in measurements for job in one.jobs)
    return Estimate(
        measuring_ns=repeats * sum(one.warm_up_ns + (one.duration_ns or 0) for one in measurements),
        setup_ns=once + repeats * each,
        counted=sum(one.duration_ns is None for one in measurements),
    )


def _setup_ns(job: Job) -> int:
    if job.kind == "chase":
        return job.range_bytes // int(job.keys.get("node_bytes", LINE_BYTES)) * _NODE_NS
    return _EMPTY_BODY_NS if _timed(job) else 0


def _timed(job: Job) -> bool:
    """Whether operations of it are timed alone, so that their stamps are measured before."""
    chained = job.kind == "chain" and job.keys.get("mode") == "dependent"
    return job.kind == "latency" or chained or bool(job.keys.get("sample_every"))
