"""What cannot be measured as it is asked for: refused before anything is started."""

from __future__ import annotations

from dataclasses import replace

import pytest
from micro_suites import RANDOM, perma, room, suite

from harness.errors import UsageError
from harness.micro.overrides import Limits, parse_limits
from harness.micro.scaling import fit
from harness.micro.suite import find_suite
from harness.units import GIB, MIB

ACCESSES = "kernel: load, access: 256, pattern: random"


def refusal(args: str, here=None, limits: Limits | None = None) -> UsageError:
    """Of a suite with one measurement ``m`` in line 6 of mine.yml."""
    with pytest.raises(UsageError) as refused:
        fit(suite(f"  m: {{args: {{{args}}}}}"), here or room(), limits or Limits())
    return refused.value


@pytest.mark.parametrize(
    ("args", "found"),
    [
        ("kernel: load, access: 256, pattern: strided, stride: 64", "stride: 64 B, and access"),
        ("kind: latency, kernel: load, access: 256, pattern: strided, stride: 128", "overlap"),
        ("kind: chain, chain: r_256, mode: independent, pattern: strided, stride: 64", "overlap"),
        (f"{ACCESSES}, threads: 0", "threads: 0"),
        (f"{ACCESSES}, threads: = 4 - cpus", "threads: '= 4 - cpus', which is 0 here"),
        (f"{ACCESSES}, duration: 0s", "duration: '0s' is no time"),
        (f"{ACCESSES}, count: 0", "count: 0"),
        (f"{ACCESSES}, threads: 4, count: 3", "count: 3 for 4 threads"),
        (f"{ACCESSES}, threads: 3, partitions: 2", "partitions: 2 for 3 threads"),
        (f"{ACCESSES}, pace: {{pause: 0ns}}", "pace: '0ns' is no time"),
        (f"{ACCESSES}, pace: 0GB/s", "pace: '0GB' is nothing"),
        (f"{ACCESSES}, zipf_exponent: -1", "zipf_exponent: -1.0"),
        (f"{ACCESSES}, fence_every: 320", "fence_every: 320 B"),
        (f"{ACCESSES}, dram_share: -0.5", "dram_share: -0.5 is no share"),
        (f"{ACCESSES}, dram_share: 0.5", "dram_share: 0.5, and dram_range has 0 bytes"),
        (f"{ACCESSES}, dram_share: 0.5, dram_range: 128", "dram_range has 128 bytes"),
        ("kernel: load, access: 256, pattern: strided, stride: 1GiB", "stride: 1 GiB in 1 GiB"),
        ("kernel: load, access: 256, pattern: strided, stride: 512MiB, threads: 4, partitions: 1",
         "in 256 MiB of each thread"),
        ("kernel: mixed+store, read_share: 1.5, access: 64, pattern: random", "read_share: 1.5"),
        ("kernel: load, access: 64, pattern: hotspot, hotspot: 64GiB", "hotspot: 64 GiB in 1 GiB"),
        ("kernel: load, access: 256, pattern: hotspot, hotspot: 64", "hotspot: 64 B, and access"),
        ("kernel: load, access: 256, pattern: random, threads: 4, partitions: 0, range: 512",
         "less than one for each of 4 threads"),
        ("kernel: load, access: 1MiB, pattern: random, range: 64KiB",
         "access: 1 MiB, and the range of 64 KiB"),
        ("kernel: load+clwb, access: 64, pattern: random", "load leaves no lines"),
        ("kernel: ntstore+clflush, access: 64, pattern: random", "ntstore leaves no lines"),
        ("kernel: mixed+ntstore+clwb, read_share: 0.5, access: 64, pattern: random", "no lines"),
        ("kernel: mixed+load, read_share: 0.5, access: 64, pattern: random", "mixed reads and"),
        ("kernel: empty, access: 64, pattern: random", "kernel: empty moves nothing"),
        ("kind: latency, kernel: store, access: 64, pattern: random, before: written", "before"),
        ("kind: latency, kernel: load, access: 64, pattern: random, distance: 9", "distance"),
        ("kind: latency, kernel: ntstore, access: 64, pattern: random, lane: words", "lane: words"),
        ("kind: chase, stride: 128", "stride with order: random"),
        ("kind: chase, order: strided, node: 128, stride: 192", "stride: 192"),
        ("kind: chase, order: sequential, locality: 4KiB", "locality with order"),
        ("kind: chase, chains: 9", "chains: 9"),
        ("kind: chase, range: 64", "node: 64 B in 64 B"),
        ("kind: log, writer: zero, entry: 2MiB", "entry: 2097152"),
        ("kind: page, method: cow, page: 16KiB, dirty_lines: 257", "dirty_lines: 257"),
        ("kind: page, method: cow, page: 128KiB, dirty_lines: 1", "page: 128 KiB"),
    ],
)  # fmt: skip
def test_a_value_that_cannot_be_is_refused_with_file_measurement_and_key(args, found):
    error = refusal(args)
    assert error.problem.startswith("mine.yml:6")
    assert error.problem.endswith((", m", ", measurement m"))
    assert found in error.context
    assert error.hint


@pytest.mark.parametrize(
    "args",
    [
        "kernel: load, access: 256, pattern: strided, stride: 256",
        "kernel: load, access: 256, pattern: random, stride: 64",  # of another pattern: not used
        "kernel: load, access: 64, pattern: hotspot, hotspot: 1GiB",
        "kernel: mixed+store+clwb, read_share: 1.0, access: 64, pattern: random",
        "kind: latency, kernel: empty, access: 64, pattern: random",
        f"{ACCESSES}, threads: 4, count: 4, partitions: 2, warm_up: 0s, fence_every: 512",
        f"{ACCESSES}, range: = llc / 100000",
    ],
)
def test_what_is_at_the_edge_is_measured(args):
    assert len(fit(suite(f"  m: {{args: {{{args}}}}}"), room(), Limits()).measurements) == 1


def test_what_the_command_line_makes_impossible_is_refused_too():
    error = refusal("kernel: load, access: 64, pattern: random, hotspot: 64MiB", None,
                    Limits(range_bytes=16 * MIB))  # fmt: skip
    assert "hotspot: 64 MiB in 16 MiB" in error.context
    error = refusal(f"{ACCESSES}, threads: 2, count: 10", None, Limits(operations=1))
    assert "count: 1 for 2 threads" in error.context
    for key in ("duration=0s", "range=0", "range=0.1"):
        name, _, text = key.partition("=")
        with pytest.raises(UsageError, match=f"--param {key}: nothing"):
            parse_limits({name: text})


def test_partitions_divide_the_threads_that_the_command_line_leaves():
    asked = suite(f"  m: {{args: {{{ACCESSES}, threads: 4, partitions: 4}}}}")
    (job,) = fit(asked, room(), Limits(threads=3)).measurements[0].jobs
    assert (job.threads, job.partitions) == (3, 3)


def test_want_of_room_moves_no_range_into_the_cache():
    full = room(tier=48 * MIB, dram=64 * GIB)  # the cache has 32 MiB
    error = refusal(ACCESSES, full)
    assert error.context.startswith("range: 1 GiB, and no more than 48 MiB may be taken")
    assert "halved to 32 MiB" in error.context
    asked = perma("b: {args: {memory_range: 200G, run_time: 1}}")
    with pytest.raises(UsageError, match=r"range: 200 GiB.* 1.56 MiB .*cache of 32 MiB") as refused:
        fit(asked, room(tier=2 * MIB, dram=2 * MIB), Limits())
    assert "-p range=1MiB" in refused.value.hint


def test_a_range_in_the_cache_is_measured_where_it_is_asked_for():
    full = room(tier=24 * MIB, dram=64 * GIB)
    small = suite(f"  m: {{args: {{{ACCESSES}, range: 32MiB}}}}")
    assert fit(small, full, Limits()).measurements[0].jobs[0].range_bytes == 16 * MIB
    large = suite(f"  m: {{args: {{{ACCESSES}}}}}")
    limited = fit(large, full, Limits(range_bytes=16 * MIB))
    assert limited.measurements[0].jobs[0].range_bytes == 16 * MIB
    enough = room(tier=512 * MIB, dram=64 * GIB)
    assert fit(large, enough, Limits()).measurements[0].jobs[0].range_bytes == 512 * MIB


def test_memory_beside_the_tier_is_not_moved_into_the_cache_either():
    asked = perma(
        "b: {args: {exec_mode: random, dram_operation_ratio: 0.5, dram_memory_range: 64M,"
        " memory_range: 1G}}"
    )
    with pytest.raises(UsageError, match="range: 64 MiB, and no more"):
        fit(asked, room(tier=200 * MIB, dram=200 * MIB), Limits())


def test_pages_of_1_gib_are_refused_where_too_few_are_free():
    asked = suite(f"  m: {{{RANDOM.replace('{', '{range: 3GiB, pages: 1g, ')}}}")
    here = replace(room(), gigantic_free={"tier": 2, "dram": 9}, near_node=1)
    with pytest.raises(
        UsageError, match=r"mine.yml:6, m, pages: 1g: 3 of these pages are wanted, 2 are free"
    ):
        fit(asked, here, Limits())
    assert fit(asked, replace(here, gigantic_free={"tier": 3, "dram": 0}), Limits()).measurements


def test_memory_without_nodes_of_its_own_shares_the_pages_of_1_gib():
    asked = perma(
        "b: {args: {exec_mode: random, dram_operation_ratio: 0.5, dram_memory_range: 2G,"
        " memory_range: 2G}}"
    )
    here = replace(room(), gigantic_free={"tier": 3, "dram": 3})
    with pytest.raises(UsageError, match=r"pages: 1g: 4 of these pages are wanted, 3 are free"):
        fit(asked, here, Limits(pages="1g"))
    assert fit(asked, replace(here, near_node=1), Limits(pages="1g")).measurements


@pytest.mark.parametrize(
    ("args", "isa", "found"),
    [
        (ACCESSES, "neon", "isa: this processor has no neon"),
        (f"{ACCESSES}, isa: avx512", None, "isa: this processor has no avx512"),
        ("kernel: store+clwb, access: 64, pattern: random", None, "flush: this processor has no"),
        ("kind: chain, mode: dependent, chain: 'r_64,w_64_cache'", None, "has no clwb"),
        ("kind: log, writer: zero, entry: 64, flush: clwb", None, "has no clwb"),
    ],
)  # fmt: skip
def test_instructions_that_the_processor_has_not_are_refused(args, isa, found):
    old = replace(room(), instructions=frozenset({"avx2", "sse2", "clflush"}))
    error = refusal(args, old, Limits(isa=isa))
    assert found in error.context
    assert "it has avx2, clflush, sse2" in error.hint
    fit(suite(f"  m: {{args: {{{ACCESSES}, isa: auto}}}}"), old, Limits(isa="avx2"))


def test_a_suite_whose_file_is_not_there_is_said_as_such():
    with pytest.raises(UsageError, match=r"suite nowhere/mine\.yml: there is no such file"):
        find_suite("nowhere/mine.yml")


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ("access: -64", "mine.yml:6, measurement m: access: -64 is not a size"),
        ("range: -1GiB", "mine.yml:6, measurement m: range: '-1GiB' is not a size"),
        ("access: 0", "mine.yml:6, measurement m: access: 0 are no whole cache lines"),
        ("kind: chase, node: 3", "mine.yml:6, measurement m: node: 3 are no whole cache lines"),
        ("duration: 1", "mine.yml:6, measurement m: duration: 1 is not a duration"),
    ],
)
def test_what_cannot_be_read_is_said_with_key_and_value(args, told):
    assert str(refusal(args)).startswith(told)
