"""Measurements that cannot be made as requested are refused before anything is started."""

import os
from dataclasses import replace

import pytest
from micro_suites import DRAM, capacity, overrides, suite

from harness.errors import UsageError
from harness.micro import native
from harness.micro.host_suite import suite_on
from harness.micro.io_jobs import FioParams
from harness.micro.keys import MicroParams
from harness.store.spec import Json
from harness.units import GIB, MIB

ACCESSES = "kernel: load, access: 256, pattern: random"
STRIDED = "kernel: load, access: 256, pattern: strided"


def refusal(args: str, here=None, limits: MicroParams | None = None) -> UsageError:
    """Refuse a suite with one measurement ``m`` in line 6 of mine.yml."""
    with pytest.raises(UsageError) as refused:
        suite_on(suite(f"  m: {{args: {{{args}}}}}"), here or capacity(), limits or overrides())
    return refused.value


#: Refused as they are read: key, and arguments of a measurement.
UNREADABLE = [
    ("threads", f"{ACCESSES}, threads: 0"),
    ("threads", f"{ACCESSES}, threads: = 4 - cpus"),
    ("duration", f"{ACCESSES}, duration: 0s"),
    ("duration", "duration: 1"),
    ("count", f"{ACCESSES}, count: 0"),
    ("pace", f"{ACCESSES}, pace: {{pause: 0ns}}"),
    ("pace", f"{ACCESSES}, pace: 0GB/s"),
    ("dram_share", f"{ACCESSES}, dram_share: -0.5"),
    ("read_share", "kernel: mixed+store, read_share: 1.5, access: 64, pattern: random"),
    ("kernel", "kernel: mixed+load, read_share: 0.5, access: 64, pattern: random"),
    ("access", "access: -64"),
    ("access", "access: 0"),
    ("range", "range: -1GiB"),
    ("node", "kind: chase, node: 3"),
]


@pytest.mark.parametrize(("key", "args"), UNREADABLE)
def test_a_value_that_cannot_be_read_is_refused_with_file_measurement_and_key(key, args):
    error = refusal(args)
    assert error.problem == "mine.yml:6, measurement m"
    assert error.context.startswith(f"{key}: ")
    assert error.hint


#: Refused by the program, as the suite calls its keys.
REFUSED_BY_PROGRAM = [
    ("access", "kernel: load, access: 256, pattern: random, threads: 4, partitions: 0, range: 512"),
    ("access", "kernel: load, access: 1MiB, pattern: random, range: 64KiB"),
    ("stride", f"{STRIDED}, stride: 64"),
    ("stride", "kind: latency, kernel: load, access: 256, pattern: strided, stride: 128"),
    ("stride", "kind: chain, chain: r_256, mode: independent, pattern: strided, stride: 64"),
    ("stride", f"{STRIDED}, stride: 1GiB"),
    ("stride", f"{STRIDED}, stride: 512MiB, threads: 2, partitions: 1"),
    ("count", f"{ACCESSES}, threads: 2, count: 1"),
    ("partitions", f"{ACCESSES}, threads: 1, partitions: 2"),
    ("zipf_exponent", f"{ACCESSES}, zipf_exponent: -1"),
    ("fence_every", f"{ACCESSES}, fence_every: 320"),
    ("dram_range", f"{ACCESSES}, dram_share: 0.5, dram_range: 128"),
    ("hotspot", "kernel: load, access: 64, pattern: hotspot, hotspot: 64GiB"),
    ("hotspot", "kernel: load, access: 256, pattern: hotspot, hotspot: 64"),
    ("flush", "kernel: load+clflush, access: 64, pattern: random"),
    ("flush", "kernel: ntstore+clflush, access: 64, pattern: random"),
    ("flush", "kernel: mixed+ntstore+clflush, read_share: 0.5, access: 64, pattern: random"),
    ("kernel", "kernel: empty, access: 64, pattern: random"),
    ("before", "kind: latency, kernel: store, access: 64, pattern: random, before: written"),
    ("distance", "kind: latency, kernel: load, access: 64, pattern: random, distance: 9"),
    ("lane", "kind: latency, kernel: ntstore, access: 64, pattern: random, lane: words"),
    ("stride", "kind: chase, stride: 128"),
    ("stride", "kind: chase, order: strided, node: 128, stride: 192"),
    ("locality", "kind: chase, order: sequential, locality: 4KiB"),
    ("chains", "kind: chase, chains: 9"),
    ("range", "kind: chase, range: 64"),
    ("entry", "kind: log, writer: zero, entry: 2MiB"),
    ("dirty_lines", "kind: page, method: cow, page: 16KiB, dirty_lines: 257"),
    ("page", "kind: page, method: cow, page: 128KiB, dirty_lines: 1"),
    ("isa", f"{ACCESSES}, isa: neon"),
]


@pytest.mark.parametrize(("key", "args"), REFUSED_BY_PROGRAM)
def test_what_the_program_refuses_is_refused_by_the_suites_key(key, args):
    here = replace(capacity(), near=tuple(sorted(os.sched_getaffinity(0))) * 4)
    host_suite = suite_on(suite(f"  m: {{args: {{{args}}}}}"), here, overrides())
    with pytest.raises(UsageError) as refused:
        native.refuse(host_suite, DRAM, here)
    assert refused.value.problem == "mine.yml:6, m"
    assert f"{key}: " in refused.value.context or refused.value.context.startswith(key)
    assert refused.value.hint


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
    host_suite = suite_on(suite(f"  m: {{args: {{{args}}}}}"), capacity(), overrides())
    assert len(host_suite.measurements) == 1


def test_partitions_divide_the_threads_that_the_command_line_leaves():
    requested = suite(f"  m: {{args: {{{ACCESSES}, threads: 4, partitions: 4}}}}")
    (job,) = suite_on(requested, capacity(), overrides(threads=3)).measurements[0].jobs
    assert (job.threads, job.partitions) == (3, 3)


def test_want_of_room_moves_no_range_into_the_cache():
    full = capacity(tier=48 * MIB, dram=64 * GIB)  # the cache has 32 MiB
    error = refusal(ACCESSES, full)
    assert error.context.startswith("1 GiB ") and " 48 MiB " in error.context
    assert error.hint.startswith("free some space") and "-p range=32MiB" in error.hint
    large = suite(f"  m: {{args: {{{ACCESSES}}}}}")
    enough = capacity(tier=512 * MIB, dram=64 * GIB)
    with pytest.raises(UsageError) as refused:
        suite_on(large, enough, overrides())
    assert refused.value.hint == "add -p range=512MiB"
    limited = suite_on(large, full, overrides(range=16 * MIB))
    assert limited.measurements[0].jobs[0].range_bytes == 16 * MIB


READ: dict[str, Json] = {"operation": "read", "pattern": "random", "access": "4KiB"}


def test_past_the_page_cache_go_whole_blocks_only() -> None:
    with pytest.raises(UsageError, match="only whole blocks") as refused:
        FioParams.from_mapping({"measurements": {"r": READ | {"access": 3000, "direct": True}}})
    assert refused.value.problem == "measurement r: access 3000" and "512" in refused.value.hint
    fitting: list[dict[str, Json]] = [
        {"access": 512, "direct": True},
        {"access": 3000, "direct": "auto"},
    ]
    for fits in fitting:
        (job,) = FioParams.from_mapping({"measurements": {"r": READ | fits}}).jobs
        assert job.access_bytes == fits["access"]
