"""Atomic operations, mapping, and memory on nodes that a spec names."""

import pytest
from microbench_build import execute, jobs, measured, spec_of, throughput

MIB = 1 << 20
PAGE = 4096
DRAM = {"near": {"kind": "dram", "pages": "base", "size_bytes": 16 * MIB}}


def only_job(result):
    (job,) = jobs(result)
    return job


def atomic(operation, **keys):
    return {"kind": "atomic", "operation": operation, "pattern": "random", **keys}


@pytest.mark.parametrize("operation", ["fetch_and_add", "compare_and_swap"])
@pytest.mark.parametrize("threads", [1, 2])
def test_no_atomic_update_is_lost(microbench, operation, threads):
    """The program adds up the words itself: a lost update fails the run."""
    hot = {"pattern": "hotspot", "hotspot_bytes": 64, "threads": threads}
    job = atomic(operation, operations=20_000, sample_every=7, **hot)
    result = only_job(microbench(DRAM, {"warm_up_ns": MIB, "repeats": 2, "jobs": [job]}))
    assert result["operations"] == 20_000
    assert result["read_bytes"] == result["written_bytes"] == 8 * 20_000
    assert result["latency_hdr"] and result["durable"] == "no"


def test_attempts_that_succeed_are_counted(microbench):
    alone = atomic("compare_and_swap", operations=5000, pattern="hotspot", hotspot_bytes=64)
    facts = only_job(microbench(DRAM, {"jobs": [alone]}))["facts"]
    assert facts["success_share"] == pytest.approx(1, abs=0.001)
    spread = atomic("compare_and_swap", operations=5000)
    assert only_job(microbench(DRAM, {"jobs": [spread]}))["facts"]["success_share"] < 0.9
    added = only_job(microbench(DRAM, {"jobs": [atomic("fetch_and_add", operations=5000)]}))
    assert "success_share" not in added["facts"]


@pytest.mark.parametrize("operation", ["map", "touch", "populate", "release"])
@pytest.mark.parametrize("shared", [False, True])
def test_memory_is_mapped_touched_and_released(microbench, operation, shared):
    job = {"kind": "map", "operation": operation, "shared": shared, "operations": 6, "threads": 2}
    result = microbench(DRAM, {"jobs": [job]})
    mapped = only_job(result)
    assert mapped["operations"] == 6 and mapped["latency_hdr"]
    assert mapped["facts"] == {"pages": "base", "bytes_an_operation": 8 * MIB}
    target = result["targets"]["near"]
    assert (target["nodes"], target["huge_bytes"]) == ({}, None)


def test_a_file_is_mapped_again_with_its_content(microbench, tmp_path):
    file = {"f": {"kind": "file", "path": str(tmp_path), "size_bytes": 4 * MIB, "sync": "off"}}
    job = {"kind": "map", "operation": "populate", "operations": 4}
    assert only_job(microbench(file, {"jobs": [job]}))["operations"] == 4


@pytest.mark.parametrize(
    ("target", "job", "word"),
    [
        (DRAM["near"], {"range_bytes": PAGE + 64}, "range_bytes"),
        (DRAM["near"], {"operation": "unmap"}, "operation"),
        ({"kind": "file", "path": "/tmp", "size_bytes": MIB}, {"shared": True}, "shared"),
    ],
)
def test_what_cannot_be_mapped_again_is_refused(tested_build, target, job, word):
    spec = spec_of({"t": target}, {"duration_ns": MIB, "jobs": [
        {"kind": "map", "operation": "map", **job}]})  # fmt: skip
    done = execute(tested_build / "microbench", spec, "--check")
    assert done.returncode == 2 and word in done.stderr


# Memory on nodes: a host of one node has them all on it ---------------------------


def placed(*parts):
    size = sum(part["bytes"] for part in parts)
    return {"t": {"kind": "dram", "pages": "base", "size_bytes": size, "placement": list(parts)}}


@pytest.mark.parametrize(
    "parts",
    [
        [{"bytes": 2 * MIB, "nodes": [0]}],
        [{"bytes": 3 * MIB, "nodes": [0]}, {"bytes": MIB + PAGE, "nodes": [0]}],
        [{"bytes": 2 * MIB, "nodes": [0, 0], "weights": [5, 24]}],
        [{"bytes": 0, "nodes": [0]}, {"bytes": 2 * MIB, "nodes": [0, 0], "weights": [1, 3]}],
    ],
)
def test_memory_lies_on_the_nodes_of_its_parts(microbench, parts):
    targets = placed(*parts)
    job = {**throughput(operation="store"), "operations": 1000}
    result = microbench(targets, {"jobs": [job]})
    assert only_job(result)["operations"] == 1000
    assert set(result["targets"]["t"]["nodes"]) <= {"0"}


@pytest.mark.parametrize(
    ("parts", "word"),
    [
        ([{"bytes": MIB, "nodes": []}], "nodes"),
        ([{"bytes": MIB, "nodes": [0], "weights": [1, 2]}], "weights"),
        ([{"bytes": MIB, "nodes": [0], "weights": [0]}], "weights"),
        ([{"bytes": MIB, "nodes": [-1]}], "nodes"),
        ([{"bytes": PAGE // 2, "nodes": [0]}], "bytes"),
        ([{"bytes": MIB, "nodes": [0], "share": 1}], "share"),
    ],
)
def test_a_placement_that_cannot_be_is_refused(tested_build, parts, word):
    spec = spec_of(placed(*parts), measured(throughput()))
    done = execute(tested_build / "microbench", spec, "--check")
    assert done.returncode == 2 and word in done.stderr and "target t" in done.stderr


def test_a_placement_is_of_memory_and_as_large_as_the_target(tested_build):
    part = {"bytes": MIB, "nodes": [0]}
    for change in ({"size_bytes": 2 * MIB}, {"node": 0}, {"kind": "file", "path": "/tmp"}):
        target = {**placed(part)["t"], **change}
        done = execute(
            tested_build / "microbench", spec_of({"t": target}, measured(throughput())), "--check"
        )
        assert done.returncode == 2 and "placement" in done.stderr
