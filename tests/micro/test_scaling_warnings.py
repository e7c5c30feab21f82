"""What a run is told of how its suite was fitted to the host: each change, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest
from micro_suites import RANDOM, capacity, overrides, perma, suite

from harness.micro.params import MicroParams
from harness.micro.scaling import scale
from harness.units import GIB


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


def test_files_in_the_page_cache_are_told():
    found = reported(suite(f"  m: {{{RANDOM}}}"), replace(capacity(), page_cached=True))
    assert set(found) == {"page-cache"}
