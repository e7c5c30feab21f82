"""What fio prints (``--output-format=json+``), as metrics.

fio counts latencies in bins of less than 1.6 % of their value; they become histograms of
the harness's kind, so that repeats are merged and percentiles taken from all of them.
``lat`` is taken, from the submission to the completion; with ``fsync`` or ``fdatasync`` fio
reports the write call and the sync separately, and only the sum of their means is the time that
one write with its sync takes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness import hdr
from harness.errors import RunFailed
from harness.later import np
from harness.micro.io_jobs import IoJob
from harness.store.result import Metric

#: The first that prints the latencies of syncs with their bins.
OLDEST = (3, 12)
#: Far beyond all rates, counts and times in ns.
_MOST = 1e18
#: From a store to DAX memory to a disk that does not answer any more.
LAYOUT = hdr.Layout(1, 3600 * 10**9, 3)


@dataclass(frozen=True)
class IoSample:
    """One repeat of one configuration, times in ns.

    ``latencies``: an encoded histogram; ``syncs``: that of the sync calls, None where fio makes
    none of its own. ``notes``: what fio printed around its document.
    """

    bytes_per_second: float
    operations_per_second: float
    operations: int
    mean_ns: float
    latencies: str
    syncs: str | None
    sync_mean_ns: float
    notes: str = ""


def sample_of(document: Mapping[str, Any], job: IoJob) -> IoSample:
    """Read the one job of a fio run; RunFailed where it failed, or did nothing."""
    require_version(document)
    try:
        (job_result,) = document["jobs"]
        side = job_result[job.operation]
        sync = job_result["sync"]["lat_ns"] if job.sync in ("fsync", "fdatasync") else None
        # Without a single one fio leaves its bins out.
        syncs = histogram(sync.get("bins", {})) if sync else None
        latencies = histogram(side["lat_ns"].get("bins", {}))
        found = IoSample(
            bytes_per_second=number(side["bw_bytes"]),
            operations_per_second=number(side["iops"]),
            operations=int(number(side["total_ios"])),
            mean_ns=number(side["lat_ns"]["mean"]),
            latencies=latencies.encode(),
            syncs=syncs.encode() if syncs else None,
            sync_mean_ns=number(sync["mean"]) if sync else 0.0,
        )
        failed = int(number(job_result["error"]))
        under_way = job.queue_depth * job.threads  # at the end of the job
        if not failed and abs(found.operations - latencies.total) > under_way:
            raise ValueError(f"{latencies.total} latencies of {found.operations} operations")
    except (KeyError, ValueError, TypeError, AttributeError) as error:
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


def require_version(document: Mapping[str, Any]) -> None:
    """Refuse what an older fio printed: its documents are others."""
    printed = str(document.get("fio version"))
    found = tuple(int(number) for number in re.findall(r"\d{1,9}", printed)[:2])
    if found < OLDEST:
        raise RunFailed(
            "read fio's result",
            f"it is of {printed!r}",
            f"install fio {'.'.join(map(str, OLDEST))} or later",
        )


def number(value: Any) -> float:
    """Return a rate, count or time that a program printed; ValueError for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MOST:
        raise ValueError(f"{value!r:.40} where a number from 0 belongs")
    return float(value)


def histogram(bins: Mapping[str, int]) -> hdr.Histogram:
    """Return the histogram of fio's bins (value in ns, count)."""
    if sum(map(number, bins.values())) > hdr.MOST_TOTAL or not all(map(str.isdecimal, bins)):
        raise ValueError("bins of no durations, or with too many of them")
    counts = np.zeros(LAYOUT.counters, dtype=np.int64)
    low, _ = LAYOUT.bounds()
    values = np.array([min(max(int(value), 1), LAYOUT.highest) for value in bins], dtype=np.int64)
    np.add.at(counts, np.searchsorted(low, values, side="right") - 1, list(bins.values()))
    return hdr.Histogram(LAYOUT, counts)


def metrics_of(samples: Sequence[IoSample], labels: Mapping[str, str], sync: str) -> list[Metric]:
    """Return one configuration's metrics; rates and means have a sample each repeat."""

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
