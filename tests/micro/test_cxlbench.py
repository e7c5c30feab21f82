"""CXL-Bench's workload files, as they are run and as they are imported."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from micro_suites import DRAM, HERE, capacity, overrides, suite

from harness.errors import UsageError
from harness.micro.host_suite import suite_on
from harness.micro.importing import import_suite
from harness.micro.model import Job, Measurement, Suite
from harness.micro.node_placement import NodeGroup, node_groups
from harness.micro.perma import measurements, parse_perma
from harness.micro.spec import spec_json
from harness.micro.suite import suite_of
from harness.units import GIB, MIB
from harness.yamlfile import parse_yaml

ON_NODES = "numa_memory_nodes: [0], numa_task_nodes: [0]"

BENCHMARKS = """
# One body of each kind: all in one file.
scan:
  matrix:
    number_threads: [1, 2]
    access_size: [64, 4K]
    flush_instruction: [none]
  args: {exec_mode: sequential, memory_region_size: 1G, numa_memory_nodes: [1, 0],
         numa_task_nodes: [0, 1], operation: write, run_time: 3, number_partitions: 1}
split-memory:
  matrix:
    cache_instruction: [none, write-back]
    percentage_pages_first_partition: [100, 75, 0]
  args: {exec_mode: random, memory_region_size: 1G, numa_memory_nodes: [0, 1, 2], access_size: 64,
         node_count_first_partition: 2, numa_task_nodes: [0], operation: write, run_time: 1}
weighted:
  matrix: {numa_memory_node_weights: [[1, 2], [5, 24]], operation: [read, stream-read]}
  args: {exec_mode: random, memory_region_size: 1G, numa_memory_nodes: [0, 1], numa_task_nodes: 0,
         access_size: 256, number_operations: 5000000, transparent_huge_pages: yes}
waits:
  matrix: {numa_memory_nodes: [[0], [1], [2]]}
  args: {exec_mode: random_latency, access_size: 8, memory_region_size: 1G, number_threads: 1,
         thread_pin_mode: single-fixed, thread_cores: [3, 1], latency_sample_frequency: 1000,
         number_operations: 1000000}
lookup:
  matrix: {custom_operations: ["m0_r_256,m1_r_64", "m0_r_256,m1_r_64,m1_w_64_write-back_64"]}
  args: {exec_mode: custom, memory_region_size: 1G, secondary_memory_region_size: 512M,
         numa_memory_nodes: [0], secondary_numa_memory_nodes: [1], numa_task_nodes: [0],
         number_operations: 4000000, latency_sample_frequency: 5000}
alongside:
  parallel_benchmark:
    near: {matrix: {number_threads: [1, 2]}, args: {ON_NODES, run_time: 2}}
    far: {matrix: {number_threads: [1, 2, 4]}, args: {ON_NODES, run_time: 2}}
""".replace("ON_NODES", ON_NODES)
#: The cross product of each, of the parallel one that of both.
COUNTS = {"scan": 4, "split-memory": 6, "weighted": 4, "waits": 3, "lookup": 2, "alongside": 6}


def measured(text: str) -> list[Measurement]:
    return measurements(parse_perma(parse_yaml(text, "theirs.yaml")))


def imported(text: str, name: str = "mine") -> Suite:
    document = import_suite(parse_yaml(text, "theirs.yaml"), name)
    return suite_of(name, [parse_yaml(document.text, "mine.yml")], HERE)


def job(args: str) -> Job:
    (measurement,) = measured(f"b: {{args: {{{args}}}}}")
    (job,) = measurement.jobs
    return job


def done(every: list[Measurement]) -> set[str]:
    """What is done in each, whatever it is called."""
    return {
        repr([vars(job) | {"name": "", "keys": sorted(job.keys.items())} for job in each.jobs])
        + f" {each.duration_ns}"
        for each in every
    }


def test_every_benchmark_has_the_configurations_of_its_matrix() -> None:
    configurations = parse_perma(parse_yaml(BENCHMARKS, "theirs.yaml"))
    counts = dict.fromkeys(COUNTS, 0)
    for configuration in configurations:
        counts[configuration.name] += 1
    assert counts == COUNTS
    assert import_suite(parse_yaml(BENCHMARKS, "t.yaml"), "m").configurations == 25


def test_an_imported_suite_does_what_the_file_does():
    assert done(list(imported(BENCHMARKS).measurements)) == done(measured(BENCHMARKS))


def test_a_cross_product_stays_a_matrix_and_another_is_divided():
    content = yaml.safe_load(import_suite(parse_yaml(BENCHMARKS, "t.yaml"), "My Suite").text)
    assert content["name"] == "my-suite"
    by_name = content["measurements"]
    assert by_name["scan"]["matrix"] == {"threads": [1, 2], "access": [64, "4KiB"]}
    assert by_name["scan"]["args"]["nodes"] == "1,0"
    assert by_name["scan"]["args"]["range"] == "1GiB"
    split = [body for name, body in by_name.items() if name.startswith("split_memory_")]
    assert [body["args"]["kernel"] for body in split] == ["store", "store+clwb+sfence"]
    assert split[0]["matrix"] == {"first_share": [1.0, 0.75, 0.0]}
    assert by_name["alongside"]["args"] == {"duration": "2s"}
    assert by_name["alongside"]["jobs"]["far"]["matrix"] == {"threads": [1, 2, 4]}


@pytest.mark.parametrize(
    ("args", "nodes", "share"),
    [
        ("numa_memory_nodes: [0, 2]", "0,2", 0.5),
        ("numa_memory_nodes: [0, 1], numa_memory_node_weights: [5, 24]", "0*5,1*24", 0.5),
        ("numa_memory_nodes: [0, 1], percentage_pages_first_partition: 95", "0/1", 0.95),
        (
            "numa_memory_nodes: [0, 1, 4], percentage_pages_first_partition: 5, "
            "node_count_first_partition: 2",
            "0,1/4",
            0.05,
        ),
    ],
)
def test_memory_regions_are_nodes(args, nodes, share):
    placed = job(f"{args}, numa_task_nodes: [0]")
    assert (placed.place, placed.nodes, placed.first_share) == ("nodes", nodes, share)


def test_threads_run_on_nodes_or_on_cores_in_their_order():
    assert job("numa_memory_nodes: [0], numa_task_nodes: [1, 3]").cpus == "node:1,node:3"
    fixed = "numa_memory_nodes: [0], thread_pin_mode: single-fixed, thread_cores: [7, 2]"
    assert job(fixed).cpus == "7,2"


def test_a_device_is_the_tier_from_an_offset_on():
    text = "b: {args: {device_path: /dev/dax2.0, region_offset: 512G, numa_task_nodes: [1]}}"
    ((placed,),) = (m.jobs for m in measured(text))
    assert (placed.place, placed.nodes, placed.offset_bytes) == ("tier", "", 512 * GIB)
    assert import_suite(parse_yaml(text, "t.yaml"), "m").device == "/dev/dax2.0"


@pytest.mark.parametrize(
    ("args", "kind", "keys"),
    [
        ("exec_mode: random_latency, operation: write, cache_instruction: write-back",
         "latency", {"operation": "store", "flush": "clwb", "fence": "mfence", "before": "loaded"}),
        ("exec_mode: random_latency, operation: stream-write",
         "latency", {"operation": "ntstore", "fence": "mfence", "pattern": "random"}),
        ("exec_mode: sequential_latency", "latency", {"operation": "load", "before": "none"}),
        ("exec_mode: random_latency", "chase", {}),
        ("exec_mode: dependent_reads, min_io_chunk_size: 128M",
         "chase", {"locality_bytes": 128 * MIB}),
        ("exec_mode: sequential, operation: stream-write, run_time: 1",
         "throughput", {"operation": "ntstore", "fence": "none"}),
        ("exec_mode: sequential, operation: write, cache_instruction: nocache",
         "throughput", {"operation": "ntstore", "fence": "sfence"}),
    ],
)  # fmt: skip
def test_modes_and_instructions_are_kernels(args, kind, keys):
    done = job(f"{ON_NODES}, access_size: 64, latency_sample_frequency: 10, {args}")
    assert done.kind == kind
    assert {key: done.keys.get(key) for key in keys} == keys


@pytest.mark.parametrize(
    ("args", "key"),
    [
        ("access_size: 8, exec_mode: random", "access_size"),
        ("cache_instruction: stream, operation: write", "cache_instruction"),
        ("cache_instruction: flush", "cache_instruction"),
        ("explicit_hugepages_size: 1G", "explicit_hugepages_size"),
        ("percentage_pages_first_partition: 50", "numa_memory_nodes"),
        ("exec_mode: random_latency, operation: write", "exec_mode"),
        ("device_path: /dev/dax0.0", "device_path"),
        ("node_count: 1", "node_count"),
    ],
)
def test_what_no_job_of_ours_does_is_refused_by_its_key_and_line(args, key):
    with pytest.raises(UsageError) as refused:
        measured(f"b:\n  args: {{{ON_NODES}, {args}}}")
    assert refused.value.problem == "theirs.yaml:2"
    assert key in refused.value.context and refused.value.hint


def test_a_suite_has_one_device_and_one_number_of_repeats():
    args = "args: {device_path: %s, numa_task_nodes: [0], replications: 40}"
    text = f"a: {{{args % '/dev/dax0.0'}}}\nb: {{{args % '/dev/dax1.0'}}}"
    with pytest.raises(UsageError) as refused:
        import_suite(parse_yaml(text, "t.yaml"), "m")
    assert "device_path" in refused.value.context
    alone = import_suite(parse_yaml(text.partition("\n")[0], "t.yaml"), "m")
    assert alone.configurations == 40
    assert yaml.safe_load(alone.text)["repeats"] == 40


def test_perma_bench_s_files_are_imported_as_well():
    folder = Path(__file__).parents[2] / "profiles" / "micro" / "perma-bench"
    for file in sorted(folder.rglob("*.yml")):
        text = file.read_text()
        assert done(list(imported(text).measurements)) == done(measured(text))


# Memory on nodes ---------------------------------------------------------------


def test_weights_are_pages_on_a_node_in_turn():
    assert node_groups("0*5,1*24/2") == (NodeGroup((0, 1), (5, 24)), NodeGroup((2,)))
    assert NodeGroup((0, 1), (1, 3)).shares() == {0: 0.25, 1: 0.75}
    assert node_groups("0,1") == (NodeGroup((0, 1)),)


@pytest.mark.parametrize("nodes", ["", "x", "0/1/2", "0*0", "true", "0,"])
def test_what_names_no_nodes_is_refused(nodes):
    with pytest.raises(UsageError):
        suite(f"  m: {{args: {{nodes: '{nodes}', kernel: load, access: 64, pattern: random}}}}\n")


TWO_PARTS = """
  m:
    matrix: {first_share: [1, 0.75, 0]}
    args: {nodes: 0/1, kernel: load, access: 64, pattern: random}
"""


def spec(of: Suite, **here: Any) -> dict[str, Any]:
    host = capacity(node_bytes_free={0: 4 * GIB, 1: 4 * GIB}, **here)
    on_host = suite_on(of, host, overrides())
    return spec_json(on_host.measurements, DRAM, None, host, seed=1, repeats=1)


def test_both_parts_of_a_range_meet_where_the_nodes_do():
    """One target for all shares: each part as large as its largest."""
    document = spec(suite(TWO_PARTS))
    (target,) = document["targets"].values()
    assert target["size_bytes"] == 2 * GIB
    parts = [(part["nodes"], part["bytes"]) for part in target["placement"]]
    assert parts == [([0], GIB), ([1], GIB)]
    offsets = [m["jobs"][0]["offset_bytes"] for m in document["measurements"]]
    assert offsets == [0, GIB // 4, GIB]


def test_memory_that_a_node_does_not_have_is_refused():
    with pytest.raises(UsageError) as refused:
        suite_on(suite(TWO_PARTS), capacity(), overrides())
    assert "0, 1" in refused.value.context
    small = capacity(node_bytes_free={0: GIB // 2, 1: GIB})
    with pytest.raises(UsageError) as misfit:
        suite_on(suite(TWO_PARTS), small, overrides())
    assert "on node 0" in misfit.value.context and "-p range=512MiB" in misfit.value.hint


def test_threads_that_a_job_s_processors_do_not_have_are_refused():
    text = "  m: {args: {cpus: '0,1', threads: 3, kernel: load, access: 64, pattern: random}}\n"
    with pytest.raises(UsageError) as refused:
        suite_on(suite(text), capacity(), overrides())
    assert "-p threads=2" in refused.value.hint
    document = spec(suite(text.replace("0,1", "3,1").replace("threads: 3", "threads: 2")))
    assert document["measurements"][0]["jobs"][0]["cpus"] == [3, 1]
