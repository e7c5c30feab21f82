"""What fio prints (``--output-format=json+``), as metrics.

fio counts latencies in bins of less than 1.6 % of their value; they become histograms of
the harness's kind, so that repeats are merged and percentiles taken from all of them.
``lat`` is taken, from the submission to the completion; with ``fsync`` or ``fdatasync`` fio
reports the write call and the sync separately, and only the sum of their means is the time that
one write with its sync takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness import hdr
from harness.errors import RunFailed
from harness.later import np
from harness.micro.io_jobs import IoJob
from harness.store.result import Metric

#: From a store to DAX memory to a disk that does not answer any more.
LAYOUT = hdr.Layout(1, 3600 * 10**9, 3)


@dataclass(frozen=True)
class IoSample:
    """One repeat of one configuration, times in ns.

    ``latencies``: an encoded histogram; ``syncs``: that of the sync calls, None where fio makes
    none of its own.
    """

    bytes_per_second: float
    operations_per_second: float
    operations: int
    mean_ns: float
    latencies: str
    syncs: str | None
    sync_mean_ns: float


def sample_of(document: Mapping[str, Any], job: IoJob) -> IoSample:
    """The one job of a fio run; RunFailed where it failed, or did nothing."""
    try:
        (job_result,) = document["jobs"]
        side = job_result[job.operation]
        sync = job_result["sync"]["lat_ns"] if job.sync in ("fsync", "fdatasync") else None
        # Without a single one fio leaves its bins out.
        syncs = histogram(sync.get("bins", {})) if sync else None
        found = IoSample(
            bytes_per_second=float(side["bw_bytes"]),
            operations_per_second=float(side["iops"]),
            operations=int(side["total_ios"]),
            mean_ns=float(side["lat_ns"]["mean"]),
            latencies=histogram(side["lat_ns"].get("bins", {})).encode(),
            syncs=syncs.encode() if syncs else None,
            sync_mean_ns=float(sync["mean"]) if sync else 0.0,
        )
        failed = int(job_result["error"])
    except (KeyError, ValueError, TypeError) as error:
        raise RunFailed(
            f"read fio's result of {job.configuration}",
            f"it is not as fio 3 writes it: {error!r}",
            "install another version of fio",
        ) from error
    if failed:
        raise RunFailed(f"measure {job.configuration}", f"fio's I/O failed with error {failed}")
    if not found.operations:
        raise RunFailed(
            f"measure {job.configuration}",
            "fio did no I/O: no operation ended in time",
            "give the measurements a longer duration",
        )
    if syncs is not None and not syncs.total:
        raise RunFailed(
            f"measure {job.configuration}",
            f"fio did {found.operations} operations, but no {job.sync} ended in time",
            "give the measurements a longer duration",
        )
    return found


def histogram(bins: Mapping[str, int]) -> hdr.Histogram:
    """Of fio's bins: value in ns, count."""
    counts = np.zeros(LAYOUT.counters, dtype=np.int64)
    low, _ = LAYOUT.bounds()
    values = np.array([min(max(int(value), 1), LAYOUT.highest) for value in bins], dtype=np.int64)
    np.add.at(counts, np.searchsorted(low, values, side="right") - 1, list(bins.values()))
    return hdr.Histogram(LAYOUT, counts)


def metrics_of(samples: Sequence[IoSample], labels: Mapping[str, str], sync: str) -> list[Metric]:
    """One configuration's metrics: rates and means have a sample each repeat."""

    def each(name: str, unit: str, better: Any, values: Sequence[float]) -> Metric:
        return Metric(name, unit, better, labels, samples=tuple(values))

    def all_of(name: str, histograms: Sequence[str]) -> Metric:
        return Metric(name, "ns", "lower", labels, hdr=hdr.merge_encoded(histograms))

    rates = [one.bytes_per_second for one in samples]
    means = [one.mean_ns + one.sync_mean_ns for one in samples]
    found = [
        each("bandwidth_bytes_per_second", "B/s", "higher", rates),
        each("operations_per_second", "1/s", "higher", [s.operations_per_second for s in samples]),
        each("operation_mean_duration_ns", "ns", "lower", means),
    ]
    syncs = [one.syncs for one in samples if one.syncs is not None]
    if not syncs:
        return [*found, all_of("operation_duration_ns", [one.latencies for one in samples])]
    return [
        *found,
        all_of("write_call_duration_ns", [one.latencies for one in samples]),
        all_of(f"{sync}_duration_ns", syncs),
    ]
