"""Processors near and far, and what may be taken, on a made-up host with a CXL node."""

from __future__ import annotations

import os
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from micro_suites import overrides

from harness.micro.host_capacity import capacity_of, llc_bytes
from harness.tiers.linux.kernel import Kernel
from harness.tiers.linux.model import Tier, TierClaim, TierFacts
from harness.units import GIB, MIB

NODES = {0: ("0-1,4-5", "10 21 14"), 1: ("2-3,6-7", "21 10 24"), 2: ("", "14 24 10")}
ENV: Any = SimpleNamespace(memory_bytes=64 * GIB, cores=8)


@pytest.fixture
def kernel(tmp_path, monkeypatch) -> Kernel:
    def write(name: str, text: str) -> None:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")

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
