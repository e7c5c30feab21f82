"""PerMA-Bench's configuration of one benchmark: its keys, defaults, units and limits.

As its documentation and its parser have them (PVLDB 15(11), §3.2; benchmark_config.hpp of
the published program), with its own words for values. Sizes are 1024-based.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from harness.errors import UsageError, nearest
from harness.micro.chains import LINE_BYTES, PERSIST, ChainOperation, parse_chain
from harness.units import GIB, KIB, MIB

_SIZE = re.compile(r"^(\d+)([kKmMgG]?)$")
_FACTORS = {"": 1, "k": KIB, "m": MIB, "g": GIB}
_YES, _NO = ("yes", "y", "true", "on"), ("no", "n", "false", "off")


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
    text = str(value).lower()
    if text not in (*_YES, *_NO):
        raise _Wrong("true or false")
    return text in _YES


#: Words of the keys that have them, and keys that are sizes: 512, 64K, 10G.
_WORDS: Mapping[str, tuple[str, ...]] = {
    "operation": ("read", "write"),
    "exec_mode": ("sequential", "sequential_desc", "random", "custom"),
    "persist_instruction": tuple(PERSIST),
    "numa_pattern": ("near", "far"),
    "random_distribution": ("uniform", "zipf"),
}
_SIZES = ("access_size", "memory_range", "dram_memory_range", "min_io_chunk_size")
#: Readers of all others, by the type of the default.
_READERS: Mapping[type, Callable[[Any], Any]] = {int: _whole, float: _fraction, bool: _flag}
_DEFAULTS = {field.name: field.default for field in fields(PermaConfig)}
KEYS = tuple(_DEFAULTS)


def read_value(key: str, value: Any, source: str) -> Any:
    """One key's value; UsageError naming ``source`` for an unknown key or what does not fit it."""
    if key not in KEYS:
        raise UsageError(
            source, f"unknown key {key!r}{nearest(key, KEYS)}", f"keys: {', '.join(KEYS)}"
        )
    if key == "custom_operations":
        return parse_chain(str(value), source)
    if key in _WORDS:
        return _word(key, value, source)
    try:
        return (_size if key in _SIZES else _READERS[type(_DEFAULTS[key])])(value)
    except _Wrong as wrong:
        raise UsageError(source, f"{key}: {value!r}", str(wrong)) from wrong


def _word(key: str, value: Any, source: str) -> str:
    if value in _WORDS[key]:
        return str(value)
    known = f"one of {', '.join(_WORDS[key])}{nearest(str(value), _WORDS[key])}"
    raise UsageError(source, f"{key}: {value!r}", known)


def check(config: PermaConfig, source: str) -> None:
    """UsageError for keys that would have no effect or no meaning; the program checks the rest."""
    for valid, keys, hint in _limits(config):
        if not valid:
            found = ", ".join(f"{key} {getattr(config, key) or 0}" for key in keys.split())
            raise UsageError(source, found, hint)


def _limits(c: PermaConfig) -> Iterator[tuple[bool, str, str]]:
    """Whether a limit is met, the keys that it is about, and what they must be."""
    lines = "a power of two from 64 on (a cache line)"
    power = c.access_size >= LINE_BYTES and c.access_size & (c.access_size - 1) == 0
    yield power, "access_size", lines
    yield c.number_threads > 0, "number_threads", "1 or more"
    yield 0.0 <= c.dram_operation_ratio <= 1.0, "dram_operation_ratio", "from 0 to 1"
    with_dram = not c.uses_dram or c.dram_memory_range > 0
    yield with_dram, "dram_memory_range", "set dram_memory_range: some operations are on DRAM"
    once = "a sequential benchmark goes once over its range, or as long as run_time"
    counted = c.counted or c.number_operations == PermaConfig.number_operations
    yield counted, "number_operations exec_mode", once
    for key in ("custom_operations", "latency_sample_frequency"):
        yield c.custom or not getattr(c, key), "exec_mode", f"{key}: with exec_mode custom only"
