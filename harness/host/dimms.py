"""Memory modules: the NVDIMMs the kernel has, and the firmware's list of all modules.

The firmware's list (SMBIOS type 17, DMTF DSP0134 §7.18) is readable by root only;
only it lists DRAM modules and the use of an Optane module's capacity.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from harness import jsonfile
from harness.host.processors import UNREADABLE
from harness.host.tools import run_as_root
from harness.tiers.linux import cxl
from harness.tiers.linux.kernel import LIVE, Kernel

_DMI = "/sys/firmware/dmi/tables/DMI"
_MEMORY_DEVICE = 17
_TECHNOLOGIES = {3: "DRAM", 4: "NVDIMM-N", 5: "NVDIMM-F", 6: "NVDIMM-P", 7: "Optane"}
_TYPES = {
    0x07: "RAM",
    0x18: "DDR3",
    0x1A: "DDR4",
    0x1E: "LPDDR4",
    0x1F: "logical non-volatile",
    0x20: "HBM",
    0x21: "HBM2",
    0x22: "DDR5",
    0x23: "LPDDR5",
    0x24: "HBM3",
}
_UNKNOWN_64 = 0xFFFF_FFFF_FFFF_FFFF


@dataclass(frozen=True)
class MemoryModule:
    """One module as the firmware lists it; sizes in bytes, 0 where it does not say.

    ``volatile_bytes`` of an Optane module is what Memory Mode took of it. ``speed_mts``: as
    configured, not what the module is able to; None where the firmware does not say.
    """

    locator: str
    size_bytes: int
    type: str
    technology: str | None
    speed_mts: int | None
    manufacturer: str | None
    part_number: str | None
    volatile_bytes: int
    persistent_bytes: int


def memory_speed(modules: list[MemoryModule] | None) -> str:
    """``2666 MT/s``, as the memory bus is configured; several where modules differ.

    ``unreadable`` where the firmware's list may not be read, or does not say of every module.
    """
    speeds = {module.speed_mts for module in modules or ()}
    if not speeds or None in speeds:
        return UNREADABLE
    return f"{', '.join(map(str, sorted(filter(None, speeds))))} MT/s"


def power_budget(kernel: Kernel) -> str:
    """``18000 mW``, the limit on each Optane module's mean power; several where they differ.

    ``no modules`` on a host without NVDIMMs; ``unreadable`` without root or ipmctl.
    """
    if not nvdimms(kernel):
        return "no modules"
    done = run_as_root("ipmctl", "show", "-a", "-dimm") if kernel is LIVE else None
    return parse_power_budget(done.stdout if done else "")


def parse_power_budget(text: str) -> str:
    """From ipmctl's list of modules: AvgPowerLimit, in version 1 AvgPowerBudget."""
    modules = text.count("---DimmID=")
    limits = re.findall(r"^\s*AvgPower(?:Limit|Budget)=(\d+) mW\s*$", text, re.M)
    if not modules or len(limits) != modules:
        return UNREADABLE
    return f"{', '.join(map(str, sorted({int(value) for value in limits})))} mW"


def dimms(kernel: Kernel) -> list[dict[str, Any]]:
    """The inventory for the manifest: NVDIMMs and CXL devices, then the firmware's modules."""
    modules = memory_devices(kernel)
    result = nvdimms(kernel)
    if kernel is LIVE and result:
        done = run_as_root("ndctl", "list", "--dimms", "--health", "--firmware", "--idle")
        reported = parse_ndctl_dimms(done.stdout if done else "")
        result = [reported.get(dimm["dev"], {}) | dimm for dimm in result]
    result += [{"source": "cxl"} | asdict(device) for device in cxl.memory_devices(kernel)]
    return result + [{"source": "smbios"} | asdict(module) for module in modules or []]


def parse_ndctl_dimms(text: str) -> dict[str, dict[str, Any]]:
    """``health`` and ``firmware`` by device from ``ndctl list -D``, where it has them.

    ndctl prints a bare array for one class of objects, and an object that holds
    arrays for several.
    """
    try:
        document = jsonfile.parse(text) if text.strip() else []
    except ValueError:
        return {}
    listed = document.get("dimms") if isinstance(document, dict) else document
    return {
        dimm["dev"]: {
            key: dimm[key] for key in ("health", "firmware") if isinstance(dimm.get(key), dict)
        }
        for dimm in (listed if isinstance(listed, list) else [])
        if isinstance(dimm, dict) and isinstance(dimm.get("dev"), str)
    }


def nvdimms(kernel: Kernel) -> list[dict[str, Any]]:
    """NVDIMMs as /sys/bus/nd has them: device, NFIT unique id, vendor, firmware flags.

    A CXL device with persistent memory is there, too, without an NFIT: it is no NVDIMM.
    """
    result: list[dict[str, Any]] = []
    for name in kernel.names("/sys/bus/nd/devices"):
        bus = kernel.path(f"/sys/bus/nd/devices/{name}").resolve().parent
        if not name.startswith("nmem") or kernel.read(bus / "provider") == "CXL":
            continue
        nfit = f"/sys/bus/nd/devices/{name}/nfit"
        attributes = ("id", "vendor", "device", "serial", "formats", "flags")
        facts = {each: kernel.read(f"{nfit}/{each}") for each in attributes}
        mapped = {"dev": name, "mapped_bytes": _mapped_bytes(name, kernel)}
        result.append({"source": "nvdimm"} | mapped | {k: v for k, v in facts.items() if v})
    return result


def _mapped_bytes(dimm: str, kernel: Kernel) -> int:
    """Bytes of the module that regions use, from their mappings (``nmem0,offset,length,…``)."""
    total = 0
    for region in kernel.names("/sys/bus/nd/devices"):
        folder = kernel.path(f"/sys/bus/nd/devices/{region}")
        for number in range(kernel.read_int(folder / "mappings") or 0):
            fields = (kernel.read(folder / f"mapping{number}") or "").split(",")
            if len(fields) >= 3 and fields[0] == dimm:
                total += int(fields[2])
    return total


def memory_devices(kernel: Kernel) -> list[MemoryModule] | None:
    """The populated sockets of SMBIOS; None where the table may not be read (not root)."""
    try:
        table = kernel.path(_DMI).read_bytes()
    except OSError:
        return None
    return list(parse_smbios(table))


def parse_smbios(table: bytes) -> Iterator[MemoryModule]:
    """The populated memory devices of a raw SMBIOS structure table."""
    position = 0
    while position + 4 <= len(table):
        kind, length = table[position], table[position + 1]
        if length < 4:
            return
        body = table[position : position + length]
        end = table.find(b"\0\0", position + length)
        end = len(table) if end < 0 else end
        strings = table[position + length : end].split(b"\0")
        if kind == _MEMORY_DEVICE:
            device = _device(body, [text.decode("ascii", "replace").strip() for text in strings])
            if device.size_bytes:
                yield device
        position = end + 2


def _device(body: bytes, strings: list[str]) -> MemoryModule:
    def number(offset: int, form: str) -> int:
        size = struct.calcsize(form)
        return int(struct.unpack_from(form, body, offset)[0]) if len(body) >= offset + size else 0

    def text(offset: int) -> str | None:
        index = number(offset, "<B")
        return strings[index - 1] or None if 0 < index <= len(strings) else None

    def capacity(offset: int) -> int:
        value = number(offset, "<Q")
        return 0 if value == _UNKNOWN_64 else value

    return MemoryModule(
        locator=text(0x10) or text(0x11) or "?",
        size_bytes=_size(number(0x0C, "<H"), number(0x1C, "<I")),
        type=_TYPES.get(number(0x12, "<B"), f"type {number(0x12, '<B'):#x}"),
        technology=_TECHNOLOGIES.get(number(0x28, "<B")),
        speed_mts=number(0x20, "<H") or None,
        manufacturer=text(0x17),
        part_number=text(0x1A),
        volatile_bytes=capacity(0x3C),
        persistent_bytes=capacity(0x34),
    )


def _size(size: int, extended: int) -> int:
    """Bytes of the Size word: MiB, KiB with the top bit set, 0x7FFF: the extended size in MiB."""
    if size in (0, 0xFFFF):
        return 0
    if size == 0x7FFF:
        return (extended & 0x7FFF_FFFF) << 20
    return (size & 0x7FFF) << 10 if size & 0x8000 else size << 20
