"""Work of the disks under the run's tiers: requests, bytes, times, queue, utilisation.

The source is ``/sys/class/block/*/stat`` (Documentation/block/stat.rst) of the disks below
partitions, device mapper, md and btrfs. The counts are the disk's, so they include other programs
and other partitions. Loads and stores on DAX pass no block layer, nor does a tmpfs.

Linux counts a request when it ends, and times in whole milliseconds.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from harness.counters import labelled
from harness.monitors import MonitorContext, SampledMonitor
from harness.tiers.linux.kernel import LIVE, Kernel
from harness.tiers.linux.model import Tier
from harness.warnings import RunWarning

_SECTOR_BYTES, _MS_NS = 512, 1_000_000
#: Counter, its position in ``stat``, and the size of its unit.
_FIELDS = (
    ("block_read_count", 0, 1),
    ("block_read_bytes", 2, _SECTOR_BYTES),
    ("block_read_ns", 3, _MS_NS),
    ("block_write_count", 4, 1),
    ("block_write_bytes", 6, _SECTOR_BYTES),
    ("block_write_ns", 7, _MS_NS),
    ("block_busy_ns", 9, _MS_NS),
    ("block_queue_ns", 10, _MS_NS),
    ("block_flush_count", 15, 1),
    ("block_flush_ns", 16, _MS_NS),
)
#: Operations whose requests are counted and timed.
_OPERATIONS = ("read", "write", "flush")


@dataclass(frozen=True)
class _Reading:
    """The counters of one disk at one moment."""

    monotonic_ns: int
    counts: Mapping[str, int]


class BlockMonitor(SampledMonitor):
    """Samples the disks' counters once a second."""

    name: ClassVar[str] = "block"
    cost: ClassVar[str] = "reads /sys/class/block/*/stat of the tiers' disks once a second"

    def __init__(self, context: MonitorContext, kernel: Kernel = LIVE) -> None:
        super().__init__(context, kernel)
        self._disks = _disks(context.tiers)
        self._previous: dict[str, _Reading] = {}

    def preflight(self) -> RunWarning | None:
        """Return whether a tier has a disk, and all disks are counted."""
        problem = "block devices are not monitored"
        if not self._disks:
            without = ", ".join(f"{tier.name} ({_why_none(tier)})" for tier in self._context.tiers)
            hint = "the monitors io and memory-traffic count what passes no block layer"
            return RunWarning("no-block-device", problem, without or "no tier is in use", hint)
        for disk in self._disks:
            if self._kernel.read(f"/sys/class/block/{disk}/queue/iostats") == "0":
                return RunWarning(
                    "block-not-counted",
                    problem,
                    f"Linux does not count the requests of {disk}",
                    f"echo 1 > /sys/class/block/{disk}/queue/iostats",
                )
            if not self._read(disk):
                path = f"/sys/class/block/{disk}/stat"
                return RunWarning("block-not-counted", problem, f"{path} cannot be read")
        return None

    def totals(self) -> Mapping[str, float]:
        """Requests and times of each disk since it appeared; the tiers have counters of bytes."""
        return {
            labelled(name, device=disk): float(value)
            for disk in self._disks
            for name, value in self._read(disk).items()
            if not name.endswith("_bytes")
        }

    def series(self) -> Mapping[str, Any]:
        """``disks: {name: [tier]}`` and, of each interval, rates by disk.

        A sample covers the time since the previous one: ``block_read_per_s[device=…]``,
        ``block_read_bytes_per_s``, ``block_read_await_ns`` (mean time of the requests that ended;
        none ended: left out), the same of writes and flushes, ``block_queue_depth`` (mean) and
        ``block_utilisation_share``.
        """
        return {**super().series(), "disks": self._disks}

    def _read(self, disk: str) -> dict[str, int]:
        """A disk's counters; empty where it is gone. Linux before 5.5 counts no flushes."""
        fields = (self._kernel.read(f"/sys/class/block/{disk}/stat") or "").split()
        return {name: int(fields[at]) * unit for name, at, unit in _FIELDS if at < len(fields)}

    def sample(self) -> Mapping[str, float]:
        """Rates since the previous sample."""
        sample: dict[str, float] = {}
        for disk in self._disks:
            reading = _Reading(time.monotonic_ns(), self._read(disk))
            previous, self._previous[disk] = self._previous.get(disk), reading
            if previous and previous.counts.keys() == reading.counts.keys():
                rates = _rates(previous, reading)
                sample |= {labelled(name, device=disk): value for name, value in rates}
        return sample


def _rates(before: _Reading, after: _Reading) -> Iterator[tuple[str, float]]:
    passed_ns = after.monotonic_ns - before.monotonic_ns
    change = {name: after.counts[name] - before.counts[name] for name in after.counts}
    if passed_ns <= 0 or any(value < 0 for value in change.values()):  # the disk is another one
        return
    for operation in _OPERATIONS:
        count = change.get(f"block_{operation}_count")
        if count is not None:
            yield f"block_{operation}_per_s", count * 1e9 / passed_ns
        if f"block_{operation}_bytes" in change:
            moved = change[f"block_{operation}_bytes"]
            yield f"block_{operation}_bytes_per_s", moved * 1e9 / passed_ns
        if count:
            yield f"block_{operation}_await_ns", change[f"block_{operation}_ns"] / count
    if "block_queue_ns" in change:
        yield "block_queue_depth", change["block_queue_ns"] / passed_ns
        yield "block_utilisation_share", min(1.0, change["block_busy_ns"] / passed_ns)


def _disks(tiers: Iterable[Tier]) -> dict[str, list[str]]:
    """Disk, as sysfs names it, to the names of the tiers on it."""
    disks: dict[str, list[str]] = {}
    for tier in tiers:
        for disk in () if _why_none(tier) else tier.facts.disks:
            name = disk.removeprefix("/dev/").replace("/", "!")
            disks.setdefault(name, []).append(tier.name)
    return disks


def _why_none(tier: Tier) -> str:
    """Why a tier's accesses pass no block layer; empty where they do."""
    facts = tier.facts
    if facts.dax or facts.kind == "devdax":
        return "DAX"
    if facts.kind in ("tmpfs", "numa"):
        return facts.kind
    return "" if facts.disks else f"no disk below {facts.device or 'it'}"


MONITOR = BlockMonitor
