"""fio on a tier: what block devices and file systems answer to reads and writes.

The file is written once, whole and with data that do not compress; each configuration then
overwrites or reads it, or appends to files of its own, in an order that is drawn for each repeat,
so that no configuration is always measured after the same other one. What goes through the page
cache finds all of the file there (:mod:`harness.host.page_cache`).

What fio prints (``--output-format=json+``), as metrics.

fio counts latencies in bins of less than 1.6 % of their value; they become histograms of
the harness's kind, so that repeats are merged and percentiles taken from all of them.
``lat`` is taken, from the submission to the completion; with ``fsync`` or ``fdatasync`` fio
reports the write call and the sync separately, and only the sum of their means is the time that
one write with its sync takes.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from harness import hdr, jsonfile
from harness.errors import RunFailed, UsageError
from harness.host import page_cache
from harness.later import np
from harness.micro import external_tools
from harness.micro.io_jobs import BLOCK_BYTES, WRITTEN_BYTES, FioParams, IoJob
from harness.micro.model import Job, Measurement
from harness.micro.protocol import MeasuringProgram, MicroContext, Planned, ProgramOutcome
from harness.store.result import Check, Label, Labels, Metric
from harness.store.spec import content_hash
from harness.supervise.user_files import acting_as
from harness.tiers.linux.kernel import LIVE
from harness.tiers.linux.model import Tier
from harness.units import counted, format_bytes
from harness.warnings import RunWarning

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
        sample = IoSample(
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
        if not failed and abs(sample.operations - latencies.total) > under_way:
            raise ValueError(f"{latencies.total} latencies of {sample.operations} operations")
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise RunFailed(
            f"read fio's result of {job.configuration}",
            f"it is not as fio 3 writes it: {error!r}",
            "install another version of fio",
        ) from error
    if failed:
        raise RunFailed(f"measure {job.configuration}", f"fio's I/O failed with error {failed}")
    if not sample.operations:
        raise RunFailed(
            f"measure {job.configuration}",
            "fio did no I/O: no operation ended in time",
            "give the measurements a longer duration",
        )
    if syncs is not None and not syncs.total:
        raise RunFailed(
            f"measure {job.configuration}",
            f"fio did {sample.operations} operations, but no {job.sync} ended in time",
            "give the measurements a longer duration",
        )
    return sample


def require_version(document: Mapping[str, Any]) -> None:
    """Refuse what an older fio printed: its documents are others."""
    printed = str(document.get("fio version"))
    version = tuple(int(number) for number in re.findall(r"\d{1,9}", printed)[:2])
    if version < OLDEST:
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


def metrics_of(samples: Sequence[IoSample], labels: Labels, sync: str) -> list[Metric]:
    """Return one configuration's metrics; rates and means have a sample each repeat."""

    def each(name: str, unit: str, better: Any, values: Sequence[float]) -> Metric:
        return Metric(name, unit, better, labels, samples=tuple(values))

    def all_of(name: str, histograms: Sequence[str]) -> Metric:
        return Metric(name, "ns", "lower", labels, hdr=hdr.merge_encoded(histograms))

    rates = [sample.bytes_per_second for sample in samples]
    means = [sample.mean_ns + sample.sync_mean_ns for sample in samples]
    metrics = [
        each("bandwidth_bytes_per_second", "B/s", "higher", rates),
        each("operations_per_second", "1/s", "higher", [s.operations_per_second for s in samples]),
        each("operation_mean_duration_ns", "ns", "lower", means),
    ]
    syncs = [sample.syncs for sample in samples if sample.syncs is not None]
    if not syncs:
        return [*metrics, all_of("operation_duration_ns", [sample.latencies for sample in samples])]
    return [
        *metrics,
        all_of("write_call_duration_ns", [sample.latencies for sample in samples]),
        all_of(f"{sync}_duration_ns", syncs),
    ]


_FILE = "data"
#: Of the memory that is available: a larger file would not stay in the page cache.
_CACHED_SHARE = 0.5
#: Characters of fio's notes that are stored.
_MOST_NOTES = 500


@dataclass(frozen=True)
class Fio(FioParams, MeasuringProgram):
    """The program fio with its parameters."""

    name = "fio"

    def check(self, tier: Tier) -> None:
        """UsageError where fio is missing, or the tier has no room for the file."""
        version()
        external_tools.require_room(tier, self.room_bytes, "fio", "size")
        for job in self.jobs:
            if job.direct == "yes" and not external_tools.goes_past_cache(tier, job.access_bytes):
                raise UsageError(
                    f"{job.configuration} on tier {tier.name!r}",
                    f"direct: calls of {job.access_bytes} bytes do not go past the page cache "
                    "there",
                    "leave direct out, or measure on another file system",
                )
            if job.direct == "yes" and _written_through_cache(job, tier):
                raise UsageError(
                    f"{job.configuration} on tier {tier.name!r}",
                    f"direct: {external_tools.WRITES_CACHED.context}",
                    external_tools.WRITES_CACHED.hint,
                )

    def planned(self, repeats: int, tier: Tier | None = None) -> Planned:
        """Plan each configuration on the one file, all for the same duration."""
        return Planned(
            [
                Measurement(
                    job.configuration,
                    (Job("", self.name, job.threads, self.size_bytes),),
                    duration_ns=self.duration.ns,
                )
                for job in self.jobs
            ],
            repeats * len(self.jobs) * self.duration.ns,
            f"the writing of a file of {format_bytes(self.size_bytes)}",
        )

    @property
    def _settings(self) -> str:
        return content_hash({"size_bytes": self.size_bytes, "duration_ns": self.duration.ns})

    def measure(self, work: MicroContext) -> ProgramOutcome:
        """Measure every configuration on the tier."""
        found_version = version()
        directory = work.files
        user = work.env.credentials
        past_cache = external_tools.takes_direct(directory, user)
        fill(work, _FILE, self.size_bytes, past_cache)
        page_cache.drop(directory / _FILE, user)
        cached = self.size_bytes <= (LIVE.available_memory_bytes() or 0) * _CACHED_SHARE
        samples_by_job: dict[IoJob, list[IoSample]] = {job: [] for job in self.jobs}
        files: dict[str, str] = {}
        for repeat in range(work.repeats):
            order = list(self.jobs)
            random.Random(f"{work.seed}/{repeat}").shuffle(order)
            for number, job in enumerate(order, 1):
                done = f"{repeat + 1} of {work.repeats}, {number} of {len(order)}"
                work.env.progress.note(f"{work.tier.name}: {job.configuration} ({done})")
                text = job_file(job, self, past_cache, work.seed + repeat)
                files.setdefault(job.configuration, text)
                warmed = cached and not (job.appends or _direct(job, past_cache))
                measure = partial(_measured, work, job, text, warmed)
                document = work.step(job.measurement, job.configuration, repeat, measure)
                samples_by_job[job].append(IoSample(**document))
        metrics = [
            metric
            for job, samples in samples_by_job.items()
            for metric in metrics_of(samples, _labels(job, work.tier, past_cache), job.sync)
        ]
        return ProgramOutcome(
            metrics=[*metrics, Metric("file_bytes", "bytes", "none", {}, value=self.size_bytes)],
            checks=[_everything(samples_by_job)],
            version=found_version,
            configurations=dict.fromkeys((job.configuration for job in self.jobs), self._settings),
            tool="fio",
            artifacts={"fio": {"jobs": files, "notes": _notes(samples_by_job)}},
            uncontrolled=tuple(_findings(self, work.tier, past_cache, cached)),
        )


def version() -> str:
    """Return the version of the fio here; UsageError where it is missing or too old."""
    return external_tools.require("fio", ["--version"], OLDEST)


def _measured(work: MicroContext, job: IoJob, text: str, warmed: bool) -> dict[str, Any]:
    if warmed:
        page_cache.warm(work.files / _FILE, work.env.credentials)
    document, notes = _fio(work, text)
    return asdict(replace(sample_of(document, job), notes=notes[:_MOST_NOTES]))


def job_file(job: IoJob, params: FioParams, past_cache: bool, seed: int) -> str:
    """Return the job as fio reads it, so that it can be repeated by hand."""
    # Parts begin at whole blocks: direct I/O refuses others.
    part = params.size_bytes // job.threads // job.access_bytes * job.access_bytes
    kind = {"sequential": job.operation, "random": f"rand{job.operation}"}[job.pattern]
    options: dict[str, Any] = {
        "size": part,
        "rw": kind,
        "bs": job.access_bytes,
        "ioengine": _engine(job),
        "iodepth": job.queue_depth,
        "direct": int(_direct(job, past_cache)),
        "numjobs": job.threads,
        "runtime": f"{params.duration.ns // 1_000_000}ms",
        "randseed": seed,
        "refill_buffers": 1,
        "lat_percentiles": 1,
        "clat_percentiles": 0,
        "thread": 1,
        "group_reporting": 1,
    }
    if job.appends:
        options |= {"filename_format": "log.$jobnum", "fallocate": "none", "unlink": 1}
    else:
        options |= {"filename": _FILE, "overwrite": 1}
        options["time_based"] = 1
        if job.pattern == "sequential" and job.threads > 1:  # each a part of its own
            options["offset_increment"] = part
    if job.pattern == "random":
        options["size"] = params.size_bytes
        options["norandommap"] = 1
    if not _direct(job, past_cache):
        options["invalidate"] = 0
    if job.operation == "write" and job.sync == "none" and not _direct(job, past_cache):
        options["end_fsync"] = 1  # what was left in the page cache burdens the next one
    if job.sync in ("fsync", "fdatasync"):
        options[job.sync] = 1
    if job.sync == "dsync":
        options["sync"] = "dsync"
    return section("job", options)


def section(name: str, options: Mapping[str, Any]) -> str:
    """Return a section of a job file; UsageError for a value that has more than one line."""
    for text in (name, *map(str, options.values())):
        if not text.isprintable() or (text is name and not re.fullmatch(r"[\w.-]+", name)):
            raise UsageError(f"a job of fio named {name!r}", f"{text!r} is no name or value of it")
    return "".join([f"[{name}]\n", *(f"{key}={value}\n" for key, value in options.items())])


def _engine(job: IoJob) -> str:
    return "libaio" if job.queue_depth > 1 else "psync"


def _direct(job: IoJob, past_cache: bool) -> bool:
    if job.direct == "auto":
        return past_cache and job.access_bytes % BLOCK_BYTES == 0
    return job.direct == "yes"


def fill(work: MicroContext, name: str, size_bytes: int, past_cache: bool) -> None:
    """Write a whole file: reads of blocks that were never written fetch nothing.

    ``size_bytes``: whole MiB.
    """
    work.env.progress.note(f"{work.tier.name}: writing {format_bytes(size_bytes)}")
    options = {
        "filename": name,
        "size": size_bytes,
        "rw": "write",
        "bs": WRITTEN_BYTES,
        "ioengine": "psync",
        "direct": int(past_cache),
        "end_fsync": 1,
        "refill_buffers": 1,
        "randseed": work.seed,
    }
    _fio(work, section("fill", options))
    with acting_as(work.env.credentials):
        written = (work.files / name).lstat().st_size
    if written != size_bytes:
        raise RunFailed(f"write {size_bytes} bytes on {work.tier.name}", f"the file has {written}")


def _fio(work: MicroContext, text: str) -> tuple[dict[str, Any], str]:
    """Run fio once; return its document and its notes."""
    return document_of(external_tools.run(work, ["fio", "--output-format=json+", "-"], text))


def document_of(printed: str) -> tuple[dict[str, Any], str]:
    """Return the document that fio printed, and its notes; RunFailed where there is none."""
    try:
        document: dict[str, Any]
        document, notes = jsonfile.parse_among_notes(printed)
    except ValueError as error:
        raise RunFailed("run fio", f"it printed no JSON ({error}): {printed[:200]!r}") from error
    return document, notes


def _written_through_cache(job: IoJob, tier: Tier) -> bool:
    """Return whether Linux makes the job's direct writes through the page cache."""
    return job.operation == "write" and external_tools.caches_direct_writes(tier)


def _notes(samples_by_job: Mapping[IoJob, list[IoSample]]) -> dict[str, list[str]]:
    """Return what fio printed around its documents, by configuration."""
    return {
        job.configuration: notes
        for job, samples in samples_by_job.items()
        if (notes := list(dict.fromkeys(sample.notes for sample in samples if sample.notes)))
    }


def _labels(job: IoJob, tier: Tier, past_cache: bool) -> dict[str, Label]:
    facts = tier.facts
    cached = _written_through_cache(job, tier)
    return {
        "measurement": job.measurement,
        "configuration": job.configuration,
        **job.axes,
        "direct": _direct(job, past_cache) and not cached,
        "io_engine": _engine(job),
        "filesystem": facts.filesystem or "unknown",
        "dax": "unknown" if facts.dax is None else facts.dax,
    }


def _everything(samples_by_job: Mapping[IoJob, list[IoSample]]) -> Check:
    """Report the number of operations: a job of fio that fails has no sample at all."""
    operations = sum(sample.operations for samples in samples_by_job.values() for sample in samples)
    return Check(
        "io_without_errors",
        "passed",
        f"{counted(len(samples_by_job), 'configuration')}, {counted(operations, 'operation')}, "
        "none failed",
    )


def _findings(
    params: FioParams, tier: Tier, past_cache: bool, cached: bool
) -> Iterator[RunWarning]:
    direct_requested = any(
        job.direct == "auto" and not job.access_bytes % BLOCK_BYTES for job in params.jobs
    )
    if direct_requested and not past_cache:
        yield RunWarning(
            code="no-direct-io",
            problem="the file system takes no direct I/O",
            context="reads may come from memory",
            hint="give a size larger than the memory, or measure on another file system",
        )
    elif not cached and not all(_direct(job, past_cache) for job in params.jobs):
        yield RunWarning(
            code="page-cache",
            problem="part of the file may lie in the page cache",
            context=f"a file of {format_bytes(params.size_bytes)} is more than "
            f"{_CACHED_SHARE:.0%} of the available memory",
            hint="give a smaller size, or direct: true",
        )
    if any(_direct(job, past_cache) and _written_through_cache(job, tier) for job in params.jobs):
        yield external_tools.WRITES_CACHED
