"""Metrics of the program's measurements: a sample a repeat, labelled by configuration.

Labels (harness.micro.labels) are flat, so that a report finds series without knowing suites:
``measurement`` and ``configuration`` say where a value stands in its suite, ``job`` which of
several jobs it is of, and the rest what was done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from harness import hdr, structs
from harness.micro.chains import chain_text
from harness.micro.keys import REPORTED
from harness.micro.labels import job_labels, swept_labels
from harness.micro.model import FILE, MAP, Job, Measurement
from harness.micro.protocol import traffic_metrics
from harness.micro.spec import BLOCK, measurement_name
from harness.monitors.dimm_media import MediaReader, effective_write_ratio
from harness.store.result import Better, Label, Labels, Metric
from harness.units import GIB, NS_PER_S

#: Rates with their units, and the kinds that report them.
_RATES = {
    "bandwidth_bytes_per_second": (
        "B/s",
        ("throughput", "chain", "log", "page", "index", "pmdk", FILE),
    ),
    "operations_per_second": ("1/s", ("chain", "log", "page", "index", "pmdk", "atomic", FILE)),
}
#: Of an index, among its facts.
_COUNTED = ("flushes_per_write", "fences_per_write", "redundant_flushes_per_write")
#: Said of a job whose figures would be zero, or those of fewer threads.
NOTHING_DONE = "one of its threads got nothing done while all ran: give it more time (-p duration)"


@dataclass(frozen=True)
class Target:
    """Location of the measured bytes.

    ``huge_bytes``: those on huge pages; None: unknown. ``nodes``: sampled pages by node.
    ``extent_unit_bytes``: divides the distances between the pieces of a file on its device; 0: one
    piece; None: no file, or unknown.
    """

    kind: str
    size_bytes: int
    pages: str | None
    huge_bytes: int | None
    map_sync: bool | None
    nodes: Mapping[str, int] = field(default_factory=dict)
    extent_unit_bytes: int | None = None


@dataclass(frozen=True)
class ThreadWork:
    """Work of a thread from its own begin to its own end.

    ``excluded_cpu_ns``: processor time of what came between operations, which is not in ``cpu_ns``.
    """

    cpu: int
    begin_ns: int
    end_ns: int
    cpu_ns: int
    minor_faults: int
    major_faults: int
    operations: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    excluded_cpu_ns: int = 0


@dataclass(frozen=True)
class CommonWindow:
    """The time in which all threads of all jobs ran, and what was done in it."""

    duration_ns: int
    operations: int = 0


@dataclass(frozen=True)
class JobRepeat:
    """One repeat of one job. ``durable``: yes, no, eADR, or None where it writes nothing.

    ``duration_ns``: from the first begin of a thread to the last end of one, as what was done.
    """

    kind: str
    window: CommonWindow
    threads: tuple[ThreadWork, ...]
    target: str = ""
    operations_per_second: float = 0.0
    bandwidth_bytes_per_second: float = 0.0
    duration_ns: int = 0
    operations: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    latency_hdr: str | None = None
    durable: str | None = None
    durable_why: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Repeat:
    """One repeat of a measurement. ``stolen_ns``: by the hypervisor; None: unknown."""

    duration_ns: int
    stolen_ns: int | None
    core_hz: float
    jobs: tuple[JobRepeat, ...]


@dataclass(frozen=True)
class Measured:
    """A measurement of the program's result; it has one repeat."""

    name: str
    repeats: tuple[Repeat, ...]


@dataclass(frozen=True)
class Processor:
    """``stamp_step_ns``: the resolution of a thread's clock."""

    stamp_step_ns: float


@dataclass(frozen=True)
class ProgramResult:
    """The document that the program prints."""

    targets: Mapping[str, Target]
    measurements: tuple[Measured, ...]
    notes: tuple[str, ...]
    cpu: Processor


@dataclass(frozen=True)
class JobResults:
    """Results of the repeats of a configuration's job, in their order."""

    measurement: Measurement
    job: Job
    repeats: tuple[JobRepeat, ...]

    @property
    def idle(self) -> bool:
        """Return whether one of its threads did nothing while all ran.

        Its figures would be zero, or those of fewer threads than reported: either is wrong.
        """
        return any(
            repeat.window.operations == 0
            or any(thread.operations == 0 for thread in repeat.threads)
            for repeat in self.repeats
        )


@dataclass(frozen=True)
class SuiteResult:
    """The program's results of measurements, each with the same number of repeats.

    ``by_name``: as the spec names them (spec.measurement_name), in the order of measuring.
    """

    measurements: Sequence[Measurement]
    repeats: int
    targets: Mapping[str, Target]
    by_name: Mapping[str, Repeat]
    notes: Sequence[str]
    stamp_step_ns: float

    @classmethod
    def read(
        cls, measurements: Sequence[Measurement], repeats: int, document: dict[str, Any]
    ) -> SuiteResult:
        """Read the document of the program."""
        output = structs.convert(document, ProgramResult, "microbench's result")
        return cls(
            measurements,
            repeats,
            output.targets,
            {measurement.name: measurement.repeats[0] for measurement in output.measurements},
            output.notes,
            output.cpu.stamp_step_ns,
        )

    def in_order(self) -> Iterator[tuple[str, Repeat]]:
        """Yield the repeats as they were measured, each with its configuration."""
        for name, repeat in self.by_name.items():
            yield self.measurements[int(name.partition(BLOCK)[0])].configuration, repeat

    def by_measurement(self) -> Iterator[tuple[Measurement, list[Repeat]]]:
        """Yield each measurement with its repeats."""
        for index, measurement in enumerate(self.measurements):
            names = [measurement_name(index, block) for block in range(self.repeats)]
            yield measurement, [self.by_name[name] for name in names]

    def jobs(self) -> Iterator[JobResults]:
        """Yield the jobs of all configurations with their repeats."""
        for measurement, repeats in self.by_measurement():
            for position, job in enumerate(measurement.jobs):
                of_job = tuple(repeat.jobs[position] for repeat in repeats)
                yield JobResults(measurement, job, of_job)

    def labels_of(self, job_results: JobResults) -> dict[str, Label]:
        """Return the labels of a job's metrics."""
        first = job_results.repeats[0]
        return job_labels(
            job_results.measurement,
            job_results.job,
            self._swept.get((job_results.measurement.configuration, job_results.job.name)),
            pages=first.facts.get("pages") or pages_of(self.targets[first.target]),
            reported={
                label: first.facts[name] for name, label in REPORTED.items() if name in first.facts
            },
            persistent=first.durable or "",
        )

    @cached_property
    def _swept(self) -> Mapping[tuple[str, str], Labels]:
        return swept_labels(self.measurements)


def metrics_of(result: SuiteResult) -> Iterator[Metric]:
    """Yield all metrics of a result, but none of a job that was idle in one of the repeats."""
    for job_results in result.jobs():
        if not job_results.idle:
            yield from _metrics(job_results, result.labels_of(job_results))


@dataclass
class Counted:
    """Counters of measurements, by the measurements' names in the spec.

    ``media``: bytes at the modules' media in the window; ``traffic``: bytes per second of memory
    and devices.
    """

    media: dict[str, dict[str, float]] = field(default_factory=dict)
    traffic: dict[str, dict[str, float]] = field(default_factory=dict)


def counted_metrics(
    result: SuiteResult, counted: Counted, reader: MediaReader | None
) -> Iterator[Metric]:
    """Yield each configuration's effective write ratio and traffic, of all its jobs together.

    And what idle modules write, where they are counted.
    """
    if reader is not None:
        drift = reader.idle_bytes_per_s["media_write_bytes"]
        yield Metric("idle_media_write_bytes_per_second", "B/s", "none", value=drift)
    for index, measurement in enumerate(result.measurements):
        names = [measurement_name(index, block) for block in range(result.repeats)]
        repeats = tuple(result.by_name[name].jobs[0] for name in names)
        labels = result.labels_of(JobResults(measurement, measurement.jobs[0], repeats))
        labels.pop("job", None)
        media = [counted.media[name] for name in names if name in counted.media]
        ratios = [effective_write_ratio(moved) for moved in media]
        samples = tuple(ratio for ratio in ratios if ratio is not None)
        if len(samples) == result.repeats:
            yield Metric("effective_write_ratio", "1", "higher", labels, samples=samples)
        rates = [counted.traffic[name] for name in names if name in counted.traffic]
        if len(rates) == result.repeats:
            yield from traffic_metrics(labels, rates)


def _metrics(job_results: JobResults, labels: Labels) -> Iterator[Metric]:
    def sampled(name: str, unit: str, better: Better, samples: Iterable[float]) -> Metric:
        return Metric(name, unit, better, labels, samples=tuple(map(float, samples)))

    kind = job_results.job.kind
    for name, (unit, kinds) in _RATES.items():
        if kind in kinds:
            rates = (getattr(repeat, name) for repeat in job_results.repeats)
            yield sampled(name, unit, "higher", rates)
    if kind == "chase":  # each load waits for the one before it in its chain
        side_by_side = job_results.job.threads * int(job_results.job.keys.get("chains", 1))
        windows = [repeat.window for repeat in job_results.repeats]
        times = (side_by_side * w.duration_ns / max(1, w.operations) for w in windows)
        yield sampled("latency_ns", "ns", "lower", times)
    encoded = [repeat.latency_hdr for repeat in job_results.repeats if repeat.latency_hdr]
    if encoded and hdr.decode(merged := hdr.merge_encoded(encoded)).total:
        if kind == "chase":  # of means over many loads
            name = f"mean_latency_of_{job_results.repeats[0].facts['hops_a_sample']}_loads_ns"
            yield Metric(name, "ns", "none", labels, hdr=merged)
        else:
            yield Metric("operation_duration_ns", "ns", "lower", labels, hdr=merged)
    for position, chain in enumerate(job_results.job.mix):
        of_chain = {**labels, "chain": chain_text(chain.chain)}
        yield from _of_mix(
            [repeat.facts["mix"] for repeat in job_results.repeats], position, of_chain, job_results
        )
    yield from _of_memory(job_results, sampled)
    if kind == FILE:
        yield sampled("operation_kernel_ns", "ns", "lower", map(_cpu_ns, job_results.repeats))
        between = [_between_ns(repeat) for repeat in job_results.repeats]
        yield from [sampled("between_processor_ns", "ns", "lower", between)] * any(between)
        outside = [r.facts["outside_ns"] for r in job_results.repeats if "outside_ns" in r.facts]
        yield from [sampled("operation_outside_ns", "ns", "lower", outside)] * any(outside)
    calls = {"write_call_hdr": "write_call", "sync_hdr": str(job_results.job.keys.get("sync"))}
    for fact, call in calls.items():
        histograms = [text for r in job_results.repeats if (text := r.facts.get(fact))]
        if histograms:
            merged = hdr.merge_encoded(histograms)
            yield Metric(f"{call}_duration_ns", "ns", "lower", labels, hdr=merged)
    empty = [r.facts["empty_body_ns"] for r in job_results.repeats if "empty_body_ns" in r.facts]
    if empty:
        yield sampled("empty_body_ns", "ns", "none", empty)
    ours = kind == "index" and not {"library", "binary"} & job_results.job.keys.keys()
    for name in _COUNTED if ours and _COUNTED[0] in job_results.repeats[0].facts else ():
        yield sampled(name, "1", "lower", (repeat.facts[name] for repeat in job_results.repeats))


def _of_memory(
    job_results: JobResults, sampled: Callable[[str, str, Better, Iterable[float]], Metric]
) -> Iterator[Metric]:
    """Yield the time of mapping memory by its size, and the attempts that succeeded."""
    job, repeats = job_results.job, job_results.repeats
    if job.kind == MAP:
        gib = job.range_bytes / job.threads / GIB
        times = (NS_PER_S / (repeat.operations_per_second * gib) for repeat in repeats)
        yield sampled("time_per_gib_ns", "ns", "lower", times)
    shares = [r.facts["success_share"] for r in repeats if "success_share" in r.facts]
    if shares:
        yield sampled("success_share", "1", "higher", shares)


def _cpu_ns(repeat: JobRepeat) -> float:
    """Return the processor time of an operation: of calls, nearly all of it is Linux's own."""
    return sum(t.cpu_ns for t in repeat.threads) / sum(t.operations for t in repeat.threads)


def _between_ns(repeat: JobRepeat) -> float:
    """Return the processor time of what comes before an operation."""
    excluded_ns = sum(t.excluded_cpu_ns for t in repeat.threads)
    return excluded_ns / sum(t.operations for t in repeat.threads)


def _of_mix(
    done: Sequence[Sequence[Mapping[str, Any]]],
    position: int,
    labels: Labels,
    job_results: JobResults,
) -> Iterator[Metric]:
    """Yield a chain's part of the rate of its mix, and the times of those that were timed."""
    shares = [
        each[position]["operations"] / max(1, sum(chain["operations"] for chain in each))
        for each in done
    ]
    rates = (s * r.operations_per_second for s, r in zip(shares, job_results.repeats, strict=True))
    yield Metric("operations_per_second", "1/s", "higher", labels, samples=tuple(rates))
    timed = [each[position]["latency_hdr"] for each in done if each[position]["latency_hdr"]]
    if timed:
        merged = hdr.merge_encoded(timed)
        yield Metric("operation_duration_ns", "ns", "lower", labels, hdr=merged)


def pages_of(target: Target) -> str:
    """Return the pages of a target as measured: huge, base, mixed; file in the page cache."""
    if target.huge_bytes is None or (target.kind == "file" and not target.map_sync):
        return target.kind
    share = target.huge_bytes / target.size_bytes
    return "huge" if share > 0.95 else "base" if share < 0.05 else "mixed"
