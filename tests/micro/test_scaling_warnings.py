"""What a run is told of how its suite was fitted to the host: each change, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest
from micro_suites import RANDOM, capacity, overrides, perma, suite

from harness.micro.params import MicroParams
from harness.micro.scaling import scale
from harness.units import GIB, MIB


def reported(requested_suite, here, limits: MicroParams | None = None) -> dict[str, str]:
    """What was found, by what it is of."""
    scaled = scale(requested_suite, here, limits or overrides())
    return {finding.code: finding.context for finding in scaled.warnings}


def test_a_range_that_is_scaled_down_is_reported_with_both_sizes():
    requested = perma(
        "b: {matrix: {access_size: [64, 4096]}, args: {memory_range: 50G, run_time: 1}}"
    )
    found = reported(requested, capacity(tier=8 * GIB, dram=8 * GIB))
    assert found == {"range-scaled-down": "b 6.25 GiB instead of 50 GiB"}
    odd = suite("  m: {args: {kernel: load, access: 192, pattern: random}}")
    found = reported(odd, capacity(tier=GIB - 1, dram=GIB - 1))
    assert found == {}  # 64 bytes less than a GiB are whole accesses of 192
    found = reported(odd, capacity(tier=GIB - 192, dram=GIB - 192))
    assert found == {"range-scaled-down": "m 512 MiB instead of 1 GiB"}


def test_memory_next_to_the_tier_is_reported_as_such():
    requested = perma(
        "b: {args: {exec_mode: random, dram_operation_ratio: 0.5, dram_memory_range: 8G,"
        " memory_range: 8G}}"
    )
    found = reported(requested, capacity(tier=10 * GIB, dram=10 * GIB))["range-scaled-down"]
    assert "b 4 GiB instead of 8 GiB; b 4 GiB of DRAM instead of 8 GiB" in found


def test_a_chunk_that_is_not_whole_is_reported_as_cut_off_and_not_as_want_of_room():
    requested = perma("b: {args: {memory_range: 8G, run_time: 1}}")
    found = reported(requested, capacity(), overrides(range=200 * MIB))
    assert found == {"range-cut-to-chunks": "b 192 MiB instead of 200 MiB"}
    found = reported(requested, capacity(), overrides(range=4 * GIB + 256))
    assert found["range-cut-to-chunks"].endswith("b 4,294,967,296 B instead of 4,294,967,552 B")


def test_more_threads_than_processors_are_reported_and_what_became_equal():
    found = reported(suite(f"  m: {{matrix: {{threads: [1, 2, 8, 32]}}, {RANDOM}}}"), capacity(2))
    assert found["threads-limited"] == "2 configurations: up to 32 threads requested, 2 measured"
    assert found["equal-configurations"] == "2 configurations"


SMALL = "{range: 64MiB, duration: 1s}"


def test_a_range_that_the_cache_holds_is_told():
    found = reported(suite(f"  m: {{{RANDOM}}}", SMALL), capacity())
    assert "m (64 MiB)" in found["range-in-cache"]


@pytest.mark.parametrize(
    ("ways", "given", "differs"),
    [(6, "", False), (4, "", True), (4, ", stripe: 16KiB", False), (None, "", True)],
)
def test_a_stripe_that_is_not_the_tiers_is_named(ways: int | None, given: str, differs: bool):
    args = f"  m: {{args: {{kernel: load, access: 256, pattern: dimms, dimms: 2{given}}}}}"
    found = reported(suite(args), replace(capacity(), interleave_ways=ways))
    assert set(found) == ({"stripe-differs"} if differs else set())


def test_dram_that_no_node_is_known_for_is_named():
    here = replace(capacity(), dram_unbound=True)
    both = perma(
        "b: {args: {exec_mode: random, dram_operation_ratio: 0.5, dram_memory_range: 8G,"
        " memory_range: 8G}}"
    )
    assert "b" in reported(both, here)["dram-unbound"]
    assert reported(both, capacity()) == reported(suite(f"  m: {{{RANDOM}}}"), here) == {}


@pytest.mark.parametrize(
    ("args", "in_memory", "named"),
    [
        ("access: 64, pattern: zipf", True, True),
        ("access: 64, pattern: zipf", False, False),
        ("access: 4096, pattern: zipf", True, False),
        ("access: 64, pattern: random", True, False),
    ],
)
def test_addresses_that_are_read_from_the_measured_memory_are_named(
    args: str, in_memory: bool, named: bool
) -> None:
    found = reported(
        suite(f"  m: {{args: {{kernel: load, {args}}}}}"),
        replace(capacity(), in_memory=in_memory),
    )
    assert ("addresses-in-memory" in found) == named


def test_files_in_the_page_cache_are_told():
    found = reported(suite(f"  m: {{{RANDOM}}}"), replace(capacity(), page_cached=True))
    assert set(found) == {"page-cache"}


def test_memory_that_should_not_be_touched_beforehand_is_told():
    found = reported(perma("b: {args: {prefault_file: false, run_time: 1}}"), capacity())
    assert found["prefault-ignored"] == "b"


def test_an_instruction_set_names_those_that_have_no_loops_of_it():
    requested = suite(
        f"  m: {{{RANDOM}}}\n  walk: {{args: {{kind: chase}}}}\n"
        "  commit: {args: {kind: log, writer: zero, entry: 64}}"
    )
    (found,) = reported(requested, capacity(), overrides(isa="avx2")).items()
    assert found[0] == "isa-not-applicable" and "avx2 for walk, commit" in found[1]
    assert reported(requested, capacity()) == {}


def test_a_bound_on_operations_that_bounds_nothing_is_told():
    counted = RANDOM.replace("{", "{count: 5000, ")
    requested = suite(f"  timed: {{{RANDOM}}}\n  counted: {{{counted}, duration: 0s}}")
    found = reported(requested, capacity(), overrides(operations=100))["operations-not-applicable"]
    assert found == "timed"
    assert "operations" not in reported(requested, capacity())
