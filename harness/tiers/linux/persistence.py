"""Where persistence ends: from there on, what is stored survives a loss of power."""

from __future__ import annotations

from dataclasses import dataclass

from .cxl import CxlRegion, cxl_regions, flush_on_power_loss, memory_devices
from .kernel import Kernel
from .pmem import Region

UNKNOWN = "unknown"
#: A switch does not pass Global Persistent Flush on, so that its devices get none.
AT_SWITCH = "cxl_switch"


@dataclass(frozen=True)
class PersistenceDomain:
    """``ends`` at: ``cpu_cache`` (eADR), ``memory_controller`` (ADR), ``cxl_device`` (Global
    Persistent Flush), ``cxl_switch`` (which does not pass it on), ``none`` (volatile memory),
    ``unknown``; ``source``: what states it.
    """

    ends: str
    source: str


NOT_STATED = PersistenceDomain(UNKNOWN, "nothing states it")


def domain_of_region(region: Region, kernel: Kernel) -> PersistenceDomain:
    """The domain of a pmem region, on modules or on CXL devices."""
    if not region.is_cxl:
        ends = region.persistence_domain
        if ends in (None, UNKNOWN):
            return PersistenceDomain(UNKNOWN, f"the platform states none for {region.name}")
        return PersistenceDomain(str(ends), f"{region.name}/persistence_domain")
    cxl = next((each for each in cxl_regions(kernel) if each.name == region.name), None)
    return NOT_STATED if cxl is None else _of_devices(cxl, kernel)


def domain_of_cxl_region(region: CxlRegion, kernel: Kernel) -> PersistenceDomain:
    """The domain of a CXL region, volatile or persistent."""
    if region.mode == "ram":
        return PersistenceDomain("none", f"{region.name}/mode is ram")
    return NOT_STATED if region.mode is None else _of_devices(region, kernel)


def _of_devices(region: CxlRegion, kernel: Kernel) -> PersistenceDomain:
    """By all devices of the region: what Linux says of it is the same for every CXL region.

    drivers/cxl/pmem.c declares the memory controller to be the end, whatever the device does.
    """
    devices = [each for each in memory_devices(kernel) if each.name in region.devices]
    sources = []
    for device in devices:
        flush = flush_on_power_loss(device, kernel)
        if not flush.complete:
            return PersistenceDomain(AT_SWITCH if flush.port else UNKNOWN, flush.source)
        sources.append(flush.source)
    return PersistenceDomain("cxl_device", "; ".join(sources)) if sources else NOT_STATED
