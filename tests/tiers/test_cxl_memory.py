"""CXL memory and other nodes without processors, in hand-written trees."""

from pathlib import Path

import pytest
from cxl_tree import (
    BEHIND_SWITCH,
    BLOCK_BYTES,
    GIB,
    ROOT_PORT,
    SWITCH,
    WINDOW_START,
    blocks,
    dax,
    node,
    persistent,
    promise,
    volatile,
    window,
)
from recorded_kernel import write

from harness.host.dimms import nvdimms
from harness.host.facts import host_facts
from harness.tiers.discovery import discover
from harness.tiers.linux.cxl import cxl_regions, memory_devices
from harness.tiers.linux.kernel import Kernel
from harness.tiers.linux.numa import dax_origin, nodes
from harness.tiers.linux.probe import facts_of_devdax, facts_of_numa
from harness.tiers.verify import directory_warnings


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A host with a node of DRAM."""
    node(tmp_path, 0, 4 * GIB, cpus="0-3")
    return tmp_path


def kinds(root: Path) -> dict[int, str]:
    return {each.node: each.kind for each in nodes(Kernel(root))}


def test_a_volatile_region_as_system_ram_is_a_cxl_node(host: Path) -> None:
    volatile(host)
    node(host, 1)
    assert kinds(host) == {0: "dram", 1: "cxl"}
    facts = facts_of_numa(1, Kernel(host))
    assert (facts.memory_kind, facts.device_model) == ("cxl", "dax0.0, CXL memory")
    assert "cxl" in discover(host, Kernel(host))


def test_a_volatile_region_is_no_namespace_and_keeps_nothing(host: Path) -> None:
    volatile(host, driver="device_dax")
    facts = facts_of_devdax("dax0.0", Kernel(host))
    assert (facts.namespace, facts.region, facts.interleave_ways) == (None, "region0", 1)
    assert facts.device_model == "mem0 (0x1)"
    assert (facts.persistence_domain, facts.persistence_source) == ("none", "region0/mode is ram")


def test_a_persistent_region_is_cxl_memory_and_no_nvdimm(host: Path) -> None:
    persistent(host)
    kernel = Kernel(host)
    assert dax_origin("dax0.0", kernel) == "cxl"
    assert nvdimms(kernel) == []
    facts = host_facts((), kernel)
    assert facts["mode"] != "AppDirect"
    assert facts["persistence_domains"] == {"region0": "cxl_device"}
    (device,) = [each for each in facts["dimms"] if each["source"] == "cxl"]
    assert (device["name"], device["serial"], device["pmem_bytes"]) == ("mem0", "0x1", GIB)
    (region,) = cxl_regions(kernel)
    assert (region.mode, region.decoder) == ("pmem", "decoder0.0")
    assert (region.devices, region.dax) == (("mem0",), ("dax0.0",))


def test_a_persistent_region_as_system_ram_is_a_cxl_node(host: Path) -> None:
    persistent(host, driver="kmem")
    node(host, 1)
    assert kinds(host)[1] == "cxl"


THROUGH_SWITCH = (ROOT_PORT, *SWITCH, BEHIND_SWITCH)


@pytest.mark.parametrize(
    ("device", "ends", "source"),
    [
        ({}, "cxl_device", "GPF DVSEC"),
        ({"gpf": False}, "unknown", "no GPF DVSEC"),
        ({"gpf": None}, "unknown", "only root"),
        ({"pci": THROUGH_SWITCH}, "cxl_device", SWITCH[1]),
        ({"pci": THROUGH_SWITCH, "switch_gpf": False}, "cxl_switch", SWITCH[0]),
    ],
)
def test_persistence_ends_where_device_and_switch_flush(host, device, ends, source):
    persistent(host, **device)
    facts = facts_of_devdax("dax0.0", Kernel(host))
    assert facts.namespace == "namespace0.0"
    assert facts.persistence_domain == ends
    assert source in (facts.persistence_source or "")
    assert bool(directory_warnings(facts)) == (ends != "cxl_device")


def test_a_count_of_dirty_shutdowns_shows_gpf_to_other_users(host: Path) -> None:
    persistent(host, gpf=None)
    for name, text in (("provider", "pmem0"), ("dirty_shutdown", "0"), ("id", "1")):
        write(host, f"/sys/bus/nd/devices/nmem0/cxl/{name}", text)
    facts = facts_of_devdax("dax0.0", Kernel(host))
    assert facts.persistence_domain == "cxl_device"
    assert "nmem0/cxl/dirty_shutdown" in (facts.persistence_source or "")


def test_memory_that_firmware_hands_over_is_cxl_by_its_addresses(host: Path) -> None:
    window(host)
    node(host, 1)
    assert kinds(host)[1] == "unknown"
    blocks(host, 1, WINDOW_START // BLOCK_BYTES, online=2)
    assert kinds(host)[1] == "cxl"
    blocks(host, 1, 0, online=1)  # another one is outside of the window
    assert kinds(host)[1] == "unknown"


@pytest.mark.parametrize(
    ("latency_ns", "mb_per_s", "kind"),
    [(110, 400_000, "hbm"), (110, 90_000, "unknown"), (250, 400_000, "unknown")],
)
def test_hbm_has_more_bandwidth_than_dram_at_about_its_latency(host, latency_ns, mb_per_s, kind):
    node(host, 1)
    dax(host, "dax0.0", "/sys/devices/platform/hmem.0/dax0.0", 1, "kmem")
    promise(host, 1, latency_ns, mb_per_s)
    assert kinds(host)[1] == "unknown"  # firmware says nothing of DRAM
    promise(host, 0, 100, 100_000)
    assert kinds(host)[1] == kind


def test_nodes_of_processors_or_of_memory_alone_are_told_apart(tmp_path: Path) -> None:
    """There is no node 0; node 1 has processors only."""
    node(tmp_path, 1, memory_bytes=0, cpus="0-3", zones=())
    node(tmp_path, 2, 4 * GIB)
    assert kinds(tmp_path) == {1: "none", 2: "unknown"}
    assert [tier for tier in discover(tmp_path, Kernel(tmp_path)) if tier != "ssd"] == ["farmem"]


def test_all_dax_devices_of_a_node_are_named(host: Path) -> None:
    node(host, 1)
    for number in (0, 1):
        dax(host, f"dax{number}.0", f"/sys/devices/platform/hmem.{number}/dax{number}.0", 1, "kmem")
    assert facts_of_numa(1, Kernel(host)).device_model == (
        "dax0.0, special-purpose memory (soft-reserved); "
        "dax1.0, special-purpose memory (soft-reserved)"
    )


def test_a_device_that_failed_to_start_is_not_active(host: Path) -> None:
    volatile(host)
    (host / "sys/bus/cxl/devices/mem0/driver").unlink()
    (device,) = memory_devices(Kernel(host))
    assert not device.active
