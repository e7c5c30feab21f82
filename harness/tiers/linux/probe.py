"""Probe of a place, as the kernel describes it: a directory, a DAX device, a memory node.

Nothing is written except a file without a name, to ask statx about it. The
decisive facts of a directory on persistent memory are the namespace's mode and
statx's DAX attribute: mount options do not count (xfs accepts ``dax=always`` on a
sector namespace and mounts without DAX).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from .block import Disk, Stack, btrfs_members, stack_of
from .cxl import cxl_regions, memory_devices, region_above
from .kernel import LIVE, Kernel
from .model import TierFacts
from .mounts import Mount, mount_of
from .numa import dax_origin, latency_note, nodes
from .persistence import (
    NOT_STATED,
    PersistenceDomain,
    domain_of_cxl_region,
    domain_of_region,
)
from .pmem import Namespace, is_memmap_dram, namespace_of

_MEMORY_FILESYSTEMS = frozenset({"tmpfs", "ramfs"})
_NETWORK_FILESYSTEMS = frozenset({"nfs", "nfs4", "cifs", "smb3", "ceph", "glusterfs", "lustre"})


def facts_of_directory(path: Path | str, kernel: Kernel = LIVE) -> TierFacts:
    """The facts of an existing directory; OSError where it cannot be reached."""
    directory = Path(path)
    if kernel is LIVE:
        directory = directory.resolve(strict=True)
    mount = mount_of(directory, kernel)
    space = kernel.space(directory)
    facts = TierFacts(
        kind="block",
        block_size_bytes=space.block_size_bytes,
        size_bytes=space.size_bytes,
        free_bytes=space.free_bytes,
    )
    if mount is None:
        return replace(facts, notes=("no line of /proc/self/mountinfo covers the path",))
    readahead_kib = kernel.read_int(f"/sys/class/bdi/{mount.device_number}/read_ahead_kb")
    facts = replace(
        facts,
        mount_point=mount.point,
        filesystem_id=mount.device_number,
        mount_options=mount.options,
        filesystem=mount.filesystem,
        read_only=mount.read_only,
        readahead_bytes=readahead_kib * 1024 if readahead_kib else None,
    )
    if mount.filesystem in _MEMORY_FILESYSTEMS:
        return _memory_facts(facts, kernel)
    answer = kernel.dax(directory)
    facts = replace(facts, dax=answer.dax, notes=(f"DAX: {answer.how}",))
    return _with_devices(facts, mount, kernel)


def _memory_facts(facts: TierFacts, kernel: Kernel) -> TierFacts:
    """Facts of a tmpfs: its limit is a promise, what is really free is the host's memory."""
    available = kernel.available_memory_bytes()
    free = facts.free_bytes
    if available is not None and free is not None:
        free = min(free, available)
    note = "its pages are the host's memory: free is capped by MemAvailable, and it can be swapped"
    return replace(facts, kind="tmpfs", free_bytes=free, notes=(note,))


def _with_devices(facts: TierFacts, mount: Mount, kernel: Kernel) -> TierFacts:
    stacks = stacks_of(mount, kernel)
    disks = {disk.name: disk for stack in stacks for disk in stack.disks}
    if not disks:
        return replace(facts, device=mount.source, notes=(*facts.notes, *_no_device_notes(mount)))
    through = dict.fromkeys(layer for stack in stacks for layer in stack.through)
    facts = replace(
        facts,
        device=f"/dev/{stacks[0].name}",
        disks=tuple(f"/dev/{name}" for name in disks),
        device_model=", ".join(dict.fromkeys(d.model for d in disks.values() if d.model)) or None,
        rotational=_any_true(disk.rotational for disk in disks.values()),
        journal=_journal(mount, kernel),
        numa_node=_common([disk.numa_node for disk in disks.values()]),
        notes=(*facts.notes, *(f"through {layer}" for layer in through)),
    )
    return _with_namespaces(facts, tuple(disks.values()), kernel)


def _journal(mount: Mount, kernel: Kernel) -> bool | None:
    if mount.filesystem == "xfs":
        return True
    device = kernel.path(f"/sys/dev/block/{mount.device_number}").resolve().name
    task = kernel.read(f"/sys/fs/ext4/{device}/journal_task")  # also of ext2 and ext3
    return None if task is None else task != "<none>"


def stacks_of(mount: Mount, kernel: Kernel) -> list[Stack]:
    """The mounted devices: one, or each member of a btrfs, or none."""
    number: str | None = mount.device_number
    if mount.device_number.startswith("0:"):  # anonymous: btrfs, or no block device at all
        source = mount.source
        number = kernel.device_number(source) if source.startswith("/dev/") else None
    first = stack_of(number, kernel) if number else None
    if first is None:
        return []
    if mount.filesystem != "btrfs":
        return [first]
    members = btrfs_members(first.name, kernel)
    others = [kernel.read(f"/sys/class/block/{name}/dev") for name in members if name != first.name]
    return [first, *(s for other in others if other and (s := stack_of(other, kernel)))]


def _no_device_notes(mount: Mount) -> list[str]:
    if mount.filesystem in _NETWORK_FILESYSTEMS:
        return [f"{mount.filesystem} is a network file system: the device is remote"]
    if mount.filesystem == "overlay":
        return ["an overlay: its device is unknown, and writes copy whole files up"]
    return [f"{mount.filesystem} has no block device: its storage is unknown"]


def _with_namespaces(facts: TierFacts, disks: Sequence[Disk], kernel: Kernel) -> TierFacts:
    """Add what the disks' pmem namespaces say and decide the kind."""
    result = [namespace_of(disk.sysfs, kernel) for disk in disks]
    pmem = [namespace for namespace in result if namespace is not None]
    if not pmem:
        return facts
    if len(pmem) < len(result):
        note = "only part of the file system is persistent memory: counted as block"
        return replace(facts, notes=(*facts.notes, note))
    modes = list(dict.fromkeys(namespace.mode for namespace in pmem))
    domain = _joined([domain_of_region(namespace.region, kernel) for namespace in pmem])
    regions = dict.fromkeys(namespace.region.name for namespace in pmem)
    return replace(
        facts,
        kind="sector" if "sector" in modes else "fsdax" if facts.dax else "fs-nodax",
        device_model=", ".join(dict.fromkeys(d for n in pmem for d in n.region.dimms)) or None,
        namespace=", ".join(namespace.name for namespace in pmem),
        namespace_mode=", ".join(modes),
        namespace_alignment_bytes=_common([namespace.alignment_bytes for namespace in pmem]),
        region=", ".join(regions),
        interleave_ways=_common([namespace.region.interleave_ways for namespace in pmem]),
        persistence_domain=domain.ends,
        persistence_source=domain.source,
        numa_node=_common([namespace.region.numa_node for namespace in pmem]),
        notes=(*facts.notes, *_pmem_notes(pmem, kernel)),
    )


def _joined(domains: Sequence[PersistenceDomain]) -> PersistenceDomain:
    """The domains of all namespaces as one: each end and each source once."""
    ends = dict.fromkeys(domain.ends for domain in domains)
    sources = dict.fromkeys(domain.source for domain in domains)
    return PersistenceDomain(", ".join(ends), "; ".join(sources))


def _pmem_notes(pmem: Sequence[Namespace], kernel: Kernel) -> list[str]:
    if any(is_memmap_dram(namespace.region, kernel) for namespace in pmem):
        return [MEMMAP_NOTE]
    return ["on CXL memory"] if any(namespace.region.is_cxl for namespace in pmem) else []


#: Such a tier is emulated: verification looks for this note.
MEMMAP_NOTE = "DRAM set aside by the kernel parameter memmap=, not persistent memory"


def facts_of_devdax(device: str, kernel: Kernel = LIVE) -> TierFacts:
    """The facts of a DAX character device (``/dev/dax1.0``); FileNotFoundError without one."""
    name = Path(device).name
    link = kernel.path(f"/sys/bus/dax/devices/{name}")
    if not link.exists():
        raise FileNotFoundError(f"no DAX device {name} in /sys/bus/dax/devices")
    sysfs = link.resolve()
    driver = (sysfs / "driver").resolve().name if (sysfs / "driver").exists() else "none"
    node = kernel.read_int(sysfs / "numa_node")
    facts = TierFacts(
        kind="devdax",
        device=f"/dev/{name}",
        size_bytes=kernel.read_int(sysfs / "size"),
        free_bytes=kernel.read_int(sysfs / "size"),
        dax=driver == "device_dax",
        numa_node=node if node is not None and node >= 0 else None,
        namespace_alignment_bytes=kernel.read_int(sysfs / "align"),
        notes=(f"driver {driver}",),
    )
    namespace = namespace_of(sysfs, kernel)
    if namespace is None:
        return _without_namespace(facts, sysfs, kernel)
    domain = domain_of_region(namespace.region, kernel)
    return replace(
        facts,
        device_model=", ".join(namespace.region.dimms) or None,
        namespace=namespace.name,
        namespace_mode=namespace.mode,
        region=namespace.region.name,
        interleave_ways=namespace.region.interleave_ways,
        persistence_domain=domain.ends,
        persistence_source=domain.source,
        numa_node=namespace.region.numa_node,
        notes=(*facts.notes, *_pmem_notes([namespace], kernel)),
    )


def _without_namespace(facts: TierFacts, sysfs: Path, kernel: Kernel) -> TierFacts:
    """Add what is known of a DAX device on no NVDIMM: its CXL region, or its origin."""
    name = region_above(sysfs, kernel)
    region = next((each for each in cxl_regions(kernel) if each.name == name), None)
    if region is None:
        origin = {"cxl": "on CXL memory", "soft-reserved": "special-purpose memory"}
        note = origin.get(dax_origin(sysfs.name, kernel) or "", "of unknown origin")
        domain = NOT_STATED
        return replace(
            facts,
            persistence_domain=domain.ends,
            persistence_source=domain.source,
            notes=(*facts.notes, note),
        )
    serials = {device.name: device.serial for device in memory_devices(kernel)}
    domain = domain_of_cxl_region(region, kernel)
    return replace(
        facts,
        device_model=", ".join(f"{each} ({serials.get(each)})" for each in region.devices) or None,
        region=region.name,
        interleave_ways=region.interleave_ways,
        persistence_domain=domain.ends,
        persistence_source=domain.source,
        notes=(*facts.notes, f"on CXL memory, {region.mode or 'of unknown mode'}"),
    )


def facts_of_numa(node: int, kernel: Kernel = LIVE) -> TierFacts:
    """The facts of a memory node; LookupError where the kernel has no such node online."""
    result = next((each for each in nodes(kernel) if each.node == node), None)
    if result is None:
        raise LookupError(f"no NUMA node {node}")
    notes = [f"CPUs {result.cpus}" if result.cpus else "no CPUs: memory only"]
    if result.backing:
        notes.append(f"its memory is {result.backing}")
    if note := latency_note(node, kernel):
        notes.append(note)
    return TierFacts(
        kind="numa",
        size_bytes=result.memory_bytes,
        free_bytes=result.free_bytes,
        numa_node=node,
        memory_kind=result.kind,
        device_model=result.backing,
        notes=tuple(notes),
    )


def _any_true(values: Iterable[bool | None]) -> bool | None:
    states = [value for value in values if value is not None]
    return any(states) if states else None


def _common(values: Sequence[int | None]) -> int | None:
    """The value that all share, None where they differ."""
    return values[0] if values and all(value == values[0] for value in values) else None
