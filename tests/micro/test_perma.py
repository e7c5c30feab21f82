"""PerMA-Bench's language: every key, the limits it has, and the 360 configurations it ships."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.micro.model import parse_chain
from harness.micro.perma import KEYS, PermaConfig, PermaConfiguration, measurements, parse_perma
from harness.units import GIB, KIB, MIB
from harness.yamlfile import load_yaml, parse_yaml

SUITES = Path(__file__).parents[2] / "profiles" / "micro" / "perma-bench"
#: Configurations of each of the twelve workload files that PerMA-Bench ships.
SHIPPED = {
    "raw/sequential_reads": 24, "raw/sequential_writes": 60, "raw/random_reads": 15,
    "raw/random_writes": 48, "raw/latency": 60,
    "operations/aggregation": 15, "operations/hash_index": 24, "operations/tree_index": 36,
    "operations/hybrid_tree_index": 24,
    "parallel/page_propagation": 9, "parallel/pmem_log_dram_index": 27,
    "parallel/pmem_scan_dram_write": 18,
}  # fmt: skip


def configurations(text: str) -> list[PermaConfiguration]:
    return parse_perma(parse_yaml(text, "bench.yaml"))


def one(args: str) -> PermaConfig:
    (configuration,) = configurations(f"b: {{args: {{{args}}}}}")
    (config,) = configuration.configs
    return config


def test_the_paper_s_listing_1_is_taken_as_printed() -> None:
    listing = """
hash_index_update:
  matrix:
    number_threads: [ 1, 4, 16 ]
  args:
    custom_operations:
      "r_256,w_64_cache_128,w_64_cache_-128"
    total_memory_range: 10G
    number_operations: 100000000
"""
    found = [config for one in configurations(listing) for config in one.configs]
    assert [config.number_threads for config in found] == [1, 4, 16]
    assert {(config.exec_mode, config.memory_range) for config in found} == {("custom", 10 << 30)}


def test_the_twelve_files_have_the_360_configurations_that_are_shipped():
    files = {str(f.relative_to(SUITES).with_suffix("")): f for f in SUITES.rglob("*.yml")}
    assert {name: len(parse_perma(load_yaml(f))) for name, f in files.items()} == SHIPPED
    assert sum(SHIPPED.values()) == 360


def test_the_matrix_is_a_cross_product_in_the_files_order_with_the_last_key_fastest():
    found = configurations(
        "b: {matrix: {number_threads: [1, 2], access_size: [64, 256, 4K]}, args: {}}"
    )
    swept = [(c.number_threads, c.access_size) for one in found for c in one.configs]
    assert swept == [(1, 64), (1, 256), (1, 4096), (2, 64), (2, 256), (2, 4096)]


def test_two_parallel_parts_are_crossed_with_one_another():
    found = configurations(
        "p: {parallel_benchmark: {a: {matrix: {number_threads: [1, 2]}, args: {}},"
        " b: {matrix: {access_size: [64, 128, 256]}, args: {operation: write}}}}"
    )
    assert {one.parts for one in found} == {("a", "b")}
    swept = [(a.number_threads, b.access_size) for a, b in (one.configs for one in found)]
    assert swept == [(1, 64), (1, 128), (1, 256), (2, 64), (2, 128), (2, 256)]


def test_what_is_not_said_is_as_perma_bench_has_it():
    assert one("") == PermaConfig()
    default = PermaConfig()
    assert (default.access_size, default.memory_range, default.number_operations) == (
        256, 10 * GIB, 100_000_000)  # fmt: skip
    assert (default.operation, default.exec_mode, default.persist_instruction) == (
        "read", "sequential", "nocache")  # fmt: skip
    assert (default.min_io_chunk_size, default.zipf_alpha) == (64 * MIB, 0.9)
    assert (default.prefault_file, default.dram_huge_pages) == (True, True)
    assert len(KEYS) == 19


@pytest.mark.parametrize(
    ("text", "size"), [("512", 512), ("4k", 4 * KIB), ("64K", 64 * KIB), ("2M", 2 * MIB)]
)
def test_suffixes_of_sizes_are_1024_based(text, size):
    assert one(f"access_size: {text}").access_size == size


def test_numbers_may_be_texts():
    found = one("exec_mode: random, number_threads: '2', zipf_alpha: 1e-1, run_time: '07'")
    assert (found.number_threads, found.zipf_alpha, found.run_time) == (2, 0.1, 7)


# Chains ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("w_64_cache", "begins with a write"),
        ("r_64,wd_64_cache", "writes to DRAM, the operation before it was in the tier"),
        ("r_64,w_64", "no persist instruction"),
        ("r_64,w_64_flush", "one of nocache"),
        ("r_96", "power of two"),
        ("r_32", "power of two from 64"),
        ("r_64,w_64_cache_32", "multiple of 64"),
        ("r_64_cache", "ends with its size"),
        ("x_64", "no operation of a chain"),
        ("", "no operation of a chain"),
    ],
)
def test_a_chain_that_cannot_be_is_refused(text, words):
    with pytest.raises(UsageError) as refused:
        parse_chain(text, "bench.yaml:3")
    assert words in f"{refused.value.context}: {refused.value.hint}"
    assert refused.value.problem == "bench.yaml:3"


# What is measured for it ---------------------------------------------------------------


def jobs(text: str):
    return [m.jobs for m in measurements(configurations(text))]


def sampled(every: int):
    """Of a chain whose latency is taken of every nth: overlapping, and one by one."""
    return measurements(
        configurations("b: {args: {exec_mode: custom, custom_operations: 'r_64,w_64_cache',"
                       f" latency_sample_frequency: {every}}}}}")
    )  # fmt: skip


@pytest.mark.parametrize(
    ("instruction", "kernel"),
    [
        ("nocache", ("ntstore", "none", "sfence")),
        ("cache", ("store", "clwb", "sfence")),
        ("cacheinv", ("store", "clflushopt", "sfence")),
        ("none", ("store", "none", "none")),
    ],
)
def test_persist_instructions_are_store_flush_and_fence(instruction, kernel):
    ((job,),) = jobs(f"b: {{args: {{operation: write, persist_instruction: {instruction}}}}}")
    assert tuple(job.keys[key] for key in ("operation", "flush", "fence")) == kernel


def test_a_sequential_benchmark_goes_once_over_its_range_or_as_long_as_it_is_told():
    text = "a: {args: {memory_range: 1G, access_size: 4K}}\nb: {args: {run_time: 10}}"
    once, timed = measurements(configurations(text))
    assert (once.jobs[0].operations, timed.jobs[0].operations) == (GIB // 4096, None)
    assert timed.duration_ns == 10**10


def test_chains_whose_latency_is_wanted_are_measured_overlapping_and_one_by_one():
    independent, dependent = sampled(5000)
    assert independent.jobs[0].keys == {"mode": "independent"}
    assert independent.jobs[0].operations == 100_000_000
    assert dependent.jobs[0].keys == {"mode": "dependent"}
    assert dependent.jobs[0].operations == 20_000 * 16  # of which 20 000 are timed
    assert independent.configuration != dependent.configuration
    assert sampled(2)[1].jobs[0].operations == 100_000_000  # no more than the workload has


def test_operations_on_both_memories_have_a_range_in_each():
    """Those on DRAM alone need nothing of the tier."""
    text = "b: {args: {exec_mode: random, dram_operation_ratio: %s, dram_memory_range: 2G}}"
    ((alone,),), ((both,),) = jobs(text % 1), jobs(text % 0.3)
    assert (alone.place, alone.bytes_on("tier"), alone.bytes_on("dram")) == ("dram", 0, 2 * GIB)
    assert (both.bytes_on("tier"), both.bytes_on("dram")) == (10 * GIB, 2 * GIB)
    assert both.dram_share == 0.3
