"""The host's memory mode, detected: how its persistent memory modules are used.

Default: there are none, or none is used. AppDirect: as persistent memory. Memory:
as main memory with a DRAM cache. Mixed: part of each. (VLDB 2023 paper §2; the
mode changes only by a provisioning goal and a reboot.)
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass

from harness.host.dimms import memory_devices
from harness.host.processors import cpu
from harness.host.tools import run_as_root
from harness.tiers.linux.kernel import LIVE, Kernel
from harness.tiers.linux.model import MemoryMode
from harness.tiers.linux.pmem import capacity, is_memmap_dram, regions, resource_table
from harness.units import format_bytes


@dataclass(frozen=True)
class HostMode:
    """The mode and the evidence for it."""

    mode: MemoryMode
    evidence: str


@dataclass(frozen=True)
class MemoryResources:
    """Use of persistent memory modules' capacity, in bytes."""

    volatile_bytes: int
    app_direct_bytes: int


def host_mode(kernel: Kernel = LIVE) -> HostMode:
    """The mode, from the best source that can be read: ipmctl, firmware table, kernel."""
    show = ("show", "-u", "B", "-memoryresources")
    if kernel is LIVE and (done := run_as_root("ipmctl", *show)) is not None:
        resources = parse_memory_resources(done.stdout + done.stderr)
        if resources is not None:
            return _from_resources(resources, "ipmctl")
    modules = memory_devices(kernel)
    if modules is not None:
        optane = [module for module in modules if module.technology == "Optane"]
        resources = MemoryResources(
            sum(module.volatile_bytes for module in optane),
            sum(module.persistent_bytes for module in optane),
        )
        if resources.volatile_bytes or resources.app_direct_bytes:
            return _from_resources(resources, f"firmware table: {len(optane)} Optane modules")
        # Capacities left out by the firmware: the kernel may still know.
        return _from_kernel(kernel, firmware_read=not optane)
    return _from_kernel(kernel, firmware_read=False)


def _from_resources(resources: MemoryResources, source: str) -> HostMode:
    volatile, direct = resources.volatile_bytes, resources.app_direct_bytes
    evidence = (
        f"{source}: {format_bytes(volatile)} of persistent memory modules used as main memory,"
        f" {format_bytes(direct)} as AppDirect"
    )
    if volatile and direct:
        return HostMode("Mixed", evidence)
    if volatile:
        return HostMode("Memory", evidence)
    return HostMode("AppDirect" if direct else "Default", evidence)


def _from_kernel(kernel: Kernel, *, firmware_read: bool) -> HostMode:
    """Without ipmctl and Optane modules in the firmware table: regions, and a memory-side cache."""
    caches = _memory_side_caches(kernel)
    pmem = [
        region
        for region in regions(kernel)
        if region.type == "pmem" and region.size_bytes and not region.is_cxl
    ]
    if pmem:
        names = ", ".join(f"{r.name} {format_bytes(r.size_bytes or 0)}" for r in pmem)
        dram = ", which is DRAM set aside by memmap=" * any(is_memmap_dram(r, kernel) for r in pmem)
        evidence = f"the kernel has persistent memory regions: {names}{dram}"
        if caches:
            return HostMode("Mixed", f"{evidence}; and {caches}")
        return HostMode("AppDirect", evidence)
    if caches:
        return HostMode("Memory", f"{caches}; no persistent memory region")
    if firmware_read:
        return HostMode("Default", "no Optane module in the firmware table, no pmem region")
    processor = cpu(kernel)
    if processor.hypervisor or not processor.takes_optane:
        return HostMode("Default", "no pmem region, and this processor takes no Optane modules")
    return HostMode(
        "unknown",
        "no pmem region, but only the firmware table distinguishes Memory Mode from DRAM:"
        " run harness doctor as root",
    )


def _memory_side_caches(kernel: Kernel) -> str | None:
    """ACPI HMAT's memory-side caches: DRAM in front of the node's memory, as in Memory Mode."""
    for node in kernel.names("/sys/devices/system/node"):
        folder = f"/sys/devices/system/node/{node}/memory_side_cache/index1"
        size = kernel.read(f"{folder}/size")
        if size:
            return f"{node} has a memory-side cache of {size} bytes"
    return None


def parse_memory_resources(text: str) -> MemoryResources | None:
    """``ipmctl show -memoryresources`` of versions 2 and 3 (a table) and 1 (``Name=size``).

    None where the text has neither, as when there are no modules, or a capacity is unreadable.
    """
    with suppress(ValueError):
        return _memory_resources(text)
    return None


def _memory_resources(text: str) -> MemoryResources | None:
    table = resource_table(text)
    if "Volatile" in table or "AppDirect" in table:
        none = (0, 0)
        return MemoryResources(table.get("Volatile", none)[1], table.get("AppDirect", none)[1])
    old = dict(re.findall(r"^\s*(\w+)\s*=\s*(.+?)\s*$", text, re.MULTILINE))
    if "MemoryCapacity" in old and "AppDirectCapacity" in old:
        return MemoryResources(capacity(old["MemoryCapacity"]), capacity(old["AppDirectCapacity"]))
    return None
