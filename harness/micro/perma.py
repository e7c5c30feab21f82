"""PerMA-Bench's workload files, read as they are and turned into measurements.

::

    NAME: {matrix: {key: [value, …], …}, args: {key: value, …}}
    NAME: {parallel_benchmark: {A: {matrix, args}, B: {matrix, args}}}

The cross product is in the file's order, the last key fastest; of parallel benchmarks that
of both. Where it measures something else than it says, ours is right: docs/micro.md.

PerMA-Bench's configuration of one benchmark: its keys, defaults, units and limits.

As its documentation and its parser have them (PVLDB 15(11), §3.2; benchmark_config.hpp of
the published program), with its own words for values. Sizes are 1024-based.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import Any

from harness.errors import UsageError, unknown
from harness.micro.model import (
    LINE_BYTES,
    PERSIST,
    SAMPLE_EVERY,
    Axis,
    Chain,
    ChainOperation,
    Job,
    Measurement,
    chain_text,
)
from harness.structs import Where
from harness.units import GIB, MIB, NS_PER_S, suffixed_number
from harness.workloads.parameters import Choice, Kind
from harness.yamlfile import Document

_SIZE = re.compile(r"\d+[kKmMgG]?")
_YES, _NO = ("yes", "y", "true", "on"), ("no", "n", "false", "off")
_MOST_THREADS = (1 << 16) - 1


@dataclass(frozen=True)
class PermaConfig:
    """One configuration; ranges in bytes, ``run_time`` in seconds (0: not bounded by time)."""

    access_size: int = 256
    memory_range: int = 10 * GIB
    dram_memory_range: int = 0
    dram_operation_ratio: float = 0.0
    number_operations: int = 100_000_000
    number_threads: int = 1
    run_time: int = 0
    operation: str = "read"
    exec_mode: str = "sequential"
    persist_instruction: str = "nocache"
    number_partitions: int = 1
    numa_pattern: str = "near"
    random_distribution: str = "uniform"
    zipf_alpha: float = 0.9
    custom_operations: tuple[ChainOperation, ...] = ()
    latency_sample_frequency: int = 0
    prefault_file: bool = True
    dram_huge_pages: bool = True
    min_io_chunk_size: int = 64 * MIB

    @property
    def custom(self) -> bool:
        """Whether it is a chain of operations."""
        return self.exec_mode == "custom"

    @property
    def counted(self) -> bool:
        """Whether ``number_operations`` says how much is done."""
        return self.exec_mode in ("random", "custom")

    @property
    def uses_dram(self) -> bool:
        """Whether some of its operations go to DRAM in addition to the tier."""
        chained = any(one.place == "dram" for one in self.custom_operations)
        return self.dram_operation_ratio > 0 or chained

    def to_json(self, memory_type: str) -> dict[str, Any]:
        """Return a configuration as PerMA-Bench's results hold it, without what ended it.

        ``memory_type``: pmem or dram.
        """
        document: dict[str, Any] = {"memory_type": memory_type}
        document |= {key: getattr(self, key) for key in _ALWAYS}
        if self.uses_dram:
            document |= {key: getattr(self, key) for key in _OF_DRAM}
        if self.custom:
            document["custom_operations"] = chain_text(self.custom_operations)
        else:
            document |= {"access_size": self.access_size, "operation": self.operation}
        if self.operation == "write" and not self.custom:
            document["persist_instruction"] = self.persist_instruction
        if self.exec_mode == "random":
            document["random_distribution"] = self.random_distribution
            if self.random_distribution == "zipf":
                document["zipf_alpha"] = self.zipf_alpha
        return document


_ALWAYS = (
    "memory_range",
    "exec_mode",
    "number_partitions",
    "number_threads",
    "numa_pattern",
    "prefault_file",
    "min_io_chunk_size",
)
_OF_DRAM = ("dram_memory_range", "dram_operation_ratio", "dram_huge_pages")


class _Size:
    values = "512, 64K, 10G"

    def parse(self, name: str, value: Any) -> int:
        """Read a number of bytes, or one with K, M or G (1024-based)."""
        size = suffixed_number(str(value))
        if size is None or isinstance(value, bool) or not _SIZE.fullmatch(str(value)):
            hint = "a number of bytes, or one with K, M or G (1024-based): 512, 64K, 10G"
            raise UsageError(name, "not a size", hint)
        return int(size)


class _Whole:
    values = "100000000"

    def parse(self, name: str, value: Any) -> int:
        """Read a whole number without a suffix."""
        if isinstance(value, bool) or not str(value).isdecimal():
            raise UsageError(name, "not a whole number", "a number without a suffix: 100000000")
        return int(value)


class _Fraction:
    values = "0.9"

    def parse(self, name: str, value: Any) -> float:
        """Read a number, also one that YAML takes for a text (``1e-1``)."""
        try:
            number = math.nan if isinstance(value, bool) else float(value)
        except (TypeError, ValueError):
            number = math.nan
        if math.isnan(number):
            raise UsageError(name, "not a number", "write 0.9")
        return number


class _Flag:
    values = "true, false"

    def parse(self, name: str, value: Any) -> bool:
        """Read true and false, also yes, no, on and off."""
        return Choice((*_YES, *_NO)).parse(name, str(value).lower()) in _YES


#: Kinds of the keys' values: by name, all others by the type of the default.
_KINDS: Mapping[str, Kind] = {
    "operation": Choice(("read", "write")),
    "exec_mode": Choice(("sequential", "sequential_desc", "random", "custom")),
    "persist_instruction": Choice(tuple(PERSIST)),
    "numa_pattern": Choice(("near", "far")),
    "random_distribution": Choice(("uniform", "zipf")),
    "custom_operations": Chain(),
    **dict.fromkeys(
        ("access_size", "memory_range", "dram_memory_range", "min_io_chunk_size"), _Size()
    ),
}
_BY_TYPE: Mapping[type, Kind] = {int: _Whole(), float: _Fraction(), bool: _Flag()}
_DEFAULTS = {field.name: field.default for field in fields(PermaConfig)}
KEYS = tuple(_DEFAULTS)


#: Keys of CXL-Bench (https://github.com/hpides/cxlbench), PerMA-Bench's successor, alone.
_OF_CXL_BENCH = frozenset(
    {
        *("memory_region_size", "device_path", "device_offset"),
        *("numa_memory_nodes", "numa_memory_node_weights", "numa_task_nodes", "numa_thread_nodes"),
        *("thread_cores", "thread_pin_mode", "cache_instruction", "flush_instruction"),
        *("transparent_huge_pages", "explicit_hugepages_size"),
        *("percentage_pages_first_partition", "percentage_pages_first_node"),
        "node_count_first_partition",
    }
)


def is_of_cxl_bench(key: str) -> bool:
    """Whether the key is one of CXL-Bench that PerMA-Bench does not have."""
    return key.removeprefix("secondary_") in _OF_CXL_BENCH or key.startswith("secondary_")


def read_value(key: str, value: Any, source: str) -> Any:
    """Read one key's value; UsageError names ``source`` where it is unknown or does not fit."""
    if key not in KEYS:
        raise unknown(source, f"unknown key {key!r}", key, KEYS, "keys: {}")
    kind = _KINDS.get(key) or _BY_TYPE[type(_DEFAULTS[key])]
    try:
        return kind.parse(key, value)
    except UsageError as error:
        raise UsageError(source, f"{key}: {value!r}: {error.context}", error.hint) from error


def check(config: PermaConfig, source: str) -> None:
    """Refuse what PerMA-Bench's own limits refuse; UsageError names ``source``."""
    for limits in (_sizes, _threads, _modes):
        for kept, keys, hint in limits(config):
            if not kept:
                found = ", ".join(f"{key} {getattr(config, key) or 0}" for key in keys.split())
                raise UsageError(source, found, hint)


#: Whether a limit is kept, the keys that it is about, and what they must be.
_Limit = tuple[bool, str, str]


def _power_of_two(value: int) -> bool:
    return value >= LINE_BYTES and value & (value - 1) == 0


def _sizes(c: PermaConfig) -> Iterator[_Limit]:
    lines = "a power of two from 64 on (a cache line)"
    whole = f"a multiple of access_size ({c.access_size})"
    yield _power_of_two(c.access_size), "access_size", lines
    yield _power_of_two(c.min_io_chunk_size), "min_io_chunk_size", lines
    yield c.memory_range > 0, "memory_range", "more than nothing"
    yield c.memory_range % c.access_size == 0, "memory_range", whole
    yield c.dram_memory_range % c.access_size == 0, "dram_memory_range", f"{whole}, or 0"
    chunks = f"a multiple of min_io_chunk_size ({c.min_io_chunk_size})"
    yield c.memory_range % c.min_io_chunk_size == 0, "memory_range", chunks
    yield 0.0 <= c.dram_operation_ratio <= 1.0, "dram_operation_ratio", "from 0 to 1"
    yield c.zipf_alpha >= 0, "zipf_alpha", "0 or more"


def _threads(c: PermaConfig) -> Iterator[_Limit]:
    threads, parts = c.number_threads, c.number_partitions or c.number_threads
    yield 1 <= threads <= _MOST_THREADS, "number_threads", f"from 1 to {_MOST_THREADS}"
    divided = "number_threads must be a multiple of number_partitions"
    yield threads % parts == 0, "number_threads number_partitions", divided
    for key in ("memory_range", "dram_memory_range"):
        whole = "each partition must be a multiple of access_size: take 2^x partitions"
        yield getattr(c, key) // parts % c.access_size == 0, f"{key} number_partitions", whole
    enough = c.memory_range // threads >= c.min_io_chunk_size or c.dram_operation_ratio == 1
    chunk = f"each thread needs min_io_chunk_size ({c.min_io_chunk_size} bytes) of memory_range"
    yield enough, "memory_range number_threads", chunk


def _modes(c: PermaConfig) -> Iterator[_Limit]:
    mixed = c.dram_operation_ratio == 0 or c.exec_mode == "random"
    yield mixed, "dram_operation_ratio exec_mode", "dram_operation_ratio goes with random only"
    with_dram = not c.uses_dram or c.dram_memory_range > 0
    yield with_dram, "dram_memory_range", "set dram_memory_range: some operations are on DRAM"
    once = "a sequential benchmark goes once over its range, or as long as run_time"
    counted = c.counted or c.number_operations == PermaConfig.number_operations
    yield counted, "number_operations exec_mode", once
    least = c.min_io_chunk_size // c.access_size * c.number_threads
    enough = f"more than {least}: a chunk of min_io_chunk_size for each thread"
    yield not c.counted or c.number_operations > least, "number_operations", enough
    named = "name custom_operations: r_64,w_64_cache"
    yield not c.custom or bool(c.custom_operations), "exec_mode", named
    for key in ("custom_operations", "latency_sample_frequency"):
        yield c.custom or not getattr(c, key), "exec_mode", f"{key}: with exec_mode custom only"


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
    """Whether a parsed file is one of PerMA-Bench's: ours says which schema it has."""
    return isinstance(value, dict) and "schema" not in value


def parse_perma(document: Document) -> list[PermaConfiguration]:
    """Return the configurations of a file in its order; UsageError has file and line."""
    if not isinstance(document.value, dict) or not document.value:
        raise UsageError(document.at(()), "no benchmark in it", "write NAME: {args: {…}}")
    _refuse_cxl_bench(document)
    return [one for name in document.value for one in _benchmark(document, str(name))]


def _refuse_cxl_bench(document: Document) -> None:
    """UsageError for a file of CXL-Bench, which has the same form with other keys."""
    found = [
        (str(key), (*where, part, key))
        for where in _bodies(document.value)
        for part in ("args", "matrix")
        for key in _mapping(document.value, (*where, part))
        if is_of_cxl_bench(str(key))
    ]
    if found:
        names = ", ".join(dict.fromkeys(key for key, _ in found))
        raise UsageError(
            document.at(found[0][1]),
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
        found = f"{len(parts)} parts" if isinstance(parts, dict) else "no parts"
        raise UsageError(document.at(where), found, "a parallel benchmark has two")
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
    document: Document, where: Where, body: Mapping[str, Any], known: tuple[str, ...]
) -> None:
    for key in body:
        if key not in known:
            found = f"unknown key {key!r}"
            raise unknown(document.at((*where, key)), found, str(key), known, "known here: {}")


# Measurements ------------------------------------------------------------------


def measurements(configurations: Sequence[PermaConfiguration]) -> list[Measurement]:
    """Return the measurements; a chain with sampled latencies is measured twice.

    Independent chains overlap and give operations a second; in dependent ones each waits for
    the one before, which is what makes their time a latency. PerMA-Bench takes both from the
    same, overlapping chains.
    """
    return [measurement for one in configurations for measurement in _measured(one)]


def _measured(one: PermaConfiguration) -> Iterator[Measurement]:
    jobs = tuple(job_of(name, config) for name, config in zip(one.parts, one.configs, strict=True))
    run_time = max(config.run_time for config in one.configs)
    rated = Measurement(
        one.name,
        jobs,
        one.axes,
        run_time * NS_PER_S if run_time else None,
        WARM_UP_NS,
        needed=True,
        source=one.configs,
        origin=one.origin,
    )
    yield rated
    if any(config.latency_sample_frequency for config in one.configs):
        timed = tuple(_timed(job, c) for job, c in zip(jobs, one.configs, strict=True))
        axes = (*one.axes, Axis(one.axes[0].job if one.axes else "", "chain", "dependent"))
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
