"""Models of devices as the page of the I/O trace has them (iotrace/page.h)."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from harness.experiment.placement import DIRECTORY_PARTS, Part
from harness.later import np
from harness.models.device import (
    GROWN,
    MOST_PARALLEL,
    OPERATIONS,
    SERVICES,
    BusyTimes,
    DeviceModel,
    Extra,
    InodeWrite,
    SizePoint,
    direction,
)
from harness.models.durations import PROBABILITIES
from harness.models.page_cache import PageCache

#: As in iotrace/page.h.
_MOST_SIZES = 8
#: Depths 2, 4, 8 … MOST_PARALLEL, of reads of so many sizes.
_MOST_DEPTHS, _MOST_DEPTH_SIZES, _MOST_PAUSES = 6, 4, 4
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
    no_pauses = _MOST_PAUSES - len(pauses_ns)
    inode = model.inode_write or InodeWrite(0, 0)
    outside_ns = [model.outside_ns.get(operation, 0) for operation in OPERATIONS]
    outside_ns.append(model.outside_ns.get(GROWN, outside_ns[-1]))  # after that of syncs
    busy = [
        model.busy.get(operation, BusyTimes(model.processor_ns.get(operation, 0), alone_ns))
        for operation, alone_ns in zip(OPERATIONS, outside_ns, strict=False)
    ]
    depth_bytes = sorted(model.depth_longer_ns)
    unused = _MOST_DEPTH_SIZES - len(depth_bytes)
    pages = _UNLIMITED_PAGES if cache.size_bytes is None else cache.size_bytes // _PAGE_BYTES
    return struct.pack(
        "<110Q",
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
        round(100 * model.sync_waits) if model.page_cache else 100,
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
        *[0] * (unused * (1 + _MOST_DEPTHS)),
        *(model.elsewhere_ns.get(service, 0) for service in SERVICES),
        *(model.shorter_elsewhere_ns.get(service, 0) for service in SERVICES),
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
    return (0, *longer_ns, *longer_ns[-1:] * (_MOST_DEPTHS - len(longer_ns)))


def _ps_per_byte(model: DeviceModel, direction: str) -> int:
    rate = model.bandwidth.get(direction, 0)
    return round(_PS_PER_S / rate) if rate else 0


def _service(points: tuple[SizePoint, ...], bandwidth: int) -> bytes:
    chosen = points[:_MOST_SIZES]
    unused = [0] * (_MOST_SIZES - len(chosen))
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
