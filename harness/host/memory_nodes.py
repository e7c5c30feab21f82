"""Memory nodes and CXL devices for ``harness doctor``, and what about them makes trouble."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from harness.host.cxl_program import CxlListing, cxl_listing
from harness.host.uncore import cxl_counters
from harness.tiers.linux import cxl, memory, pmem
from harness.tiers.linux.kernel import LIVE, Kernel
from harness.tiers.linux.memory import MOVABLE, Blocks, MemorySettings, Zone
from harness.tiers.linux.numa import Node, nodes
from harness.units import format_bytes
from harness.warnings import RunWarning

_DAX = "/sys/bus/dax/devices"
#: Bytes of ZONE_MOVABLE over those of the other zones, from which on the kernel may run out of
#: memory of its own (admin-guide/mm/memory-hotplug: up to 4:1 is fine).
_MOST_MOVABLE = 4


def memory_report(kernel: Kernel = LIVE) -> dict[str, Any]:
    """``{nodes: [...], memory: {settings, blocks, problems}, cxl: {devices, regions, …}}``."""
    every, zones = nodes(kernel), memory.zones(kernel)
    blocks, settings = memory.blocks_by_node(kernel), memory.memory_settings(kernel)
    tiers = memory.memory_tiers(kernel)
    listing = cxl_listing() if kernel is LIVE and cxl.memory_devices(kernel) else CxlListing()
    problems = [
        *_offline(blocks),
        *_imbalance(zones),
        *_auto_online(settings, kernel),
        *_equal_tiers(every, tiers, settings),
        *_faulty_cxl(listing, kernel),
        *_faulty_modules(kernel),
    ]
    return {
        "nodes": [
            _node(node, zones.get(node.node, {}), blocks.get(node.node), tiers, kernel)
            for node in every
        ],
        "memory": asdict(settings)
        | {
            "block_bytes": memory.block_bytes(kernel),
            "blocks": sum(each.blocks for each in blocks.values()),
            "online_blocks": sum(each.online for each in blocks.values()),
            "problems": [problem.to_json() for problem in problems],
        },
        "cxl": _cxl(listing, kernel),
    }


def _node(
    node: Node,
    zones: Mapping[str, Zone],
    blocks: Blocks | None,
    tiers: Mapping[int, int],
    kernel: Kernel,
) -> dict[str, Any]:
    classes = memory.hmat(node.node, kernel)
    return {
        "node": node.node,
        "kind": node.kind,
        "processors": node.cpus or None,
        "backing": node.backing,
        "zone": {name: asdict(zone) for name, zone in zones.items()},
        "bytes": node.memory_bytes,
        "free_bytes": node.free_bytes,
        "blocks": blocks.blocks if blocks else None,
        "online_blocks": blocks.online if blocks else None,
        "hmat": {name: asdict(promised) for name, promised in classes.items()},
        "memory_tier": tiers.get(node.node),
        "distances": list(node.distances),
    }


# CXL -------------------------------------------------------------------------------


def _cxl(listing: CxlListing, kernel: Kernel) -> dict[str, Any]:
    return {
        "devices": [
            asdict(device)
            | {
                "gpf": (flush := cxl.flush_on_power_loss(device, kernel)).complete,
                "gpf_source": flush.source,
                "faults": list(listing.faults.get(device.name, ())),
            }
            for device in cxl.memory_devices(kernel)
        ],
        "regions": [
            asdict(region)
            | {
                "state": listing.states.get(region.name),
                "dax": [_dax(name, kernel) for name in region.dax],
            }
            for region in cxl.cxl_regions(kernel)
        ],
        "decoders": [asdict(window) for window in cxl.windows(kernel)],
        "counters": [asdict(counter) for counter in cxl_counters(kernel)],
        "program_problem": listing.problem or None,
    }


def _dax(name: str, kernel: Kernel) -> dict[str, Any]:
    """A DAX device, and the node that its memory is on where it is system-ram."""
    device = kernel.path(f"{_DAX}/{name}")
    driver = (device / "driver").resolve().name if (device / "driver").exists() else None
    modes = {"kmem": "system-ram", "device_dax": "devdax"}
    node = kernel.read_int(device / "target_node")
    return {
        "name": name,
        "mode": modes.get(driver or "", "disabled"),
        "node": node if driver == "kmem" else None,
    }


# Problems --------------------------------------------------------------------------


def _offline(blocks: Mapping[int | None, Blocks]) -> Iterator[RunWarning]:
    for node, each in sorted(blocks.items(), key=lambda item: (item[0] is None, item[0])):
        if each.online < each.blocks:
            where = "of no node" if node is None else f"of node {node}"
            yield RunWarning(
                "memory-offline",
                "part of the memory is not in use",
                f"{each.online} of {each.blocks} blocks {where} are online",
                "daxctl online-memory DEVICE (daxctl list shows online_memblocks), or"
                " chmem -e RANGE (lsmem shows ranges)",
            )


def _imbalance(zones: Mapping[int, Mapping[str, Zone]]) -> Iterator[RunWarning]:
    every = [(name, zone.bytes) for by_name in zones.values() for name, zone in by_name.items()]
    movable = sum(size for name, size in every if name == MOVABLE)
    others = sum(size for name, size in every if name != MOVABLE)
    if movable > _MOST_MOVABLE * others > 0:
        yield RunWarning(
            "zone-imbalance",
            "Linux may run out of memory of its own while there is much of it free",
            f"{format_bytes(movable)} in ZONE_MOVABLE, {format_bytes(others)} in the other zones",
            "daxctl reconfigure-device --mode=system-ram --no-movable DEVICE, for a part of it",
        )


def _auto_online(settings: MemorySettings, kernel: Kernel) -> Iterator[RunWarning]:
    """A policy by which memory of a device cannot be taken back."""
    if settings.auto_online not in ("online", "online_kernel") or not kernel.names(_DAX):
        return
    yield RunWarning(
        "memory-auto-online",
        "memory of devices goes online at once, and cannot always be taken offline again",
        f"auto_online_blocks is {settings.auto_online}",
        "boot with memhp_default_state=offline, or echo offline >"
        " /sys/devices/system/memory/auto_online_blocks before the device is reconfigured",
    )


def _equal_tiers(
    every: Sequence[Node], tiers: Mapping[int, int], settings: MemorySettings
) -> Iterator[RunWarning]:
    """Slower nodes in DRAM's memory tier, where pages shall be demoted or promoted."""
    moves = settings.demotion or "tiering" in (settings.numa_balancing or "")
    of_dram = {tiers[node.node] for node in every if node.kind == "dram" and node.node in tiers}
    slower = [
        node for node in every if node.kind in ("cxl", "pmem") and tiers.get(node.node) in of_dram
    ]
    if moves and slower:
        names = ", ".join(f"node {node.node} ({node.kind})" for node in slower)
        yield RunWarning(
            "memory-tiers-equal",
            "no page is demoted or promoted between nodes of one memory tier",
            f"{names}: in the memory tier of DRAM",
            "the firmware's HMAT or the device's CDAT has to state its latency and bandwidth",
        )


def _faulty_cxl(listing: CxlListing, kernel: Kernel) -> Iterator[RunWarning]:
    for device in cxl.memory_devices(kernel):
        faults = list(listing.faults.get(device.name, ()))
        faults += ["no driver uses it: it failed to start"] * (not device.active)
        if faults:
            yield RunWarning(
                "cxl-fault",
                f"CXL device {device.name} is not sound",
                ", ".join(dict.fromkeys(faults)),
                "see dmesg and cxl list -H; a cold start of the host may help",
            )
    for region in cxl.cxl_regions(kernel):
        if not region.size_bytes:
            yield RunWarning(
                "cxl-fault",
                f"CXL region {region.name} has no capacity",
                "its size is 0",
                f"cxl destroy-region {region.name}, then cxl create-region",
            )


def _faulty_modules(kernel: Kernel) -> Iterator[RunWarning]:
    for name, faults in pmem.faults(kernel).items():
        yield RunWarning(
            "pmem-fault", f"{name} is not sound", ", ".join(faults), "see ndctl list -DRHM"
        )
