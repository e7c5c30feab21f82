"""PerMA-Bench's language and its form of a result."""

import statistics
from pathlib import Path
from typing import Any

import pytest
from micro_suites import DRAM, capacity, overrides, perma

from harness.errors import UsageError
from harness.micro.chains import parse_chain
from harness.micro.host_suite import suite_on
from harness.micro.keys import MicroParams
from harness.micro.metrics import SuiteResult
from harness.micro.model import Measurement
from harness.micro.perma import Configuration, measurements, parse_perma
from harness.micro.perma_config import KEYS, PermaConfig
from harness.micro.perma_result import Memory, memory_of, perma_results
from harness.micro.spec import measurement_name
from harness.tiers.linux.model import Tier, TierClaim, TierFacts
from harness.units import GIB, KIB, MIB, NS_PER_S
from harness.warnings import RunWarning
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


def configurations(text: str) -> list[Configuration]:
    return parse_perma(parse_yaml(text, "bench.yaml"))


def configs_of(configuration: Configuration) -> tuple[Any, ...]:
    return configuration.configs


def config_with(args: str) -> PermaConfig:
    (configuration,) = configurations(f"b: {{args: {{{args}}}}}")
    (config,) = configuration.configs
    assert isinstance(config, PermaConfig)
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
    configs = [config for swept in configurations(listing) for config in configs_of(swept)]
    assert [config.number_threads for config in configs] == [1, 4, 16]
    assert {(config.exec_mode, config.memory_range) for config in configs} == {("custom", 10 << 30)}


def test_the_twelve_files_have_the_360_configurations_that_are_shipped():
    files = {str(f.relative_to(SUITES).with_suffix("")): f for f in SUITES.rglob("*.yml")}
    assert {name: len(parse_perma(load_yaml(f))) for name, f in files.items()} == SHIPPED
    assert sum(SHIPPED.values()) == 360


def test_the_matrix_is_a_cross_product_in_the_files_order_with_the_last_key_fastest():
    crossed = configurations(
        "b: {matrix: {number_threads: [1, 2], access_size: [64, 256, 4K]}, args: {}}"
    )
    swept = [
        (c.number_threads, c.access_size)
        for configuration in crossed
        for c in configs_of(configuration)
    ]
    assert swept == [(1, 64), (1, 256), (1, 4096), (2, 64), (2, 256), (2, 4096)]


def test_two_parallel_parts_are_crossed_with_one_another():
    crossed = configurations(
        "p: {parallel_benchmark: {a: {matrix: {number_threads: [1, 2]}, args: {}},"
        " b: {matrix: {access_size: [64, 128, 256]}, args: {operation: write}}}}"
    )
    assert {configuration.parts for configuration in crossed} == {("a", "b")}
    swept = [
        (a.number_threads, b.access_size)
        for a, b in (configs_of(configuration) for configuration in crossed)
    ]
    assert swept == [(1, 64), (1, 128), (1, 256), (2, 64), (2, 128), (2, 256)]


def test_what_is_not_said_is_as_perma_bench_has_it():
    assert config_with("") == PermaConfig()
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
    assert config_with(f"access_size: {text}").access_size == size


def test_numbers_may_be_texts():
    config = config_with("exec_mode: random, number_threads: '2', zipf_alpha: 1e-1, run_time: '07'")
    assert (config.number_threads, config.zipf_alpha, config.run_time) == (2, 0.1, 7)


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
    """Measurements of a chain with a latency of every nth: overlapping, and one by one."""
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
    """Operations on DRAM alone need nothing of the tier."""
    text = "b: {args: {exec_mode: random, dram_operation_ratio: %s, dram_memory_range: 2G}}"
    ((alone,),), ((both,),) = jobs(text % 1), jobs(text % 0.3)
    assert (alone.place, alone.bytes_on("tier"), alone.bytes_on("dram")) == ("dram", 0, 2 * GIB)
    assert (both.bytes_on("tier"), both.bytes_on("dram")) == (10 * GIB, 2 * GIB)
    assert both.dram_share == 0.3


# PerMA-Bench's form of a result ---------------------------------------------------


SECOND = NS_PER_S
READS = """
reads: {args: {operation: read, memory_range: 1G, access_size: 256, number_threads: 2}}
"""
RANDOM = """
random: {args: {operation: read, exec_mode: random, memory_range: 1G, run_time: 10}}
"""
CHAINS = """
chains: {args: {exec_mode: custom, custom_operations: "r_64,w_64_cache", memory_range: 1G,
                number_threads: 2}}
"""


PMEM = Tier(TierClaim("pmem", "fsdax", path="/mnt/pmem"), TierFacts("fsdax"))


def measured(text: str, limits: MicroParams | None = None) -> tuple[Measurement, ...]:
    return suite_on(perma(text), capacity(), limits or overrides()).measurements


def repeat(*threads: tuple[int, int, int]) -> dict[str, Any]:
    """The program's report of threads (begin and end in seconds, GiB or chains).

    Its own rates are those of the time in which all of them ran.
    """
    each = [
        {"cpu": number, "cpu_ns": 0, "minor_faults": 0, "major_faults": 0,
         "begin_ns": begin * SECOND, "end_ns": end * SECOND,
         "operations": done, "read_bytes": done * GIB, "written_bytes": 0}
        for number, (begin, end, done) in enumerate(threads)
    ]  # fmt: skip
    return {
        "kind": "throughput",
        "threads": each,
        "duration_ns": max(thread["end_ns"] for thread in each)
        - min(thread["begin_ns"] for thread in each),
        **{key: sum(thread[key] for thread in each)
           for key in ("operations", "read_bytes", "written_bytes")},
        "operations_per_second": 1e9,
        "bandwidth_bytes_per_second": 1e12,
        "window": {"duration_ns": 1, "operations": 1},
        "latency_hdr": None,
    }  # fmt: skip


def read(measurements: tuple[Measurement, ...], *repeats: dict[str, Any]) -> SuiteResult:
    whole = {"duration_ns": 1, "stolen_ns": None, "core_hz": 1e9}
    document: dict[str, Any] = {
        "targets": {},
        "notes": [],
        "cpu": {"stamp_step_ns": 1.0},
        "measurements": [
            {"name": measurement_name(0, block), "repeats": [{**whole, "jobs": [job]}]}
            for block, job in enumerate(repeats)
        ],
    }
    return SuiteResult.read(measurements, len(repeats), document)


def reported(
    text: str, *repeats: dict[str, Any], limits: MicroParams | None = None
) -> dict[str, Any]:
    """The one benchmark's one entry."""
    result = read(measured(text, limits), *repeats)
    (benchmark,) = perma_results(result, memory_of(DRAM))
    entry: dict[str, Any]
    (entry,) = benchmark["benchmarks"]
    return entry


# Figures -------------------------------------------------------------------------


def test_a_rate_is_what_was_moved_over_the_time_in_which_it_was_moved():
    results = reported(READS, repeat((0, 2, 8), (0, 4, 8)))["results"]
    assert results["accessed_bytes"] == 16 * GIB
    assert results["execution_time"] == 4
    assert results["bandwidth"] == 4
    assert [thread["bandwidth"] for thread in results["threads"]] == [4, 2]


@pytest.mark.parametrize(
    ("text", "rate", "amount", "unit"),
    [(READS, "bandwidth", "accessed_bytes", GIB), (CHAINS, "ops_per_second", "num_operations", 1)],
)
def test_every_rate_follows_from_the_numbers_beside_it(text, rate, amount, unit):
    results = reported(text, repeat((0, 2, 8), (1, 4, 6)))["results"]
    for figures in (results, *results["threads"]):
        assert figures[rate] == pytest.approx(figures[amount] / unit / figures["execution_time"])
    rates = [thread[rate] for thread in results["threads"]]
    assert results[f"thread_{rate}_avg"] == pytest.approx(statistics.fmean(rates))
    assert results[f"thread_{rate}_std_dev"] == pytest.approx(statistics.stdev(rates))
    assert results[amount] == sum(thread[amount] for thread in results["threads"])


def test_the_repeat_with_the_median_of_these_rates_stands_for_all():
    repeats = [repeat((0, seconds, 12), (0, seconds, 12)) for seconds in (2, 6, 3)]
    repeats[0]["bandwidth_bytes_per_second"] = 5e11  # the median of the others' base
    assert reported(READS, *repeats)["results"]["bandwidth"] == 8


# Configuration -------------------------------------------------------------------


def test_what_was_bounded_by_time_has_the_time_that_it_ran_and_no_count():
    config = reported(RANDOM, repeat((0, 1, 1)))["config"]
    assert config["run_time"] == 10
    assert "number_operations" not in config
    brief = overrides(duration="100ms", operations="100000")
    assert reported(RANDOM, repeat((0, 1, 1)), limits=brief)["config"]["run_time"] == 0.1


def test_what_ends_by_a_count_has_the_one_that_ended_it():
    few, both = overrides(operations="100000"), (repeat((0, 1, 1), (0, 1, 1)),)
    config = reported(CHAINS, *both, limits=few)["config"]
    assert config["number_operations"] == 100_000 and "run_time" not in config
    whole = reported(READS, *both)["config"]
    assert "number_operations" not in whole
    assert reported(READS, *both, limits=few)["config"] == whole | {"number_operations": 100_000}


@pytest.mark.parametrize(
    ("tier", "memory"),
    [
        (DRAM, Memory("dram")),
        (PMEM, Memory("pmem")),
        (Tier(TierClaim("pmem", "tmpfs", path="/x", emulates="pmem"), TierFacts("tmpfs")),
         Memory("dram", "EMULATED: pmem by tmpfs at /x")),
        (Tier(TierClaim("ssd", "block", path="/data"), TierFacts("block")), Memory("page cache")),
    ],
)  # fmt: skip
def test_only_persistent_memory_is_called_so(tier, memory):
    assert memory_of(tier) == memory


# What is to be known of it -------------------------------------------------------


def test_a_mark_stands_at_every_number_and_findings_where_their_reader_does_not_look():
    """It reads names, matrix_args, and each mapping below benchmarks."""
    mark = Memory("dram", "EMULATED: pmem by tmpfs at /x")
    finding = RunWarning("equal", "equal configurations", "2 of 3 became equal", "more room")
    result = read(measured(RANDOM), repeat((0, 1, 1)))
    (benchmark,) = perma_results(result, mark, [finding])
    (entry,) = benchmark["benchmarks"]
    assert entry["config"]["emulated"] == "EMULATED: pmem by tmpfs at /x"
    assert entry["config"]["memory_type"] == "dram"
    assert all(isinstance(part, dict) for part in entry.values())
    assert benchmark["uncontrolled"] == [finding.to_json()]
