"""Output of ndctl and daxctl, as data: regions, namespaces, DAX devices.

``ndctl list`` prints nothing where there is nothing, a bare array for objects of one class, an
object of arrays for several; ``daxctl list`` a bare object for a single device.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from .listing import count, listing, objects, word

#: A namespace of ours carries this name in its label, a file system of ours as its label (xfs
#: takes 12 characters).
OUR_NAME = "tierbench"
#: That Linux knows (``holder_class`` in sysfs); it shows any other as ``<unknown>``.
_CLAIM_CLASSES = ("", "btt", "pfn", "dax")
_NO_UUID = "00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True)
class Region:
    """An interleave set. ``labelled``: its modules' label areas say what namespaces there are.

    ``align_bytes``: sizes of namespaces are multiples of it. ``provider`` of its bus:
    ``ACPI.NFIT``, or ``e820`` for DRAM set aside by ``memmap=`` (and NVDIMMs of before ACPI 6).
    ``start``: its first physical address. ``faults``: why nothing may be made in it, in words.
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
    faults: tuple[str, ...] = ()

    @property
    def number(self) -> int:
        return int(re.sub(r"\D", "", self.name) or 0)


@dataclass(frozen=True)
class Namespace:
    """A namespace that has capacity, or had: ``enabled`` False leaves its content unseen.

    ``size_bytes``: usable; ``raw_bytes``: of the region that it takes. ``label``: the name in its
    label. ``chardev_mode``: devdax or system-ram. ``block``: the node below /dev. ``devices``: DAX
    devices that it is divided into, of which ``chardev`` is the first. ``claim_class``: for which
    driver its label is, by the kernel (btt, pfn, dax); empty for none.
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
    devices: tuple[str, ...] = ()
    bad_blocks: int = 0
    claim_class: str = ""

    @property
    def foreign_label(self) -> str:
        """Why its label is none that Linux can use, in words; empty for one that it can."""
        if self.claim_class not in _CLAIM_CLASSES:
            return f"its label has the claim class {self.claim_class!r}"
        return "" if self.size_bytes else "its label has the size 0"


@dataclass(frozen=True)
class DaxDevice:
    """A DAX device; ``online_blocks`` of ``total_blocks`` of memory are in use as system-ram.

    ``origin``: nvdimm, cxl or soft-reserved, by the kernel's tree of devices; None: not known.
    ``cxl_region``: the volatile CXL region that it is of.
    """

    name: str
    mode: str
    size_bytes: int
    target_node: int | None
    online_blocks: int = 0
    total_blocks: int = 0
    movable: bool | None = None
    origin: str | None = None
    cxl_region: str | None = None


@dataclass(frozen=True)
class Inventory:
    """Output of ``ndctl list -DRNXHiv``. ``dimms``: module to its id."""

    dimms: dict[str, str] = field(default_factory=dict)
    regions: tuple[Region, ...] = ()
    namespaces: tuple[Namespace, ...] = ()


def parse_ndctl(text: str) -> Inventory:
    """``ndctl list -DRNXHiv`` (or with fewer letters) of version 72 and later.

    ValueError where it is no such JSON. Seeds (namespaces without size and identity) are left out.
    """
    objects: dict[str, list[dict[str, Any]]] = {"nmem": [], "region": [], "namespace": []}
    regions_of: dict[str, str] = {}
    _collect(listing(text), None, objects, regions_of)
    namespaces = [_namespace(each, regions_of) for each in objects["namespace"]]
    modules = {each["dev"]: each for each in objects["nmem"]}
    regions = [_region(each, modules, namespaces) for each in objects["region"]]
    return Inventory(
        {name: word(each, "id") or "" for name, each in modules.items()},
        tuple(sorted(regions, key=lambda region: region.number)),
        tuple(
            sorted(
                (n for n in namespaces if n.size_bytes or (n.uuid and not n.enabled)),
                key=lambda n: _numbers(n.name),
            )
        ),
    )


def _collect(
    node: Any, region: str | None, objects: dict[str, list[dict[str, Any]]], of: dict[str, str]
) -> None:
    """Collect the objects with a ``dev`` under ``node``, by class; ``of``: a namespace's region."""
    if isinstance(node, list):
        for each in node:
            _collect(each, region, objects, of)
    elif isinstance(node, dict):
        name = str(node.get("dev", ""))
        named = re.fullmatch(r"(nmem|region|namespace)\d{1,9}(\.\d{1,9})?", name)
        kind = named[1] if named else ""
        if kind:
            objects[kind].append(node)
        if kind == "namespace" and region:
            of[name] = region
        inside = name if kind == "region" else region
        for key in ("buses", "dimms", "regions", "namespaces"):
            _collect(node.get(key, []), inside, objects, of)


def _numbers(name: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", name)]


def _node_of(node: dict[str, Any]) -> int | None:
    """The memory node; None where the kernel knows none, which is -1 in some releases."""
    number = node.get("target_node")
    return None if number == -1 or number is None else count(node, "target_node")


#: A module that has failed to keep data, or will; ndctl lists each flag that is set.
_FAILED = re.compile(r"flag_failed_\w+")
_BAD_HEALTH = ("critical", "fatal")


def _module_faults(module: dict[str, Any]) -> list[str]:
    name, health = module["dev"], module.get("health")
    state = health.get("health_state") if isinstance(health, dict) else None
    problems = [f"{name}: {key}" for key in module if _FAILED.fullmatch(key) and module[key]]
    problems += [f"{name} is locked"] * (module.get("security") == "locked")
    problems += [f"{name} is disabled"] * (module.get("state") == "disabled")
    return problems + [f"the health of {name} is {state}"] * (state in _BAD_HEALTH)


def _region(
    node: dict[str, Any], modules: dict[str, dict[str, Any]], namespaces: list[Namespace]
) -> Region:
    name, available = node["dev"], count(node, "available_size")
    dimms = tuple(word(mapping, "dimm") or "" for mapping in objects(node, "mappings"))
    faults = [fault for dimm in dimms if dimm in modules for fault in _module_faults(modules[dimm])]
    bad_blocks = max(
        count(node, "badblock_count"),
        sum(each.bad_blocks for each in namespaces if each.region == name),
    )
    faults += [f"it has {bad_blocks} bad blocks"] * bool(bad_blocks)
    faults += ["its size is 0"] * (count(node, "size") == 0)
    return Region(
        name=name,
        size_bytes=count(node, "size"),
        align_bytes=max(1, count(node, "align", 1)),
        available_bytes=available,
        extent_bytes=count(node, "max_available_extent", available),
        type=word(node, "type") or "pmem",
        dimms=dimms,
        labelled=bool(node.get("iset_id")),
        persistence_domain=word(node, "persistence_domain"),
        target_node=_node_of(node),
        faults=tuple(faults),
    )


def _namespace(node: dict[str, Any], regions_of: dict[str, str]) -> Namespace:
    name = str(node["dev"])
    uuid = word(node, "uuid")
    region = node.get("daxregion")
    devices = objects(region, "devices") if isinstance(region, dict) else []
    names = [chardev for each in devices if (chardev := word(each, "chardev"))]
    size = count(node, "size")
    return Namespace(
        name=name,
        # Without regions in the listing: namespaceX.Y lies in regionX.
        region=regions_of.get(name, f"region{_numbers(name)[0]}"),
        mode=word(node, "mode") or "raw",
        size_bytes=size,
        raw_bytes=size,
        uuid=None if uuid == _NO_UUID else uuid,
        label=word(node, "name"),
        block=word(node, "blockdev"),
        chardev=word(node, "chardev") or next(iter(names), None),
        chardev_mode=word(devices[0], "mode") if devices else None,
        map=word(node, "map"),
        sector_size=count(node, "sector_size") or None,
        align_bytes=count(node, "align") or None,
        target_node=_node_of(node),
        enabled=node.get("state") != "disabled",
        devices=tuple(names),
        bad_blocks=count(node, "badblock_count"),
    )


def parse_daxctl(text: str) -> tuple[DaxDevice, ...]:
    """``daxctl list -D``: an array, one object, or nothing at all; ValueError for others."""
    nodes = listing(text)
    nodes = nodes if isinstance(nodes, list) else [nodes]
    return tuple(
        DaxDevice(
            name=name,
            mode=word(node, "mode") or "devdax",
            size_bytes=count(node, "size"),
            target_node=_node_of(node),
            online_blocks=count(node, "online_memblocks"),
            total_blocks=count(node, "total_memblocks"),
            movable=movable if isinstance(movable := node.get("movable"), bool) else None,
        )
        for node in nodes
        if isinstance(node, dict) and (name := word(node, "chardev"))
    )
