"""Persistent memory: namespaces and regions in sysfs (Documentation/driver-api/nvdimm), and the use
of Optane modules' capacity as ipmctl prints it.

A pmem block device hangs below the driver instance that claims its namespace: a
``btt`` for sector mode, a ``pfn`` for fsdax, a ``dax`` for devdax, nothing for raw.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from .kernel import Kernel

NamespaceMode = Literal["fsdax", "sector", "raw", "devdax"]
_CLAIM = re.compile(r"^(namespace|btt|pfn|dax)\d+\.\d+$")
_DEVICES = "/sys/bus/nd/devices"
_REGION = re.compile(r"^region\d+$")
_BUS = re.compile(r"^ndbus\d+$")
_CLAIM_MODES: dict[str, NamespaceMode] = {
    "namespace": "raw",
    "btt": "sector",
    "pfn": "fsdax",
    "dax": "devdax",
}
#: What the kernel calls the modes that ndctl and everybody else name otherwise.
_KERNEL_MODES: dict[str, NamespaceMode] = {
    "raw": "raw",
    "safe": "sector",
    "memory": "fsdax",
    "dax": "devdax",
}


@dataclass(frozen=True)
class Region:
    """A pmem region: an interleave set of NVDIMMs, or of CXL devices.

    ``persistence_domain``: ``memory_controller`` (ADR), ``cpu_cache`` (eADR).
    ``provider``: ``ACPI.NFIT``, ``e820`` (legacy, or DRAM reserved by ``memmap=``), ``CXL``.
    """

    name: str
    persistence_domain: str | None
    interleave_ways: int | None
    numa_node: int | None
    size_bytes: int | None
    dimms: tuple[str, ...]
    provider: str | None
    type: str

    @property
    def is_cxl(self) -> bool:
        """Return whether it is on CXL devices, not on memory modules."""
        return self.provider == "CXL"


@dataclass(frozen=True)
class Namespace:
    """A namespace and the mode it is really in."""

    name: str
    mode: NamespaceMode
    alignment_bytes: int | None
    size_bytes: int | None
    region: Region


def namespace_of(device: Path, kernel: Kernel) -> Namespace | None:
    """The namespace that a block or DAX device stands on, None where it is no pmem.

    ``device``: its directory in the sysfs device tree.
    """
    chain = [device, *device.parents]
    below = [(chain[at], chain[at + 1]) for at in range(len(chain) - 1)]
    on_bus = ((c, r) for c, r in below if _REGION.match(r.name) and _BUS.match(r.parent.name))
    claim, region = next(on_bus, (None, None))  # a volatile CXL region is on no nvdimm bus
    if region is None or claim is None:
        return None
    match = _CLAIM.match(claim.name)
    mode = _CLAIM_MODES[match.group(1)] if match else "raw"
    name = claim.name if mode == "raw" else (kernel.read(claim / "namespace") or claim.name)
    return _namespace(name, mode, claim, region, kernel)


def namespaces(kernel: Kernel) -> list[Namespace]:
    """Namespaces with any capacity, in use or not."""
    result = []
    for name in kernel.names(_DEVICES):
        if not name.startswith("namespace"):
            continue
        directory = kernel.path(f"{_DEVICES}/{name}").resolve()
        holder = kernel.read(directory / "holder")
        claim = directory.parent / holder if holder else directory
        mode = _KERNEL_MODES.get(kernel.read(directory / "mode") or "raw", "raw")
        if kernel.read_int(directory / "size"):
            result.append(_namespace(name, mode, claim, directory.parent, kernel))
    return result


def regions(kernel: Kernel) -> list[Region]:
    """Regions of the nvdimm buses, volatile ones included (see ``type``)."""
    names = [n for n in kernel.names(_DEVICES) if _REGION.match(n)]
    return [_region(kernel.path(f"{_DEVICES}/{n}").resolve(), kernel) for n in names]


def module_ids(regions: Iterable[str], kernel: Kernel) -> frozenset[str]:
    """The NVDIMMs of regions, each as ipmctl may name it: by NFIT handle (``0x0011``) and by unique
    id (``8089-a2-1839-00000f42``), in lower case.
    """
    result = set()
    for region in regions:
        directory = kernel.path(f"{_DEVICES}/{region}")
        for mapping in range(kernel.read_int(directory / "mappings") or 0):
            name = (kernel.read(directory / f"mapping{mapping}") or "").partition(",")[0]
            handle = kernel.read_int(f"{_DEVICES}/{name}/nfit/handle")
            result |= {kernel.read(f"{_DEVICES}/{name}/nfit/id") or ""}
            result |= {f"0x{handle:04x}"} if handle is not None else set()
    return frozenset(each.lower() for each in result if each)


def is_memmap_dram(region: Region, kernel: Kernel) -> bool:
    """Return whether the region is DRAM set aside by the kernel parameter ``memmap=size!start``."""
    words = (kernel.read("/proc/cmdline") or "").split()
    reserved = any(word.startswith("memmap=") and "!" in word for word in words)
    return region.provider == "e820" and reserved


def _namespace(
    name: str, mode: NamespaceMode, claim: Path, region: Path, kernel: Kernel
) -> Namespace:
    size = kernel.read_int(claim / "size") or kernel.read_int(region / name / "size")
    return Namespace(name, mode, kernel.read_int(claim / "align"), size, _region(region, kernel))


def _region(directory: Path, kernel: Kernel) -> Region:
    ways = kernel.read_int(directory / "mappings")
    return Region(
        name=directory.name,
        persistence_domain=kernel.read(directory / "persistence_domain") or None,
        interleave_ways=ways,
        numa_node=_node(kernel.read_int(directory / "numa_node")),
        size_bytes=kernel.read_int(directory / "size"),
        dimms=tuple(_dimm(directory / f"mapping{i}", kernel) for i in range(ways or 0)),
        provider=kernel.read(directory.parent / "provider"),
        type=_type(directory, kernel),
    )


def _node(value: int | None) -> int | None:
    return value if value is not None and value >= 0 else None


def _dimm(mapping: Path, kernel: Kernel) -> str:
    """``nmem0 (8680-56341200)``: the device and its NFIT unique id, or a CXL device's serial."""
    name = (kernel.read(mapping) or "").partition(",")[0]
    identities = (kernel.read(f"{_DEVICES}/{name}/{bus}/id") for bus in ("nfit", "cxl") if name)
    identity = next(filter(None, identities), None)
    return f"{name} ({identity})" if identity else name


def _type(directory: Path, kernel: Kernel) -> str:
    """pmem, volatile or blk, by the device type (``nd_pmem``, ``nd_volatile``, ``nd_blk``)."""
    devtype = kernel.read(directory / "devtype") or ""
    return next((kind for kind in ("volatile", "blk") if kind in devtype), "pmem")


#: Flags of a module in NFIT that mean a loss of data, past or to come.
_FAILED = ("save_fail", "restore_fail", "flush_fail", "map_fail", "not_armed")


def faults(kernel: Kernel) -> dict[str, list[str]]:
    """Faults of modules and regions by name; sound ones are left out."""
    result: dict[str, list[str]] = {}
    for name in kernel.names(_DEVICES):
        folder = kernel.path(f"{_DEVICES}/{name}")
        if re.fullmatch(r"nmem\d+", name):
            flags = (kernel.read(folder / "nfit/flags") or "").split()
            result[name] = [flag for flag in flags if flag in _FAILED]
            result[name] += ["locked"] * (kernel.read(folder / "security") == "locked")
        elif _REGION.match(name):
            result[name] = _region_faults(folder, kernel)
    return {name: of_object for name, of_object in result.items() if of_object}


def _region_faults(folder: Path, kernel: Kernel) -> list[str]:
    ranges = (kernel.read(folder / "badblocks") or "").splitlines()  # first and number, a line each
    bad = sum(int(words[1]) for line in ranges if len(words := line.split()) == 2)
    reasons = ["its size is 0"] * (kernel.read_int(folder / "size") == 0)
    reasons += [f"{bad} bad blocks of 512 bytes"] * bool(bad)
    return reasons + ["of type blk, which Linux no longer has"] * (_type(folder, kernel) == "blk")


# The table of ``ipmctl show -memoryresources`` ----------------------------------------

_UNITS = {
    "B": 1,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
    "TiB": 1 << 40,
}


_ROWS = ("Volatile", "AppDirect", "Cache", "Physical")
_CAPACITY = re.compile(
    r"(?:(?P<grouped>\d{1,3}(?:,\d{3})+\.\d{1,9})"
    r"|(?P<plain>\d{1,18}(?:\.\d{1,9}|,(?!\d{3}$|\d{3}\D)\d{1,9})?))\s*(?P<unit>[A-Za-z]+)"
)


def resource_table(text: str) -> dict[str, tuple[int, int]]:
    """Row name to (DDR, modules) in bytes, of versions 2 and 3; empty without such a table.

    DDR is 0 where the table has no such column. Of the rows that are read here; ValueError for a
    capacity in them that is no number.
    """
    rows: dict[str, tuple[int, int]] = {}
    columns: tuple[int | None, int] | None = None
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if cells[0] == "MemoryType":
            modules = [n for n, cell in enumerate(cells) if cell in ("PMemModule", "DCPMM")]
            ddr = cells.index("DDR") if "DDR" in cells else None
            columns = (ddr, modules[0]) if modules else None
        elif columns and cells[0] in _ROWS and len(cells) > max(columns[0] or 0, columns[1]):
            ddr_bytes = 0 if columns[0] is None else capacity(cells[columns[0]])
            rows[cells[0]] = ddr_bytes, capacity(cells[columns[1]])
    return rows


def capacity(text: str) -> int:
    """Bytes of ``504.000 GiB``; ``-`` and empty cells are 0; ValueError for anything else.

    Locales write ``1,512.0 GiB`` and ``0,5 GiB``, which are read; ``1,512 GiB`` may be either.
    """
    if text.strip() in ("", "-"):
        return 0
    match = _CAPACITY.fullmatch(text.strip())
    if match is None or match["unit"] not in _UNITS:
        raise ValueError(f"{text.strip()!r} is no capacity")
    number = match["grouped"].replace(",", "") if match["grouped"] else match["plain"]
    return round(float(number.replace(",", ".")) * _UNITS[match["unit"]])
