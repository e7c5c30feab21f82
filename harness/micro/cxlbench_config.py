"""CXL-Bench's configuration of one benchmark: its keys, defaults, units and limits.

The keys are those of all of its published versions (https://github.com/hpides/cxlbench: HCDS'25,
PVLDB 18(9), ADMS'25), also those that its last one has dropped and its files still have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from harness.micro.chains import LINE_BYTES, ChainOperation, chain_text, parse_chain
from harness.micro.dialect import (
    MOST_THREADS,
    Dialect,
    Limit,
    SizeKind,
    WholeKind,
    power_of_two,
)
from harness.micro.perma_config import pattern_keys, timed_chains
from harness.units import GIB, MIB
from harness.workloads.kinds import Choice, Kind

#: Instructions after a write: flush and fence of ours. Streamed ones go past the caches.
_AFTER_A_WRITE = {
    "none": "store",
    "write-back": "store+clwb+sfence",
    "cache": "store+clwb+sfence",
    "flush": "store+clflush+sfence",
    "flush-opt": "store+clflushopt+sfence",
    "nocache": "ntstore+sfence",
}
#: The same of a chain's write, as PerMA-Bench calls it.
_IN_CHAINS = {"write-back": "cache", "flush-opt": "cacheinv"}
_LATENCIES = ("sequential_latency", "random_latency", "latency", "dependent_reads")
_ATOMICS = {"compare-and-swap": "compare_and_swap", "fetch-and-add": "fetch_and_add"}
_MAPPINGS = {"memory-map": "populate", "memory-unmap": "release"}
#: Of accesses that are timed one by one. A write finds its line loaded, as there.
_TIMED: Mapping[str, Mapping[str, str]] = {
    "read": {"kernel": "load", "before": "none"},
    "stream-read": {"kernel": "ntload", "before": "none"},
    "write": {"kernel": "store+clwb+mfence", "before": "loaded"},
    "stream-write": {"kernel": "ntstore+mfence", "before": "loaded"},
}


class _Operations:
    """A chain in CXL-Bench's words: ``m0_r_64,m1_w_64_none_512``."""

    values = "its chains"

    def parse(self, name: str, value: Any) -> tuple[ChainOperation, ...]:
        """Return the operations; m0 is the tier here, m1 the memory in addition to it."""
        steps = (self._step(step.strip()) for step in str(value).split(","))
        return parse_chain(",".join(steps), name)

    @staticmethod
    def _step(step: str) -> str:
        region, _, rest = step.partition("_") if step.startswith("m") else ("m0", "", step)
        words = rest.split("_")
        if region in ("m0", "m1") and words:
            words[0] += {"m0": "", "m1": "d"}[region]
            words[2:3] = [_IN_CHAINS.get(word, word) for word in words[2:3]]
            return "_".join(words)
        return step


@dataclass(frozen=True)
class CxlBenchConfig:
    """One configuration; sizes in bytes, ``run_time`` in seconds (0: not bounded by time).

    ``percentage_pages_first_partition``: -1 for one part.
    """

    memory_region_size: int = 10 * GIB
    secondary_memory_region_size: int = 0
    numa_memory_nodes: tuple[int, ...] = ()
    secondary_numa_memory_nodes: tuple[int, ...] = ()
    numa_memory_node_weights: tuple[int, ...] = ()
    secondary_numa_memory_node_weights: tuple[int, ...] = ()
    device_path: str = ""
    secondary_device_path: str = ""
    region_offset: int = 0
    secondary_region_offset: int = 0
    transparent_huge_pages: bool = False
    secondary_transparent_huge_pages: bool = False
    explicit_hugepages_size: int = 0
    secondary_explicit_hugepages_size: int = 0
    percentage_pages_first_partition: int = -1
    node_count_first_partition: int = 1
    access_size: int = 256
    number_operations: int = 100_000_000
    number_threads: int = 1
    number_partitions: int = 1
    run_time: int = 0
    replications: int = 1
    operation: str = "read"
    exec_mode: str = "sequential"
    cache_instruction: str = "none"
    numa_task_nodes: tuple[int, ...] = ()
    thread_pin_mode: str = "all-numa"
    thread_cores: tuple[int, ...] = ()
    random_distribution: str = "uniform"
    zipf_alpha: float = 0.9
    custom_operations: tuple[ChainOperation, ...] = ()
    latency_sample_frequency: int = 0
    min_io_batch_size: int = 64 * MIB
    generate_read_data: bool = True

    @property
    def custom(self) -> bool:
        """Return whether it is a chain of operations."""
        return self.exec_mode == "custom"

    @property
    def maps(self) -> bool:
        """Return whether it maps or releases memory."""
        return self.operation.startswith("memory-")

    def suite_keys(self) -> dict[str, Any]:
        keys: dict[str, Any] = {"threads": self.number_threads, "range": self.memory_region_size}
        keys |= self._memory() | {"cpus": self._cpus()}
        keys |= {"partitions": self.number_partitions} if self.number_partitions != 1 else {}
        if self.secondary_memory_region_size:
            keys["dram_range"] = self.secondary_memory_region_size
            keys["dram_nodes"] = _nodes(
                self.secondary_numa_memory_nodes, self.secondary_numa_memory_node_weights
            )
        if self.exec_mode in _LATENCIES:
            return keys | self._latency()
        keys |= {} if self.run_time else {"count": self._count()}
        if self.custom:
            chain = chain_text(self.custom_operations)
            return keys | {"kind": "chain", "mode": "independent", "chain": chain}
        return keys | self._throughput()

    def timed_keys(self) -> dict[str, Any] | None:
        return timed_chains(self) if self.custom and self.latency_sample_frequency else None

    def _count(self) -> int:
        by_number = self.exec_mode == "random" or self.custom
        return self.number_operations if by_number else self.memory_region_size // self.access_size

    def _memory(self) -> dict[str, Any]:
        if self.device_path:
            return {"offset": self.region_offset} if self.region_offset else {}
        huge = self.transparent_huge_pages or self.explicit_hugepages_size
        keys: dict[str, Any] = {"pages": "huge" if huge else "base"}
        if self.percentage_pages_first_partition < 0:
            return {**keys, "nodes": _nodes(self.numa_memory_nodes, self.numa_memory_node_weights)}
        first, count = self.percentage_pages_first_partition, self.node_count_first_partition
        parts = self.numa_memory_nodes[:count], self.numa_memory_nodes[count:]
        return {**keys, "nodes": "/".join(map(_nodes, parts)), "first_share": first / 100}

    def _cpus(self) -> str:
        if self.thread_pin_mode == "single-fixed":
            return ",".join(map(str, self.thread_cores))
        return ",".join(f"node:{node}" for node in self.numa_task_nodes)

    def _throughput(self) -> dict[str, Any]:
        keys = {"kind": "throughput", "access": self.access_size}
        keys |= pattern_keys(self, self.min_io_batch_size)
        if "read" in self.operation:
            return keys | {"kernel": "ntload" if self.operation == "stream-read" else "load"}
        if self.operation == "stream-write":
            return keys | {"kernel": "ntstore"}
        kernel = _AFTER_A_WRITE[self.cache_instruction]
        when = {"flush_when": "write"} if kernel.startswith("store+") else {}
        return keys | {"kernel": kernel, **when}

    def _latency(self) -> dict[str, Any]:
        """Return the keys of operations that are timed one by one, or wait for one another."""
        counted = {"count": self.number_operations}
        if self.maps:
            operation, _, sharing = self.operation.rpartition("-")
            shared = {} if self.device_path else {"shared": sharing == "shared"}
            return {"kind": "map", "phase": _MAPPINGS[operation], **shared, **counted}
        if self.operation in _ATOMICS:
            atomic = {"kind": "atomic", "atomic": _ATOMICS[self.operation], "pattern": "random"}
            return {**atomic, "sample_every": max(1, self.latency_sample_frequency), **counted}
        if self.exec_mode == "dependent_reads":
            return self._dependent()
        if self.exec_mode == "random_latency" and self.operation == "read":
            return {"kind": "chase", **counted}
        pattern = self.exec_mode.removesuffix("_latency")
        keys = {"kind": "latency", "access": self.access_size, "pattern": pattern}
        return {**keys, **_TIMED[self.operation], **counted}

    def _dependent(self) -> dict[str, Any]:
        """Return the keys of reads of which each needs the one before it."""
        count = {"count": self._count()}
        if self.access_size > LINE_BYTES:
            return {"kind": "chain", "mode": "dependent", "chain": f"r_{self.access_size}", **count}
        within = self.min_io_batch_size < self.memory_region_size
        return {
            "kind": "chase",
            **({"locality": self.min_io_batch_size} if within else {}),
            **count,
        }


def _nodes(nodes: tuple[int, ...], weights: tuple[int, ...] = ()) -> str:
    if not weights:
        return ",".join(map(str, nodes))
    return ",".join(f"{n}*{w}" for n, w in zip(nodes, weights, strict=True) if w)


_KINDS: Mapping[str, Kind] = {
    "operation": Choice(
        (
            *("read", "write", "stream-read", "stream-write"),
            *_ATOMICS,
            *(f"{mapping}-{how}" for mapping in _MAPPINGS for how in ("private", "shared")),
        )
    ),
    "exec_mode": Choice(("sequential", "sequential_desc", "random", "custom", *_LATENCIES)),
    "cache_instruction": Choice(tuple(_AFTER_A_WRITE)),
    "random_distribution": Choice(("uniform", "zipf")),
    "thread_pin_mode": Choice(("all-numa", "single-numa", "single-fixed")),
    "custom_operations": _Operations(),
    **dict.fromkeys(
        (
            *("memory_region_size", "secondary_memory_region_size", "access_size"),
            *("region_offset", "secondary_region_offset", "min_io_batch_size"),
            *("explicit_hugepages_size", "secondary_explicit_hugepages_size"),
        ),
        SizeKind(),
    ),
    "percentage_pages_first_partition": WholeKind(),
}


def _limits(c: CxlBenchConfig) -> Iterator[Limit]:
    yield from _program_limits(c)
    yield from _memory_limits(c)
    yield from _our_limits(c)


def _program_limits(c: CxlBenchConfig) -> Iterator[Limit]:
    """Yield what CXL-Bench refuses itself."""
    threads, parts = c.number_threads, c.number_partitions or c.number_threads
    yield 1 <= threads <= MOST_THREADS, "number_threads", f"from 1 to {MOST_THREADS}"
    divided = "number_threads must be a multiple of number_partitions"
    yield threads % parts == 0, "number_threads number_partitions", divided
    size, access, batch = c.memory_region_size, c.access_size, c.min_io_batch_size
    yield power_of_two(batch), "min_io_batch_size", "a power of two from 64 on"
    whole = f"a multiple of access_size ({access})"
    yield access > 0 and size > 0 and size % access == 0, "memory_region_size", whole
    batches = f"a multiple of min_io_batch_size ({batch})"
    yield size % batch == 0, "memory_region_size", batches
    alone = c.exec_mode not in _LATENCIES
    batch_each = f"each thread needs min_io_batch_size ({batch} bytes) of memory_region_size"
    yield not alone or size // threads >= batch, "memory_region_size number_threads", batch_each
    default = CxlBenchConfig.number_operations
    counted = not alone or c.custom or c.exec_mode == "random" or c.number_operations == default
    once = "a sequential benchmark goes once over its range, or as long as run_time"
    yield counted, "number_operations exec_mode", once
    yield not c.custom or bool(c.custom_operations), "exec_mode", "name custom_operations"
    yield c.custom or not c.custom_operations, "exec_mode", "custom_operations: with custom only"
    dram = any(operation.place == "dram" for operation in c.custom_operations)
    secondary = "set secondary_memory_region_size: some operations are in m1"
    yield not dram or c.secondary_memory_region_size > 0, "custom_operations", secondary


def _memory_limits(c: CxlBenchConfig) -> Iterator[Limit]:
    nodes, first = c.numa_memory_nodes, c.percentage_pages_first_partition
    either = "name numa_memory_nodes, or a device_path"
    yield bool(nodes) != bool(c.device_path), "numa_memory_nodes device_path", either
    weighted = "one weight for each of numa_memory_nodes, of which one is above 0"
    weights = c.numa_memory_node_weights
    right = not weights or (len(weights) == len(nodes) and any(weights))
    yield right, "numa_memory_node_weights", weighted
    yield first <= 100, "percentage_pages_first_partition", "from 0 to 100"
    parted = "numa_memory_nodes must have nodes for both partitions (node_count_first_partition)"
    both = first < 0 or 0 < c.node_count_first_partition < len(nodes)
    yield both, "percentage_pages_first_partition numa_memory_nodes", parted
    fixed = c.thread_pin_mode == "single-fixed"
    named = "name thread_cores, at least as many as number_threads"
    yield not fixed or len(c.thread_cores) >= c.number_threads, "thread_cores", named
    yield fixed or bool(c.numa_task_nodes), "numa_task_nodes", "name the nodes of the threads"


def _our_limits(c: CxlBenchConfig) -> Iterator[Limit]:
    """Yield what no job of ours does, with the reason."""
    lines = "whole cache lines: our accesses are multiples of 64 bytes"
    small = c.access_size == 8 and c.exec_mode in ("random_latency", "latency")
    random_reads = small and (c.operation == "read" or c.operation in _ATOMICS)
    aligned = c.access_size % LINE_BYTES == 0 or random_reads or c.maps or c.custom
    yield aligned, "access_size exec_mode", lines
    in_turn = "a part of a weighted range is not supported: leave out one of the two keys"
    both = c.percentage_pages_first_partition >= 0 and c.numa_memory_node_weights
    yield not both, "numa_memory_node_weights percentage_pages_first_partition", in_turn
    for key in ("explicit_hugepages_size", "secondary_explicit_hugepages_size"):
        size = getattr(c, key)
        yield size in (0, 2 * MIB), key, "0 or 2M: pages are of 4 KiB (base) or 2 MiB (huge)"
    second = "the memory in addition to the first is on nodes: secondary_numa_memory_nodes"
    there = not c.secondary_memory_region_size or bool(c.secondary_numa_memory_nodes)
    yield there and not c.secondary_device_path, "secondary_device_path", second
    yield c.custom or not c.secondary_memory_region_size, "exec_mode", "a second region is custom's"
    same = "both regions have pages of one size"
    huge = (
        c.transparent_huge_pages or c.explicit_hugepages_size,
        c.secondary_transparent_huge_pages or c.secondary_explicit_hugepages_size,
    )
    yield (
        not c.secondary_memory_region_size or bool(huge[0]) == bool(huge[1]),
        "transparent_huge_pages secondary_transparent_huge_pages",
        same,
    )
    flushed = "a read that flushes its line first is not supported: before: flushed of kind latency"
    reads = "read" in c.operation and not c.custom
    yield not reads or c.cache_instruction == "none", "operation cache_instruction", flushed
    streamed = "a streamed write needs no cache instruction"
    stream = c.operation == "stream-write"
    yield not stream or c.cache_instruction == "none", "operation cache_instruction", streamed
    special = c.operation in _ATOMICS or c.maps
    timed = "it goes with exec_mode latency, and only it"
    yield special == (c.exec_mode == "latency"), "operation exec_mode", timed
    written = "writes of random_latency are timed with write-back: cache_instruction"
    plain = c.operation == "write" and c.exec_mode in _LATENCIES
    right = c.exec_mode == "random_latency" and c.cache_instruction in ("write-back", "cache")
    yield not plain or right, "operation exec_mode cache_instruction", written
    waits = c.exec_mode == "dependent_reads"
    yield not waits or c.operation == "read", "operation", "read: of dependent_reads"
    larger = waits and c.access_size > LINE_BYTES
    blocks = "blocks within the region go with an access_size of 64 alone"
    whole = c.min_io_batch_size >= c.memory_region_size
    yield not larger or whole, "access_size min_io_batch_size", blocks
    single = "one thread maps its memory"
    yield not c.maps or c.number_threads == 1, "number_threads", single


CXL_BENCH = Dialect(
    "CXL-Bench",
    CxlBenchConfig,
    _KINDS,
    _limits,
    {
        "flush_instruction": "cache_instruction",
        "min_io_chunk_size": "min_io_batch_size",
    },
)
