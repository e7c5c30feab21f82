"""PerMA-Bench's configuration of one benchmark: its keys, defaults, units and limits.

Where it measures something else than it says, ours is right: docs/micro.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from harness.micro.chains import PERSIST, SAMPLE_EVERY, Chain, ChainOperation, chain_text
from harness.micro.dialect import MOST_THREADS, Dialect, Limit, SizeKind, power_of_two
from harness.units import GIB, MIB
from harness.workloads.kinds import Choice, Kind

#: Minimum of chains timed alone, whatever the sampling frequency: p99.9 needs them.
_LEAST_TIMED = 10_000


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

    def suite_keys(self) -> dict[str, Any]:
        dram_only = self.dram_operation_ratio == 1
        counted = self.number_operations if self.counted else self.memory_range // self.access_size
        keys: dict[str, Any] = {
            "threads": self.number_threads,
            "range": self.dram_memory_range if dram_only else self.memory_range,
            "numa": self.numa_pattern,
            "pages": "huge" if self.dram_huge_pages else "base",
            "partitions": self.number_partitions,
        }
        keys |= {"place": "dram"} if dram_only else {}
        if self.uses_dram and not dram_only:
            keys["dram_range"] = self.dram_memory_range
            keys |= {} if self.custom else {"dram_share": self.dram_operation_ratio}
        keys |= {} if self.run_time else {"count": counted}
        if self.custom:
            chain = chain_text(self.custom_operations)
            return keys | {"kind": "chain", "mode": "independent", "chain": chain}
        return keys | self._kernel() | pattern_keys(self, self.min_io_chunk_size)

    def _kernel(self) -> dict[str, Any]:
        keys = {"kind": "throughput", "access": self.access_size}
        if self.operation == "read":
            return keys | {"kernel": "load"}
        kernel = PERSIST[self.persist_instruction]
        words = [word for word in kernel.values() if word != "none"]
        return keys | {"kernel": "+".join(words), "flush_when": "line"}

    def timed_keys(self) -> dict[str, Any] | None:
        return timed_chains(self) if self.latency_sample_frequency else None

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


class _Chained(Protocol):
    """A configuration that may be a chain."""

    @property
    def custom(self) -> bool: ...

    @property
    def number_operations(self) -> int: ...

    @property
    def number_threads(self) -> int: ...

    @property
    def latency_sample_frequency(self) -> int: ...


def timed_chains(config: _Chained) -> dict[str, Any]:
    """Return the keys of the same chains, each after the previous one.

    But no more are run than the workload has, save for the least that are worth a histogram.
    """
    if not config.custom:
        return {}
    sampled = config.number_operations // max(1, config.latency_sample_frequency)
    least = _LEAST_TIMED * config.number_threads * SAMPLE_EVERY
    operations = max(min(sampled * SAMPLE_EVERY, config.number_operations), least)
    return {"mode": "dependent", "count": operations}


class _Patterned(Protocol):
    """A configuration that accesses its range in some order."""

    @property
    def exec_mode(self) -> str: ...

    @property
    def random_distribution(self) -> str: ...

    @property
    def zipf_alpha(self) -> float: ...


def pattern_keys(config: _Patterned, chunk_bytes: int) -> dict[str, Any]:
    """Return the keys of the order of addresses."""
    if config.exec_mode != "random":
        return {"pattern": config.exec_mode, "chunk": chunk_bytes}
    if config.random_distribution == "zipf":
        return {"pattern": "zipf", "zipf_exponent": config.zipf_alpha}
    return {"pattern": "random"}


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


#: Kinds of the keys' values: by name, all others by the type of the default.
_KINDS: Mapping[str, Kind] = {
    "operation": Choice(("read", "write")),
    "exec_mode": Choice(("sequential", "sequential_desc", "random", "custom")),
    "persist_instruction": Choice(tuple(PERSIST)),
    "numa_pattern": Choice(("near", "far")),
    "random_distribution": Choice(("uniform", "zipf")),
    "custom_operations": Chain(),
    **dict.fromkeys(
        ("access_size", "memory_range", "dram_memory_range", "min_io_chunk_size"), SizeKind()
    ),
}


def _limits(c: PermaConfig) -> Iterator[Limit]:
    yield from _sizes(c)
    yield from _threads(c)
    yield from _modes(c)


def _sizes(c: PermaConfig) -> Iterator[Limit]:
    lines = "a power of two from 64 on (a cache line)"
    whole = f"a multiple of access_size ({c.access_size})"
    yield power_of_two(c.access_size), "access_size", lines
    yield power_of_two(c.min_io_chunk_size), "min_io_chunk_size", lines
    yield c.memory_range > 0, "memory_range", "more than nothing"
    yield c.memory_range % c.access_size == 0, "memory_range", whole
    yield c.dram_memory_range % c.access_size == 0, "dram_memory_range", f"{whole}, or 0"
    chunks = f"a multiple of min_io_chunk_size ({c.min_io_chunk_size})"
    yield c.memory_range % c.min_io_chunk_size == 0, "memory_range", chunks
    yield 0.0 <= c.dram_operation_ratio <= 1.0, "dram_operation_ratio", "from 0 to 1"
    yield c.zipf_alpha >= 0, "zipf_alpha", "0 or more"


def _threads(c: PermaConfig) -> Iterator[Limit]:
    threads, parts = c.number_threads, c.number_partitions or c.number_threads
    yield 1 <= threads <= MOST_THREADS, "number_threads", f"from 1 to {MOST_THREADS}"
    divided = "number_threads must be a multiple of number_partitions"
    yield threads % parts == 0, "number_threads number_partitions", divided
    for key in ("memory_range", "dram_memory_range"):
        whole = "each partition must be a multiple of access_size: take 2^x partitions"
        yield getattr(c, key) // parts % c.access_size == 0, f"{key} number_partitions", whole
    enough = c.memory_range // threads >= c.min_io_chunk_size or c.dram_operation_ratio == 1
    chunk = f"each thread needs min_io_chunk_size ({c.min_io_chunk_size} bytes) of memory_range"
    yield enough, "memory_range number_threads", chunk


def _modes(c: PermaConfig) -> Iterator[Limit]:
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


PERMA_BENCH = Dialect(
    "PerMA-Bench",
    PermaConfig,
    _KINDS,
    _limits,
    {"total_memory_range": "memory_range"},  # the paper's Listing 1
)
KEYS = tuple(PERMA_BENCH.defaults)
