"""PerMA-Bench's configuration of one benchmark: its keys, defaults, units and limits.

As its documentation and its parser have them (PVLDB 15(11), §3.2; benchmark_config.hpp of
the published program), with its own words for values. Sizes are 1024-based.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from harness.errors import UsageError, unknown
from harness.micro.chains import LINE_BYTES, PERSIST, Chain, ChainOperation
from harness.units import GIB, KIB, MIB
from harness.workloads.parameters import Choice, Count, Kind, Number

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


class _Size:
    values = "512, 64K, 10G"

    def parse(self, name: str, value: Any) -> int:
        """Read a number of bytes, or one with K, M or G (1024-based)."""
        match = _SIZE.match(str(value)) if not isinstance(value, bool) else None
        if match is None:
            hint = "a number of bytes, or one with K, M or G (1024-based): 512, 64K, 10G"
            raise UsageError(name, "not a size", hint)
        return int(match.group(1)) * _FACTORS[match.group(2).lower()]


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
_BY_TYPE: Mapping[type, Kind] = {int: Count(1 << 62, 0), float: Number(0), bool: _Flag()}
_DEFAULTS = {field.name: field.default for field in fields(PermaConfig)}
KEYS = tuple(_DEFAULTS)


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
    """UsageError for keys that would have no effect or no meaning; the program checks the rest."""
    for valid, keys, hint in _limits(config):
        if not valid:
            found = ", ".join(f"{key} {getattr(config, key) or 0}" for key in keys.split())
            raise UsageError(source, found, hint)


def _limits(c: PermaConfig) -> Iterator[tuple[bool, str, str]]:
    """Yield of each limit whether it is met, the keys that it is about, and a hint."""
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
