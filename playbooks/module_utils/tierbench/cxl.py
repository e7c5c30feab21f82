"""CXL memory devices, root decoders and regions: output of ``cxl list``, and the kernel's view.

``cxl list`` prints an array of objects of one class, or an array of objects that each hold one
class; nested where buses are listed, and an empty array where there is nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from .commands import Commands
from .linux import Kernel
from .listing import Node, count, listing, objects, word

#: What a region's memory is: volatile or persistent.
TYPES = ("ram", "pmem")
CXL = "/sys/bus/cxl/devices"
#: ``-H``: 76.1 lists no health without it. ``-i``: disabled devices and regions too.
LIST = "cxl list -MDRTHi"
#: The first release of the tool that makes volatile regions, and that takes a region's UUID.
_COMPLETE_VERSION = 77


@dataclass(frozen=True)
class Memdev:
    """A memory device. ``host``: its PCI address, which stays; ``name`` may change at every start.

    ``bridge``: the host bridge above it. ``faults``: why no region may be made on it, in words.
    """

    name: str
    host: str
    serial: int = 0
    ram_bytes: int = 0
    pmem_bytes: int = 0
    bridge: str | None = None
    faults: tuple[str, ...] = ()

    def capacity(self, type: str) -> int:
        return self.ram_bytes if type == "ram" else self.pmem_bytes

    @property
    def identity(self) -> str:
        """The same at every start, and another's for another device."""
        return f"{self.host} serial {self.serial}"


@dataclass(frozen=True)
class RootDecoder:
    """A window of physical addresses, interleaved over the host bridges ``targets``.

    ``types``: memory that platform and kernel allow in it; ``kernel_types``: that the kernel can
    make regions of.
    """

    name: str
    available_bytes: int
    targets: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()
    kernel_types: frozenset[str] = frozenset()


@dataclass(frozen=True)
class CxlRegion:
    """A region. ``memdevs``: in the order of their positions. ``active``: by sysfs, it is committed
    and has a driver; ``start``: its first physical address.
    """

    name: str
    type: str | None
    size_bytes: int
    ways: int
    granularity: int
    memdevs: tuple[str, ...]
    start: int | None = None
    uuid: str | None = None
    active: bool = False


@dataclass(frozen=True)
class Fabric:
    """All that the host has of CXL. ``version``: of the tool, its whole part; None: not read."""

    memdevs: tuple[Memdev, ...] = ()
    decoders: tuple[RootDecoder, ...] = ()
    regions: tuple[CxlRegion, ...] = ()
    version: int | None = None

    @property
    def tool_is_complete(self) -> bool:
        return self.version is None or self.version >= _COMPLETE_VERSION

    def identity(self, region: CxlRegion) -> str:
        """Identity of the capacity that a region takes, over restarts."""
        hosts = {each.name: each.identity for each in self.memdevs}
        return region_identity(str(region.type), [hosts.get(n, n) for n in region.memdevs])


def region_identity(type: str, memdevs: list[str]) -> str:
    """``ram: 0000:0d:00.0 serial 257, …``; the order of the devices does not matter."""
    return f"{type}: {', '.join(sorted(memdevs))}"


# The tool's output -----------------------------------------------------------------


def parse_cxl(text: str) -> Fabric:
    """Output of ``cxl list -MDRTHi``, with more or fewer letters, of version 76 and later."""
    nodes = list(_nodes(listing(text)))
    types = {
        each["region"]: each["mode"]
        for each in nodes
        if each.get("mode") in TYPES and isinstance(each.get("region"), str)
    }
    memdevs = {str(each["memdev"]): _memdev(each) for each in nodes if _is(each, "memdev", "host")}
    decoders = [_decoder(each) for each in nodes if _is(each, "decoder", "max_available_extent")]
    regions = [_region(each, types) for each in nodes if _is(each, "region", "decode_state")]
    return Fabric(tuple(memdevs[name] for name in sorted(memdevs)), tuple(decoders), tuple(regions))


def _nodes(document: Any) -> Iterator[Node]:
    """All objects of the document, however they are nested."""
    if isinstance(document, list):
        for each in document:
            yield from _nodes(each)
    elif isinstance(document, dict):
        yield document
        for value in document.values():
            if isinstance(value, (list, dict)):
                yield from _nodes(value)


def _is(node: Node, name: str, field: str) -> bool:
    """Return whether a node is of the class whose name field is ``name``."""
    return isinstance(node.get(name), str) and field in node


#: Fields of ``health`` that say of a device that it loses data, or will.
_LOSS = re.compile(r"hw_replacement_needed|media_not_ready|media_\w*(lost|loss|loss_imminent)")


def _memdev(node: Node) -> Memdev:
    name, health = str(node["memdev"]), node.get("health")
    faults = [key for key, value in health.items() if value is True and _LOSS.fullmatch(key)] if (
        isinstance(health, dict)
    ) else []  # fmt: skip
    disabled = node.get("state") == "disabled"
    return Memdev(
        name=name,
        host=word(node, "host") or name,
        serial=count(node, "serial", below=1 << 64),
        ram_bytes=count(node, "ram_size"),
        pmem_bytes=count(node, "pmem_size"),
        faults=(*faults, *["it is disabled: its driver has no port for it"] * disabled),
    )


def _decoder(node: Node) -> RootDecoder:
    targets = [
        name
        for each in objects(node, "targets")
        for key in ("target", "alias")
        if (name := word(each, key))
    ]
    flags = {"ram": "volatile_capable", "pmem": "pmem_capable"}
    return RootDecoder(
        str(node["decoder"]),
        count(node, "max_available_extent"),
        frozenset(targets),
        frozenset(type for type in TYPES if node.get(flags[type]) is True),
    )


def _region(node: Node, types: dict[str, str]) -> CxlRegion:
    """76.1 states no type of a region: its endpoints' decoders do."""
    mappings = sorted(objects(node, "mappings"), key=lambda each: count(each, "position"))
    name = str(node["region"])
    type = word(node, "type")
    return CxlRegion(
        name,
        type if type in TYPES else types.get(name),
        count(node, "size"),
        count(node, "interleave_ways", 1),
        count(node, "interleave_granularity"),
        tuple(word(each, "memdev") or "" for each in mappings),
        start=count(node, "resource", below=1 << 64),
    )


# The kernel's view -----------------------------------------------------------------


def read_fabric(parsed: Fabric, commands: Commands, kernel: Kernel) -> Fabric:
    """``parsed`` with what sysfs has of it, and the tool's version."""
    version = re.match(r"\d+", commands.run(["cxl", "version"]).out)
    return Fabric(
        tuple(replace(each, bridge=_bridge(each.name, kernel)) for each in parsed.memdevs),
        tuple(
            replace(each, kernel_types=_kernel_types(each.name, kernel)) for each in parsed.decoders
        ),
        tuple(_with_kernel(each, kernel) for each in parsed.regions),
        int(version.group()) if version else None,
    )


def _bridge(name: str, kernel: Kernel) -> str | None:
    match = re.search(r"/(pci[0-9a-f]+:[0-9a-f]+)/", str(kernel.path(f"{CXL}/{name}").resolve()))
    return match[1] if match else None


def _kernel_types(decoder: str, kernel: Kernel) -> frozenset[str]:
    """Linux 6.0 has ``create_pmem_region``, 6.3 ``create_ram_region`` too."""
    there = kernel.names(f"{CXL}/{decoder}")
    return frozenset(type for type in TYPES if f"create_{type}_region" in there)


def _with_kernel(region: CxlRegion, kernel: Kernel) -> CxlRegion:
    folder = kernel.path(f"{CXL}/{region.name}")
    size = kernel.read(folder / "size") or ""
    return replace(
        region,
        size_bytes=int(size, 16) if re.fullmatch(r"0x[0-9a-f]+", size) else region.size_bytes,
        uuid=kernel.read(folder / "uuid") or None,
        active=kernel.read(folder / "commit") == "1" and (folder / "driver").exists(),
    )


def region_of_device(device: str, kernel: Kernel) -> str | None:
    """The volatile CXL region below which sysfs has a DAX device."""
    tree = str(kernel.path(f"/sys/bus/dax/devices/{device}").resolve())
    match = re.search(r"/(region\d+)/dax_region\d+/", tree)
    return match[1] if match else None
