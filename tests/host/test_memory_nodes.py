"""Memory nodes and CXL devices as ``harness doctor`` shows them, of hand-written trees."""

import json
from pathlib import Path
from typing import Any

import pytest
from cxl_tree import GIB, blocks, dax, node, persistent, promise, volatile
from recorded_kernel import write

from harness.cli.memory_table import print_memory
from harness.host.cxl_program import parse_cxl_list
from harness.host.memory_nodes import memory_report
from harness.host.uncore import cxl_counters
from harness.monitors import MonitorContext
from harness.monitors.memory_traffic import MemoryTraffic
from harness.tiers.linux.kernel import Kernel
from harness.tiers.linux.model import Tier, TierClaim, TierFacts

TIERS = "/sys/devices/virtual/memory_tiering"


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A host with a node of DRAM and one of CXL memory, on which all goes well."""
    node(tmp_path, 0, 4 * GIB, cpus="0-3", zones=("DMA", "Normal"))
    node(tmp_path, 1, GIB, distances="20 10", zones=("Movable",))
    volatile(tmp_path)
    blocks(tmp_path, 0, 0, online=32)
    blocks(tmp_path, 1, 64, online=8)
    promise(tmp_path, 0, 100, 100_000)
    promise(tmp_path, 1, 250, 30_000)
    write(tmp_path, f"{TIERS}/memory_tier4/nodelist", "0\n")
    write(tmp_path, f"{TIERS}/memory_tier22/nodelist", "1\n")
    write(tmp_path, "/sys/devices/system/memory/auto_online_blocks", "offline\n")
    write(tmp_path, "/proc/sys/kernel/numa_balancing", "2\n")
    write(tmp_path, "/sys/kernel/mm/numa/demotion_enabled", "true\n")
    for number, weight in enumerate((5, 2)):
        write(tmp_path, f"/sys/kernel/mm/mempolicy/weighted_interleave/node{number}", f"{weight}\n")
    return tmp_path


def report(root: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(json.dumps(memory_report(Kernel(root))))
    return document


def problems(root: Path) -> dict[str, str]:
    return {each["code"]: each["found"] for each in report(root)["memory"]["problems"]}


def test_each_node_has_kind_zones_promises_tier_and_distances(host: Path) -> None:
    dram, cxl = report(host)["nodes"]
    assert (dram["node"], dram["kind"], dram["processors"]) == (0, "dram", "0-3")
    assert dram["zone"].keys() == {"DMA", "Normal"}
    assert (cxl["kind"], cxl["processors"], cxl["memory_tier"]) == ("cxl", None, 22)
    assert cxl["zone"] == {"Movable": {"bytes": GIB, "free_bytes": GIB // 2}}
    assert (cxl["bytes"], cxl["free_bytes"], cxl["distances"]) == (GIB, GIB // 2, [20, 10])
    assert cxl["hmat"]["access1"] == {
        "initiators": [0],
        "read_latency_ns": 250,
        "write_latency_ns": 250,
        "read_bandwidth_mb_per_s": 30_000,
        "write_bandwidth_mb_per_s": 30_000,
    }


def test_settings_of_linux_are_reported_and_a_sound_host_has_no_problem(host: Path) -> None:
    memory = report(host)["memory"]
    assert memory["problems"] == []
    assert (memory["auto_online"], memory["demotion"]) == ("offline", True)
    assert (memory["numa_balancing"], memory["weights_by_kernel"]) == ("tiering", None)
    assert memory["interleave_weights"] == {"0": 5, "1": 2}
    assert (memory["blocks"], memory["online_blocks"], memory["block_bytes"]) == (40, 40, 128 << 20)


def test_blocks_that_are_offline_are_named_with_their_node(host: Path) -> None:
    blocks(host, 1, 100, online=363, offline=372)
    assert problems(host) == {"memory-offline": "371 of 743 blocks of node 1 are online"}


def test_much_movable_memory_leaves_the_kernel_too_little(host: Path) -> None:
    node(host, 2, 100 * GIB, zones=("Movable",))
    assert "zone-imbalance" in problems(host)


@pytest.mark.parametrize("policy", ["online", "online_kernel"])
def test_a_policy_that_onlines_memory_at_once_is_named(host: Path, policy: str) -> None:
    write(host, "/sys/devices/system/memory/auto_online_blocks", policy)
    assert policy in problems(host)["memory-auto-online"]


def test_nodes_of_one_memory_tier_are_named_where_pages_shall_move(host: Path) -> None:
    write(host, f"{TIERS}/memory_tier4/nodelist", "0-1\n")
    (host / f"{TIERS}/memory_tier22/nodelist".lstrip("/")).unlink()
    assert "node 1 (cxl)" in problems(host)["memory-tiers-equal"]
    write(host, "/proc/sys/kernel/numa_balancing", "1\n")
    write(host, "/sys/kernel/mm/numa/demotion_enabled", "false\n")
    assert problems(host) == {}


def test_a_dead_device_and_an_empty_region_are_named(host: Path) -> None:
    (host / "sys/bus/cxl/devices/mem0/driver").unlink()
    write(host, "/sys/devices/platform/ACPI0017:00/root0/decoder0.0/region0/size", "0x0")
    objects = {each["what"] for each in report(host)["memory"]["problems"]}
    assert len(objects) == 2 and {each["code"] for each in report(host)["memory"]["problems"]} == {
        "cxl-fault"
    }


def test_faults_of_modules_and_regions_are_named(tmp_path: Path) -> None:
    for name, text in (
        ("nmem0/nfit/flags", "save_fail smart_event"), ("nmem1/security", "locked"),
        ("nmem2/nfit/flags", "smart_notify"), ("region0/size", "0"),
        ("region1/size", "1024"), ("region1/badblocks", "8 2\n64 1"),
        ("region2/size", "1024"), ("region2/devtype", "nd_blk"),
    ):  # fmt: skip
        write(tmp_path, f"/sys/bus/nd/devices/{name}", text)
    faulty = {
        each["what"].split()[0]: each["found"] for each in report(tmp_path)["memory"]["problems"]
    }
    assert faulty.keys() == {"nmem0", "nmem1", "region0", "region1", "region2"}
    assert faulty["nmem0"] == "save_fail" and faulty["region1"].startswith("3 bad blocks")


def test_regions_have_their_devices_dax_devices_and_nodes(host: Path) -> None:
    (region,) = report(host)["cxl"]["regions"]
    assert (region["mode"], region["devices"], region["decoder"]) == ("ram", ["mem0"], "decoder0.0")
    assert region["dax"] == [{"name": "dax0.0", "mode": "system-ram", "node": 1}]
    (device,) = report(host)["cxl"]["devices"]
    assert (device["ram_bytes"], device["gpf"]) == (GIB, True)


def test_text_shows_nodes_and_devices(host: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = report(host)
    document["nodes"][1]["measured"] = {"read_latency_ns": 270.0, "read_bytes_per_s": 2.1e10}
    print_memory(document)
    shown = capsys.readouterr().out
    assert all(word in shown for word in ("250 ns", "270 ns", "21 GB/s", "Movable", "region0"))


def test_an_empty_host_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    node(tmp_path, 3, memory_bytes=0, cpus="0", zones=())
    document = report(tmp_path)
    assert [each["kind"] for each in document["nodes"]] == ["none"]
    assert document["cxl"] == {
        "devices": [], "regions": [], "decoders": [], "counters": [], "program_problem": None,
    }  # fmt: skip
    print_memory(document)
    assert "no memory" in capsys.readouterr().out


def test_a_persistent_region_on_devdax_has_no_node(tmp_path: Path) -> None:
    persistent(tmp_path)
    dax(tmp_path, "dax9.0", "/sys/devices/platform/hmem.9/dax9.0", 2)
    (region,) = report(tmp_path)["cxl"]["regions"]
    assert region["dax"] == [{"name": "dax0.0", "mode": "devdax", "node": None}]


# The program cxl -------------------------------------------------------------------


MEMORY = {"memdev": "mem0", "ram_size": GIB, "health": {"media_normal": True}}
FAILING = {
    "memdev": "mem1",
    "state": "disabled",
    "health": {"media_normal": False, "media_data_lost": True, "ext_temperature": "critical"},
}
REGION = {
    "region": "region0",
    "decode_state": "commit",
    "mappings": [{"position": 0, "memdev": "mem9", "decoder": "decoder9.0"}],
}


@pytest.mark.parametrize(
    ("printed", "devices", "regions"),
    [
        ("", set(), set()),
        ("[]", set(), set()),
        (json.dumps(MEMORY), {"mem0"}, set()),
        (json.dumps([MEMORY, FAILING]), {"mem0", "mem1"}, set()),
        (json.dumps([{"memdevs": [MEMORY]}, {"regions": [REGION]}]), {"mem0"}, {"region0"}),
        (
            json.dumps({"bus": "root0", "decoders:root0": [
                {"decoder": "decoder0.0", "regions:decoder0.0": [REGION]}]}),
            set(),
            {"region0"},
        ),
    ],
)  # fmt: skip
def test_every_form_of_a_listing_is_read(printed, devices, regions):
    """Hand-written, in the forms of cxl-list(1)."""
    listing = parse_cxl_list(printed)
    assert (set(listing.faults), set(listing.states)) == (devices, regions)


def test_health_and_states_are_those_of_the_listing() -> None:
    decoders = {"port decoders": [{"decoder": "decoder1.0", "region": "region0"}]}
    listing = parse_cxl_list(json.dumps([MEMORY, FAILING, REGION, decoders]))
    assert listing.faults == {
        "mem0": (),
        "mem1": ("media_data_lost", "ext_temperature critical", "disabled"),
    }
    assert listing.states == {"region0": "commit"}


def test_what_is_no_listing_is_refused() -> None:
    with pytest.raises(ValueError):
        parse_cxl_list("cxl list: no devices")


# Counters --------------------------------------------------------------------------

_PMUS = "/sys/bus/event_source/devices"


@pytest.mark.parametrize(
    ("model", "pmus", "seen"),
    [
        (143, ("uncore_imc_0",), ["nothing"]),
        (143, ("uncore_imc_0", "uncore_cxlcm_0", "uncore_cha_0", "uncore_m2pcie_1"),
         ["bytes", "nothing", "requests", "mixed"]),
        (106, ("uncore_imc_0", "uncore_cha_0"), ["nothing"]),  # Ice Lake has no CXL ports
        (143, ("cxl_pmu_mem0.0",), ["bytes"]),
        (106, (), []),
    ],
)  # fmt: skip
def test_counters_say_what_they_see_of_cxl(tmp_path, model, pmus, seen):
    cpuinfo = f"processor : 0\nvendor_id : GenuineIntel\ncpu family : 6\nmodel : {model}\n"
    write(tmp_path, "/proc/cpuinfo", cpuinfo)
    for pmu in pmus:
        write(tmp_path, f"{_PMUS}/{pmu}/type", "9")
    assert [counter.sees for counter in cxl_counters(Kernel(tmp_path))] == seen


@pytest.mark.parametrize(
    ("kind", "warned"), [("cxl", True), ("dram, cxl", True), ("dram", False), (None, False)]
)
def test_memory_traffic_warns_of_memory_that_it_does_not_see(tmp_path, kind, warned):
    facts = TierFacts("numa", numa_node=1, memory_kind=kind)
    tier = Tier(TierClaim("memory", "numa", nodes=(1,)), facts)
    monitor = MemoryTraffic(MonitorContext(tiers=[tier]), Kernel(tmp_path))
    codes = [warning.code for warning in monitor.warnings()]
    assert codes == ["memory-traffic-without-cxl"] * warned
