"""A suite on a host: its bounds, whether it fits, and what a host has."""

import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import recorded_kernel
from micro_suites import DRAM, RANDOM, capacity, overrides, perma, suite
from narrowed import present

from harness.errors import UsageError
from harness.micro.duration import estimate
from harness.micro.host_capacity import capacity_of, llc_bytes, variables_on
from harness.micro.host_suite import suite_on, targets_of
from harness.micro.keys import MicroParams
from harness.micro.protocol import Planned
from harness.micro.spec import spec_json
from harness.tiers.linux.kernel import Kernel
from harness.tiers.linux.model import Tier, TierClaim, TierFacts
from harness.units import GIB, MIB, NS_PER_S


def test_what_fits_is_left_as_it_is():
    requested = suite(f"  m: {{matrix: {{threads: [1, 4]}}, {RANDOM}}}")
    assert suite_on(requested, capacity(cpus=4), overrides()).measurements == requested.measurements


def test_a_range_holds_whole_accesses_and_keeps_its_name():
    requested = suite(
        "  m: {matrix: {access: [64, 192], range: [1GiB, 2GiB]},"
        " args: {kernel: load, pattern: random}}"
    )
    host_suite = suite_on(requested, capacity(), overrides())
    assert names(host_suite) == [
        f"m/access={access},range={size}" for access in (64, 192) for size in ("1GiB", "2GiB")
    ]
    assert host_suite.measurements[2].jobs[0].range_bytes == GIB // 192 * 192


THREADS = suite(f"  m: {{matrix: {{threads: [1, 2, 8, 32]}}, {RANDOM}}}")


def refused(requested, here, **limits: object) -> UsageError:
    with pytest.raises(UsageError) as error:
        suite_on(requested, here, overrides(**limits))
    return error.value


def test_more_threads_than_processors_are_refused_with_the_number_that_fits():
    error = refused(THREADS, capacity(2))
    assert error.problem == "mine.yml:6, m/threads=8"
    assert "8 threads" in error.context and "2 processors" in error.context
    assert "-p threads=2 " in error.hint and "2 of 4" in error.hint
    bounded = suite_on(THREADS, capacity(2), overrides(threads=2))
    assert names(bounded) == ["m/threads=1", "m/threads=2"]
    assert reported(THREADS, capacity(2), overrides(threads=2)) == {
        "beyond-limits": "2 configurations"
    }


def test_threads_that_are_not_swept_become_as_many_as_the_parameter_allows():
    requested = suite(f"  m: {{{RANDOM.replace('{', '{threads: 8, ')}}}")
    assert refused(requested, capacity(2)).hint == "add -p threads=2"
    (only,) = suite_on(requested, capacity(2), overrides(threads=2)).measurements
    assert (only.configuration, only.jobs[0].threads) == ("m", 2)


def test_more_jobs_than_processors_are_left_out_by_name():
    both = f"m: {{jobs: {{a: {{{RANDOM}}}, b: {{{RANDOM}}}}}}}"
    requested = suite(f"  {both}\n  n: {{{RANDOM}}}")
    assert refused(requested, capacity(1)).hint.startswith("add -p only=n; or ")
    assert names(suite_on(requested, capacity(1), overrides(only="n"))) == ["n"]
    assert "only" not in refused(suite(f"  {both}"), capacity(1)).hint


def test_only_larger_values_than_there_are_processors_need_another_host():
    requested = suite(f"  m: {{matrix: {{threads: [32, 64]}}, {RANDOM}}}")
    assert "-p" not in refused(requested, capacity(2)).hint
    refused(requested, capacity(2), threads=2)  # nothing is left


def names(host_suite) -> list[str]:
    return [measurement.configuration for measurement in host_suite.measurements]


def spec_of(requested, here=None):
    return spec_json(requested.measurements, DRAM, None, here or capacity(), seed=7, repeats=1)


def test_a_bound_leaves_out_the_larger_ranges_of_a_sweep():
    requested = suite(
        "  chase: {matrix: {range: [4MiB, 16MiB, 67108864, 1GiB]}, args: {kind: chase}}"
    )
    bounded = suite_on(requested, capacity(), overrides(range=16 * MIB))
    assert names(bounded) == ["chase/range=4MiB", "chase/range=16MiB"]
    assert [each.jobs[0].range_bytes for each in bounded.measurements] == [4 * MIB, 16 * MIB]
    assert names(suite_on(requested, capacity(), overrides(range=8 * MIB))) == ["chase/range=4MiB"]


def test_a_swept_duration_is_not_measured_under_another_ones_name():
    requested = suite(f"  m: {{matrix: {{duration: [1s, 2s]}}, {RANDOM}}}")
    assert names(suite_on(requested, capacity(), overrides(duration="2s"))) == ["m/duration=2s"]


def test_what_the_command_line_changes_of_pages_and_instructions_is_in_the_names():
    requested = suite(f"  m: {{matrix: {{isa: [sse2, auto], pages: [huge, base]}}, {RANDOM}}}")
    host_suite = suite_on(requested, capacity(), overrides(isa="sse2", pages="base"))
    assert names(host_suite) == ["m/isa=sse2,pages=base"]


def test_timed_chains_are_bounded_as_the_others_are():
    requested = perma(
        "b: {matrix: {number_threads: [2, 16, 32]}, args: {exec_mode: custom,"
        " custom_operations: r_64, latency_sample_frequency: 5000}}"
    )
    measured = names(suite_on(requested, capacity(cpus=2), overrides(threads=2)))
    assert measured == ["b/number_threads=2", "b/number_threads=2,chain=dependent"]


def test_parallel_jobs_fit_where_all_their_threads_do():
    requested = perma(
        "p: {parallel_benchmark: {a: {args: {number_threads: 24, run_time: 1}},"
        " b: {args: {number_threads: 2, run_time: 1}}}}"
    )
    assert refused(requested, capacity(cpus=8)).hint == "add -p threads=6"
    (both,) = suite_on(requested, capacity(cpus=8), overrides(threads=6)).measurements
    assert [job.threads for job in both.jobs] == [6, 2]


def test_ranges_that_do_not_fit_are_refused_with_the_range_that_does():
    requested = perma(
        "b: {matrix: {access_size: [64, 4096]}, args: {memory_range: 50G, run_time: 1}}"
    )
    error = refused(requested, capacity(tier=9 * GIB, dram=64 * GIB))
    assert error.problem.endswith(", b/access_size=64")
    assert error.context.startswith("50 GiB ") and " 9 GiB " in error.context
    assert error.hint == "add -p range=8GiB"
    bounded = suite_on(requested, capacity(tier=9 * GIB), overrides(range=8 * GIB))
    assert [each.jobs[0].range_bytes for each in bounded.measurements] == [8 * GIB] * 2
    odd = suite("  m: {args: {kernel: load, access: 192, pattern: random}}")
    assert reported(odd, capacity(tier=GIB - 1, dram=GIB - 1)) == {}  # whole accesses of 192


def test_both_parameters_are_named_where_both_are_needed():
    requested = perma("b: {args: {number_threads: 16, memory_range: 50G, run_time: 1}}")
    here = capacity(cpus=2, tier=9 * GIB)
    assert refused(requested, here).hint == "add -p threads=2 -p range=8GiB"


BOTH = (
    "b: {args: {exec_mode: random, dram_operation_ratio: 0.5, dram_memory_range: 8G,"
    " memory_range: 8G}}"
)


def test_what_lies_in_memory_shares_it():
    here = capacity(tier=10 * GIB, dram=10 * GIB)
    error = refused(perma(BOTH), here)
    assert error.context.startswith("16 GiB of memory,") and " 10 GiB " in error.context
    assert error.hint == "add -p range=4GiB"
    (bounded,) = suite_on(perma(BOTH), here, overrides(range=4 * GIB)).measurements
    assert sum(targets_of(bounded, here).values()) == 8 * GIB


NEAR_AND_FAR = f"  m: {{matrix: {{numa: [near, far]}}, {RANDOM}}}"


def test_far_processors_that_are_not_there_are_left_out_of_ours_and_refused_of_theirs():
    assert names(suite_on(suite(NEAR_AND_FAR), capacity(), overrides())) == ["m/numa=near"]
    with pytest.raises(UsageError, match="numa_pattern far"):
        suite_on(perma("b: {args: {numa_pattern: far, run_time: 1}}"), capacity(), overrides())


def test_far_processors_alone_measure_nothing_that_is_called_near():
    far = capacity(0, far=2)
    host_suite = suite_on(suite(f"{NEAR_AND_FAR}\n  n: {{{RANDOM}}}"), far, overrides())
    assert names(host_suite) == ["m/numa=far"]
    assert [finding.code for finding in host_suite.warnings] == ["no-near-processors"]
    for requested in (suite(f"  n: {{{RANDOM}}}"), perma("b: {args: {run_time: 1}}")):
        with pytest.raises(UsageError):
            suite_on(requested, far, overrides())


def test_only_chooses_by_measurement_or_configuration_and_names_what_there_is():
    requested = suite(f"  a: {{matrix: {{threads: [1, 2]}}, {RANDOM}}}\n  b: {{{RANDOM}}}")
    chosen = suite_on(requested, capacity(), overrides(only="b,a/threads=2"))
    assert names(chosen) == ["a/threads=2", "b"]
    with pytest.raises(UsageError) as refused:
        suite_on(requested, capacity(), overrides(only="c"))
    assert "measurements: a, b" in refused.value.hint


def test_memory_beside_the_tier_lies_on_the_near_node_and_fits_into_it():
    here = replace(capacity(), near_node=1, near_free_bytes=7 * GIB)
    context = refused(perma(BOTH), here).context
    assert context.startswith("8 GiB of DRAM,") and " 7 GiB " in context
    host_suite = suite_on(perma(BOTH), here, overrides(range=4 * GIB))
    targets = spec_of(host_suite, here)["targets"]
    nodes = {name.partition("_")[0]: target["node"] for name, target in targets.items()}
    assert nodes == {"tier": 0, "dram": 1}


# What the program receives -----------------------------------------------------------


def test_jobs_of_one_target_have_ranges_and_processors_of_their_own():
    requested = perma(
        "p: {parallel_benchmark: {a: {args: {number_threads: 2, run_time: 1, memory_range: 1G}},"
        " b: {args: {number_threads: 2, run_time: 1, memory_range: 2G}}}}"
    )
    here = capacity(cpus=4)
    host_suite = suite_on(requested, here, overrides())
    spec = spec_of(host_suite, here)
    a, b = spec["measurements"][0]["jobs"]
    assert (a["offset_bytes"], a["range_bytes"]) == (0, GIB)
    assert (b["offset_bytes"], b["range_bytes"]) == (GIB, 2 * GIB)
    assert spec["targets"][a["target"]]["size_bytes"] == 3 * GIB
    assert set(a["cpus"]) & set(b["cpus"]) == set()


WRITES = "kind: file, operation: write, pattern: sequential, access: 4KiB"


def test_threads_that_wait_for_a_file_may_run_on_all_processors():
    here = replace(capacity(2), has_files=True)
    requested = suite(f"""  few: {{args: {{{WRITES}}}}}
  many: {{args: {{{WRITES}, threads: 8}}}}
""")
    assert len(suite_on(requested, here, overrides()).measurements) == 2
    disk = Tier(TierClaim("ssd", "block", path="/"), TierFacts("block"))
    spec = spec_json(requested.measurements, disk, Path("/"), here, seed=7, repeats=1)
    few, many = (measurement["jobs"][0] for measurement in spec["measurements"])
    assert set(few["cpus"]) == set(many["cpus"]) == {0, 1}
    assert (few["target"], few["threads"]) == ("tier_file", 1)
    assert spec["targets"]["tier_file"]["kind"] == "file"


def test_a_file_that_grows_needs_as_much_again():
    here = replace(capacity(tier=64 * GIB), has_files=True)
    for appends, fits in (("false", True), ("true", False)):
        requested = suite(f"  m: {{args: {{{WRITES}, range: 40GiB, appends: {appends}}}}}\n")
        if fits:
            assert suite_on(requested, here, overrides()).measurements
        else:
            assert "-p range=" in refused(requested, here).hint


def test_repeats_are_interleaved_blocks():
    requested = suite(f"  m: {{matrix: {{threads: [1, 2]}}, {RANDOM}}}")
    spec = spec_json(requested.measurements, DRAM, None, capacity(), seed=7, repeats=3)
    assert [measurement["name"] for measurement in spec["measurements"]] == [
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
    assert [measurement["jobs"][0]["sample_every"] for measurement in spec["measurements"]] == [
        16,
        0,
    ]


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
    host_suite = suite_on(requested, capacity(), overrides(index_library=library))
    assert names(host_suite) == ["vanilla/index=library", "loads"]
    (job,) = host_suite.measurements[0].jobs
    assert job.pages == "base"
    assert job.keys == {"index": "library", "library": str(library), "workload": "a"}
    assert [library.path for library in host_suite.libraries] == [library]
    sized = suite_on(requested, capacity(), overrides(index_library=library, key=16, value=200))
    assert sized.measurements[0].jobs[0].keys == {**job.keys, "key_bytes": 16, "value_bytes": 200}
    with pytest.raises(UsageError):
        suite_on(requested, capacity(), overrides(value=200))  # ours have words
    small = refused(requested, capacity(tier=GIB), index_library=library)
    assert small.hint == "add -p range=256MiB"  # on huge and on base pages; half is the library's


# What is left out, and doubtful -----------------------------------------------------


def reported(requested_suite, here, limits: MicroParams | None = None) -> dict[str, str]:
    """Contexts of the warnings, by code."""
    host_suite = suite_on(requested_suite, here, limits or overrides())
    return {warning.code: warning.context for warning in host_suite.warnings}


@pytest.mark.parametrize(
    ("ways", "given", "differs"),
    [(6, "", False), (4, "", True), (4, ", stripe: 16KiB", False), (None, "", True)],
)
def test_a_stripe_that_is_not_the_tiers_is_named(ways: int | None, given: str, differs: bool):
    args = f"  m: {{args: {{kernel: load, access: 256, pattern: dimms, dimms: 2{given}}}}}"
    contexts = reported(suite(args), replace(capacity(), interleave_ways=ways))
    assert set(contexts) == ({"stripe-differs"} if differs else set())


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
    contexts = reported(suite(f"  m: {{args: {{kernel: load, {args}}}}}"), here)
    assert ("addresses-in-memory" in contexts) == named


def test_what_else_is_told():
    """Files in the page cache, a range that the cache holds, pages touched although none should."""
    contexts = reported(suite(f"  m: {{{RANDOM}}}"), replace(capacity(), page_cached=True))
    assert set(contexts) == {"page-cache"}
    contexts = reported(suite(f"  m: {{{RANDOM}}}", "{range: 64MiB, duration: 1s}"), capacity())
    assert "m (64 MiB)" in contexts["range-in-cache"]
    contexts = reported(perma("b: {args: {prefault_file: false, run_time: 1}}"), capacity())
    assert contexts["prefault-ignored"] == "b"


def test_an_instruction_set_names_those_that_have_no_loops_of_it():
    requested = suite(
        f"  m: {{{RANDOM}}}\n  walk: {{args: {{kind: chase}}}}\n"
        "  commit: {args: {kind: log, writer: zero, entry: 64}}"
    )
    (warning,) = reported(requested, capacity(), overrides(isa="avx2")).items()
    assert warning[0] == "isa-not-applicable" and "avx2 for walk, commit" in warning[1]
    assert reported(requested, capacity()) == {}


def test_a_bound_on_operations_that_bounds_nothing_is_told():
    counted = RANDOM.replace("{", "{count: 5000, ")
    requested = suite(f"  timed: {{{RANDOM}}}\n  counted: {{{counted}, duration: 0s}}")
    context = reported(requested, capacity(), overrides(operations=100))[
        "operations-not-applicable"
    ]
    assert context == "timed"
    assert "operations" not in reported(requested, capacity())


# What a dry run says it takes --------------------------------------------------


def expected(measurements: str, repeats: int = 1) -> Planned:
    host_suite = suite_on(suite(measurements), capacity(), overrides())
    return estimate(host_suite.measurements, capacity(), repeats)


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
    variables = variables_on(numa(1), 64 * GIB, overrides(**limits), kernel)
    assert (variables["cpus"], variables["cores"]) == (cpus, cores)
    of_no_node = Tier(TierClaim("ssd", "block", path="/nowhere"), TierFacts("block"))
    everywhere = variables_on(of_no_node, 64 * GIB, overrides(), kernel)
    assert (everywhere["cpus"], everywhere["cores"]) == (8, 4)


def test_no_more_is_taken_than_the_node_has_free(kernel):
    assert capacity_of(numa(0), ENV, overrides(), kernel).bytes_free == {
        "tier": 8 * GIB, "dram": int(0.6 * 50 * GIB)}  # fmt: skip
    assert capacity_of(numa(2), ENV, overrides(), kernel).bytes_free["tier"] == 24 * GIB


def test_memory_next_to_the_tier_is_that_of_the_near_processors(kernel, tmp_path):
    here = [capacity_of(numa(node), ENV, overrides(), kernel) for node in (0, 1, 2)]
    assert [host.near_free_bytes for host in here] == [8 * GIB, 16 * GIB, 8 * GIB]
    assert not any(host.dram_unbound for host in here)
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
    assert capacity.has_files


def test_a_raw_device_is_as_large_as_it_is_and_near_its_node(kernel):
    facts = TierFacts("devdax", size_bytes=3 * GIB, numa_node=1)
    device = Tier(TierClaim("raw", "devdax", device="/dev/dax1.0"), facts)
    capacity = capacity_of(device, ENV, overrides(), kernel)
    assert capacity.bytes_free["tier"] == 3 * GIB
    assert capacity.near == (2, 3, 6, 7)
    assert not capacity.in_memory and not capacity.has_files


def test_pmem_is_no_memory_of_the_hosts_but_what_stands_in_for_it_is(kernel, tmp_path):
    claim = TierClaim("pmem", "fsdax", path=str(tmp_path))
    pmem = Tier(claim, TierFacts("fsdax", dax=True))
    assert not capacity_of(pmem, ENV, overrides(), kernel).in_memory
    standing_in = Tier(replace(claim, emulates="pmem"), TierFacts("tmpfs"))
    assert capacity_of(standing_in, ENV, overrides(), kernel).in_memory


def test_the_last_level_cache_is_that_of_the_highest_level(kernel):
    assert llc_bytes(kernel) == 36 * MIB
    assert llc_bytes(Kernel(kernel.root / "nowhere")) == 0
