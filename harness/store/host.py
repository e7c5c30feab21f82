"""Facts of a host as a run's manifest has them; harness.host.facts reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta

from harness.structs import Struct
from harness.tiers.linux.model import MemoryMode


class Processors(Struct, frozen=True):
    """All processors online; ``online`` as in sysfs (``0-63``). ``cores``: of all sockets."""

    model: str
    sockets: int
    cores: int
    threads: int
    flags: Annotated[
        tuple[str, ...],
        Meta(description="the flags that matter to persistence and vector kernels"),
    ]
    microcode: str | None
    online: str


class LinuxFacts(Struct, frozen=True):
    """Release and command line of Linux."""

    release: str
    cmdline: str


class NumaNode(Struct, frozen=True):
    """A NUMA node, as harness.tiers.linux.numa has it."""

    node: int
    memory_bytes: int
    cpus: str
    distances: tuple[int, ...]
    backing: str | None = None


class HostFacts(Struct, frozen=True):
    """What Linux and the firmware say of a host."""

    documented = "docs/results.md"

    host_id: Annotated[str, Meta(description="a hash of the machine id, never the id itself")]
    hostname: str
    mode: MemoryMode
    mode_evidence: Annotated[str, Meta(description="why the mode is believed to be that one")]
    cpu: Processors
    kernel: LinuxFacts
    memory_bytes: int
    numa_nodes: tuple[NumaNode, ...]
    governor: str | None
    turbo: bool | None
    smt: bool | None
    thp: str | None
    aslr: str | None
    prefetchers: Annotated[
        str,
        Meta(
            description="enabled; disabled; disabled: those that are; differ (between "
            "processors); unreadable"
        ),
    ]
    memory_speed: Annotated[
        str, Meta(description="of the memory bus as configured: 2666 MT/s; unreadable")
    ]
    uncore_frequency: Annotated[
        str, Meta(description="limits of Intel's uncore: 1200-2400 MHz; unreadable")
    ]
    dimm_power_budget: Annotated[
        str,
        Meta(
            description="limit on the mean power of Optane modules: 18000 mW; no modules; "
            "unreadable"
        ),
    ]
    swap_bytes: int
    dimms: tuple[Mapping[str, Any], ...]
    persistence_domains: Mapping[str, str]
    mounts: Annotated[
        tuple[Mapping[str, Any], ...],
        Meta(description="the mounts that tiers of this run stand on"),
    ]
    virtualised: str | None
    notes: Annotated[tuple[str, ...], Meta(description="what could not be read, and why")]
    mitigations: Annotated[
        Mapping[str, str],
        Meta(description="Linux's state of each vulnerability that affects the processors"),
    ] = {}
