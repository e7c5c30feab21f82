"""Models of devices: what each states, and what it does not.

A model has the durations of one request at a time (reads, writes, syncs) by size, the number of
requests that the device serves at once, and its bandwidth. A model may be partial: what it does
not state is missing (:meth:`DeviceModel.missing`), and never estimated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from harness.later import np
from harness.models.device_document import (
    Directions,
    MeasuredTier,
)
from harness.models.durations import Durations
from harness.store.documents import attributes
from harness.store.spec import content_hash
from harness.units import format_bytes

OPERATIONS = ("read", "write", "sync")
#: Syncs of a file that grew since the last one: the file system has to note its length, too.
GROWN = "grown_sync"
SERVICES = (*OPERATIONS, GROWN)
#: As in iotrace/page.h.
MOST_PARALLEL = 64
#: Linux's own, where no rule of udev sets another.
DEFAULT_READAHEAD_BYTES = 128 << 10
#: What each part of an engine does to its files.
_NEEDS: Mapping[str, tuple[str, ...]] = {
    "data": OPERATIONS,
    "index": OPERATIONS,
    "relations": OPERATIONS,
    "temp": ("read", "write"),
    "wal": ("sync",),
}


@dataclass(frozen=True)
class SizePoint:
    """Durations of requests of one size.

    ``rate``: bytes per second of such requests, all together; 0: not stated. ``source``: where the
    figures are from.
    """

    size_bytes: int
    durations: Durations
    source: str = ""
    rate: int = 0


@dataclass(frozen=True)
class WriteBuffer:
    """Memory in which an SSD completes writes early, until it is full.

    Whenever ``program_bytes`` have come together, they are programmed into flash, in
    ``program_ns``; a sync waits for what is being programmed.
    """

    size_bytes: int
    program_bytes: int
    program_ns: int


@dataclass(frozen=True)
class Extra:
    """By how much a call takes longer, and its processor time."""

    longer_ns: int
    processor_ns: int


@dataclass(frozen=True)
class InodeWrite(Extra):
    """By how much a sync takes longer that writes its file's inode.

    ``elsewhere_ns``: longer still while calls are made on several processors.
    """

    elsewhere_ns: int = 0


@dataclass(frozen=True)
class BusyTimes:
    """A call's processor time, and that outside of its thread, where others want the processor."""

    processor_ns: int
    outside_ns: int


@dataclass(frozen=True)
class DeviceModel:
    """A device's service times; syncs are by the bytes that are dirty.

    Of a model without ``grown_sync``, syncs of files that grew take as long as others.

    ``page_cache``: files are buffered in memory, as on a block device; else each call reaches the
    device, as with DAX. ``bandwidth``: bytes per second of ``read`` and ``write``, of all requests
    together. ``burst_bytes``: bytes that a throttle lets pass at once, in each slice of the time
    that they take of the bandwidth. ``write_buffer``: the device
    completes writes in a buffer, which programs them at the bandwidth.
    ``fill_ns``: processor time of a page that is not cached: to allocate, insert and copy it.
    ``processor_ns``: the kernel's processor time of a request by operation, of 4 KiB; a sync whose
    processor time is stated is not passed on to the base tier, whose own work would be added.
    ``after_work``: by operation, what a call takes more after its thread has worked: in full after
    300 µs of the thread's processor time since its last call, and less after less, since what the
    kernel needs has left the processor's caches.
    ``after_pause``: what it takes more after pauses, by their ns: the thread's own processor time
    since its last call, or the time since any thread's last call, whichever is longer; linear
    between pauses, from none on, and as the longest after longer ones.
    ``inode_write``: what a sync takes more that writes the file's inode, which is so on file
    systems without a journal where the file's end or time has changed; None: no sync writes it.
    ``depth_longer_ns``: by its bytes, by how much a read takes longer where 2, 4,
    8 and so on requests are under way, itself included; linear between sizes and between depths.
    ``elsewhere_ns``: by service, by how much a request takes longer while calls are made on
    several processors, of which one gets the device's interrupts; syncs that write the inode have
    their own in ``inode_write``.
    ``shorter_elsewhere_ns``: by how much it is shorter then, where no processor has to be woken.
    ``outside_ns``: by operation, the processor time of a request of 4 KiB outside of its thread, of
    interrupts and of the kernel's threads. ``outside_waits``: these threads have no priority over
    the engine's, as those of a loop device, and the call waits for them. ``busy``: by operation,
    both times where other threads want the processor; of syncs of files that grew, only that
    outside counts, and is as much less as of other syncs where it is not stated.
    ``in_order``: a request waits for all that came before it, however large; else a large one is
    served in turns with others.
    ``directions``: whether reads and writes (syncs among them) share the servers and what the
    device moves, or have each their own.
    ``basis``: ``measured`` (on a tier), ``published``, ``target`` (a vendor's promise),
    or ``constant``. ``sync_waits``: how often a sync waits for a processor where others
    want it: for its writes, for the flush, and for what the device's threads do in between.
    ``made_of``: None of published figures.
    ``in_engine``: the durations are those of an engine's calls on this host, which contain the
    copying from the page cache and the waiting for processors.
    """

    name: str
    description: str
    basis: str
    page_cache: bool = True
    parallel: int = MOST_PARALLEL
    points: Mapping[str, tuple[SizePoint, ...]] = field(default_factory=dict)
    bandwidth: Mapping[str, int] = field(default_factory=dict)
    burst_bytes: Mapping[str, int] = field(default_factory=dict)
    write_buffer: WriteBuffer | None = None
    readahead_bytes: int = DEFAULT_READAHEAD_BYTES
    fill_ns: int = 0
    processor_ns: Mapping[str, int] = field(default_factory=dict)
    after_work: Mapping[str, Extra] = field(default_factory=dict)
    after_pause: Mapping[int, Mapping[str, Extra]] = field(default_factory=dict)
    inode_write: InodeWrite | None = None
    depth_longer_ns: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    elsewhere_ns: Mapping[str, int] = field(default_factory=dict)
    shorter_elsewhere_ns: Mapping[str, int] = field(default_factory=dict)
    outside_ns: Mapping[str, int] = field(default_factory=dict)
    outside_waits: bool = False
    busy: Mapping[str, BusyTimes] = field(default_factory=dict)
    directions: Directions = "shared"
    in_order: bool = False
    sync_waits: float = 2
    in_engine: bool = False
    source: str = ""
    made_of: MeasuredTier | None = None

    @property
    def instant(self) -> bool:
        """Return whether the device adds no time to any call."""
        points = [point for of_one in self.points.values() for point in of_one]
        return not any(point.durations.quantiles[-1] for point in points) and (
            bool(points) or self.basis == "constant"
        )

    @cached_property
    def digest(self) -> str:
        """Content hash of the figures: runs on models that differ are not repeats."""
        return content_hash(
            {
                **attributes(self, "page_cache", "parallel", "bandwidth", "fill_ns"),
                **attributes(self, "outside_waits", "sync_waits", "in_engine"),
                **attributes(self, "directions", "in_order"),
                "burst": dict(self.burst_bytes),
                "processor": dict(self.processor_ns),
                "after_work": _by_operation(self.after_work),
                "after_pause": {
                    str(ns): _by_operation(extras) for ns, extras in self.after_pause.items()
                },
                "inode_write": self.inode_write
                and attributes(self.inode_write, "longer_ns", "processor_ns", "elsewhere_ns"),
                "depth": {str(size): list(ns) for size, ns in self.depth_longer_ns.items()},
                "elsewhere": dict(self.elsewhere_ns),
                "shorter_elsewhere": dict(self.shorter_elsewhere_ns),
                "outside": dict(self.outside_ns),
                "busy": {
                    name: attributes(times, "processor_ns", "outside_ns")
                    for name, times in self.busy.items()
                },
                "write_buffer": self.write_buffer
                and attributes(self.write_buffer, "size_bytes", "program_bytes", "program_ns"),
                "readahead": self.readahead_bytes,
                "points": {
                    name: [
                        [p.size_bytes, p.rate, [*p.durations.quantiles], [*p.durations.means]]
                        for p in points
                    ]
                    for name, points in self.points.items()
                },
            }
        )

    def mean_ns(self, operation: str, size_bytes: int) -> float | None:
        """Return the mean duration of one request of this size; None where none is stated.

        Linear between stated sizes, and beyond the largest by the bandwidth.
        """
        points = self.points.get(operation, ())
        if not points:
            return None
        sizes = [point.size_bytes for point in points]
        mean = float(np.interp(size_bytes, sizes, [point.durations.mean for point in points]))
        rate = self.bandwidth.get(direction(operation))
        beyond = max(0, size_bytes - sizes[-1])
        return mean + beyond / rate * 1e9 if rate else mean

    def missing(self, part: str) -> list[str]:
        """Return what a run with this part on the device needs, and the model does not state."""
        return [gap for name in _NEEDS[part] if (gap := self._gap(name))]

    def gaps(self) -> list[str]:
        """Return all that the model does not state."""
        return [gap for name in OPERATIONS if (gap := self._gap(name))]

    def _gap(self, operation: str) -> str:
        if self.instant:
            return ""
        points = self.points.get(operation, ())
        if not points:
            return f"{operation}s"
        stated = direction(operation) in self.bandwidth
        if self.basis != "constant" and len(points) == 1 and not stated:
            return f"{operation}s of other sizes than {format_bytes(points[0].size_bytes)}"
        return ""


def _by_operation(extras: Mapping[str, Extra]) -> dict[str, dict[str, int]]:
    return {name: attributes(extra, "longer_ns", "processor_ns") for name, extra in extras.items()}


def direction(operation: str) -> str:
    """Return the direction in which an operation moves bytes."""
    return "read" if operation == "read" else "write"
