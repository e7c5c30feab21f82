"""Models of devices: as YAML files state them, and as the page of the I/O trace has them.

A model has the durations of one request at a time (reads, writes, syncs) by size, the number of
requests that the device serves at once, and its bandwidth. A model may be partial: what it does
not state is missing (:meth:`DeviceModel.missing`), and never estimated.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from harness import paths
from harness.errors import UsageError, unknown
from harness.experiment.placement import DIRECTORY_PARTS, Part
from harness.later import np
from harness.models.device_document import (
    DeviceDocument,
    Directions,
    ExtraDocument,
    InodeDocument,
    MeasuredTier,
)
from harness.models.durations import PROBABILITIES, Durations, constant, of_quantiles
from harness.models.page_cache import PageCache
from harness.store.documents import attributes
from harness.store.spec import content_hash
from harness.units import format_bytes, parse_duration_ns, parse_size
from harness.yamlfile import YamlDocument, load_yaml

OPERATIONS = ("read", "write", "sync")
#: Syncs of a file that grew since the last one: the file system has to note its length, too.
GROWN = "grown_sync"
SERVICES = (*OPERATIONS, GROWN)
#: As in iotrace/page.h.
MOST_SIZES, MOST_PARALLEL = 8, 64
#: Depths 2, 4, 8 … MOST_PARALLEL, of reads of so many sizes.
MOST_DEPTHS, MOST_DEPTH_SIZES, MOST_PAUSES = 6, 4, 4
#: Linux's own, where no rule of udev sets another.
DEFAULT_READAHEAD_BYTES = 128 << 10
#: The model that adds nothing: it measures what a device of no latency would gain at most.
ZERO = "zero"
_LATENCY = "latency:"
_QUANTILE = re.compile(r"p(\d+(?:\.\d+)?)")
_SUFFIX = ".yml"
#: Keys of a file whose values a model has as they are.
AS_STATED = (
    *("name", "description", "basis", "source", "made_of", "page_cache", "parallel"),
    *("outside_waits", "volatile_cache", "directions", "in_order", "in_engine"),
)
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
    ``elsewhere_ns``: by operation, by how much a request takes longer while calls are made on
    several processors, of which one gets the device's interrupts; without syncs of files that grew
    and, stated in ``inode_write``, syncs that write the inode.
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
    or ``constant``. ``volatile_cache``: a sync flushes it, once its writes are done: where
    processors are wanted, it waits for one twice. ``made_of``: None of published figures.
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
    volatile_cache: bool = True
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
                **attributes(self, "outside_waits", "volatile_cache", "in_engine"),
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


def model_folders() -> tuple[Path, ...]:
    """The folders of models: the user's, which come first, and those that ship."""
    return paths.data_root() / "devices", paths.data_folder("profiles") / "devices"


def known_models() -> dict[str, Path]:
    """Return the file of each model by name; a user's replaces a shipped one of its name."""
    paths: dict[str, Path] = {}
    for folder in reversed(model_folders()):
        paths |= {path.stem: path for path in sorted(folder.glob(f"*{_SUFFIX}"))}
    return dict(sorted(paths.items()))


def find_model(name: str) -> DeviceModel:
    """Return a model by its name, its file's path, or as ``zero`` or ``latency:20us``."""
    if name == ZERO:
        return DeviceModel(
            ZERO, "Memory: no latency, and no work of a disk's file system", "constant", False
        )
    if name.startswith(_LATENCY):
        return _constant(name)
    if name.endswith(_SUFFIX):
        return load_model(Path(name))
    models = known_models()
    if name not in models:
        raise unknown(
            f"device model {name!r}",
            "no such model",
            name,
            [ZERO, *models],
            "models: {}, latency:20us, or a file (`harness model list`)",
        )
    return load_model(models[name])


def _constant(name: str) -> DeviceModel:
    """Each request takes the same time, whatever its size and however many there are."""
    duration_ns = parse_duration_ns(name.removeprefix(_LATENCY))
    if duration_ns == 0:
        return DeviceModel(name, "A device of no latency", "constant")
    point = SizePoint(4096, constant(duration_ns), name)
    points = dict.fromkeys(OPERATIONS, (point,))
    return DeviceModel(
        name, "Every request takes the same time", "constant", points=points, volatile_cache=False
    )


def load_model(path: Path) -> DeviceModel:
    """Read a model; UsageError with file and line for a value that is not valid."""
    document = load_yaml(path)
    value = document.to(DeviceDocument)
    if value.name != path.stem and path in known_models().values():
        context = f"the model is named {value.name!r}"
        raise UsageError(document.at(("name",)), context, f"name it {path.stem!r}, as its file")
    points = {
        operation: tuple(
            sorted(_points(document, operation, sizes), key=lambda point: point.size_bytes)
        )
        for operation in SERVICES
        if (sizes := getattr(value, operation))
    }
    if value.write_buffer and ("write" not in value.bandwidth or "write" in value.burst):
        context = "a write buffer needs the bandwidth of writes, and is their burst"
        hint = "write bandwidth: {write: …}, and no burst of writes"
        raise UsageError(document.at(("write_buffer",)), context, hint)
    buffer = value.write_buffer
    return DeviceModel(
        **{name: getattr(value, name) for name in AS_STATED},
        points=points,
        bandwidth={name: parse_size(text[:-2]) for name, text in value.bandwidth.items()},
        burst_bytes={name: parse_size(text) for name, text in value.burst.items()},
        write_buffer=WriteBuffer(
            parse_size(buffer.size),
            parse_size(buffer.program_size),
            parse_duration_ns(buffer.program),
        )
        if buffer
        else None,
        readahead_bytes=parse_size(value.readahead),
        fill_ns=parse_duration_ns(value.fill),
        processor_ns={name: parse_duration_ns(text) for name, text in value.processor.items()},
        after_work=_extras(value.after_work),
        after_pause={
            parse_duration_ns(pause): _extras(stated) for pause, stated in value.after_pause.items()
        },
        inode_write=_inode_write(value.inode_write) if value.inode_write else None,
        depth_longer_ns={
            parse_size(size): tuple(map(parse_duration_ns, longer))
            for size, longer in value.longer_at_depth.items()
        },
        elsewhere_ns={name: parse_duration_ns(text) for name, text in value.elsewhere.items()},
        shorter_elsewhere_ns={
            name: parse_duration_ns(text) for name, text in value.shorter_elsewhere.items()
        },
        outside_ns={name: parse_duration_ns(text) for name, text in value.outside.items()},
        busy={
            name: BusyTimes(
                parse_duration_ns(times.processor),
                parse_duration_ns(times.outside),
            )
            for name, times in value.busy.items()
        },
    )


def _extras(stated: Mapping[Any, ExtraDocument]) -> dict[str, Extra]:
    return {operation: _extra(extra) for operation, extra in stated.items()}


def _extra(stated: ExtraDocument) -> Extra:
    return Extra(parse_duration_ns(stated.longer), parse_duration_ns(stated.processor))


def _inode_write(stated: InodeDocument) -> InodeWrite:
    extra = _extra(stated)
    elsewhere_ns = parse_duration_ns(stated.elsewhere)
    return InodeWrite(extra.longer_ns, extra.processor_ns, elsewhere_ns)


def _points(
    document: YamlDocument, operation: str, sizes: Mapping[str, Mapping[str, Any]]
) -> Iterator[SizePoint]:
    for size, figures in sizes.items():
        try:
            durations, rate = _durations(figures), _rate(figures)
        except ValueError as error:
            hint = "write three quantiles such as p50: 90us, or a mean: 90us, or both"
            raise UsageError(document.at((operation, size)), str(error), hint) from error
        except UsageError as error:
            raise UsageError(
                document.at((operation, size)), f"{error.problem}: {error.context}", error.hint
            ) from error
        yield SizePoint(parse_size(size), durations, str(figures.get("source", "")), rate)


def _durations(figures: Mapping[str, Any]) -> Durations:
    """Return what the figures of one size state; ValueError where they cannot be a distribution.

    ``means`` stand next to the quantiles of ``harness model make`` alone.
    """
    stated = {
        float(match[1]): parse_duration_ns(text)
        for key, text in figures.items()
        if (match := _QUANTILE.fullmatch(key))
    }
    if any(not 0 <= percent <= 100 for percent in stated):
        raise ValueError("a quantile outside 0 to 100")
    if "means" not in figures:
        mean_ns = parse_duration_ns(figures["mean"]) if "mean" in figures else None
        return of_quantiles(stated, mean_ns)
    if tuple(sorted(stated)) != PROBABILITIES or "mean" in figures:
        raise ValueError("means that are not those between the quantiles of `harness model make`")
    quantiles = tuple(ns for _, ns in sorted(stated.items()))
    return Durations(quantiles, tuple(parse_duration_ns(text) for text in figures["means"]))


def _rate(figures: Mapping[str, Any]) -> int:
    text = figures.get("rate")
    if text is None:
        return 0
    if not str(text).endswith("/s"):
        raise UsageError("rate", f"{text!r} is not bytes per second", "write it as 550MB/s")
    return parse_size(text.removesuffix("/s"))


#: As the I/O trace has them.
_PARTS: tuple[Part, ...] = (*DIRECTORY_PARTS, "relations")
_ONE = 1 << 32
_PAGE_BYTES = 4096
_PS_PER_S = 10**12
#: Far above any memory.
_UNLIMITED_PAGES = 1 << 40


def models_table(
    models: Mapping[Part, DeviceModel], tiers: Mapping[Part, str], cache: PageCache
) -> bytes:
    """Return the constant part of the table.

    ``models``: by part. ``tiers``: name of each part's tier; parts on one tier share its queue.
    A device on which no call waits is none: it costs nothing.
    """
    numbers = {name: i for i, name in enumerate(dict.fromkeys(tiers[p] for p in models))}
    by_tier = {tiers[part]: model for part, model in models.items()}
    device_of = [
        numbers[tiers[part]] + 1 if part in models and not models[part].instant else 0
        for part in _PARTS
    ]
    devices = [_device(by_tier[name], cache) for name in numbers]
    empty = bytes(len(_device(DeviceModel("", "", "constant"), cache)))
    probabilities = [min(_ONE - 1, round(p / 100 * _ONE)) for p in PROBABILITIES]
    return b"".join(
        (
            struct.pack(f"<{len(_PARTS)}Q", *device_of),
            struct.pack(f"<{len(PROBABILITIES)}Q", *probabilities),
            *devices,
            *[empty] * (len(_PARTS) - len(devices)),
        )
    )


def _device(model: DeviceModel, cache: PageCache) -> bytes:
    buffer = model.write_buffer
    pauses_ns = sorted(model.after_pause)
    no_pauses = MOST_PAUSES - len(pauses_ns)
    inode = model.inode_write or InodeWrite(0, 0)
    outside_ns = [model.outside_ns.get(operation, 0) for operation in OPERATIONS]
    outside_ns.append(model.outside_ns.get(GROWN, outside_ns[-1]))  # after that of syncs
    busy = [
        model.busy.get(operation, BusyTimes(model.processor_ns.get(operation, 0), alone_ns))
        for operation, alone_ns in zip(OPERATIONS, outside_ns, strict=False)
    ]
    depth_bytes = sorted(model.depth_longer_ns)
    unused = MOST_DEPTH_SIZES - len(depth_bytes)
    pages = _UNLIMITED_PAGES if cache.size_bytes is None else cache.size_bytes // _PAGE_BYTES
    return struct.pack(
        "<108Q",
        min(model.parallel, MOST_PARALLEL),
        int(model.directions == "separate"),
        int(model.in_order),
        _ps_per_byte(model, "read"),
        _ps_per_byte(model, "write"),
        model.burst_bytes.get("read", 0),
        buffer.size_bytes if buffer else model.burst_bytes.get("write", 0),
        int(model.page_cache) + int(model.page_cache and model.in_engine),
        model.readahead_bytes,
        max(1, pages),
        cache.background_bytes // _PAGE_BYTES,
        max(1, cache.throttle_bytes // _PAGE_BYTES),
        cache.expire_ns,
        model.fill_ns,
        int(model.page_cache and model.volatile_cache),
        buffer.program_bytes if buffer else 0,
        buffer.program_ns if buffer else 0,
        *(model.processor_ns.get(operation, 0) for operation in OPERATIONS),
        *_extra_of_all(model.after_work),
        *pauses_ns,
        *[0] * no_pauses,
        *(ns for pause_ns in pauses_ns for ns in _extra_of_all(model.after_pause[pause_ns])),
        *[0] * (no_pauses * 2 * len(OPERATIONS)),
        len(depth_bytes),
        *depth_bytes,
        *[0] * unused,
        *(ns for size in depth_bytes for ns in _by_depth(model.depth_longer_ns[size])),
        *[0] * (unused * (1 + MOST_DEPTHS)),
        *(model.elsewhere_ns.get(operation, 0) for operation in OPERATIONS),
        *(model.shorter_elsewhere_ns.get(operation, 0) for operation in OPERATIONS),
        inode.elsewhere_ns,
        inode.longer_ns,
        inode.processor_ns,
        *outside_ns,
        int(model.outside_waits),
        *(times.processor_ns for times in busy),
        *(times.outside_ns for times in busy),
        model.busy[GROWN].outside_ns
        if GROWN in model.busy
        else max(0, outside_ns[-1] - outside_ns[-2] + busy[-1].outside_ns),
    ) + b"".join(
        _service(model.points.get(operation, ()), model.bandwidth.get(direction(operation), 0))
        for operation in SERVICES
    )


def _extra_of_all(extras: Mapping[str, Extra]) -> tuple[int, ...]:
    of_all = [extras.get(operation, Extra(0, 0)) for operation in OPERATIONS]
    return *(extra.longer_ns for extra in of_all), *(extra.processor_ns for extra in of_all)


def _by_depth(longer_ns: tuple[int, ...]) -> tuple[int, ...]:
    """Return by how much a read takes longer at depths 1, 2, 4 and so on."""
    return (0, *longer_ns, *longer_ns[-1:] * (MOST_DEPTHS - len(longer_ns)))


def _ps_per_byte(model: DeviceModel, direction: str) -> int:
    rate = model.bandwidth.get(direction, 0)
    return round(_PS_PER_S / rate) if rate else 0


def _service(points: tuple[SizePoint, ...], bandwidth: int) -> bytes:
    chosen = points[:MOST_SIZES]
    unused = [0] * (MOST_SIZES - len(chosen))
    numbers = [len(chosen), *(point.size_bytes for point in chosen), *unused]
    numbers += [*_occupied_ns(chosen, bandwidth), *unused]
    for point in chosen:
        numbers += [*point.durations.quantiles, *point.durations.means]
    numbers += unused * (2 * len(PROBABILITIES) - 1)
    return struct.pack(f"<{len(numbers)}Q", *numbers)


def _occupied_ns(points: Sequence[SizePoint], bandwidth: int) -> list[int]:
    """Return for how long a request of each size takes the device from all others.

    Linear between the sizes whose rate is stated, and what the bandwidth allows, if that is longer,
    beyond the largest of them; zeros where none is stated: all sizes move the bandwidth.
    """
    occupied_s = {point.size_bytes: point.size_bytes / point.rate for point in points if point.rate}
    if not occupied_s:
        return [0] * len(points)
    sizes = [point.size_bytes for point in points]
    largest = max(occupied_s)
    for size_bytes in sizes:
        if bandwidth and size_bytes > largest:
            occupied_s[size_bytes] = max(occupied_s[largest], size_bytes / bandwidth)
    occupied_s = {0: 0.0, **occupied_s}
    seconds = np.interp(sizes, list(occupied_s), list(occupied_s.values()))
    return [round(s * 1e9) for s in seconds]
