"""Model of a tier: a name, a kind, a place, and the facts the kernel gives about it.

Standard library only: the same code runs inside the test VM and on servers where
nothing is installed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Literal

#: A ``modelled`` tier is a directory, too; its facts have the kind of the tier below it.
TierKind = Literal["block", "fsdax", "fs-nodax", "sector", "tmpfs", "devdax", "numa", "modelled"]
Policy = Literal["bind", "preferred", "interleave", "weighted", "tiered"]
#: Use that a host makes of its persistent memory modules (harness.host.memory_mode).
MemoryMode = Literal["Default", "AppDirect", "Memory", "Mixed", "unknown"]
#: Kinds that are a directory on a mounted file system.
DIRECTORY_KINDS: frozenset[TierKind] = frozenset({"block", "fsdax", "fs-nodax", "sector", "tmpfs"})
#: The name of a tier: small letters, digits and underscores.
TIER_NAME = re.compile(r"^[a-z][a-z0-9_]*$")


@dataclass(frozen=True)
class TierClaim:
    """A tier as the host file (or discovery) states it; nothing here is believed yet."""

    name: str
    kind: TierKind
    path: str | None = None  # directory kinds
    device: str | None = None  # devdax
    nodes: tuple[int, ...] = ()  # numa: one, or several to spread over
    policy: Policy | None = None  # numa
    #: Of a weighted policy, one for each node; empty: the kernel's.
    weights: tuple[int, ...] = ()
    price_per_gb: float | None = None  # USD per 10⁹ bytes
    #: Set by ``--emulate pmem``: this tier stands in for what it is not.
    emulates: str | None = None
    #: Of a modelled tier: the name of the device's model; ``path`` is on the faster tier below.
    model: str | None = None
    source: str = "discovered"  # or the host file and line

    @property
    def place(self) -> str:
        """Its path, device or nodes, in words."""
        nodes = f"node {', '.join(map(str, self.nodes))}" if self.nodes else "no place"
        return self.path or self.device or nodes


@dataclass(frozen=True)
class TierFacts:
    """Facts from the kernel. None: does not apply or could not be read (see ``notes``)."""

    kind: TierKind
    mount_point: str | None = None
    #: ``major:minor`` of the file system: directories that share it share its space.
    filesystem_id: str | None = None
    mount_options: tuple[str, ...] = ()
    filesystem: str | None = None
    block_size_bytes: int | None = None
    size_bytes: int | None = None
    free_bytes: int | None = None
    read_only: bool = False
    dax: bool | None = None  # statx STATX_ATTR_DAX of a file made there
    device: str | None = None  # what is mounted: /dev/pmem0, /dev/nvme0n1p1, /dev/md0, /dev/dax1.0
    #: The disks below it, through partitions, device mapper and md.
    disks: tuple[str, ...] = ()
    device_model: str | None = None
    rotational: bool | None = None
    journal: bool | None = None  # of the file system, which notes there what changes of an inode
    readahead_bytes: int | None = None  # of sequential reads through the page cache
    namespace: str | None = None  # namespace0.0
    namespace_mode: str | None = None  # fsdax, sector, raw, devdax as sysfs has it
    namespace_alignment_bytes: int | None = None
    region: str | None = None
    interleave_ways: int | None = None
    #: cpu_cache (eADR), memory_controller (ADR), cxl_device (GPF), cxl_switch (without GPF), none,
    #: unknown; and what says so.
    persistence_domain: str | None = None
    persistence_source: str | None = None
    numa_node: int | None = None
    memory_kind: str | None = None  # of memory nodes: dram, cxl, pmem, hbm, unknown; or several
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        sizes = (self.block_size_bytes, self.size_bytes, self.free_bytes, self.interleave_ways)
        if any(size is not None and size < 0 for size in sizes):
            raise ValueError("a size is negative")


@dataclass(frozen=True)
class ModelName:
    """The model of a modelled tier's device; ``digest``: of its figures."""

    name: str
    digest: str


@dataclass(frozen=True, kw_only=True)
class TierRecord:
    """A tier as stored in a run's manifest."""

    name: str
    kind: str
    model: ModelName | None = None
    emulates: str | None
    path: str | None
    device: str | None
    node: int | None
    nodes: tuple[int, ...] = ()
    policy: Policy | None = None
    weights: tuple[int, ...] = ()
    price_per_gb: float | None = None
    source: str = ""
    facts: TierFacts
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tier:
    """A claim and the facts that agree with it."""

    claim: TierClaim
    facts: TierFacts
    warnings: tuple[str, ...] = field(default=())
    #: The device that file operations wait for as if it were there: a harness.models.device
    #: DeviceModel, which is not of the standard library alone.
    model: Any | None = field(default=None, compare=False)

    @property
    def name(self) -> str:
        return self.claim.name

    @property
    def emulated(self) -> bool:
        """Return whether it stands in for a kind it is not."""
        return self.claim.emulates is not None

    @property
    def stand_in(self) -> str:
        """Return what an emulated one is in truth: ``tmpfs at /dev/shm/pmem``."""
        return f"{self.facts.kind} at {self.claim.path}"

    @property
    def record(self) -> TierRecord:
        """As stored in a run's manifest."""
        claim, model = self.claim, self.model
        stated = {
            **vars(claim),
            "kind": claim.kind if model else self.facts.kind,
            "model": ModelName(model.name, model.digest) if model else None,
            "node": claim.nodes[0] if claim.nodes else None,
        }
        return TierRecord(**stated, facts=self.facts, warnings=self.warnings)
