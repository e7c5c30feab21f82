"""Figures that papers read off a curve, read off the local one: where it peaks, where two cross.

Each is of the largest experiment that measured the curve (harness.reports.micro.questions).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from harness.reports.micro.knees import NEAR
from harness.reports.micro.points import DURATION, RATE, Device, Point, best
from harness.reports.micro.questions import INSTRUCTIONS, beyond_caches, largest
from harness.reports.micro.sequences import sequence_of
from harness.reports.words import counted, times
from harness.units import format_bytes

NOT_DERIVED = "not derived here"
#: Two bandwidths of one device: ``pmem_ni load over ntstore``, ``pmem_ni 8 over 1 threads``.
_KINDS = re.compile(r"^\S+ ([a-z+]+) over ([a-z+]+)$")
_THREADS = re.compile(r"^\S+ (\d+) over (\d+) threads$")
#: What the papers call the size that is best, by what they sweep: FAST'20's Figures 5 and 13,
#: PerMA-Bench's Figure 5b.
_SWEEPS = {"knee": "access_size", "peak": "fence_interval", "best": "sequential_writes"}
_SIZE = "access_size_bytes"


def derived(metric: str, arm: str, x: str, device: Device) -> str:
    """The device's own value, ``NOT_DERIVED`` where nothing here reads it off; empty: no curve."""
    read = _READ.get(metric)
    return NOT_DERIVED if read is None else read(arm, x, device)


def _rates(device: Device, measurement: str, *varied: str) -> list[Point]:
    points = beyond_caches(device, device.select(RATE, measurement=measurement))
    return largest((p for p in points if p[_SIZE] and not p["job"]), *INSTRUCTIONS, *varied)


def _by_kind(points: Sequence[Point]) -> Mapping[str, list[Point]]:
    """By instructions without their fence, as the papers name them: ``store+clwb``."""
    held: dict[str, list[Point]] = {}
    for point in points:
        told = sequence_of(point)
        name = told.operation + (f"+{told.flush}" if told.flush != "none" else "")
        held.setdefault(name, []).append(point)
    return held


def _best_threads(arm: str, x: str, device: Device) -> str:
    same = _by_kind(_rates(device, "threads", "threads")).get(x)
    if same is None:
        return NOT_DERIVED
    return counted(int(best(same).number("threads")), "thread")


def _best_access_size(arm: str, x: str, device: Device) -> str:
    """``knee``: the smallest size near the best; else the best one, at the best thread count."""
    if x not in _SWEEPS:
        return NOT_DERIVED
    points = _rates(device, _SWEEPS[x], _SIZE, "threads", "flush_when")
    if x == "peak":
        points = [p for p in points if p["flush_when"] == "write"]
    told = []
    for kind, same in _by_kind(points).items():
        top = best(same)
        near = [p for p in same if p.median >= NEAR * top.median]
        found = min(near, key=lambda p: p.number(_SIZE)) if x == "knee" else top
        told.append(f"{kind} {format_bytes(found.number(_SIZE))}")
    return ", ".join(told)


def _worst_access_size(arm: str, x: str, device: Device) -> str:
    """From which size on flushing after the write is slower than at each line."""
    points = _rates(device, "fence_interval", _SIZE, "flush_when")
    told = [(kind, _leads_from(same, lambda p: p["flush_when"] == "line"))
            for kind, same in _by_kind(points).items()]  # fmt: skip
    return ", ".join(f"{kind} {size}" for kind, size in told)


def _crossover(arm: str, x: str, device: Device) -> str:
    """From which size on ntstore is the best of all."""
    if x == "latency":
        points = device.select(DURATION, measurement="persist_latency")
        points = largest(beyond_caches(device, points), *INSTRUCTIONS, _SIZE)
    else:
        points = _rates(device, "persist_size", _SIZE)
    return _leads_from(points, lambda p: p["operation"] == "ntstore")


def _leads_from(points: Sequence[Point], leading: Callable[[Point], bool]) -> str:
    """The smallest size from which on a leading point is the best at every size."""
    sizes = sorted({p.number(_SIZE) for p in points})
    leads = [leading(best([p for p in points if p.number(_SIZE) == size])) for size in sizes]
    if not leads or not leads[-1]:
        return "at no size" if leads else ""
    first = max((i for i, lead in enumerate(leads) if not lead), default=-1) + 1
    return format_bytes(sizes[first])


def _bandwidth_ratio(arm: str, x: str, device: Device) -> str:
    """Of two instructions, each at its best thread count, or of two thread counts of one."""
    held = _by_kind(_rates(device, "threads", "threads"))
    match = _KINDS.match(arm)
    if match and set(match.groups()) <= set(held):
        a, b = (held.get(name, []) for name in match.groups())
    elif match := _THREADS.match(arm):
        a, b = ([p for p in held.get(x, []) if p["threads"] == n] for n in match.groups())
    else:
        return NOT_DERIVED
    return times(best(a).median / best(b).median) if a and b and best(b).median else ""


_READ: Mapping[str, Callable[[str, str, Device], str]] = {
    "best_threads": _best_threads,
    "best_access_size": _best_access_size,
    "worst_access_size": _worst_access_size,
    "crossover_bytes": _crossover,
    "bandwidth_ratio": _bandwidth_ratio,
}
