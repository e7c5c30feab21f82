"""PerMA-Bench's configuration of one benchmark: its keys, defaults, units and limits.

As its documentation and its parser have them (PVLDB 15(11), §3.2; benchmark_config.hpp of
the published program), with its own words for values. Sizes are 1024-based.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from harness.errors import UsageError, nearest
from harness.micro.chains import PERSIST, ChainOperation, chain_text, parse_chain
from harness.units import GIB, KIB, MIB

OPERATIONS = ("read", "write")
MODES = ("sequential", "sequential_desc", "random", "custom")
NUMA_PATTERNS = ("near", "far")
DISTRIBUTIONS = ("uniform", "zipf")
_SIZE = re.compile(r"^(\d+)([kKmMgG]?)$")
_FACTORS = {"": 1, "k": KIB, "m": MIB, "g": GIB}
_YES_NO = {
    "yes": True,
    "y": True,
    "true": True,
    "on": True,
    "no": False,
    "n": False,
    "false": False,
    "off": False,
}
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
    def reads(self) -> bool:
        """Whether it reads at all."""
        return self.custom or self.operation == "read"

    @property
    def writes(self) -> bool:
        """Whether it writes at all."""
        if self.custom:
            return any(one.kind == "write" for one in self.custom_operations)
        return self.operation == "write"

    @property
    def uses_dram(self) -> bool:
        """Whether some of its operations go to DRAM in addition to the tier."""
        chained = any(one.place == "dram" for one in self.custom_operations)
        return self.dram_operation_ratio > 0 or chained

    def to_json(self, memory_type: str) -> dict[str, Any]:
        """As PerMA-Bench's results hold a configuration; ``memory_type``: pmem or dram."""
        told: dict[str, Any] = {"memory_type": memory_type}
        told |= {key: getattr(self, key) for key in _ALWAYS_TOLD}
        if self.uses_dram:
            told |= {key: getattr(self, key) for key in _DRAM_TOLD}
        if self.custom:
            told["number_operations"] = self.number_operations
            told["custom_operations"] = chain_text(self.custom_operations)
        else:
            told |= {"access_size": self.access_size, "operation": self.operation}
        if self.operation == "write" and not self.custom:
            told["persist_instruction"] = self.persist_instruction
        if self.exec_mode == "random":
            told["number_operations"] = self.number_operations
            told["random_distribution"] = self.random_distribution
            if self.random_distribution == "zipf":
                told["zipf_alpha"] = self.zipf_alpha
        return told | ({"run_time": self.run_time} if self.run_time else {})


_ALWAYS_TOLD = (
    "memory_range",
    "exec_mode",
    "number_partitions",
    "number_threads",
    "numa_pattern",
    "prefault_file",
    "min_io_chunk_size",
)
_DRAM_TOLD = ("dram_memory_range", "dram_operation_ratio", "dram_huge_pages")


class _Wrong(Exception):
    """What was found in place of a value, and what to write."""


def _size(value: Any) -> int:
    match = _SIZE.match(str(value)) if not isinstance(value, bool) else None
    if match is None:
        raise _Wrong("a number of bytes, or one with K, M or G (1024-based): 512, 64K, 10G")
    return int(match.group(1)) * _FACTORS[match.group(2).lower()]


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not str(value).isdigit():
        raise _Wrong("a whole number without a suffix: 100000000")
    return int(value)


def _fraction(value: Any) -> float:
    try:
        if isinstance(value, bool):
            raise ValueError
        return float(value)
    except (TypeError, ValueError) as error:
        raise _Wrong("a number: 0.9") from error


def _flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if str(value).lower() not in _YES_NO:
        raise _Wrong("true or false")
    return _YES_NO[str(value).lower()]


def _word(known: tuple[str, ...]) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if value not in known:
            raise _Wrong(f"one of {', '.join(known)}{nearest(str(value), known)}")
        return str(value)

    return read


_READ: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(
        ("access_size", "memory_range", "dram_memory_range", "min_io_chunk_size"), _size
    ),
    **dict.fromkeys(
        (
            "number_operations",
            "number_threads",
            "run_time",
            "number_partitions",
            "latency_sample_frequency",
        ),
        _whole,
    ),
    **dict.fromkeys(("dram_operation_ratio", "zipf_alpha"), _fraction),
    **dict.fromkeys(("prefault_file", "dram_huge_pages"), _flag),
    "operation": _word(OPERATIONS),
    "exec_mode": _word(MODES),
    "persist_instruction": _word(tuple(PERSIST)),
    "numa_pattern": _word(NUMA_PATTERNS),
    "random_distribution": _word(DISTRIBUTIONS),
}
KEYS = tuple(field.name for field in fields(PermaConfig))


def read_value(key: str, value: Any, source: str) -> Any:
    """One key's value; UsageError naming ``source`` for an unknown key or what does not fit it."""
    if key not in KEYS:
        raise UsageError(
            source, f"unknown key {key!r}{nearest(key, KEYS)}", f"keys: {', '.join(KEYS)}"
        )
    if key == "custom_operations":
        return parse_chain(str(value), source)
    try:
        return _READ[key](value)
    except _Wrong as wrong:
        raise UsageError(source, f"{key}: {value!r}", str(wrong)) from wrong


def check(config: PermaConfig, source: str) -> None:
    """What PerMA-Bench's own limits refuse, as UsageError naming ``source``."""
    for right, found, do in _limits(config):
        if not right:
            raise UsageError(source, found, do)


_Limit = tuple[bool, str, str]


def _limits(c: PermaConfig) -> tuple[_Limit, ...]:
    return (*_sizes(c), *_threads(c), *_modes(c))


def _power_of_two(value: int) -> bool:
    return value > 0 and value & (value - 1) == 0


def _sizes(c: PermaConfig) -> tuple[_Limit, ...]:
    chunk, access = c.min_io_chunk_size, c.access_size
    return (
        (
            access >= 64 and _power_of_two(access),
            f"access_size {access}",
            "a power of two from 64 on (a cache line)",
        ),
        (
            chunk >= 64 and _power_of_two(chunk),
            f"min_io_chunk_size {chunk}",
            "a power of two from 64 on",
        ),
        (c.memory_range > 0, "memory_range 0", "more than nothing"),
        (
            c.memory_range % access == 0,
            f"memory_range {c.memory_range}",
            f"a multiple of access_size ({access})",
        ),
        (
            c.dram_memory_range % access == 0,
            f"dram_memory_range {c.dram_memory_range}",
            f"a multiple of access_size ({access}), or 0",
        ),
        (
            c.memory_range % chunk == 0,
            f"memory_range {c.memory_range}",
            f"a multiple of min_io_chunk_size ({chunk})",
        ),
        (
            0.0 <= c.dram_operation_ratio <= 1.0,
            f"dram_operation_ratio {c.dram_operation_ratio}",
            "from 0 to 1",
        ),
        (c.zipf_alpha >= 0, f"zipf_alpha {c.zipf_alpha}", "0 or more"),
    )


def _threads(c: PermaConfig) -> tuple[_Limit, ...]:
    threads = max(1, c.number_threads)
    parts = c.number_partitions or threads
    return (
        (
            1 <= c.number_threads <= _MOST_THREADS,
            f"number_threads {c.number_threads}",
            f"from 1 to {_MOST_THREADS}",
        ),
        (
            c.number_partitions == 0 or threads % c.number_partitions == 0,
            f"number_threads {threads} with number_partitions {c.number_partitions}",
            "number_threads must be a multiple of number_partitions",
        ),
        (
            c.memory_range // parts % c.access_size == 0,
            f"memory_range {c.memory_range} in {parts} partitions",
            "each must be a multiple of access_size: take 2^x partitions",
        ),
        (
            c.dram_memory_range // parts % c.access_size == 0,
            f"dram_memory_range {c.dram_memory_range} in {parts} partitions",
            "each must be a multiple of access_size: take 2^x partitions",
        ),
        (
            c.memory_range // threads >= c.min_io_chunk_size or c.dram_operation_ratio == 1,
            f"memory_range {c.memory_range} for {threads} threads",
            f"each thread needs min_io_chunk_size ({c.min_io_chunk_size} bytes) of it",
        ),
    )


def _modes(c: PermaConfig) -> tuple[_Limit, ...]:
    least = c.min_io_chunk_size // c.access_size * c.number_threads
    default = PermaConfig.number_operations
    return (
        (
            c.dram_operation_ratio == 0 or c.exec_mode == "random",
            f"dram_operation_ratio with exec_mode {c.exec_mode}",
            "it goes with random only",
        ),
        (
            not c.uses_dram or c.dram_memory_range > 0,
            "operations on DRAM and no dram_memory_range",
            "set dram_memory_range",
        ),
        (
            c.counted or c.number_operations == default,
            f"number_operations with exec_mode {c.exec_mode}",
            "a sequential benchmark goes once over its range, or as long as run_time",
        ),
        (
            not c.counted or c.number_operations > least,
            f"number_operations {c.number_operations}",
            f"more than {least}: a chunk of min_io_chunk_size for each thread",
        ),
        (
            not c.custom or bool(c.custom_operations),
            "exec_mode custom without custom_operations",
            "name them: r_64,w_64_cache",
        ),
        (
            c.custom or not c.custom_operations,
            f"custom_operations with exec_mode {c.exec_mode}",
            "they go with exec_mode custom only",
        ),
        (
            c.custom or c.latency_sample_frequency == 0,
            f"latency_sample_frequency with exec_mode {c.exec_mode}",
            "it goes with exec_mode custom only",
        ),
    )
