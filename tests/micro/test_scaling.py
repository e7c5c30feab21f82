"""A suite on a host that is smaller than it asks for, and what such a host has."""

import os
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import recorded_kernel
from micro_suites import DRAM, RANDOM, capacity, overrides, perma, suite
from narrowed import present

from harness.errors import UsageError
from harness.micro.host_capacity import capacity_of, llc_bytes, variables_on
from harness.micro.keys import MicroParams
from harness.micro.native import estimate
from harness.micro.protocol import Planned
from harness.micro.scaling import scale, targets_of
from harness.micro.spec import spec_json
from harness.tiers.linux.kernel import Kernel
from harness.tiers.linux.model import Tier, TierClaim, TierFacts
from harness.units import GIB, MIB, NS_PER_S


def test_what_fits_is_left_as_it_is():
    requested = suite(f"  m: {{matrix: {{threads: [1, 4]}}, {RANDOM}}}")
    assert scale(requested, capacity(cpus=4), overrides()).measurements == requested.measurements


def test_a_range_holds_whole_accesses_and_keeps_its_name():
    requested = suite(
        "  m: {matrix: {access: [64, 192], range: [1GiB, 2GiB]},"
        " args: {kernel: load, pattern: random}}"
    )
    scaled = scale(requested, capacity(), overrides())
    assert names(scaled) == [
        f"m/access={access},range={size}" for access in (64, 192) for size in ("1GiB", "2GiB")
    ]
    assert scaled.measurements[2].jobs[0].range_bytes == GIB // 192 * 192


def test_more_threads_than_processors_become_as_many_and_equal_ones_are_measured_once():
    requested = suite(f"  m: {{matrix: {{threads: [1, 2, 8, 32]}}, {RANDOM}}}")
    assert names(scale(requested, capacity(2), overrides())) == ["m/threads=1", "m/threads=2"]
    found = reported(requested, capacity(2))
    assert found["threads-limited"] == "2 configurations: up to 32 threads requested, 2 measured"
    assert found["equal-configurations"] == "2 configurations"


def names(scaled) -> list[str]:
    return [one.configuration for one in scaled.measurements]


def spec_of(requested, here=None):
    return spec_json(requested.measurements, DRAM, None, here or capacity(), seed=7, repeats=1)


def test_configurations_are_called_by_the_range_that_a_limit_leaves_them():
    requested = suite(
        "  chase: {matrix: {range: [4MiB, 16MiB, 67108864, 1GiB]}, args: {kind: chase}}"
    )
    scaled = scale(requested, capacity(), overrides(range=16 * MIB))
    assert names(scaled) == ["chase/range=4MiB", "chase/range=16MiB"]
    assert [one.jobs[0].range_bytes for one in scaled.measurements] == [4 * MIB, 16 * MIB]
    scaled = scale(requested, capacity(), overrides(range=8 * MIB))
    assert names(scaled) == ["chase/range=4MiB", f"chase/range={8 * MIB}"]


def test_what_the_command_line_changes_of_pages_and_instructions_is_in_the_names():
    requested = suite(f"  m: {{matrix: {{isa: [sse2, auto], pages: [huge, base]}}, {RANDOM}}}")
    scaled = scale(requested, capacity(), overrides(isa="sse2", pages="base"))
    assert names(scaled) == ["m/isa=sse2,pages=base"]


def test_timed_chains_of_more_threads_than_there_are_are_one_configuration_too():
    requested = perma(
        "b: {matrix: {number_threads: [2, 16, 32]}, args: {exec_mode: custom,"
        " custom_operations: r_64, latency_sample_frequency: 5000}}"
    )
    found = names(scale(requested, capacity(cpus=2), overrides()))
    assert found == ["b/number_threads=2", "b/number_threads=2,chain=dependent"]


def test_parallel_jobs_share_the_processors_in_proportion():
    requested = perma(
        "p: {parallel_benchmark: {a: {args: {number_threads: 24, run_time: 1}},"
        " b: {args: {number_threads: 8, run_time: 1}}}}"
    )
    (one,) = scale(requested, capacity(cpus=8), overrides()).measurements
    assert [job.threads for job in one.jobs] == [6, 2]


def test_ranges_are_halved_alike_in_all_configurations_of_a_measurement():
    requested = perma(
        "b: {matrix: {access_size: [64, 4096]}, args: {memory_range: 50G, run_time: 1}}"
    )
    here = capacity(tier=8 * GIB, dram=8 * GIB)
    scaled = scale(requested, here, overrides())
    assert [one.jobs[0].range_bytes for one in scaled.measurements] == [50 * GIB // 8] * 2
    assert reported(requested, here) == {"range-scaled-down": "b 6.25 GiB instead of 50 GiB"}
    odd = suite("  m: {args: {kernel: load, access: 192, pattern: random}}")
    found = reported(odd, capacity(tier=GIB - 1, dram=GIB - 1))
    assert found == {}  # 64 bytes less than a GiB are whole accesses of 192
    found = reported(odd, capacity(tier=GIB - 192, dram=GIB - 192))
    assert found == {"range-scaled-down": "m 512 MiB instead of 1 GiB"}


BOTH = (
    "b: {args: {exec_mode: random, dram_operation_ratio: 0.5, dram_memory_range: 8G,"
    " memory_range: 8G}}"
)


def test_what_lies_in_memory_shares_it():
    here = capacity(tier=10 * GIB, dram=10 * GIB)
    (one,) = scale(perma(BOTH), here, overrides()).measurements
    assert sum(targets_of(one, here).values()) <= 10 * GIB
    found = reported(perma(BOTH), here)["range-scaled-down"]
    assert "b 4 GiB instead of 8 GiB; b 4 GiB of DRAM instead of 8 GiB" in found


NEAR_AND_FAR = f"  m: {{matrix: {{numa: [near, far]}}, {RANDOM}}}"


def test_far_processors_that_are_not_there_are_left_out_of_ours_and_refused_of_theirs():
    assert names(scale(suite(NEAR_AND_FAR), capacity(), overrides())) == ["m/numa=near"]
    with pytest.raises(UsageError, match="numa_pattern far"):
        scale(perma("b: {args: {numa_pattern: far, run_time: 1}}"), capacity(), overrides())


def test_far_processors_alone_measure_nothing_that_is_called_near():
    far = capacity(0, far=2)
    scaled = scale(suite(f"{NEAR_AND_FAR}\n  n: {{{RANDOM}}}"), far, overrides())
    assert names(scaled) == ["m/numa=far"]
    assert [finding.code for finding in scaled.warnings] == ["no-near-processors"]
    for requested in (suite(f"  n: {{{RANDOM}}}"), perma("b: {args: {run_time: 1}}")):
        with pytest.raises(UsageError):
            scale(requested, far, overrides())


def test_only_chooses_by_measurement_or_configuration_and_names_what_there_is():
    requested = suite(f"  a: {{matrix: {{threads: [1, 2]}}, {RANDOM}}}\n  b: {{{RANDOM}}}")
    chosen = scale(requested, capacity(), overrides(only="b,a/threads=2"))
    assert names(chosen) == ["a/threads=2", "b"]
    with pytest.raises(UsageError) as refused:
        scale(requested, capacity(), overrides(only="c"))
    assert "its measurements: a, b" in refused.value.hint


def test_memory_beside_the_tier_lies_on_the_near_node_and_fits_into_it():
    here = replace(capacity(), near_node=1, near_free_bytes=8 * GIB)
    scaled = scale(perma(BOTH), here, overrides())
    (job,) = scaled.measurements[0].jobs
    assert (job.range_bytes, job.dram_range_bytes) == (4 * GIB, 4 * GIB)
    targets = spec_of(scaled, here)["targets"]
    nodes = {name.partition("_")[0]: one["node"] for name, one in targets.items()}
    assert nodes == {"tier": 0, "dram": 1}


# What the program receives -----------------------------------------------------------


def test_jobs_of_one_target_have_ranges_and_processors_of_their_own():
    requested = perma(
        "p: {parallel_benchmark: {a: {args: {number_threads: 2, run_time: 1, memory_range: 1G}},"
        " b: {args: {number_threads: 2, run_time: 1, memory_range: 2G}}}}"
    )
    here = capacity(cpus=4)
    scaled = scale(requested, here, overrides())
    spec = spec_of(scaled, here)
    a, b = spec["measurements"][0]["jobs"]
    assert (a["offset_bytes"], a["range_bytes"]) == (0, GIB)
    assert (b["offset_bytes"], b["range_bytes"]) == (GIB, 2 * GIB)
    assert spec["targets"][a["target"]]["size_bytes"] == 3 * GIB
    assert set(a["cpus"]) & set(b["cpus"]) == set()


def test_repeats_are_interleaved_blocks():
    requested = suite(f"  m: {{matrix: {{threads: [1, 2]}}, {RANDOM}}}")
    spec = spec_json(requested.measurements, DRAM, None, capacity(), seed=7, repeats=3)
    assert [one["name"] for one in spec["measurements"]] == [
        "0#0", "1#0", "0#1", "1#1", "0#2", "1#2"]  # fmt: skip


def test_the_rate_of_a_load_is_that_of_all_its_threads_together():
    requested = suite(
        "  m: {jobs: {chase: {args: {kind: chase}}, load: {args: {kernel: load, access: 256,"
        " pattern: sequential, threads: 3, pace: 3GB/s}}}}"
    )
    spec = spec_of(requested)
    assert spec["measurements"][0]["jobs"][1]["pace"] == {"bytes_per_second": 10**9}


def test_of_chains_that_wait_for_each_other_few_are_stamped_and_of_others_none():
    requested = suite(
        "  m: {matrix: {mode: [dependent, independent]}, args: {kind: chain, chain: r_64}}"
    )
    spec = spec_of(requested)
    assert [one["jobs"][0]["sample_every"] for one in spec["measurements"]] == [16, 0]


def test_a_chain_goes_to_the_tier_and_to_dram_beside_it():
    requested = perma(
        "b: {args: {exec_mode: custom, dram_memory_range: 1G, memory_range: 1G,"
        " custom_operations: 'rd_64,rp_128,wp_64_cache_64'}}"
    )
    (job,) = spec_of(requested)["measurements"][0]["jobs"]
    assert [(s["operation"], s["target"], s["bytes"]) for s in job["steps"]] == [
        ("read", "second", 64), ("read", "first", 128), ("write", "first", 64)]  # fmt: skip
    assert job["steps"][2]["persist"] == "cache"
    assert job["second"]["target"] != job["target"]


def test_a_library_replaces_every_index_and_equal_measurements_become_one(tmp_path):
    library = tmp_path / "tree.so"
    library.touch()
    requested = suite(
        "  vanilla: {matrix: {index: [woart, fast_fair], flush: [clwb, clflush]},"
        " args: {kind: index, workload: a}}\n"
        "  manual: {args: {kind: index, index: woart, workload: a, discipline: ff}}\n"
        f"  loads: {{{RANDOM}}}"
    )
    scaled = scale(requested, capacity(), overrides(index_library=library))
    assert names(scaled) == ["vanilla/index=library", "loads"]
    (job,) = scaled.measurements[0].jobs
    assert job.pages == "base"
    assert job.keys == {"index": "library", "library": str(library), "workload": "a"}
    assert [one.path for one in scaled.libraries] == [library]
    sized = scale(requested, capacity(), overrides(index_library=library, key=16, value=200))
    assert sized.measurements[0].jobs[0].keys == {**job.keys, "key_bytes": 16, "value_bytes": 200}
    with pytest.raises(UsageError):
        scale(requested, capacity(), overrides(value=200))  # ours have words
    small = scale(requested, capacity(tier=GIB), overrides(index_library=library))
    assert small.measurements[0].jobs[0].range_bytes == GIB // 2  # the rest is the library's


# Each change is reported -------------------------------------------------------


def reported(requested_suite, here, limits: MicroParams | None = None) -> dict[str, str]:
    """What was found, by what it is of."""
    scaled = scale(requested_suite, here, limits or overrides())
    return {finding.code: finding.context for finding in scaled.warnings}


def test_a_chunk_that_is_not_whole_is_reported_as_cut_off_and_not_as_want_of_room():
    requested = perma("b: {args: {memory_range: 8G, run_time: 1}}")
    found = reported(requested, capacity(), overrides(range=200 * MIB))
    assert found == {"range-cut-to-chunks": "b 192 MiB instead of 200 MiB"}
    found = reported(requested, capacity(), overrides(range=4 * GIB + 256))
    assert found["range-cut-to-chunks"].endswith("b 4,294,967,296 B instead of 4,294,967,552 B")


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
    assert "b" in reported(perma(BOTH), here)["dram-unbound"]
    assert reported(perma(BOTH), capacity()) == reported(suite(f"  m: {{{RANDOM}}}"), here) == {}


@pytest.mark.parametrize(
    ("args", "in_memory", "named"),
    [
        ("access: 64, pattern: zipf", True, True),
        ("access: 64, pattern: zipf", False, False),
        ("access: 4096, pattern: zipf", True, False),
        ("access: 64, pattern: random", True, False),
    ],
)
def test_addresses_that_are_read_from_the_measured_memory_are_named(args, in_memory, named):
    here = replace(capacity(), in_memory=in_memory)
    found = reported(suite(f"  m: {{args: {{kernel: load, {args}}}}}"), here)
    assert ("addresses-in-memory" in found) == named


def test_what_else_is_told():
    """Files in the page cache, a range that the cache holds, pages touched although none should."""
    found = reported(suite(f"  m: {{{RANDOM}}}"), replace(capacity(), page_cached=True))
    assert set(found) == {"page-cache"}
    found = reported(suite(f"  m: {{{RANDOM}}}", "{range: 64MiB, duration: 1s}"), capacity())
    assert "m (64 MiB)" in found["range-in-cache"]
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


# What a dry run says it takes --------------------------------------------------


def expected(measurements: str, repeats: int = 1) -> Planned:
    scaled = scale(suite(measurements), capacity(), overrides())
    return estimate(scaled.measurements, capacity(), repeats)


def setup_ns(measurements: str, repeats: int = 1) -> int:
    return present(expected(measurements, repeats).setup_ns)


def test_durations_are_told_exactly_for_all_repeats():
    expectation = expected(
        "  m: {matrix: {threads: [1, 2]}, args: {kernel: load, access: 64, pattern: random,"
        " warm_up: 500ms}}",
        repeats=3,
    )
    assert expectation.measuring_ns == 3 * 2 * 1.5 * NS_PER_S
    assert expectation.counted == 0


def test_a_chase_over_a_large_range_is_set_up_for_each_of_its_measurements():
    small, large = (
        setup_ns(f"  c: {{args: {{kind: chase, range: {size}}}}}", repeats=11)
        for size in ("64MiB", "4GiB")
    )
    loads = setup_ns("  m: {args: {kernel: load, access: 64, pattern: random, range: 4GiB}}")
    assert large > 10 * small
    assert large > 5 * loads


def test_what_ends_by_a_count_is_named_and_not_guessed():
    expectation = expected("  m: {args: {kind: latency, kernel: load, access: 64, pattern: random,"
                    " count: 1000}}")  # fmt: skip
    assert (expectation.counted, expectation.measuring_ns) == (1, 0)


# Processors near and far, and free memory -----------------------------------------


NODES = {0: ("0-1,4-5", "10 21 14"), 1: ("2-3,6-7", "21 10 24"), 2: ("", "14 24 10")}
ENV: Any = SimpleNamespace(memory_bytes=64 * GIB, cores=8)


@pytest.fixture
def kernel(tmp_path, monkeypatch) -> Kernel:
    write = partial(recorded_kernel.write, tmp_path)
    for node, (cpus, distances) in NODES.items():
        folder = f"sys/devices/system/node/node{node}"
        write(f"{folder}/cpulist", cpus)
        write(f"{folder}/distance", distances)
        write(f"{folder}/meminfo", f"Node {node} MemTotal: 33554432 kB\n"
              f"Node {node} MemFree: {8388608 * (node + 1)} kB")  # fmt: skip
    for cpu in range(8):
        siblings = f"{cpu % 4},{cpu % 4 + 4}"
        write(f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list", siblings)
    for index, (level, size) in enumerate([(1, "32K"), (2, "1024K"), (3, "36M")]):
        write(f"sys/devices/system/cpu/cpu0/cache/index{index}/level", str(level))
        write(f"sys/devices/system/cpu/cpu0/cache/index{index}/size", size)
    write("sys/devices/system/cpu/online", "0-7")
    write("proc/meminfo", "MemTotal: 100663296 kB\nMemAvailable: 52428800 kB")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    return Kernel(tmp_path)


def numa(node: int) -> Tier:
    return Tier(TierClaim(f"node{node}", "numa", nodes=(node,)), TierFacts("numa"))


@pytest.mark.parametrize(
    ("node", "cpus", "near", "far", "near_node"),
    [
        (1, None, (2, 3, 6, 7), (0, 1, 4, 5), 1),  # its own socket, one of each core first
        (2, None, (0, 1, 4, 5), (2, 3, 6, 7), 0),  # at the least distance
        (1, "0,2", (2,), (0,), 1),
        (0, "node:1", (), (2, 3, 6, 7), 0),
    ],
)
def test_near_processors_are_those_of_the_nearest_node(kernel, node, cpus, near, far, near_node):
    limits = overrides(cpus=cpus) if cpus else overrides()
    capacity = capacity_of(numa(node), ENV, limits, kernel)
    assert (capacity.near, capacity.far, capacity.near_node) == (near, far, near_node)
    assert (capacity.in_memory, capacity.pages_matter, capacity.page_cached) == (True, True, False)


@pytest.mark.parametrize(
    ("limits", "cpus", "cores"),
    [({}, 4, 2), ({"threads": "1"}, 1, 1), ({"cpus": "2-3"}, 2, 2), ({"cpus": "0,4"}, 2, 1)],
)
def test_a_suites_cores_are_those_of_the_tiers_socket(kernel, limits, cpus, cores):
    """The two sockets are made up; ``0,4`` are the threads of a core of the other one."""
    found = variables_on(numa(1), 64 * GIB, overrides(**limits), kernel)
    assert (found["cpus"], found["cores"]) == (cpus, cores)
    of_no_node = Tier(TierClaim("ssd", "block", path="/nowhere"), TierFacts("block"))
    everywhere = variables_on(of_no_node, 64 * GIB, overrides(), kernel)
    assert (everywhere["cpus"], everywhere["cores"]) == (8, 4)


def test_no_more_is_taken_than_the_node_has_free(kernel):
    assert capacity_of(numa(0), ENV, overrides(), kernel).bytes_free == {
        "tier": 8 * GIB, "dram": int(0.6 * 50 * GIB)}  # fmt: skip
    assert capacity_of(numa(2), ENV, overrides(), kernel).bytes_free["tier"] == 24 * GIB


def test_memory_next_to_the_tier_is_that_of_the_near_processors(kernel, tmp_path):
    here = [capacity_of(numa(node), ENV, overrides(), kernel) for node in (0, 1, 2)]
    assert [one.near_free_bytes for one in here] == [8 * GIB, 16 * GIB, 8 * GIB]
    assert not any(one.dram_unbound for one in here)
    unknown = Tier(TierClaim("ssd", "block", path=str(tmp_path)), TierFacts("block"))
    anywhere = capacity_of(unknown, ENV, overrides(), kernel)
    assert (anywhere.near_node, anywhere.dram_unbound) == (None, True)
    chosen = capacity_of(unknown, ENV, overrides(cpus="node:1"), kernel)
    assert (chosen.near_node, chosen.dram_unbound) == (1, False)


def test_a_file_without_dax_takes_page_cache_and_so_no_more_than_memory(kernel, tmp_path):
    facts = TierFacts("block", free_bytes=1 << 50)
    disk = Tier(TierClaim("ssd", "block", path=str(tmp_path)), facts)
    capacity = capacity_of(disk, ENV, overrides(), kernel)
    assert capacity.bytes_free["tier"] <= int(0.6 * 50 * GIB)
    assert (capacity.page_cached, capacity.in_memory, capacity.far) == (True, True, ())


def test_a_raw_device_is_as_large_as_it_is_and_near_its_node(kernel):
    facts = TierFacts("devdax", size_bytes=3 * GIB, numa_node=1)
    device = Tier(TierClaim("raw", "devdax", device="/dev/dax1.0"), facts)
    capacity = capacity_of(device, ENV, overrides(), kernel)
    assert capacity.bytes_free["tier"] == 3 * GIB
    assert capacity.near == (2, 3, 6, 7)
    assert not capacity.in_memory


def test_pmem_is_no_memory_of_the_hosts_but_what_stands_in_for_it_is(kernel, tmp_path):
    claim = TierClaim("pmem", "fsdax", path=str(tmp_path))
    pmem = Tier(claim, TierFacts("fsdax", dax=True))
    assert not capacity_of(pmem, ENV, overrides(), kernel).in_memory
    standing_in = Tier(replace(claim, emulates="pmem"), TierFacts("tmpfs"))
    assert capacity_of(standing_in, ENV, overrides(), kernel).in_memory


def test_the_last_level_cache_is_that_of_the_highest_level(kernel):
    assert llc_bytes(kernel) == 36 * MIB
    assert llc_bytes(Kernel(kernel.root / "nowhere")) == 0
