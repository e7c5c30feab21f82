"""CXL memory in sysfs: devices, regions, windows (Documentation/ABI/testing/sysfs-bus-cxl).

Only root may read physical addresses and a device's PCI configuration space. A persistent region is
on an nvdimm bus of its own, whose provider is ``CXL``; it is no NVDIMM.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .kernel import Kernel

_DEVICES = "/sys/bus/cxl/devices"
_DAX = "/sys/bus/dax/devices"
_ND = "/sys/bus/nd/devices"
_ADDRESS = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
#: PCI extended capabilities: designated vendor-specific ones (DVSEC), of the CXL consortium, for
#: Global Persistent Flush of a port and of a device (CXL 3.1, 8.1.6 and 8.1.7).
_DVSEC, _CXL_VENDOR, _GPF_PORT, _GPF_DEVICE = 0x23, 0x1E98, 4, 5
_EXTENDED_AT, _EXTENDED_END = 0x100, 0x1000


@dataclass(frozen=True)
class MemoryDevice:
    """A CXL memory device. ``serial`` as in sysfs; ``numa_node``: of the processors next to it.

    ``pci``: addresses on the way to it, from the root port; the last is its own. More than two: a
    switch is in between. ``active``: a driver uses it; one that failed to start has none.
    """

    name: str
    serial: str | None
    ram_bytes: int
    pmem_bytes: int
    numa_node: int | None
    firmware: str | None
    pci: tuple[str, ...]
    active: bool


@dataclass(frozen=True)
class CxlRegion:
    """A range of addresses on one CXL device, or interleaved over several.

    ``mode``: ram or pmem; None where the kernel does not say. ``decoder``: the window that it is
    in. ``devices``: memory devices by their place in the interleaving. ``dax``: DAX devices on it.
    """

    name: str
    mode: str | None
    size_bytes: int
    interleave_ways: int | None
    decoder: str | None
    devices: tuple[str, ...]
    dax: tuple[str, ...]


@dataclass(frozen=True)
class CxlWindow:
    """Addresses that firmware set aside for CXL memory: a root decoder.

    ``start`` None: only root may read it. ``capable``: of ram, pmem, or both.
    """

    name: str
    start: int | None
    size_bytes: int
    capable: tuple[str, ...]


def memory_devices(kernel: Kernel) -> list[MemoryDevice]:
    """CXL memory devices, by name."""
    return [_memory_device(name, kernel) for name in _named(r"mem\d+", kernel)]


def _named(pattern: str, kernel: Kernel) -> list[str]:
    return [name for name in kernel.names(_DEVICES) if re.fullmatch(pattern, name)]


def _memory_device(name: str, kernel: Kernel) -> MemoryDevice:
    folder = kernel.path(f"{_DEVICES}/{name}")
    node = kernel.read_int(folder / "numa_node")
    return MemoryDevice(
        name=name,
        serial=kernel.read(folder / "serial"),
        ram_bytes=kernel.read_int(folder / "ram/size") or 0,
        pmem_bytes=kernel.read_int(folder / "pmem/size") or 0,
        numa_node=node if node is not None and node >= 0 else None,
        firmware=kernel.read(folder / "firmware_version"),
        pci=tuple(part for part in folder.resolve().parts if _ADDRESS.fullmatch(part)),
        active=(folder / "driver").exists(),
    )


def windows(kernel: Kernel) -> list[CxlWindow]:
    """Windows of addresses for CXL memory, as firmware describes them (ACPI CEDT)."""
    return [
        _window(name, kernel)
        for name in _named(r"decoder\d+\.\d+", kernel)
        if kernel.read(f"{_DEVICES}/{name}/devtype") == "cxl_decoder_root"
    ]


def _window(name: str, kernel: Kernel) -> CxlWindow:
    folder = f"{_DEVICES}/{name}"
    return CxlWindow(
        name,
        kernel.read_int(f"{folder}/start"),
        kernel.read_int(f"{folder}/size") or 0,
        tuple(of for of in ("ram", "pmem") if kernel.read(f"{folder}/cap_{of}") == "1"),
    )


def cxl_regions(kernel: Kernel) -> list[CxlRegion]:
    """CXL regions, those without capacity included."""
    return [_region(name, kernel) for name in _named(r"region\d+", kernel)]


def _region(name: str, kernel: Kernel) -> CxlRegion:
    folder = kernel.path(f"{_DEVICES}/{name}").resolve()
    number = name.removeprefix("region")
    ways = kernel.read_int(folder / "interleave_ways")
    mode = kernel.read(folder / "mode")  # from Linux 6.3 on
    if mode is None and (folder / f"pmem_region{number}").exists():
        mode = "pmem"
    decoders = (kernel.read(folder / f"target{at}") for at in range(ways or 0))
    return CxlRegion(
        name=name,
        mode=mode if mode in ("ram", "pmem") else None,
        size_bytes=kernel.read_int(folder / "size") or 0,
        interleave_ways=ways,
        decoder=folder.parent.name if folder.parent.name.startswith("decoder") else None,
        devices=tuple(filter(None, (_device_of(decoder, kernel) for decoder in decoders))),
        dax=tuple(
            dax
            for dax in kernel.names(_DAX)
            if region_above(kernel.path(f"{_DAX}/{dax}").resolve(), kernel) == name
        ),
    )


def _device_of(decoder: str | None, kernel: Kernel) -> str | None:
    """The memory device of an endpoint's decoder: ``endpoint2/uport`` leads to it."""
    if not decoder:
        return None
    port = kernel.path(f"{_DEVICES}/{decoder}").resolve().parent / "uport"
    return port.resolve().name if port.exists() else None


def region_above(sysfs: Path, kernel: Kernel) -> str | None:
    """The CXL region that a DAX or block device stands on, None where it is on none.

    ``sysfs``: its directory in the device tree. Volatile: ``region0/dax_region0/dax0.0``;
    persistent: ``nvdimm-bridge0/ndbus0/region0/…``, where both regions have the same number.
    """
    below = sysfs
    for directory in sysfs.parents:
        if match := re.fullmatch(r"dax_region(\d+)", directory.name):
            return f"region{match[1]}"
        if re.fullmatch(r"ndbus\d+", directory.name):
            return below.name if _is_cxl_bus(directory, kernel) else None
        below = directory
    return None


def _is_cxl_bus(ndbus: Path, kernel: Kernel) -> bool:
    bridge = ndbus.parent.name.startswith("nvdimm-bridge")
    return bridge or kernel.read(ndbus / "provider") == "CXL"


# Global Persistent Flush -----------------------------------------------------------


@dataclass(frozen=True)
class PowerLossFlush:
    """Whether a device and the switch before it take part in Global Persistent Flush.

    ``complete`` None: nothing that may be read says so. ``port``: of the switch, that takes none.
    """

    complete: bool | None
    source: str
    port: str | None = None


def flush_on_power_loss(device: MemoryDevice, kernel: Kernel) -> PowerLossFlush:
    """Return the device's part in Global Persistent Flush, with what says so."""
    has, source = _device_gpf(device, kernel)
    if not has:
        return PowerLossFlush(has, source)
    for port in device.pci[1:-1]:
        ids = _dvsecs(port, kernel)
        if ids is None:
            why = f"only root may read whether the switch's port {port} has GPF"
            return PowerLossFlush(None, why)
        if _GPF_PORT not in ids:
            why = f"the port {port} of the switch before {device.name} has no GPF DVSEC"
            return PowerLossFlush(False, why, port)
    through = f", and of the switch's ports {', '.join(device.pci[1:-1])}" * (len(device.pci) > 2)
    return PowerLossFlush(True, source + through)


def _device_gpf(device: MemoryDevice, kernel: Kernel) -> tuple[bool | None, str]:
    ids = _dvsecs(device.pci[-1], kernel) if device.pci else None
    if ids is not None:
        has = _GPF_DEVICE in ids
        return has, f"{device.name} has {'a' if has else 'no'} GPF DVSEC ({device.pci[-1]})"
    for module in kernel.names(_ND):
        # Linux shows the count only of a device with that DVSEC (6.15 and later).
        folder = kernel.path(f"{_ND}/{module}/cxl")
        provider = kernel.read(folder / "provider")
        number = device.name.removeprefix("mem")
        if provider == f"pmem{number}" and (folder / "dirty_shutdown").exists():
            return True, f"{device.name} has a GPF DVSEC ({module}/cxl/dirty_shutdown)"
    return None, f"only root may read whether {device.name} has GPF"


def _dvsecs(address: str, kernel: Kernel) -> set[int] | None:
    """The numbers of a PCI function's CXL DVSECs; None where only root may read them."""
    try:
        space = kernel.path(f"/sys/bus/pci/devices/{address}/config").read_bytes()
    except OSError:
        return None
    return set(_cxl_dvsecs(space)) if len(space) > _EXTENDED_AT else None


def _cxl_dvsecs(space: bytes) -> Iterator[int]:
    at, seen = _EXTENDED_AT, set[int]()
    while _EXTENDED_AT <= at < min(len(space), _EXTENDED_END) - 9 and at not in seen:
        seen.add(at)
        header = int.from_bytes(space[at : at + 4], "little")
        vendor = int.from_bytes(space[at + 4 : at + 6], "little")
        if header & 0xFFFF == _DVSEC and vendor == _CXL_VENDOR:
            yield int.from_bytes(space[at + 8 : at + 10], "little")
        at = header >> 20
