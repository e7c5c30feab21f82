"""What ndctl and daxctl print, as data: regions, namespaces, DAX devices.

``ndctl list`` prints nothing where there is nothing, a bare array for objects of one class, an
object of arrays for several; ``daxctl list`` a bare object for a single device.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

#: A namespace of ours carries this name in its label, a file system of ours as its label (xfs
#: takes 12 characters).
OUR_NAME = "tierbench"
_NO_UUID = "00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True)
class Region:
    """An interleave set. ``labelled``: its modules' label areas say what namespaces there are.

    ``align_bytes``: sizes of namespaces are multiples of it. ``provider`` of its bus:
    ``ACPI.NFIT``, or ``e820`` for DRAM set aside by ``memmap=`` (and NVDIMMs of before ACPI 6).
    ``start``: its first physical address.
    """

    name: str
    size_bytes: int
    align_bytes: int
    available_bytes: int
    extent_bytes: int
    type: str
    dimms: tuple[str, ...]
    labelled: bool
    persistence_domain: str | None = None
    target_node: int | None = None
    provider: str | None = None
    start: int | None = None

    @property
    def number(self) -> int:
        """region3 → 3."""
        return int(re.sub(r"\D", "", self.name) or 0)


@dataclass(frozen=True)
class Namespace:
    """A namespace that has capacity, or had: ``enabled`` False leaves its content unseen.

    ``size_bytes``: usable; ``raw_bytes``: of the region that it takes. ``label``: the name in its
    label. ``chardev_mode``: devdax or system-ram. ``block``: the node below /dev.
    """

    name: str
    region: str
    mode: str
    size_bytes: int
    raw_bytes: int
    uuid: str | None = None
    label: str | None = None
    block: str | None = None
    chardev: str | None = None
    chardev_mode: str | None = None
    map: str | None = None
    sector_size: int | None = None
    align_bytes: int | None = None
    target_node: int | None = None
    enabled: bool = True


@dataclass(frozen=True)
class DaxDevice:
    """A DAX device; ``online_blocks`` of ``total_blocks`` of memory are in use as system-ram.

    ``origin``: nvdimm, cxl or soft-reserved, by the kernel's tree of devices; None: not known.
    """

    name: str
    mode: str
    size_bytes: int
    target_node: int | None
    online_blocks: int = 0
    total_blocks: int = 0
    movable: bool | None = None
    origin: str | None = None


@dataclass(frozen=True)
class Inventory:
    """Output of ``ndctl list -DRNXiv``. ``dimms``: module to its id."""

    dimms: dict[str, str] = field(default_factory=dict)
    regions: tuple[Region, ...] = ()
    namespaces: tuple[Namespace, ...] = ()


def parse_ndctl(text: str) -> Inventory:
    """``ndctl list -DRNXiv`` (or with fewer letters) of version 72 and later.

    ValueError where it is no JSON. Seeds (namespaces without size and identity) are left out.
    """
    found: dict[str, list[dict[str, Any]]] = {"nmem": [], "region": [], "namespace": []}
    regions_of: dict[str, str] = {}
    _collect(json.loads(text) if text.strip() else [], None, found, regions_of)
    namespaces = [_namespace(each, regions_of) for each in found["namespace"]]
    return Inventory(
        {each["dev"]: str(each.get("id", "")) for each in found["nmem"]},
        tuple(sorted(map(_region, found["region"]), key=lambda region: region.number)),
        tuple(
            sorted(
                (n for n in namespaces if n.size_bytes or (n.uuid and not n.enabled)),
                key=lambda n: _numbers(n.name),
            )
        ),
    )


def _collect(
    node: Any, region: str | None, found: dict[str, list[dict[str, Any]]], of: dict[str, str]
) -> None:
    """Every object with a ``dev`` under ``node``, by class; ``of``: a namespace's region."""
    if isinstance(node, list):
        for each in node:
            _collect(each, region, found, of)
    elif isinstance(node, dict):
        kind = re.sub(r"[\d.]+$", "", str(node.get("dev", "")))
        if kind in found:
            found[kind].append(node)
        if kind == "namespace" and region:
            of[node["dev"]] = region
        inside = node["dev"] if kind == "region" else region
        for key in ("buses", "dimms", "regions", "namespaces"):
            _collect(node.get(key, []), inside, found, of)


def _numbers(name: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", name)]


def _region(node: dict[str, Any]) -> Region:
    return Region(
        name=node["dev"],
        size_bytes=int(node.get("size", 0)),
        align_bytes=int(node.get("align", 1)),
        available_bytes=int(node.get("available_size", 0)),
        extent_bytes=int(node.get("max_available_extent", node.get("available_size", 0))),
        type=str(node.get("type", "pmem")),
        dimms=tuple(str(mapping["dimm"]) for mapping in node.get("mappings", [])),
        labelled=bool(node.get("iset_id")),
        persistence_domain=node.get("persistence_domain"),
        target_node=node.get("target_node"),
    )


def _namespace(node: dict[str, Any], regions_of: dict[str, str]) -> Namespace:
    name = str(node["dev"])
    uuid = node.get("uuid")
    devices = node.get("daxregion", {}).get("devices", [])
    device = devices[0] if devices else {}
    size = int(node.get("size", 0))
    return Namespace(
        name=name,
        # Without regions in the listing: namespaceX.Y lies in regionX.
        region=regions_of.get(name, f"region{_numbers(name)[0]}"),
        mode=str(node.get("mode", "raw")),
        size_bytes=size,
        raw_bytes=size,
        uuid=None if uuid in (None, _NO_UUID) else str(uuid),
        label=node.get("name") or None,
        block=node.get("blockdev"),
        chardev=node.get("chardev") or device.get("chardev"),
        chardev_mode=device.get("mode"),
        map=node.get("map"),
        sector_size=node.get("sector_size"),
        align_bytes=node.get("align"),
        target_node=node.get("target_node"),
        enabled=node.get("state") != "disabled",
    )


def parse_daxctl(text: str) -> tuple[DaxDevice, ...]:
    """``daxctl list -D``: an array, one object, or nothing at all."""
    nodes = json.loads(text) if text.strip() else []
    nodes = nodes if isinstance(nodes, list) else [nodes]
    return tuple(
        DaxDevice(
            name=str(node["chardev"]),
            mode=str(node.get("mode", "devdax")),
            size_bytes=int(node.get("size", 0)),
            target_node=node.get("target_node"),
            online_blocks=int(node.get("online_memblocks", 0)),
            total_blocks=int(node.get("total_memblocks", 0)),
            movable=node.get("movable"),
        )
        for node in nodes
        if "chardev" in node
    )
