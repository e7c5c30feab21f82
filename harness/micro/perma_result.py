"""A run's result as PerMA-Bench writes it (``--format perma``): the shape its own tools read.

Bandwidths are in GiB/s, times in seconds, as there. A repeat stands for all: that with the
median rate, since PerMA-Bench knows no repeats. Independent chains give the rates, dependent
ones the latency.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from harness import hdr
from harness.errors import UsageError
from harness.micro.metrics import NOTHING_DONE, JobResults, collected
from harness.micro.model import Job, Measurement
from harness.micro.perma_config import PermaConfig
from harness.units import GIB, NS_PER_S

_PERCENTILES = {
    "median": 50.0, "lower_quartile": 25.0, "upper_quartile": 75.0, "percentile_90": 90.0,
    "percentile_95": 95.0, "percentile_99": 99.0, "percentile_999": 99.9, "percentile_9999": 99.99,
}  # fmt: skip


def perma_results(
    measurements: Sequence[Measurement],
    result: Mapping[str, Any],
    repeats: int,
    memory_type: str,
) -> list[dict[str, Any]]:
    """All benchmarks of a result; UsageError for a suite that is not PerMA-Bench's.

    ``memory_type``: pmem or dram, what the tier is.
    """
    if strange := next((one for one in measurements if not one.source), None):
        raise UsageError(
            f"--format perma for {strange.name}", "it is no benchmark of PerMA-Bench's",
            "use --json",
        )  # fmt: skip
    jobs: dict[str, list[JobResults]] = {}
    for one in collected(measurements, result, repeats):
        jobs.setdefault(one.measurement.configuration, []).append(one)
    names = dict.fromkeys(one.name for one in measurements)
    return [
        _benchmark([one for one in measurements if one.name == name], jobs, memory_type)
        for name in names
    ]


def _benchmark(
    same: Sequence[Measurement], jobs: Mapping[str, Sequence[JobResults]], memory_type: str
) -> dict[str, Any]:
    rated = [one for one in same if not _timed(one)]
    latencies = {_key(one): one for one in same if _timed(one)}
    first = rated[0]
    swept = {job.name: sorted(a.key for a in first.axes if a.job in ("", job.name))
             for job in first.jobs}  # fmt: skip
    single = len(first.jobs) == 1
    told: dict[str, Any] = {"bm_name": first.name}
    if not single:
        told["sub_bm_names"] = list(swept)
    told["bm_type"] = "single" if single else "parallel"
    told["matrix_args"] = next(iter(swept.values())) if single else swept
    told["benchmarks"] = []
    for one in rated:
        timed = latencies.get(_key(one))
        of_timed = jobs[timed.configuration] if timed else [None] * len(one.jobs)
        pairs = zip(one.source, jobs[one.configuration], of_timed, strict=True)
        parts = {
            job.job.name: (_config(config, job.job).to_json(memory_type), _result(job, latency))
            for config, job, latency in pairs
        }
        if single:
            ((config, results),) = parts.values()
            told["benchmarks"].append({"config": config, "results": results})
        else:
            told["benchmarks"].append({
                "config": {name: config for name, (config, _) in parts.items()},
                "results": {name: {"results": results} for name, (_, results) in parts.items()},
            })  # fmt: skip
    return told


def _timed(one: Measurement) -> bool:
    return any(job.keys.get("mode") == "dependent" for job in one.jobs)


def _key(one: Measurement) -> str:
    """What the two measurements of one configuration have in common."""
    return repr([(axis.job, axis.key, axis.text) for axis in one.axes if axis.key != "chain"])


def _config(config: PermaConfig, job: Job) -> PermaConfig:
    """As it was measured: with the threads and ranges that it had."""
    dram_only = config.dram_operation_ratio == 1
    sizes = (
        {"dram_memory_range": job.range_bytes}
        if dram_only
        else {"memory_range": job.range_bytes, "dram_memory_range": job.dram_range_bytes}
    )
    if config.counted and job.operations:
        sizes["number_operations"] = job.operations
    sizes["min_io_chunk_size"] = job.keys.get("chunk_bytes", config.min_io_chunk_size)
    return replace(config, number_threads=job.threads, **sizes)  # type: ignore[arg-type]


def _result(one: JobResults, latency: JobResults | None) -> dict[str, Any]:
    """``{"error": …}`` where there are no figures: zeros would be read as some."""
    if one.idle:
        return {"error": NOTHING_DONE}
    key = "operations_per_second" if one.job.kind == "chain" else "bandwidth_bytes_per_second"
    middle = statistics.median_low(one.values(key))
    repeat = next(repeat for repeat in one.repeats if repeat[key] == middle)
    seconds = repeat["duration_ns"] / NS_PER_S
    told = _chained(repeat, seconds) if one.job.kind == "chain" else _accessed(repeat, seconds)
    timed = latency.repeats if latency and not latency.idle else ()
    encoded = [repeat["latency_hdr"] for repeat in timed if repeat["latency_hdr"]]
    if encoded:
        told["latency"] = _latency(hdr.decode(hdr.merge_encoded(encoded)))
    return told


def _accessed(repeat: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    threads = [
        {
            "bandwidth": _gib(thread) / _seconds(thread),
            "execution_time": _seconds(thread),
            "accessed_bytes": thread["read_bytes"] + thread["written_bytes"],
        }
        for thread in repeat["threads"]
    ]
    total = repeat["bandwidth_bytes_per_second"] / GIB
    each = total / len(threads)
    return {
        "bandwidth": total,
        "execution_time": seconds,
        "accessed_bytes": repeat["read_bytes"] + repeat["written_bytes"],
        "thread_bandwidth_avg": each,
        "thread_bandwidth_std_dev": _deviation([t["bandwidth"] for t in threads], each),
        "threads": threads,
    }


def _chained(repeat: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    threads = [
        {
            "num_operations": thread["operations"],
            "execution_time": _seconds(thread),
            "ops_per_second": thread["operations"] / _seconds(thread),
        }
        for thread in repeat["threads"]
    ]
    total = repeat["operations_per_second"]
    each = total / len(threads)
    return {
        "execution_time": seconds,
        "num_operations": repeat["operations"],
        "ops_per_second": total,
        "thread_ops_per_second_avg": each,
        "thread_ops_per_second_std_dev": _deviation([t["ops_per_second"] for t in threads], each),
        "threads": threads,
    }


def _gib(thread: Mapping[str, Any]) -> float:
    size: float = (thread["read_bytes"] + thread["written_bytes"]) / GIB
    return size


def _seconds(thread: Mapping[str, Any]) -> float:
    return max(1, int(thread["end_ns"]) - int(thread["begin_ns"])) / NS_PER_S


def _deviation(values: Sequence[float], middle: float) -> float:
    """Of a sample, around ``middle``, as PerMA-Bench computes it."""
    squares = math.fsum((value - middle) ** 2 for value in values)
    return math.sqrt(squares / max(1, len(values) - 1))


def _latency(times: hdr.Histogram) -> dict[str, Any]:
    low, high = times.layout.bounds()
    middles = (low + (high - low + 1) // 2).astype(np.float64)
    mean = times.mean
    variance = float((times.counts * (middles - mean) ** 2).sum()) / max(1, times.total)
    used = np.flatnonzero(times.counts)
    told = {
        "max": times.max,
        "avg": mean,
        "min": int(low[used[0]]) if len(used) else 0,
        "std_dev": math.sqrt(variance),
    }
    percentiles = times.percentiles(list(_PERCENTILES.values()))
    return told | dict(zip(_PERCENTILES, percentiles, strict=True))
