"""Loaded latency: how long a dependent load waits while other threads draw bandwidth.

The axes of FAST'20, Figure 6: bandwidth of the load, latency beside it. Both are taken from
the same configuration, in which they were measured at the same time.
"""

from __future__ import annotations

from dataclasses import dataclass

from reports.formatting import counted
from reports.micro.points import RATE, Device
from reports.micro.questions import waits

#: The knee: the most bandwidth at which a load waits no longer than so many times idle.
TWICE = 2.0


@dataclass(frozen=True)
class LoadedPoint:
    """``rate``: of the load, B/s; ``latency``: of one dependent load, ns; with its range.

    ``samples``: the latencies of its repeats, in their order; ``beside_idle``: whether those
    without load were measured in the same blocks.
    """

    rate: float
    latency: float
    low: float
    high: float
    samples: tuple[float, ...] = ()
    beside_idle: bool = True


@dataclass(frozen=True)
class LoadedCurve:
    """One kind of load, by rising bandwidth. ``idle``: latency without it, ns; None: unknown.

    ``idle_samples``: that of its repeats, in their order.
    """

    title: str
    idle: float | None
    points: tuple[LoadedPoint, ...]
    idle_samples: tuple[float, ...] = ()

    @property
    def knee(self) -> LoadedPoint | None:
        """The last point before latency first doubles; None where that is at once."""
        last = None
        for point in self.points:
            if self.idle is None or point.latency > TWICE * self.idle:
                break
            last = point
        return last


def curves(device: Device) -> list[LoadedCurve]:
    """Every kind of load that was put beside the chase, of one experiment."""
    held = waits(device)
    rates = {
        (p["configuration"], p.runs): p for p in device.select(RATE, measurement="loaded_latency")
    }
    idle = [p for p in held if p["load_operation"] in ("", "none")]
    quiet = max(idle, key=lambda p: len(p.samples), default=None)
    found: dict[str, list[LoadedPoint]] = {}
    for wait in held:
        load = rates.get((wait["configuration"], wait.runs))
        if load is None or wait in idle:
            continue
        share = wait["load_read_share"]
        reads = f", {100 * float(share):g} % reads" if share else ""
        threads = counted(int(wait.number("load_threads")), "thread")
        title = f"{wait['load_operation']}{reads} of {threads}"
        told = wait.summary
        point = LoadedPoint(
            load.median,
            told.median,
            told.low,
            told.high,
            wait.samples,
            quiet is not None and wait.beside(quiet),
        )
        found.setdefault(title, []).append(point)
    return [
        LoadedCurve(
            title,
            quiet.median if quiet else None,
            tuple(sorted(points, key=lambda p: p.rate)),
            quiet.samples if quiet else (),
        )
        for title, points in found.items()
    ]
