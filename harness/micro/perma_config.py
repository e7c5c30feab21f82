"""The cross product is in the file's order, the last key fastest; of parallel benchmarks that
of both. Where it measures something else than it says, ours is right: docs/micro.md.

PerMA-Bench's configuration of one benchmark: its keys, defaults, units and limits.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from harness.errors import UsageError, unknown
from harness.micro.chains import (
    LINE_BYTES,
    PERSIST,
    Chain,
    ChainOperation,
    chain_text,
)
from harness.units import GIB, MIB, suffixed_number
from harness.workloads.kinds import Choice, Kind

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
        """Return whether it is a chain of operations."""
        return self.exec_mode == "custom"

    @property
    def counted(self) -> bool:
        """Return whether ``number_operations`` says how much is done."""
        return self.exec_mode in ("random", "custom")

    @property
    def uses_dram(self) -> bool:
        """Return whether some of its operations go to DRAM in addition to the tier."""
        chained = any(operation.place == "dram" for operation in self.custom_operations)
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
    """Return whether the key is one of CXL-Bench that PerMA-Bench does not have."""
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
        for respected, keys, hint in limits(config):
            if not respected:
                values = ", ".join(f"{key} {getattr(config, key) or 0}" for key in keys.split())
                raise UsageError(source, values, hint)


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
