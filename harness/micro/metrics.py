"""What the program measured, as metrics of a run: a sample a repeat, labelled by configuration.

Labels are flat, so that a report finds series without knowing suites: ``measurement`` and
``configuration`` say where a value stands in its suite, ``job`` which of several jobs it is
of, and the rest what was done.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness import hdr
from harness.host.uncontrolled import Finding
from harness.micro.chains import chain_text
from harness.micro.keys import UNLIMITED
from harness.micro.model import Job, Measurement
from harness.micro.spec import BLOCK, measurement_name
from harness.result import Metric
from harness.units import NS_PER_S, format_bytes

#: Keys of a job's own that are labels by another name.
_LABELS = {
    "operation": "operation", "store": "store", "pattern": "pattern", "order": "pattern",
    "access_bytes": "access_size_bytes", "stride_bytes": "stride_bytes",
    "hotspot_bytes": "hotspot_bytes", "zipf_exponent": "zipf_exponent",
    "flush": "flush", "fence": "fence", "flush_when": "flush_when",
    "fence_every_bytes": "fence_every_bytes", "read_share": "read_share", "before": "before",
    "node_bytes": "node_bytes", "chains": "chains", "locality_bytes": "locality_bytes",
    "mode": "mode", "writer": "writer", "padded": "padded",
    "entry_bytes": "entry_bytes", "method": "method", "page_bytes": "page_bytes",
    "dirty_lines": "dirty_lines",
}  # fmt: skip
#: A note on one measurement, by the name that it has in the spec.
_NOTED = re.compile(rf"^measurement (\d+){BLOCK}\d+: (.*)$")
#: Kinds that load memory beside what another one measures.
_LOADING = ("throughput",)
_WAITING = ("chase", "latency", "chain")
#: So much of the processors' time the hypervisor may take before it is told. It is counted in
#: ticks of 10 ms: shorter than a hundred of them is no measurement of which one can tell 1 %.
_STOLEN, _JUDGED_NS = 0.01, NS_PER_S
#: So much of a thread's time other processes may have its processor before it is told; threads
#: that ran for less time than this say nothing of it.
_SHARED, _LEAST_NS = 0.02, 1_000_000
#: So many configurations that lost most are named.
_WORST = 3
#: So far the core's clock may move between the repeats of a configuration.
_CLOCK = 0.05


#: Said of a job whose figures would be zero, or those of fewer threads.
NOTHING_DONE = "one of its threads got nothing done while all ran: give it more time (-p duration)"


@dataclass(frozen=True)
class JobResults:
    """What the repeats of one job of one configuration gave, in their order."""

    measurement: Measurement
    job: Job
    repeats: tuple[Mapping[str, Any], ...]

    @property
    def idle(self) -> bool:
        """Whether one of its threads did nothing while all ran.

        Its figures would be zero, or those of fewer threads than are told: either is wrong.
        """
        return any(
            repeat["window"]["operations"] == 0
            or any(thread["operations"] == 0 for thread in repeat["threads"])
            for repeat in self.repeats
        )

    def values(self, key: str) -> tuple[float, ...]:
        """One number of each repeat."""
        return tuple(float(one[key]) for one in self.repeats)


def collected(
    measurements: Sequence[Measurement], result: Mapping[str, Any], repeats: int
) -> Iterator[JobResults]:
    """The jobs of all configurations with their repeats."""
    by_name = {one["name"]: one["repeats"][0] for one in result["measurements"]}
    for index, measurement in enumerate(measurements):
        blocks = [by_name[measurement_name(index, block)] for block in range(repeats)]
        for position, job in enumerate(measurement.jobs):
            of_job = tuple(block["jobs"][position] for block in blocks)
            yield JobResults(measurement, job, of_job)


def metrics_of(
    measurements: Sequence[Measurement], result: Mapping[str, Any], repeats: int
) -> Iterator[Metric]:
    """All metrics of a result; none of a job that got nothing done in one of the repeats."""
    for one in collected(measurements, result, repeats):
        if one.idle:
            continue
        labels = labels_of(one, result)
        yield from _rates(one, labels)
        yield from _times(one, labels)


def _rates(one: JobResults, labels: Mapping[str, str]) -> Iterator[Metric]:
    if one.job.kind in ("throughput", "chain", "log", "page"):
        yield Metric(
            "bandwidth_bytes_per_second", "B/s", "higher", labels,
            samples=one.values("bandwidth_bytes_per_second"),
        )  # fmt: skip
    if one.job.kind in ("chain", "log", "page"):
        yield Metric(
            "operations_per_second", "1/s", "higher", labels,
            samples=one.values("operations_per_second"),
        )  # fmt: skip


def _times(one: JobResults, labels: Mapping[str, str]) -> Iterator[Metric]:
    hop = one.job.kind == "chase"  # its histogram is of means over many loads
    if hop:
        yield Metric("latency_ns", "ns", "lower", labels, samples=tuple(_chased(one)))
    encoded = [repeat["latency_hdr"] for repeat in one.repeats if repeat["latency_hdr"]]
    if encoded:
        times = hdr.merge_encoded(encoded)
        if hdr.decode(times).total:
            name = f"mean_latency_of_{_hops(one)}_loads_ns" if hop else "operation_duration_ns"
            yield Metric(name, "ns", "none" if hop else "lower", labels, hdr=times)
    empty = [r["facts"]["empty_body_ns"] for r in one.repeats if "empty_body_ns" in r["facts"]]
    if empty:
        yield Metric("empty_body_ns", "ns", "none", labels, samples=tuple(map(float, empty)))


def _hops(one: JobResults) -> int:
    """Over how many loads each value of a chase's histogram is the mean."""
    return int(one.repeats[0]["facts"]["hops_a_sample"])


def _chased(one: JobResults) -> Iterator[float]:
    """Time of a load: each waits for the one before it in its chain; those go side by side."""
    side_by_side = one.job.threads * int(one.job.keys.get("chains", 1))
    for repeat in one.repeats:
        window = repeat["window"]
        yield side_by_side * window["duration_ns"] / max(1, window["operations"])


def labels_of(one: JobResults, result: Mapping[str, Any]) -> dict[str, str]:
    """The labels of a job's metrics."""
    job, measurement, told = one.job, one.measurement, one.repeats[0]
    labels = {"measurement": measurement.name, "configuration": measurement.configuration}
    if len(measurement.jobs) > 1:
        labels["job"] = job.name
    labels |= {"kind": job.kind, "operation": job.kind}
    labels |= {label: _text(job.keys[key]) for key, label in _LABELS.items() if key in job.keys}
    if job.chain:
        labels["chain"] = chain_text(job.chain)
    labels |= {
        "threads": str(job.threads),
        "range_bytes": str(job.range_bytes),
        "pages": pages_of(result["targets"][told["target"]]),
        **({"place": "dram"} if job.place == "dram" else {}),
        **({"numa": job.numa} if job.numa == "far" else {}),
        **({"partitions": str(job.partitions)} if job.partitions != 1 else {}),
        **({"dram_range_bytes": str(job.dram_range_bytes)} if job.dram_range_bytes else {}),
        **({"dram_share": _text(job.dram_share)} if job.dram_share else {}),
        **({"isa": str(told["facts"]["isa"])} if "isa" in told["facts"] else {}),
        **({"persistent": told["durable"]} if told["durable"] else {}),
        **_pace_label(measurement, job),
    }
    return labels | _load_beside(measurement, job)


def _pace_label(measurement: Measurement, job: Job) -> dict[str, str]:
    """What was asked of a job that is throttled, or is so in other configurations."""
    swept = any(axis.key == "pace" and axis.job in ("", job.name) for axis in measurement.axes)
    if job.kind not in _LOADING or not (job.pace or swept):
        return {}
    return {"pace_bytes_per_second": _pace_text(job)}


def _pace_text(job: Job) -> str:
    """``4000000000``, ``unlimited``; ``paused`` behind each operation."""
    return str(job.pace.get("bytes_per_second", "paused")) if job.pace else UNLIMITED


def _load_beside(measurement: Measurement, job: Job) -> dict[str, str]:
    """What loads the memory while this job waits for it."""
    beside = [one for one in measurement.jobs if one is not job and one.kind in _LOADING]
    swept = any(axis.key == "pace" for axis in measurement.axes)
    if job.kind not in _WAITING or not (beside or swept):
        return {}
    if not beside:
        return {"load_operation": "none", "load_threads": "0", "load_bytes_per_second": "none"}
    (load, *_) = beside
    told = {
        "load_operation": _text(load.keys["operation"]),
        "load_threads": str(load.threads),
        "load_bytes_per_second": _pace_text(load),
    }
    if load.keys["operation"] == "mixed":
        told["load_read_share"] = _text(load.keys["read_share"])
    return told


def pages_of(target: Mapping[str, Any]) -> str:
    """What its bytes really lie on: huge, base, or mixed pages; file through the page cache."""
    huge = target["huge_bytes"]
    if huge is None or (target["kind"] == "file" and not target["map_sync"]):
        return str(target["kind"])
    if target["pages"] == "1g":
        return "1g"
    share = huge / target["size_bytes"]
    return "huge" if share > 0.95 else "base" if share < 0.05 else "mixed"


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


# What was not controlled ---------------------------------------------------------


def findings_of(
    measurements: Sequence[Measurement], result: Mapping[str, Any], repeats: int
) -> Iterator[Finding]:
    """What makes the figures of this result doubtful."""
    yield from _notes(measurements, result)
    yield from _pages(result)
    yield from _persistence(measurements, result, repeats)
    every = [one["repeats"][0] for one in result["measurements"]]
    yield from _stolen(measurements, result, repeats)
    yield from _shared(measurements, result)
    yield from _clock(every)


def _notes(measurements: Sequence[Measurement], result: Mapping[str, Any]) -> Iterator[Finding]:
    """The program's own words, with configurations by their names; the same ones once."""
    told: dict[str, list[str]] = {}
    for note in result["notes"]:
        match = _NOTED.match(note)
        words = match.group(2) if match else note
        names = told.setdefault(words, [])
        if match and (name := measurements[int(match.group(1))].configuration) not in names:
            names.append(name)
    for number, (words, names) in enumerate(told.items(), 1):
        of = f"{', '.join(names[:3])}{' …' if len(names) > 3 else ''}: " if names else ""
        yield Finding(
            what=f"microbench note {number}", found=of + words, do="see docs/microbench.md"
        )


def _pages(result: Mapping[str, Any]) -> Iterator[Finding]:
    for name, target in result["targets"].items():
        if target["pages"] == "huge" and pages_of(target) != "huge":
            yield Finding(
                what=f"huge pages of {name}",
                found=f"{format_bytes(target['huge_bytes'] or 0)} of "
                f"{format_bytes(target['size_bytes'])} lie on huge pages",
                do="echo madvise > /sys/kernel/mm/transparent_hugepage/enabled, and free memory",
            )
        elif target["pages"] is None and pages_of(target) in ("base", "mixed"):
            yield Finding(
                what=f"huge pages of {name}",
                found=f"{format_bytes(target['huge_bytes'])} of "
                f"{format_bytes(target['size_bytes'])} are mapped by pages of 2 MiB",
                do="align namespace and file system to 2 MiB, as setup-appdirect.yml does, and "
                "leave free space in one piece",
            )


def _persistence(
    measurements: Sequence[Measurement], result: Mapping[str, Any], repeats: int
) -> Iterator[Finding]:
    """Where nothing that was written would survive."""
    told = {
        repeat["durable"]: repeat["durable_why"]
        for one in collected(measurements, result, repeats)
        for repeat in one.repeats
        if repeat["durable"] is not None
    }
    if told and set(told) == {"no"}:
        yield Finding(
            what="persistence",
            found=f"nothing that was written would survive a loss of power: {told['no']}",
            do="read the figures as those of this memory, not of persistent memory",
        )


def _stolen(
    measurements: Sequence[Measurement], result: Mapping[str, Any], repeats: int
) -> Iterator[Finding]:
    """Measurements of a second and more one by one, shorter ones together."""
    told = [one for one in _processor_times(measurements, result, repeats) if one.stolen_ns >= 0]
    long = [one for one in told if one.wall_ns >= _JUDGED_NS]
    short = [one for one in told if one.wall_ns < _JUDGED_NS]
    together = _ProcessorTime(
        *(sum(getattr(one, key) for one in short) for key in ("stolen_ns", "all_ns", "wall_ns"))
    )
    found = []
    if many := sum(one.share > _STOLEN for one in long):
        worst = max(one.share for one in long)
        found.append(f"in {many} of {len(long)} measurements of 1 s or more, up to {worst:.0%}")
    if together.wall_ns >= _JUDGED_NS and together.share > _STOLEN:
        found.append(f"{together.share:.0%} in {len(short)} shorter ones together")
    if found:
        yield Finding(
            what="stolen processor time while measuring",
            found=f"more than {_STOLEN:.0%} of the processors' time went to other guests: "
            + "; ".join(found),
            do="ask for dedicated processors, or repeat",
        )


@dataclass(frozen=True)
class _ProcessorTime:
    """Of a measurement's processors: what was stolen (-1: not told), and all that they had."""

    stolen_ns: int
    all_ns: int
    wall_ns: int

    @property
    def share(self) -> float:
        """Never above 1: what was stolen while a measurement was set up is counted with it."""
        return min(1.0, self.stolen_ns / max(1, self.all_ns))


def _processor_times(
    measurements: Sequence[Measurement], result: Mapping[str, Any], repeats: int
) -> Iterator[_ProcessorTime]:
    """Of every repeat, from the warm-up on: ``stolen_ns`` is a sum over processors since then."""
    by_name = {one["name"]: one["repeats"][0] for one in result["measurements"]}
    for index, measurement in enumerate(measurements):
        for block in range(repeats):
            one = by_name[measurement_name(index, block)]
            cpus = {thread["cpu"] for job in one["jobs"] for thread in job["threads"]}
            stolen = -1 if one["stolen_ns"] is None else one["stolen_ns"]
            wall = measurement.warm_up_ns + one["duration_ns"]
            yield _ProcessorTime(stolen, wall * len(cpus), wall)


def _shared(measurements: Sequence[Measurement], result: Mapping[str, Any]) -> Iterator[Finding]:
    """Threads wait by turning, never by sleeping: what they did not run, somebody else did."""
    lost = [(one["name"], _most_lost(one["repeats"][0])) for one in result["measurements"]]
    above = [(name, share) for name, share in lost if share > _SHARED]
    worst: dict[str, float] = {}  # by configuration: its worst repeat
    for name, share in sorted(above, key=lambda one: -one[1]):
        worst.setdefault(measurements[int(name.partition(BLOCK)[0])].configuration, share)
    named = [f"{name} ({share:.0%})" for name, share in worst.items()]
    if above:
        yield Finding(
            what="processors shared while measuring",
            found=f"in {len(above)} of {len(lost)} measurements other processes had more than "
            f"{_SHARED:.0%} of a thread's time, the most in {'; '.join(named[:_WORST])}"
            f"{'; …' if len(named) > _WORST else ''}: these figures are not the device's",
            do="measure while nothing else runs, or on processors of its own (--cpus)",
        )


def _most_lost(repeat: Mapping[str, Any]) -> float:
    """The largest share of a thread's time that it did not run, of all threads."""
    ran = (
        (thread["cpu_ns"], thread["end_ns"] - thread["begin_ns"])
        for job in repeat["jobs"]
        for thread in job["threads"]
    )
    return max((1 - cpu / wall for cpu, wall in ran if wall >= _LEAST_NS), default=0.0)


def _clock(repeats: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    clocks = [one["core_hz"] for one in repeats if one["core_hz"] > 0]
    if len(clocks) < 2:
        return
    middle = statistics.median(clocks)
    spread = (max(clocks) - min(clocks)) / middle
    if spread > _CLOCK:
        yield Finding(
            what="core clock while measuring",
            found=f"between {min(clocks) / 1e9:.2f} and {max(clocks) / 1e9:.2f} GHz",
            do="fix it (frequency governor, turbo), or trust ratios within a block only",
        )
