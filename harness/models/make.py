"""Make a model of a tier from a run of the suite ``device-model`` on it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from statistics import mean, median

from harness import hdr
from harness.errors import RunFailed
from harness.models.device import (
    DEFAULT_READAHEAD_BYTES,
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
from harness.models.device_document import (
    MeasuredTier,
)
from harness.models.durations import of_histogram
from harness.store.result import Metric
from harness.store.runs import StoredRun

SUITE = "device-model"
#: Measurements of the suite by what they are of, with the metric that has the durations.
MEASURED = {
    "read": "operation_duration_ns",
    "write": "operation_duration_ns",
    "sync": "fdatasync_duration_ns",
    GROWN: "fdatasync_duration_ns",
}
#: Calls that move more than this share of what their size can wait for a throttle.
_ALL_BUT = 0.8
#: On a throttled device, calls that take so many times the median waited for the throttle, which
#: limits a size where they are more than a share of the time of all of its calls.
_WAITED, _LIMITED_SHARE = 4, 0.5
#: Both directions at once move so many times what each moves alone, where they share nothing: 2.
_SEPARATE = 1.5
#: One small sync in a hundred takes at least this share of a large one next to it.
_OF_LARGE_SYNC = 0.25
_PAGE_BYTES = 4096
#: More requests under way do not raise the rate where it is this share of the highest one.
_OF_HIGHEST_RATE = 0.95
#: A sync that writes the inode takes longer by at least this share.
_LEAST_INODE_SHARE = 0.1
#: Calls are measured after such pauses, of which none is shorter than Linux's tick.
_PAUSES = {"4ms": 4_000_000, "10ms": 10_000_000}
#: End the names of measurements: of calls after work, of calls on all processors in turn, of what
#: calls use outside of their thread, and of calls where all processors are wanted.
_AFTER_WORK, _ELSEWHERE, _OUTSIDE, _BUSY = "_after_work", "_elsewhere", "_outside", "_busy"
#: Ends those of calls next to as much work as engines do between theirs.
_CONTENDED = "_contended"
_MOST_WAITS = 16
_NEEDED = (
    *MEASURED,
    *(f"{name}{_AFTER_WORK}" for name in OPERATIONS),
    *(f"{name}{end}" for end in (_ELSEWHERE, _OUTSIDE, _BUSY) for name in SERVICES),
    *(f"{name}{_CONTENDED}" for name in ("read", "sync")),
    *(f"{name}_after_{pause}" for pause in _PAUSES for name in OPERATIONS),
    *(
        "sync_inode",
        f"sync_inode{_ELSEWHERE}",
        "in_order",
        "parallel",
        "parallel_cold",
        "cold_read",
        "scan",
        "checkpoint",
    ),
)
#: With fewer calls that did not wait for a throttle, durations of a size are not known.
_LEAST_SHARE = 0.03
#: A device whose work is done by workers of ordinary priority.
_LOOP_DEVICE = re.compile(r"/dev/loop\d")
#: Tier kinds whose files are buffered in the page cache.
_BUFFERED = ("block", "fs-nodax", "sector")


def model_of(run: StoredRun, name: str) -> DeviceModel:
    """Return the model that a run of the suite has measured."""
    assert run.manifest is not None
    (tier,) = run.manifest.tiers
    metrics = run.result.metrics
    measured = {metric.labels.get("measurement") for metric in metrics}
    at_once = _at_once(metrics)
    if missing := [
        *(name for name in _NEEDED if name not in measured),
        *(f"{way} of both" for way in ("read", "write") if way not in at_once),
    ]:
        context = f"run {run.run_id} has no durations of {', '.join(missing)}"
        raise RunFailed(f"make model {name}", context, "run it again: `harness model make`")
    facts, buffered = tier.facts, tier.kind in _BUFFERED
    elsewhere_ns = {name: _elsewhere_ns(metrics, name, name) for name in SERVICES}
    parallel = _parallel(metrics)
    inode_write = _inode_write(metrics, facts.journal)
    in_memory = tier.kind == "tmpfs"  # whoever calls copies: nothing queues
    bandwidth = {
        "read": _in_kb(_largest(metrics, ("read", "bulk_read", "scan"))),
        "write": _in_kb(max(_largest(metrics, ("write", "bulk_write")), _checkpoint_rate(metrics))),
    }
    bursts = {
        way: 0 if in_memory else _burst_bytes(run, way, rate) for way, rate in bandwidth.items()
    }
    points = {
        operation: tuple(_points(run, operation, bursts, not in_memory)) for operation in MEASURED
    }
    device = facts.device_model or facts.device or facts.filesystem
    return DeviceModel(
        name=name,
        description=f"tier {tier.name}: {device}, {facts.filesystem}",
        basis="measured",
        page_cache=buffered,
        parallel=MOST_PARALLEL if in_memory else parallel,
        points=points,
        bandwidth={} if in_memory else bandwidth,
        burst_bytes={way: burst for way, burst in bursts.items() if burst},
        fill_ns=_fill_ns(run) if buffered else 0,
        processor_ns={operation: _processor_ns(metrics, operation) for operation in OPERATIONS}
        if buffered
        else {},
        after_work=dict(_after_work(metrics)) if buffered else {},
        after_pause=dict(_after_pause(metrics, inode_write)) if buffered else {},
        inode_write=inode_write if buffered else None,
        depth_longer_ns={}
        if in_memory
        else dict(_longer_at_depth(metrics, parallel, elsewhere_ns["read"], bursts["read"])),
        elsewhere_ns={name: max(0, ns) for name, ns in elsewhere_ns.items()} if buffered else {},
        shorter_elsewhere_ns={name: -ns for name, ns in elsewhere_ns.items() if ns < 0}
        if buffered
        else {},
        outside_ns={service: _outside_ns(metrics, f"{service}{_OUTSIDE}") for service in SERVICES}
        if buffered
        else {},
        busy=dict(_busy(metrics)) if buffered else {},
        outside_waits=buffered and bool(_LOOP_DEVICE.match(facts.device or "")),
        sync_waits=_sync_waits(metrics) if buffered else 1,
        directions="separate" if sum(at_once.values()) >= _SEPARATE else "shared",
        in_order=buffered and not in_memory and _in_order(metrics),
        readahead_bytes=facts.readahead_bytes or DEFAULT_READAHEAD_BYTES,
        source=f"run {run.run_id}",
        made_of=MeasuredTier(tier.name, run.manifest.host.host_id),
    )


def _of(metrics: Sequence[Metric], name: str, measurement: str) -> Iterator[Metric]:
    for metric in metrics:
        if metric.name == name and metric.labels.get("measurement") == measurement:
            yield metric


def durations_of(run: StoredRun, operation: str) -> dict[int, hdr.Histogram]:
    """Return how long an operation took in a run of the suite, one at a time, by its bytes."""
    metrics = _of(run.result.metrics, MEASURED[operation], operation)
    by_size = {
        int(metric.labels["access_size_bytes"]): hdr.decode(metric.hdr or "") for metric in metrics
    }
    return dict(sorted(by_size.items()))


def _points(
    run: StoredRun, operation: str, bursts: Mapping[str, int], queues: bool
) -> Iterator[SizePoint]:
    throttled = bursts[direction(operation)] > 0
    for size_bytes, histogram in durations_of(run, operation).items():
        passed = _passed(histogram) if throttled else 1.0
        if passed == 1:
            measured = queues and not throttled
            rate = _rate(run.result.metrics, operation, size_bytes) if measured else 0
            yield SizePoint(size_bytes, of_histogram(histogram), rate=rate)
        elif passed >= _LEAST_SHARE:
            rate = _in_kb(size_bytes / histogram.mean * 1e9)
            yield SizePoint(size_bytes, of_histogram(histogram, passed), rate=rate)


def _passed(histogram: hdr.Histogram) -> float:
    """Return the share of a throttled device's calls that did not wait for the throttle.

    It is 1 for a size that the throttle does not limit: there, long calls are a small part of the
    time.
    """
    limit_ns = max(histogram.mean / 2, _WAITED * histogram.percentile(50))
    low, high = histogram.layout.bounds()
    middle = (low + high) / 2
    waited = float((histogram.counts * middle)[high >= limit_ns].sum())
    limited = waited >= _LIMITED_SHARE * float((histogram.counts * middle).sum())
    return _share_below(histogram, limit_ns) if limited else 1.0


def _largest(metrics: Sequence[Metric], measurements: tuple[str, ...]) -> float:
    """Return the highest rate of measurements, in bytes per second."""
    return max(
        sample
        for measurement in measurements
        for metric in _of(metrics, "bandwidth_bytes_per_second", measurement)
        for sample in metric.samples or ()
    )


def _checkpoint_rate(metrics: Sequence[Metric]) -> float:
    """Return the bytes per second of the sync alone: the writes before it fill the page cache."""
    return max(
        int(metric.labels["access_size_bytes"]) / hdr.decode(metric.hdr or "").mean * 1e9
        for metric in _of(metrics, MEASURED["sync"], "checkpoint")
    )


def _in_kb(value: float) -> int:
    """Return whole kB, as the model's file has them."""
    return round(value / 1e3) * 10**3


def _rate(metrics: Sequence[Metric], operation: str, size_bytes: int) -> int:
    """Return what several requests of a size move together; 0 where it was not measured."""
    if operation == "read" and size_bytes == _PAGE_BYTES:
        return _in_kb(max(_rates(metrics).values()) * size_bytes * 1e9)
    samples = [
        sample
        for metric in _of(metrics, "bandwidth_bytes_per_second", f"bulk_{operation}")
        if metric.labels.get("access_size_bytes") == size_bytes
        for sample in metric.samples or ()
    ]
    return _in_kb(median(samples)) if samples else 0


def _burst_bytes(run: StoredRun, way: str, bandwidth: int) -> int:
    """Return the bytes that pass at once in a slice; 0 of a device without a throttle.

    A throttle lets requests pass that a slice allows, and then one waits. They are as many
    as requests on one that waits, and each is what moves in the mean duration of one.
    """
    size_bytes, histogram = max(durations_of(run, way).items())
    rate = _rate(run.result.metrics, way, size_bytes) or bandwidth
    transfer_ns = size_bytes / rate * 1e9
    passed = _share_below(histogram, transfer_ns / 2)
    limited = histogram.mean * _ALL_BUT <= transfer_ns
    if not limited or not 0.5 < passed < 1:
        return 0
    burst_ns = histogram.mean / (1 - passed)
    return _in_kb(burst_ns / 1e9 * bandwidth)


def _at_once(metrics: Sequence[Metric]) -> dict[str, float]:
    """Return what moves in each direction next to the other one, of what moves alone."""
    shares = {}
    for metric in _of(metrics, "bandwidth_bytes_per_second", "both"):
        way = str(metric.labels.get("job"))
        if alone := _rate(metrics, way, int(metric.labels["access_size_bytes"])):
            shares[way] = median(metric.samples or ()) / alone
    return shares


def _in_order(metrics: Sequence[Metric]) -> bool:
    """Return whether a small sync that comes during a large one waits for the rest of it.

    Some in a hundred come then.
    """
    syncs = _of(metrics, MEASURED["sync"], "in_order")
    by_job = {str(metric.labels["job"]): hdr.decode(metric.hdr or "") for metric in syncs}
    if missing := [job for job in ("log", "checkpoint") if job not in by_job]:
        raise _not_one_ended(f"in_order, {' and '.join(missing)}")
    small, large = by_job["log"], by_job["checkpoint"]
    return small.percentile(99) >= _OF_LARGE_SYNC * large.mean


def _share_below(histogram: hdr.Histogram, limit_ns: float) -> float:
    _, high = histogram.layout.bounds()
    return float(histogram.counts[high < limit_ns].sum()) / histogram.total


def _fill_ns(run: StoredRun) -> int:
    """Return by how much a page takes longer in a read through the empty page cache."""
    (cold,) = _of(run.result.metrics, MEASURED["read"], "cold_read")
    size_bytes = int(cold.labels["access_size_bytes"])
    past_cache = durations_of(run, "read").get(size_bytes)
    if past_cache is None:
        return 0
    longer_ns = hdr.decode(cold.hdr or "").percentile(50) - past_cache.percentile(50)
    return max(0, round(longer_ns / (size_bytes / _PAGE_BYTES)))


def _after_work(metrics: Sequence[Metric]) -> Iterator[tuple[str, Extra]]:
    """Yield what a call of the smallest size takes more where work comes before it."""
    for operation in OPERATIONS:
        yield operation, _extra(metrics, operation, f"{operation}{_AFTER_WORK}")


def _after_pause(
    metrics: Sequence[Metric], inode_write: InodeWrite | None
) -> Iterator[tuple[int, dict[str, Extra]]]:
    """Yield what a call of the smallest size takes more after each pause.

    These syncs also write the inode: the file's time has changed meanwhile.
    """
    inode = inode_write or Extra(0, 0)
    for pause, pause_ns in _PAUSES.items():
        extras = {}
        for operation in OPERATIONS:
            extra = _extra(metrics, operation, f"{operation}_after_{pause}")
            if operation == "sync":
                processor_ns = max(0, extra.processor_ns - inode.processor_ns)
                extra = Extra(max(0, extra.longer_ns - inode.longer_ns), processor_ns)
            extras[operation] = extra
        yield pause_ns, extras


def _inode_write(metrics: Sequence[Metric], journal: bool | None) -> InodeWrite | None:
    """Return what a sync takes more that writes the inode; None where none does.

    With a journal, it leaves the change of the file's time to that, which is a little dearer: by
    that it is known where Linux does not say (``journal`` None).
    """
    extra = _extra(metrics, "sync", "sync_inode")
    alone = hdr.decode(_smallest(metrics, MEASURED["sync"], "sync").hdr or "")
    seems_none = extra.longer_ns < _LEAST_INODE_SHARE * alone.percentile(50)
    if journal or (journal is None and seems_none):
        return None
    elsewhere_ns = _elsewhere_ns(metrics, "sync", "sync_inode")
    return InodeWrite(extra.longer_ns, extra.processor_ns, max(0, elsewhere_ns))


def _extra(metrics: Sequence[Metric], operation: str, measurement: str) -> Extra:
    """Return what a measurement's calls of the smallest size take more than the operation's."""
    alone, longer = (
        hdr.decode(_smallest(metrics, MEASURED[operation], name).hdr or "").percentile(50)
        for name in (operation, measurement)
    )
    processor_ns = _processor_ns(metrics, measurement) - _processor_ns(metrics, operation)
    return Extra(max(0, round(longer - alone)), max(0, processor_ns))


def _elsewhere_ns(metrics: Sequence[Metric], operation: str, name: str) -> int:
    """Return by how much a call of the smallest size takes longer on all processors in turn.

    A thread that makes all calls is where the device's interrupts come; in turn, it is there once.
    Below 0: without interrupts, that thread has to wake a processor, which in turn are awake.
    """
    here, everywhere = (
        _smallest_ns(metrics, operation, measurement)
        for measurement in (name, f"{name}{_ELSEWHERE}")
    )
    return round(everywhere - here)


def _sync_waits(metrics: Sequence[Metric]) -> float:
    """Return how often a sync waits for a processor, where a read does once.

    Next to other work, no processor has to be woken: neither takes longer for that.
    """

    def longer_ns(name: str) -> float:
        awake = min(_smallest_ns(metrics, name, f"{name}{end}") for end in ("", _ELSEWHERE))
        return _smallest_ns(metrics, name, f"{name}{_CONTENDED}") - awake

    read_ns, sync_ns = longer_ns("read"), longer_ns("sync")
    return min(_MOST_WAITS, max(1.0, round(sync_ns / read_ns, 1))) if read_ns > 0 else 2.0


def _smallest_ns(metrics: Sequence[Metric], operation: str, measurement: str) -> float:
    """Return the typical duration of a call of the smallest size."""
    return _typical_ns(hdr.decode(_smallest(metrics, MEASURED[operation], measurement).hdr or ""))


def _typical_ns(histogram: hdr.Histogram) -> float:
    """Return the mean duration without stalls: of the middles of ten equal parts."""
    return mean(histogram.percentile(percent) for percent in range(5, 100, 10))


def _processor_ns(metrics: Sequence[Metric], measurement: str) -> int:
    """Return the kernel's processor time of an operation of the smallest size, one at a time.

    That of a sync is without the write before it, which a run on the model makes for real; where
    others want the processor, writes wait for that and for one another, and one alone stands in.
    """
    time_ns = median(_smallest(metrics, "operation_kernel_ns", measurement).samples or ())
    if measurement.startswith(("sync", GROWN)):
        alone = "sync" if measurement.endswith(_BUSY) else measurement
        write = _smallest(metrics, "write_call_duration_ns", alone)
        time_ns -= hdr.decode(write.hdr or "").mean
    return max(0, round(time_ns))


def _outside_ns(metrics: Sequence[Metric], measurement: str) -> int:
    """Return the processor time of an operation of the smallest size outside of its thread."""
    outside = _smallest(metrics, "operation_outside_ns", measurement)
    return max(0, round(median(outside.samples or ())))


def _busy(metrics: Sequence[Metric]) -> Iterator[tuple[str, BusyTimes]]:
    """Yield the processor times of a call where threads that work want all processors."""
    for service in SERVICES:
        measurement = f"{service}{_BUSY}"
        times = (_processor_ns(metrics, measurement), _outside_ns(metrics, measurement))
        yield service, BusyTimes(*times)


def _smallest(metrics: Sequence[Metric], name: str, measurement: str) -> Metric:
    sizes = {int(m.labels["access_size_bytes"]): m for m in _of(metrics, name, measurement)}
    if not sizes:
        raise _not_one_ended(measurement)
    return sizes[min(sizes)]


def _not_one_ended(measurement: str) -> RunFailed:
    context = f"{measurement}: not one call ended in the measured time"
    return RunFailed("make a model", context, "leave -p duration= out, or give more")


def _parallel(metrics: Sequence[Metric]) -> int:
    """Return the requests that the device serves at once: as long as one more raises the rate."""
    rates = _rates(metrics)
    enough = _OF_HIGHEST_RATE * max(rates.values())
    return next(threads for threads, rate in rates.items() if rate >= enough)


def _longer_at_depth(
    metrics: Sequence[Metric], parallel: int, elsewhere_ns: int, burst_bytes: int
) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield by how much more reads under way make a read longer, by its bytes.

    ``elsewhere_ns``: which calls on several processors have; it is no part of the queue. With a
    throttle (``burst_bytes``), large reads wait for that.
    """
    for measurement in ("parallel", *["parallel_cold"] * (not burst_bytes)):
        means_ns = _means_ns(metrics, measurement)
        alone_ns = means_ns[min(means_ns)]
        longer_ns = tuple(
            max(0, round(mean_ns - alone_ns - elsewhere_ns))
            for threads, mean_ns in means_ns.items()
            if 1 < threads <= parallel
        )
        metric = next(_of(metrics, MEASURED["read"], measurement))
        if longer_ns:
            yield int(metric.labels["access_size_bytes"]), longer_ns


def _rates(metrics: Sequence[Metric]) -> dict[int, float]:
    """Return the reads of 4 KiB in a nanosecond by the number of threads that make them."""
    return {threads: threads / ns for threads, ns in _means_ns(metrics, "parallel").items()}


def _means_ns(metrics: Sequence[Metric], measurement: str) -> dict[int, float]:
    """Return the mean duration of a read by the number of threads that make reads."""
    means = {
        int(metric.labels["threads"]): hdr.decode(metric.hdr or "").mean
        for metric in _of(metrics, MEASURED["read"], measurement)
    }
    return dict(sorted(means.items()))
