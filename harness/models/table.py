"""The table of models in the page of the I/O trace: the layout of ``iotrace/page.h``."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from harness.experiment.placement import DIRECTORY_PARTS, Part
from harness.models.device import MOST_PARALLEL, MOST_SIZES, SERVICES, DeviceModel, Point

#: Probabilities at which each distribution is stated in the table, in percent.
PROBABILITIES = (0, 1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99, 99.9, 99.99, 100)
_ONE = 1 << 32
_PAGE_BYTES = 4096
#: Linux's defaults: vm.dirty_background_ratio, vm.dirty_ratio, vm.dirty_expire_centisecs.
_BACKGROUND_SHARE, _THROTTLE_SHARE, _EXPIRE_NS = 0.10, 0.20, 30_000_000_000
_PS_PER_S = 10**12
#: Far above any memory; shares of it are limits that nothing reaches.
_UNLIMITED_PAGES = 1 << 40


@dataclass(frozen=True)
class PageCache:
    """The memory that the modelled page cache has; ``size_bytes`` None: no limit.

    ``available_bytes``: of what Linux's dirty limits are shares.
    """

    size_bytes: int | None
    available_bytes: int


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
        for part in DIRECTORY_PARTS
    ]
    devices = [_device(by_tier[name], cache) for name in numbers]
    empty = bytes(len(_device(DeviceModel("", "", "constant"), cache)))
    probabilities = [min(_ONE - 1, round(p / 100 * _ONE)) for p in PROBABILITIES]
    return b"".join(
        (
            struct.pack(f"<{len(DIRECTORY_PARTS)}Q", *device_of),
            struct.pack(f"<{len(PROBABILITIES)}Q", *probabilities),
            *devices,
            *[empty] * (len(DIRECTORY_PARTS) - len(devices)),
        )
    )


def _device(model: DeviceModel, cache: PageCache) -> bytes:
    pages = _UNLIMITED_PAGES if cache.size_bytes is None else cache.size_bytes // _PAGE_BYTES
    available = cache.available_bytes // _PAGE_BYTES
    return struct.pack(
        "<13Q",
        min(model.parallel, MOST_PARALLEL),
        _ps_per_byte(model, "read"),
        _ps_per_byte(model, "write"),
        model.burst_bytes.get("read", 0),
        model.burst_bytes.get("write", 0),
        int(model.page_cache) + int(model.page_cache and model.in_engine),
        model.readahead_bytes,
        max(1, pages),
        int(available * _BACKGROUND_SHARE),
        max(1, int(available * _THROTTLE_SHARE)),
        _EXPIRE_NS,
        model.fill_ns,
        model.sync_waits,
    ) + b"".join(_service(model.points.get(operation, ())) for operation in SERVICES)


def _ps_per_byte(model: DeviceModel, direction: str) -> int:
    rate = model.bandwidth.get(direction, 0)
    return round(_PS_PER_S / rate) if rate else 0


def _service(points: tuple[Point, ...]) -> bytes:
    chosen = points[:MOST_SIZES]
    sizes = [point.size_bytes for point in chosen] + [0] * (MOST_SIZES - len(chosen))
    rows = [[quantile_ns(point, p) for p in PROBABILITIES] for point in chosen]
    rows += [[0] * len(PROBABILITIES)] * (MOST_SIZES - len(chosen))
    flat = [value for row in rows for value in row]
    return struct.pack(f"<{1 + MOST_SIZES + len(flat)}Q", len(chosen), *sizes, *flat)


def quantile_ns(point: Point, percent: float) -> int:
    """Return a quantile: linear between stated ones, constant outside of them."""
    known = point.quantiles
    if percent <= known[0][0]:
        return known[0][1]
    for (low, low_ns), (high, high_ns) in pairwise(known):
        if percent <= high:
            return round(low_ns + (high_ns - low_ns) * (percent - low) / (high - low))
    return known[-1][1]
