"""Response curves: an engine's performance over the latency of the device of one part; scores.

The latencies are those of today's device, all scaled by one factor: the models of a curve have one
shape. Its durations are those that the engine's own calls had in a run on that device.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from harness import hdr
from harness.errors import RunFailed, UsageError
from harness.experiment.placement import Part
from harness.models.device import (
    DEFAULT_READAHEAD_BYTES,
    MOST_PARALLEL,
    OPERATIONS,
    DeviceModel,
    SizePoint,
)
from harness.models.device_document import MeasuredTier
from harness.models.durations import constant, of_histogram
from harness.models.model_file import as_yaml, known_models
from harness.models.model_file import load_model as load_device
from harness.store.runs import StoredRun
from harness.supervise.own_files import make_own, replacing

#: Of today's latency; zero is no waiting at all.
FACTORS = (0.0, 1 / 64, 1 / 16, 1 / 4, 1 / 2, 1.0)
#: The operations that the latency of a part is stated by: the first that waits for the device.
_MAIN = {"wal": ("sync",), "data": ("read", "sync"), "index": ("read", "sync"), "temp": ("read",)}
_PAGE_BYTES = 4096
_HISTOGRAM = "io_duration_ns"


@dataclass(frozen=True)
class LatencyShape:
    """Durations of a part's calls on today's device, of those that reach it.

    ``operation``: what the latency is stated by; ``points``: by operation, of the mean size of a
    call; ``mean_ns``: of ``operation``.
    """

    part: Part
    operation: str
    points: dict[str, SizePoint]
    mean_ns: float
    readahead_bytes: int

    def scaled(self, factor: float, name: str) -> DeviceModel:
        """Return the model of a device with this share of today's latency."""
        points = {
            operation: (replace(point, durations=point.durations.scaled(factor)),)
            for operation, point in self.points.items()
        }
        missing = [operation for operation in OPERATIONS if operation not in points]
        # An operation that today's run made none of waits for nothing.
        points |= {name: (SizePoint(_PAGE_BYTES, constant(0)),) for name in missing}
        rates = {"read": 10**12, "write": 10**12}  # the durations have the transfer in them
        return DeviceModel(
            name=name,
            description=f"{factor:g} of the latency of today's device of {self.part}",
            basis="measured",
            parallel=MOST_PARALLEL,
            points=points,
            bandwidth=rates,
            readahead_bytes=self.readahead_bytes,
            sync_waits=1,  # the waiting is in the durations
            in_engine=True,
            source="a response curve",
        )


def shape_of(run: StoredRun, part: Part) -> LatencyShape:
    """Return how long the part's calls took in a run; RunFailed where none reached a device."""
    calls: list[dict[str, Any]] = run.artifact("io-operations") or []
    points: dict[str, SizePoint] = {}
    means: dict[str, float] = {}
    for operation in OPERATIONS:
        if operation == "write":  # through the page cache, they wait for no device
            continue
        histograms = [
            hdr.decode(metric.hdr or "")
            for metric in run.result.metrics
            if metric.name == _HISTOGRAM
            and (metric.labels["part"], metric.labels["operation"]) == (part, operation)
        ]
        if not histograms:
            continue
        share = _cached_share(calls, part) if operation == "read" else 0.0
        histogram = _without_shortest(hdr.merge(histograms), share)
        if histogram is None:
            continue
        size = mean_bytes(calls, part, operation)
        points[operation] = SizePoint(size, of_histogram(histogram))
        means[operation] = histogram.mean
    main = next((operation for operation in _MAIN[part] if operation in means), None)
    if main is None:
        raise RunFailed(
            f"curve of {part}",
            f"run {run.run_id} made no {' or '.join(_MAIN[part])} of {part} that waited for the "
            "device",
            "choose another part, more data than memory, or a memory limit",
        )
    assert run.manifest is not None and run.spec.placement is not None
    name = run.spec.placement.tier_of(part)
    (tier,) = [tier_facts for tier_facts in run.manifest.tiers if tier_facts.name == name]
    readahead_bytes = tier.facts.readahead_bytes or DEFAULT_READAHEAD_BYTES
    return LatencyShape(part, main, points, means[main], readahead_bytes)


def _cached_share(calls: Sequence[dict[str, Any]], part: Part) -> float:
    """Return the share of a part's reads that the page cache served, of those that were probed."""
    reads = [call for call in calls if (call["part"], call["operation"]) == (part, "read")]
    cached, probed = (sum(call[name] for call in reads) for name in ("cached", "probed"))
    return float(cached / max(1, probed))


def _without_shortest(histogram: hdr.Histogram, share: float) -> hdr.Histogram | None:
    """Leave out the share of the calls that was shortest; None where that is all of them."""
    left = histogram.total - round(share * histogram.total)
    longer = np.cumsum(histogram.counts[::-1])[::-1] - histogram.counts  # than those of a bin
    counts = np.clip(left - longer, 0, histogram.counts)
    return hdr.Histogram(histogram.layout, counts) if counts.any() else None


def mean_bytes(calls: Sequence[dict[str, Any]], part: str, operation: str) -> int:
    """Return the mean size of calls, of syncs what was dirty; a page at least."""
    field = "dirtied_bytes" if operation == "sync" else "bytes"
    selected = [call for call in calls if (call["part"], call["operation"]) == (part, operation)]
    made = sum(call["calls"] for call in selected)
    return max(_PAGE_BYTES, int(sum(call[field] for call in selected) / max(1, made)))


@dataclass(frozen=True)
class ModelledPoint:
    """A point of a curve: its tier, the model of it, and the latency."""

    part: Part
    tier: str
    model: Path
    factor: float
    latency_ns: float

    def placement(self, today: str, parts: Sequence[Part]) -> str:
        """Return the placement: the part on the modelled tier, all others on today's.

        ``parts``: those that have a curve; without one, index and temp are with the data.
        """
        tiers = dict.fromkeys(("data", "wal", *parts), today) | {self.part: self.tier}
        return ",".join(f"{part}={tier}" for part, tier in tiers.items())

    @property
    def request(self) -> str:
        """Return the tier as ``--model`` requests it."""
        return f"{self.tier}={self.model}"


def write_points(
    shape: LatencyShape, folder: Path, factors: Sequence[float] = FACTORS
) -> list[ModelledPoint]:
    """Write the models of a curve."""
    points = []
    make_own(folder)
    for number, factor in enumerate(factors):
        name = f"{shape.part}-{number}"
        path = folder / f"{name}.yml"
        with replacing(path) as file:
            file.write(as_yaml(shape.scaled(factor, name)).encode())
        tier = f"{shape.part}_{number}"
        points.append(ModelledPoint(shape.part, tier, path, factor, shape.mean_ns * factor))
    return points


def marks(shape: LatencyShape, today: MeasuredTier) -> dict[str, float]:
    """Return the latency of each known model in ns, of those that state what the part needs.

    An engine's calls take longer than the device alone. So a model's latency on the curve is
    today's, as the engine saw it, times the ratio of both devices alone: that model's duration and
    that of a model of today's tier, at the same size. Without such a model there are no marks.
    """
    models: list[DeviceModel] = []
    for path in known_models().values():
        with suppress(UsageError):  # `harness model list` reports it
            models.append(load_device(path))
    size_bytes = shape.points[shape.operation].size_bytes
    of_today = [model for model in models if model.made_of == today]
    alone_ns = of_today[-1].mean_ns(shape.operation, size_bytes) if of_today else None
    return {
        model.name: shape.mean_ns * ns / alone_ns
        for model in models
        if alone_ns
        and not model.missing(shape.part)
        and (ns := model.mean_ns(shape.operation, size_bytes)) is not None
    }
