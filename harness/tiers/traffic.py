"""Bytes that a tier's block device has moved, from the kernel's own counts.

``/sys/dev/block/MAJOR:MINOR/stat`` (Documentation/block/stat.rst) counts what went
between the device and memory since it appeared: a partition's own, or those of the
mapping (LVM, md) that is mounted. Four things follow.

- They are the device's, not the engine's: what others do on it is in them. The
  kernel's counts of the engine's processes (harness.host.process_counters) are an upper bound.
- Tiers on one device have one count. It carries both names, ``ssd+log``, and is not
  divided: the shares are unknown.
- A request counts when it ends: what is read ahead is still under way when the query that
  caused it is over, so ``settle`` comes before the reading that ends a measurement.
- Loads, stores and copies on DAX pass no block layer, nor does a tmpfs: there is no
  count, which is not a count of zero.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from harness.counters import labelled
from harness.sequences import grouped
from harness.tiers.linux.block import btrfs_members
from harness.tiers.linux.kernel import LIVE, Kernel
from harness.tiers.linux.model import Tier

#: The unit of the counts, whatever the device's own blocks are.
_SECTOR_BYTES = 512
_READ_SECTORS, _WRITTEN_SECTORS, _IN_FLIGHT = 2, 6, 8
#: Requests that have ended: reads, writes, discards.
_ENDED = (0, 4, 11)
#: How long requests under way are waited for: on a device that others keep busy they do not
#: end. Between two looks so that what waits in the I/O scheduler, uncounted, gets on its way.
_SETTLE_S, _LOOK_S, _LOOKS = 1.0, 0.001, 2
#: Number of checks without a finished request after which a device is idle, and the interval.
_STILL_LOOKS, _STILL_S = 100, 30.0


@dataclass(frozen=True)
class Meter:
    """The counts of one tier, or of several that share them. ``stats``: files to add up."""

    tiers: tuple[str, ...]
    stats: tuple[Path, ...]

    @property
    def label(self) -> str:
        """``ssd``; ``ssd+log`` for tiers on one device."""
        return "+".join(self.tiers)


class TierTraffic:
    """Cumulative bytes of the tiers whose devices count them."""

    def __init__(self, tiers: Iterable[Tier], kernel: Kernel = LIVE) -> None:
        self._kernel = kernel
        by_device = grouped(
            (statistics, name)
            for name, tier in {tier.name: tier for tier in tiers}.items()
            if (statistics := _stats(tier, kernel))
        )
        #: Of each device, or set of devices, that holds a tier.
        self.meters = [Meter(tuple(sorted(names)), stats) for stats, names in by_device.items()]

    def read(self) -> dict[str, float]:
        """``tier_read_bytes[tier=…]`` and ``tier_write_bytes[tier=…]``; a device that is
        gone is left out.
        """
        result: dict[str, float] = {}
        for meter in self.meters:
            counts = [_counts(self._kernel.read(stat)) for stat in meter.stats]
            complete = [count for count in counts if count is not None]
            if len(complete) == len(counts):
                for index, name in enumerate(("tier_read_bytes", "tier_write_bytes")):
                    result[labelled(name, tier=meter.label)] = sum(item[index] for item in complete)
        return result

    def in_flight(self) -> int:
        """Requests that the devices work on now."""
        return self._total(_IN_FLIGHT)

    def settle(self, level: int = 0, limit_s: float = _SETTLE_S, still_s: float = _STILL_S) -> bool:
        """Wait until no more than ``level`` requests are under way; False: after ``limit_s``
        there still are, or after ``still_s`` in which none ended at all.

        Both are counted in looks: a time in which this process stands still is no wait.
        """
        busy, still = int(limit_s / _LOOK_S), int(still_s / _LOOK_S)
        low, since, ended = 0, 0, self._ended()
        while self.meters:
            low = low + 1 if self.in_flight() <= level else 0
            if low == _LOOKS:
                return True
            before, ended = ended, self._ended()
            since = since + 1 if ended == before else 0
            if since < _STILL_LOOKS:
                busy -= 1
            else:
                still -= 1
            if busy < 0 or still < 0:
                return False
            time.sleep(_LOOK_S)
        return True

    def _ended(self) -> int:
        """Requests that the devices have ended so far."""
        return self._total(*_ENDED)

    def _total(self, *indices: int) -> int:
        """The sum of these numbers of all devices; 0 for one that a line of ``stat`` lacks."""
        texts = (self._kernel.read(stat) for item in self.meters for stat in item.stats)
        lines = [(text or "").split() for text in texts]
        return sum(int(line[index]) for line in lines for index in indices if index < len(line))


def _counts(text: str | None) -> tuple[float, float] | None:
    """Bytes read and written by one line of ``stat``."""
    fields = (text or "").split()
    if len(fields) <= _WRITTEN_SECTORS:
        return None
    return (
        float(int(fields[_READ_SECTORS]) * _SECTOR_BYTES),
        float(int(fields[_WRITTEN_SECTORS]) * _SECTOR_BYTES),
    )


def _stats(tier: Tier, kernel: Kernel) -> tuple[Path, ...]:
    """The device files that count a tier's bytes; none for what passes no block layer."""
    facts = tier.facts
    if facts.dax or facts.filesystem_id is None:
        return ()
    if facts.filesystem == "btrfs":
        number = kernel.device_number(facts.device) if facts.device else None
        first = _resolved(kernel.path(f"/sys/dev/block/{number}"))
        members = btrfs_members(first.name, kernel)
        devices = [kernel.path(f"/sys/class/block/{name}") for name in members]
    else:
        devices = [kernel.path(f"/sys/dev/block/{facts.filesystem_id}")]
    stats = tuple(sorted(_resolved(item) / "stat" for item in devices))
    return stats if all(_counting(stat, kernel) for stat in stats) else ()


def _resolved(path: Path) -> Path:
    return path.resolve() if path.exists() else path


def _counting(stat: Path, kernel: Kernel) -> bool:
    """Return whether the file has counts and the device still adds to them (queue/iostats)."""
    disk = stat.parent if (stat.parent / "queue").exists() else stat.parent.parent
    return _counts(kernel.read(stat)) is not None and kernel.read(disk / "queue/iostats") != "0"
