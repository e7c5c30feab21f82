"""PerMA-Bench's workload files, read as they are and turned into measurements.

::

    NAME: {matrix: {key: [value, …], …}, args: {key: value, …}}
    NAME: {parallel_benchmark: {A: {matrix, args}, B: {matrix, args}}}

As its documentation and its parser have them (PVLDB 15(11), §3.2; benchmark_config.hpp of
the published program), with its own words for values. Sizes are 1024-based.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from harness.errors import UsageError, unknown
from harness.micro.chains import PERSIST, SAMPLE_EVERY
from harness.micro.model import (
    Axis,
    Job,
    Measurement,
)
from harness.micro.perma_config import PermaConfig, check, is_of_cxl_bench, read_value
from harness.structs import Where
from harness.units import NS_PER_S
from harness.yamlfile import Document

#: Before anything counts: PerMA-Bench has no warm-up of its own.
WARM_UP_NS = 200_000_000
#: Keys of the paper's Listing 1 that its releases call otherwise.
_OLD_NAMES = {"total_memory_range": "memory_range"}
#: Minimum of chains timed alone, whatever the sampling frequency: p99.9 needs them.
_LEAST_TIMED = 10_000


@dataclass(frozen=True)
class PermaConfiguration:
    """One of a benchmark's configurations: of a parallel one that of both its parts.

    ``name``: the benchmark's; ``parts``: their names, or that of the benchmark alone. ``axes``: the
    swept keys and their texts, in the order of the file.
    """

    name: str
    parts: tuple[str, ...]
    configs: tuple[PermaConfig, ...]
    axes: tuple[Axis, ...]
    origin: str


def is_perma(value: Any) -> bool:
    """Return whether a parsed file is one of PerMA-Bench's: ours says which schema it has."""
    return isinstance(value, dict) and "schema" not in value


def parse_perma(document: Document) -> list[PermaConfiguration]:
    """Return the configurations of a file in its order; UsageError has file and line."""
    if not isinstance(document.value, dict) or not document.value:
        raise UsageError(document.at(()), "no benchmark in it", "write NAME: {args: {…}}")
    _refuse_cxl_bench(document)
    return [
        configuration
        for name in document.value
        for configuration in _benchmark(document, str(name))
    ]


def _refuse_cxl_bench(document: Document) -> None:
    """UsageError for a file of CXL-Bench, which has the same form with other keys."""
    foreign_keys = [
        (str(key), (*where, part, key))
        for where in _bodies(document.value)
        for part in ("args", "matrix")
        for key in _mapping(document.value, (*where, part))
        if is_of_cxl_bench(str(key))
    ]
    if foreign_keys:
        names = ", ".join(dict.fromkeys(key for key, _ in foreign_keys))
        raise UsageError(
            document.at(foreign_keys[0][1]),
            "the file is a workload of CXL-Bench, whose memory regions and thread placement are "
            f"not supported: {names}",
            "write a suite with schema: 1 (docs/micro.md): --tier names the memory, and its keys "
            "threads and numa the placement",
        )


def _bodies(benchmarks: Mapping[str, Any]) -> Iterator[Where]:
    """Yield the place of each ``{matrix, args}`` of a file."""
    for name in benchmarks:
        parts = _mapping(benchmarks, (name, "parallel_benchmark"))
        yield from ((name, "parallel_benchmark", part) for part in parts)
        if not parts:
            yield (name,)


def _mapping(value: Any, where: Where) -> Mapping[Any, Any]:
    """Return the mapping at a place of a document; an empty one where there is none."""
    for key in where:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def _benchmark(document: Document, name: str) -> Iterator[PermaConfiguration]:
    body = document.value[name]
    if not isinstance(body, dict):
        raise UsageError(document.at((name,)), f"{name!r} has no args", "write args: {…}")
    if "parallel_benchmark" not in body:
        for config, axes, at in _points(document, (name,), body, job=""):
            yield PermaConfiguration(name, (name,), (config,), axes, at)
        return
    parts = body["parallel_benchmark"]
    where: Where = (name, "parallel_benchmark")
    _check_keys(document, (name,), body, ("parallel_benchmark",))
    if not isinstance(parts, dict) or len(parts) != 2:
        problem = f"{len(parts)} parts" if isinstance(parts, dict) else "no parts"
        raise UsageError(document.at(where), problem, "a parallel benchmark has two")
    names = tuple(map(str, parts))
    swept = [_points(document, (*where, part), parts[part], str(part)) for part in parts]
    for (a, axes_a, at), (b, axes_b, _) in product(*swept):
        yield PermaConfiguration(name, names, (a, b), (*axes_a, *axes_b), at)


_Point = tuple[PermaConfig, tuple[Axis, ...], str]


def _points(document: Document, where: Where, body: Any, job: str) -> Iterator[_Point]:
    """Yield the configurations of ``{matrix, args}``."""
    if not isinstance(body, dict) or not isinstance(body.get("args"), dict):
        raise UsageError(document.at(where), "no args", "write args: {…}, with a matrix or alone")
    _check_keys(document, where, body, ("matrix", "args"))
    args = {
        _OLD_NAMES.get(key, key): read_value(
            _OLD_NAMES.get(key, str(key)), value, document.at((*where, "args", key))
        )
        for key, value in body["args"].items()
    }
    matrix = body.get("matrix", {})
    if not isinstance(matrix, dict):
        raise UsageError(document.at((*where, "matrix")), "not a mapping", "write key: [values]")
    swept = [list(_values(document, (*where, "matrix", key), matrix[key])) for key in matrix]
    for chosen in product(*swept):
        values = {key: value for key, (value, _, _) in zip(matrix, chosen, strict=True)}
        given = {**args, **values}
        if given.get("custom_operations"):
            given.setdefault("exec_mode", "custom")  # as in the paper's Listing 1
        config = PermaConfig(**given)
        at = document.at(chosen[-1][2] if chosen else (*where, "args"))
        check(config, at)
        axes = tuple(
            Axis(job, str(k), text) for k, (_, text, _) in zip(matrix, chosen, strict=True)
        )
        yield config, axes, at


def _values(document: Document, where: Where, given: Any) -> Iterator[tuple[Any, str, Where]]:
    """Yield each value of a swept key, its text, and its place in the document."""
    key = str(where[-1])
    if not isinstance(given, list) or not given:
        raise UsageError(document.at(where), f"{key}: not a list", "write [a, b, c]")
    for position, value in enumerate(given):
        place = (*where, position)
        yield read_value(key, value, document.at(place)), str(value), place


def _check_keys(
    document: Document, where: Where, body: Mapping[str, Any], accepted: tuple[str, ...]
) -> None:
    for key in body:
        if key not in accepted:
            problem = f"unknown key {key!r}"
            raise unknown(document.at((*where, key)), problem, str(key), accepted, "known here: {}")


# Measurements ------------------------------------------------------------------


def measurements(configurations: Sequence[PermaConfiguration]) -> list[Measurement]:
    """Return the measurements; a chain with sampled latencies is measured twice.

    Independent chains overlap and give operations a second; in dependent ones each waits for
    the one before, which is what makes their time a latency. PerMA-Bench takes both from the
    same, overlapping chains.
    """
    return [
        measurement for configuration in configurations for measurement in _measured(configuration)
    ]


def _measured(configuration: PermaConfiguration) -> Iterator[Measurement]:
    jobs = tuple(
        job_of(name, config)
        for name, config in zip(configuration.parts, configuration.configs, strict=True)
    )
    run_time = max(config.run_time for config in configuration.configs)
    rated = Measurement(
        configuration.name,
        jobs,
        configuration.axes,
        run_time * NS_PER_S if run_time else None,
        WARM_UP_NS,
        needed=True,
        source=configuration.configs,
        origin=configuration.origin,
    )
    yield rated
    if any(config.latency_sample_frequency for config in configuration.configs):
        timed = tuple(_timed(job, c) for job, c in zip(jobs, configuration.configs, strict=True))
        axes = (
            *configuration.axes,
            Axis(configuration.axes[0].job if configuration.axes else "", "chain", "dependent"),
        )
        yield replace(rated, jobs=timed, axes=axes, duration_ns=None)


def job_of(name: str, c: PermaConfig) -> Job:
    """Return what a configuration makes the threads do."""
    dram_only = c.dram_operation_ratio == 1
    needs_dram = c.uses_dram and not dram_only
    counted = c.number_operations if c.counted else c.memory_range // c.access_size
    common: dict[str, Any] = {
        "name": name,
        "threads": c.number_threads,
        "range_bytes": c.dram_memory_range if dram_only else c.memory_range,
        "place": "dram" if dram_only else "tier",
        "numa": c.numa_pattern,
        "pages": "huge" if c.dram_huge_pages else "base",
        "partitions": c.number_partitions,
        "dram_range_bytes": c.dram_memory_range if needs_dram else 0,
        "dram_share": c.dram_operation_ratio if needs_dram else 0.0,
        "operations": None if c.run_time else counted,
    }
    if c.custom:
        return Job(**common, kind="chain", keys={"mode": "independent"}, chain=c.custom_operations)
    return Job(**common, kind="throughput", keys={**_kernel(c), **_pattern(c)})


def _kernel(c: PermaConfig) -> dict[str, Any]:
    if c.operation == "read":
        return {"operation": "load", "flush": "none", "fence": "none"}
    return {**PERSIST[c.persist_instruction], "flush_when": "line"}


def _pattern(c: PermaConfig) -> dict[str, Any]:
    keys: dict[str, Any] = {"access_bytes": c.access_size}
    if c.exec_mode != "random":
        return keys | {"pattern": c.exec_mode, "chunk_bytes": c.min_io_chunk_size}
    if c.random_distribution == "zipf":
        return keys | {"pattern": "zipf", "zipf_exponent": c.zipf_alpha}
    return keys | {"pattern": "random"}


def _timed(job: Job, c: PermaConfig) -> Job:
    """Return the same chains, each after the previous one.

    But no more are run than the workload has, save for the least that are worth a histogram.
    """
    if not c.custom:
        return job
    sampled = c.number_operations // max(1, c.latency_sample_frequency)
    least = _LEAST_TIMED * c.number_threads * SAMPLE_EVERY
    operations = max(min(sampled * SAMPLE_EVERY, c.number_operations), least)
    return replace(job, keys={"mode": "dependent"}, operations=operations)
