"""A run's result as PerMA-Bench writes it (``--format perma``): the shape its own tools read.

Bandwidths are in GiB/s, times in seconds, as there. A repeat stands for all: that with the
median rate, since PerMA-Bench knows no repeats. Independent chains give the rates, dependent
ones the latency.

Each rate is, as there (BenchmarkResult of its benchmark.cpp), all that was done over the time
in which it was done: of a thread from its own begin to its own end, of all threads from the
first begin to the last end. So each can be computed again from the two numbers next to it. The
metrics of the stored run are of another time, that in which all threads ran. Average and
deviation are those of the threads' rates; PerMA-Bench's average is the total divided by the
threads, which is another where they do not end together.

PerMA-Bench's result files as devices of a card: measured by its program, on another host.

A file is a list of benchmarks, each with the configurations and results of its program (``perma``
writes it; so does ``--format perma``). A device is a file and the memory that it names. Its labels
are those that our run of the same configuration has; rates are of the whole time, and latencies
those of chains that overlap: they stand in the tables, and are no side of a ratio or a price.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness import hdr, jsonfile
from harness.errors import UsageError
from harness.later import np
from harness.micro.labels import job_labels
from harness.micro.metrics import NOTHING_DONE, JobRepeat, JobResults, SuiteResult, ThreadWork
from harness.micro.model import Axis, Job, Measurement
from harness.micro.perma import job_of
from harness.micro.perma_config import PERMA_BENCH, PermaConfig
from harness.sequences import grouped
from harness.store.documents import as_json
from harness.store.result import Metric
from harness.tiers.linux.model import Tier
from harness.units import GIB, NS_PER_S
from harness.warnings import RunWarning

#: Kinds of tiers that are persistent memory, mapped as such.
_DAX = ("fsdax", "devdax")
_PERCENTILES = {
    "median": 50.0,
    "lower_quartile": 25.0,
    "upper_quartile": 75.0,
    "percentile_90": 90.0,
    "percentile_95": 95.0,
    "percentile_99": 99.0,
    "percentile_999": 99.9,
    "percentile_9999": 99.99,
}


@dataclass(frozen=True)
class Memory:
    """The measured memory, in the configurations' words: ``memory_type``, and whether it stands in.

    ``emulated``: empty, or the mark of a tier that is not what it is called.
    """

    memory_type: str
    emulated: str = ""


def memory_of(tier: Tier) -> Memory:
    """Return a tier's memory; ``pmem`` is DAX that nothing emulates."""
    kind = tier.facts.kind
    if kind in _DAX and not tier.emulated:
        return Memory("pmem")
    in_dram = kind in ("numa", "tmpfs", *_DAX)
    mark = f"EMULATED: {tier.name} by {kind} at {tier.claim.path or tier.claim.device}"
    return Memory("dram" if in_dram else "page cache", mark if tier.emulated else "")


def perma_results(
    result: SuiteResult, memory: Memory, uncontrolled: Sequence[RunWarning] = ()
) -> list[dict[str, Any]]:
    """Return all benchmarks of the result of a suite of PerMA-Bench's.

    ``uncontrolled``: the run's warnings; they follow each benchmark's name, where
    PerMA-Bench's reader passes it by.
    """
    jobs = grouped(
        (job_results.measurement.configuration, job_results) for job_results in result.jobs()
    )
    benchmarks = grouped((measurement.name, measurement) for measurement in result.measurements)
    return [
        _benchmark(same, jobs, memory) | {"uncontrolled": as_json(list(uncontrolled))}
        for same in benchmarks.values()
    ]


def _benchmark(
    same: Sequence[Measurement], jobs: Mapping[str, Sequence[JobResults]], memory: Memory
) -> dict[str, Any]:
    rated = [measurement for measurement in same if not _timed(measurement)]
    latencies = {_key(measurement): measurement for measurement in same if _timed(measurement)}
    first = rated[0]
    swept = {
        job.name: sorted(a.key for a in first.axes if a.job in ("", job.name)) for job in first.jobs
    }
    single = len(first.jobs) == 1
    document: dict[str, Any] = {"bm_name": first.name}
    if not single:
        document["sub_bm_names"] = list(swept)
    document["bm_type"] = "single" if single else "parallel"
    document["matrix_args"] = next(iter(swept.values())) if single else swept
    document["benchmarks"] = []
    for measurement in rated:
        timed = latencies.get(_key(measurement))
        of_timed = jobs[timed.configuration] if timed else [None] * len(measurement.jobs)
        pairs = zip(measurement.source, jobs[measurement.configuration], of_timed, strict=True)
        parts = {
            job.job.name: (_config(config, job, memory), _result(job, latency))
            for config, job, latency in pairs
        }
        if single:
            ((config, results),) = parts.values()
            document["benchmarks"].append({"config": config, "results": results})
        else:
            document["benchmarks"].append(
                {
                    "config": {name: config for name, (config, _) in parts.items()},
                    "results": {name: {"results": results} for name, (_, results) in parts.items()},
                }
            )
    return document


def _timed(measurement: Measurement) -> bool:
    return any(job.keys.get("mode") == "dependent" for job in measurement.jobs)


def _key(measurement: Measurement) -> str:
    """Return what the two measurements of one configuration have in common."""
    return repr(
        [(axis.job, axis.key, axis.text) for axis in measurement.axes if axis.key != "chain"]
    )


def _config(config: PermaConfig, job_results: JobResults, memory: Memory) -> dict[str, Any]:
    """Return a configuration as it was measured: with its threads, ranges and bounds.

    Without ``number_operations`` where no count ended it; a sequential one has it where that
    is not once over its range.
    """
    job = job_results.job
    document = _fitted(config, job).to_json(memory.memory_type)
    if memory.emulated:
        document["emulated"] = memory.emulated
    once = job.range_bytes // config.access_size
    if job.operations and (config.counted or job.operations != once):
        document["number_operations"] = job.operations
    if duration := job_results.measurement.duration_ns:
        seconds, rest = divmod(duration, NS_PER_S)
        document["run_time"] = duration / NS_PER_S if rest else seconds
    return document


def _fitted(config: PermaConfig, job: Job) -> PermaConfig:
    sizes = (
        {"dram_memory_range": job.range_bytes}
        if config.dram_operation_ratio == 1
        else {"memory_range": job.range_bytes, "dram_memory_range": job.dram_range_bytes}
    )
    sizes["min_io_chunk_size"] = job.keys.get("chunk_bytes", config.min_io_chunk_size)
    return replace(config, number_threads=job.threads, number_partitions=job.partitions, **sizes)  # type: ignore[arg-type]


@dataclass(frozen=True)
class _Sort:
    """PerMA-Bench's name of a rate and of its count; ``unit``: the rate's, in counts."""

    rate: str
    amount: str
    keys: tuple[str, ...]
    unit: float

    def of(self, done: JobRepeat | ThreadWork) -> int:
        """Return how much was done, by a thread or by all."""
        return sum(int(getattr(done, key)) for key in self.keys)


_ACCESSED = _Sort("bandwidth", "accessed_bytes", ("read_bytes", "written_bytes"), GIB)
_CHAINED = _Sort("ops_per_second", "num_operations", ("operations",), 1.0)


def _result(job_results: JobResults, latency: JobResults | None) -> dict[str, Any]:
    """Return figures, or ``{"error": …}`` where there are none: zeros would be read as some."""
    if job_results.idle:
        return {"error": NOTHING_DONE}
    sort = _CHAINED if job_results.job.kind == "chain" else _ACCESSED
    figures = [_figures(sort, repeat) for repeat in job_results.repeats]
    middle = statistics.median_low(figure[sort.rate] for figure in figures)
    document = next(figure for figure in figures if figure[sort.rate] == middle)
    timed = latency.repeats if latency and not latency.idle else ()
    encoded = [repeat.latency_hdr for repeat in timed if repeat.latency_hdr]
    if encoded:
        document["latency"] = _latency(hdr.decode(hdr.merge_encoded(encoded)))
    return document


def _figures(sort: _Sort, repeat: JobRepeat) -> dict[str, Any]:
    """Return the figures of one repeat: of all threads, of each, and how far they are apart."""
    threads = [_rated(sort, thread, thread.end_ns - thread.begin_ns) for thread in repeat.threads]
    rates = [thread[sort.rate] for thread in threads]
    return {
        **_rated(sort, repeat, repeat.duration_ns),
        f"thread_{sort.rate}_avg": statistics.fmean(rates),
        f"thread_{sort.rate}_std_dev": statistics.stdev(rates) if len(rates) > 1 else 0.0,
        "threads": threads,
    }


def _rated(sort: _Sort, done: JobRepeat | ThreadWork, wall_ns: int) -> dict[str, Any]:
    """Return what was done, in how many seconds, and the one over the other."""
    amount, seconds = sort.of(done), max(1, wall_ns) / NS_PER_S
    return {
        sort.rate: amount / sort.unit / seconds,
        "execution_time": seconds,
        sort.amount: amount,
    }


def _latency(times: hdr.Histogram) -> dict[str, Any]:
    low, high = times.layout.bounds()
    middles = (low + (high - low + 1) // 2).astype(np.float64)
    mean = times.mean
    variance = float((times.counts * (middles - mean) ** 2).sum()) / max(1, times.total)
    used = np.flatnonzero(times.counts)
    document = {
        "max": times.max,
        "avg": mean,
        "min": int(low[used[0]]) if len(used) else 0,
        "std_dev": math.sqrt(variance),
    }
    percentiles = times.percentiles(list(_PERCENTILES.values()))
    return document | dict(zip(_PERCENTILES, percentiles, strict=True))


#: Of a configuration, and no key of a workload.
_OF_DEVICE = ("memory_type", "emulated")


@dataclass(frozen=True)
class PermaDevice:
    """A memory of a file. ``mark``: by what it is emulated. ``metrics``: each with its place."""

    file: str
    memory: str
    mark: str
    metrics: tuple[tuple[str, Metric], ...]

    @property
    def source(self) -> str:
        return f"PerMA-Bench’s file {self.file}"


def perma_devices(path: Path) -> list[PermaDevice]:
    """Return a device for each memory of a file; UsageError with the place of what is wrong."""
    try:
        document = jsonfile.read(path)
        by_device: dict[tuple[str, str], list[tuple[str, Metric]]] = {}
        for number, benchmark in enumerate(document, 1):
            where = f"{path}, benchmark {number}"
            for device, metrics in _read_benchmark(benchmark, where):
                by_device.setdefault(device, []).extend((where, metric) for metric in metrics)
        if not any(by_device.values()):
            raise ValueError("no result in it")
    except OSError as error:
        raise UsageError(f"--perma {path}", error.strerror or str(error)) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f"--perma {path}",
            f"no result file of PerMA-Bench: {type(error).__name__}: {error}",
            "name a file that perma or harness run micro --format perma wrote",
        ) from error
    return [
        PermaDevice(path.name, *device, tuple(metrics)) for device, metrics in by_device.items()
    ]


_Found = Iterator[tuple[tuple[str, str], list[Metric]]]


def _read_benchmark(benchmark: Mapping[str, Any], where: str) -> _Found:
    name = str(benchmark["bm_name"])
    single = benchmark["bm_type"] == "single"
    for number, entry in enumerate(benchmark["benchmarks"], 1):
        place = f"{where} ({name}), configuration {number}"
        configs = {name: entry["config"]} if single else entry["config"]
        results = {name: entry["results"]} if single else entry["results"]
        swept = benchmark["matrix_args"]
        keys = {name: swept} if single else swept
        parts = {part: _read_config(config, place) for part, config in configs.items()}
        measurement = Measurement(
            name,
            tuple(job_of(part, config) for part, config in parts.items()),
            tuple(
                Axis(part, key, str(configs[part].get(key, "")))
                for part, swept in keys.items()
                for key in swept
            ),
        )
        memory = next(iter(configs.values()))
        device = (str(memory["memory_type"]), str(memory.get("emulated", "")))
        yield device, list(_read_metrics(measurement, results))


def _read_config(config: Mapping[str, Any], where: str) -> PermaConfig:
    settings = {key: value for key, value in config.items() if key not in _OF_DEVICE}
    if isinstance(settings.get("run_time"), float):  # ours may end within a second
        settings["run_time"] = round(settings["run_time"])
    return PermaConfig(
        **{key: PERMA_BENCH.read_value(key, value, where) for key, value in settings.items()}
    )


def _read_metrics(measurement: Measurement, results: Mapping[str, Any]) -> Iterator[Metric]:
    for job in measurement.jobs:
        result = results[job.name]
        result = result.get("results", result)  # of parallel benchmarks
        if "error" in result:
            continue
        labels = job_labels(measurement, job)
        if job.kind == "chain":
            per_second = float(result["ops_per_second"])
            yield Metric("operations_per_second", "1/s", "higher", labels, per_second)
            if latency := result.get("latency"):
                mean_ns = float(latency["avg"])
                yield Metric("operation_mean_duration_ns", "ns", "lower", labels, mean_ns)
        else:
            rate = float(result["bandwidth"]) * GIB
            yield Metric("bandwidth_bytes_per_second", "B/s", "higher", labels, rate)
