"""PerMA-Bench's form of a result: figures of one base, what was run, and what is to be known."""

from __future__ import annotations

import statistics
from typing import Any

import pytest
from micro_suites import DRAM, capacity, overrides, perma

from harness.micro.keys import MicroParams
from harness.micro.metrics import SuiteResult
from harness.micro.model import Measurement
from harness.micro.perma_result import Memory, memory_of, perma_results
from harness.micro.scaling import scale
from harness.micro.spec import measurement_name
from harness.tiers.linux.model import Tier, TierClaim, TierFacts
from harness.units import GIB, NS_PER_S
from harness.warnings import RunWarning

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
    return scale(perma(text), capacity(), limits or overrides()).measurements


def repeat(*threads: tuple[int, int, int]) -> dict[str, Any]:
    """What the program reports of threads (begin and end in seconds, GiB or chains).

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
        "duration_ns": max(one["end_ns"] for one in each) - min(one["begin_ns"] for one in each),
        **{key: sum(one[key] for one in each)
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
            {"name": measurement_name(0, block), "repeats": [{**whole, "jobs": [one]}]}
            for block, one in enumerate(repeats)
        ],
    }
    return SuiteResult.read(measurements, len(repeats), document)


def reported(
    text: str, *repeats: dict[str, Any], limits: MicroParams | None = None
) -> dict[str, Any]:
    """The one benchmark's one entry."""
    kept = read(measured(text, limits), *repeats)
    (benchmark,) = perma_results(kept, memory_of(DRAM))
    entry: dict[str, Any]
    (entry,) = benchmark["benchmarks"]
    return entry


# Figures -------------------------------------------------------------------------


def test_a_rate_is_what_was_moved_over_the_time_in_which_it_was_moved():
    results = reported(READS, repeat((0, 2, 8), (0, 4, 8)))["results"]
    assert results["accessed_bytes"] == 16 * GIB
    assert results["execution_time"] == 4
    assert results["bandwidth"] == 4
    assert [one["bandwidth"] for one in results["threads"]] == [4, 2]


@pytest.mark.parametrize(
    ("text", "rate", "amount", "unit"),
    [(READS, "bandwidth", "accessed_bytes", GIB), (CHAINS, "ops_per_second", "num_operations", 1)],
)
def test_every_rate_follows_from_the_numbers_beside_it(text, rate, amount, unit):
    results = reported(text, repeat((0, 2, 8), (1, 4, 6)))["results"]
    for one in (results, *results["threads"]):
        assert one[rate] == pytest.approx(one[amount] / unit / one["execution_time"])
    rates = [one[rate] for one in results["threads"]]
    assert results[f"thread_{rate}_avg"] == pytest.approx(statistics.fmean(rates))
    assert results[f"thread_{rate}_std_dev"] == pytest.approx(statistics.stdev(rates))
    assert results[amount] == sum(one[amount] for one in results["threads"])


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
