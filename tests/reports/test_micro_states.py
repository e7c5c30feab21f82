"""Ratios of a tier in two states: its prefetchers switched, its DIMMs more or fewer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from micro_runs import KINDS, micro_run, numa_tier, paper_cells, rate, tier_facts, with_suite
from report_runs import with_artifacts

from harness.store.runs import StoredRun
from reports.statistics import Missing

ARM = "apache_256 enabled over disabled, slower_access_size"


def reads(root: Path, state: str, by_size: Mapping[int, float], **manifest: Any) -> StoredRun:
    """Random reads of Figure 13 with the prefetchers in a state."""
    metrics = [
        rate("prefetched_reads", value, 1, **KINDS["load"], pattern="random",
             access_size_bytes=size, threads=16)
        for size, value in by_size.items()
    ]  # fmt: skip
    changes = {"host.prefetchers": state} | manifest
    return with_suite(micro_run(root, metrics, manifest_changes=changes), "perma-bench", ["fig13"])


def test_reads_with_prefetchers_are_over_those_without_at_each_size(tmp_path: Path) -> None:
    found = paper_cells(
        reads(tmp_path, "enabled", {256: 10, 512: 18, 1024: 15}),
        reads(tmp_path, "disabled", {256: 10, 512: 20, 1024: 20}),
    )
    expected = {"256 B": 1.0, "512 B": 0.9, "1 KiB": 0.75}  # 10/10, 18/20, 15/20
    assert list(found[ARM, "16"].values()) == [expected] * 2
    few = found[ARM, "32"]["pmem (prefetchers enabled)"]
    assert few == Missing("needs", "32 threads, measured with 16")
    row = found["barlow_256 disabled over enabled, operations_ratio", "64"]
    assert all("Viper" in cell.context for cell in row.values())


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        (["enabled"], "a run of this tier with prefetchers disabled"),
        (["enabled", "disabled: L2"], "a run of this tier with prefetchers disabled"),
        (["unreadable"], "prefetchers whose state can be read (root, module msr, no VM)"),
    ],
)
def test_without_both_states_the_missing_one_is_named(tmp_path, states, expected):
    found = paper_cells(*(reads(tmp_path, state, {512: 20}) for state in states))
    assert next(iter(found[ARM, "16"].values())) == Missing("needs", expected)


def test_another_bus_speed_is_no_other_state_of_the_prefetchers(tmp_path: Path) -> None:
    found = paper_cells(
        reads(tmp_path, "enabled", {512: 18}),
        reads(tmp_path, "disabled", {512: 20}, **{"host.memory_speed": "2133 MT/s"}),
    )
    assert set(found[ARM, "16"].values()) == {
        Missing("needs", f"a run of this tier with prefetchers {state}")
        for state in ("disabled", "enabled")
    }


def at_speed(root: Path, speed: str, write: float, read: float, **more: Any) -> StoredRun:
    """Writes and reads of Figure 14 at a speed of the memory bus; the figures are made up."""
    named: dict[str, Any] = {"pattern": "sequential", "threads": 32} | more
    metrics = [
        rate("bus_sequential_writes", write, 1, **KINDS["ntstore"], **named, access_size_bytes=512),
        rate("bus_sequential_reads", read, 1, **KINDS["load"], **named, access_size_bytes=4096),
    ]
    run = micro_run(root, metrics, manifest_changes={"host.memory_speed": speed})
    return with_suite(run, "perma-bench", ["fig14"])


BUS_WRITES = ("apache_256 2133 over 2666 MT/s, bandwidth_ratio", "ntstore")
BUS_READS = ("dram 2133 over 2666 MT/s, bandwidth_ratio", "bandwidth")


def test_two_speeds_of_the_memory_bus_are_laid_next_to_the_papers(tmp_path: Path) -> None:
    slow, fast = at_speed(tmp_path, "2133 MT/s", 9.9, 80), at_speed(tmp_path, "2666 MT/s", 10, 100)
    found = paper_cells(slow, fast)
    assert {*found[BUS_WRITES].values()} == {0.99} and {*found[BUS_READS].values()} == {0.8}
    (cell,) = paper_cells(fast)[BUS_WRITES].values()
    assert cell == Missing("needs", "a run of this tier with a bus of 2133 MT/s")


def test_ranges_that_a_cache_holds_are_no_device_s(tmp_path: Path) -> None:
    def cached(speed: str) -> StoredRun:
        run = at_speed(tmp_path, speed, 1, 1, range_bytes=16 << 20)
        of_cpu = {"result": {"cpu": {"llc_bytes": 32 << 20}}}
        return with_artifacts(run, {"microbench": of_cpu})

    found = paper_cells(cached("2133 MT/s"), cached("2666 MT/s"))[BUS_WRITES]
    assert {*found.values()} == {Missing("needs", "a range of 128 MiB, which no cache holds")}


def dimms(
    root: Path, ways: int | None, gb_per_s: float, threads: int = 32, read_by: int = 16
) -> StoredRun:
    """Reads and writes of Figure 15 on a tier of so many interleaved DIMMs; None: of none."""
    facts = tier_facts("fsdax", interleave_ways=ways)
    tier = numa_tier("pmem") | {"kind": "fsdax", "facts": facts}
    named: dict[str, Any] = {"pattern": "sequential"}
    metrics = [
        rate("sequential_reads", gb_per_s, 1, scale=1 << 30, **KINDS["load"], **named,
             access_size_bytes=4096, threads=read_by),
        rate("sequential_writes", gb_per_s, 1, **KINDS["ntstore"], **named, access_size_bytes=512,
             threads=threads),
    ]  # fmt: skip
    run = micro_run(root, metrics, manifest_changes={"tiers": [tier]})
    return with_suite(run, "perma-bench", ["fig15"])


READS = (
    "apache_256, bandwidth_bytes_per_second"
    "[operation=load,pattern=sequential,access_size_bytes=4096,threads=16]"
)
WRITES = ("apache_256 6 over 1 dimms, bandwidth_ratio", "ntstore")


def test_each_number_of_dimms_lies_beside_a_tier_that_has_it(tmp_path: Path) -> None:
    found = paper_cells(dimms(tmp_path, 1, 5.0), dimms(tmp_path, 6, 40.0))
    of_one, of_six = found[READS, "1"], found[READS, "6"]
    assert [*of_one.values()] == [5.37, Missing("needs", "a tier of 1 DIMM, here: 6")]  # 5 GiB/s
    assert [*of_six.values()] == [Missing("needs", "a tier of 6 DIMMs, here: 1"), 42.9]
    assert set(found[WRITES].values()) == {8.0}
