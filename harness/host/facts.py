"""Host facts as in every manifest (harness.store.host)."""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Iterable
from typing import Any

from harness.host import processors
from harness.host.dimms import dimms, memory_devices, memory_speed, power_budget
from harness.host.memory_mode import host_mode
from harness.tiers.linux.kernel import LIVE, Kernel
from harness.tiers.linux.model import Tier
from harness.tiers.linux.numa import nodes
from harness.tiers.linux.persistence import domain_of_region
from harness.tiers.linux.pmem import regions

_CPU = ("model", "sockets", "cores", "threads", "flags", "microcode", "online")
_NODE = ("node", "memory_bytes", "cpus", "distances", "backing")


def host_facts(tiers: Iterable[Tier] = (), kernel: Kernel = LIVE) -> dict[str, Any]:
    """Return all facts; ``notes`` lists what could not be read and why. Sizes in bytes.

    Of the kernel's command line, arguments after the double dash are dropped: they are init's and
    may be private.
    """
    mode = host_mode(kernel)
    memory = kernel.meminfo()
    return {
        "host_id": _host_id(kernel),
        "hostname": kernel.read("/proc/sys/kernel/hostname") or socket.gethostname(),
        "mode": mode.mode,
        "mode_evidence": mode.evidence,
        "cpu": _fields(processors.cpu(kernel), *_CPU),
        "kernel": {
            "release": kernel.read("/proc/sys/kernel/osrelease") or "",
            "cmdline": (kernel.read("/proc/cmdline") or "").partition(" -- ")[0],
        },
        "memory_bytes": memory.get("MemTotal", 0),
        "numa_nodes": [_fields(node, *_NODE) for node in nodes(kernel)],
        "governor": processors.governor(kernel),
        "turbo": processors.turbo(kernel),
        "smt": processors.smt(kernel),
        "thp": processors.thp(kernel),
        "aslr": processors.aslr(kernel),
        "prefetchers": processors.prefetchers(kernel),
        "memory_speed": memory_speed(memory_devices(kernel)),
        "uncore_frequency": processors.uncore_frequency(kernel),
        "dimm_power_budget": power_budget(kernel),
        "swap_bytes": memory.get("SwapTotal", 0),
        "dimms": dimms(kernel),
        "persistence_domains": {
            region.name: domain_of_region(region, kernel).ends for region in regions(kernel)
        },
        "mounts": [_mount(tier) for tier in tiers if tier.facts.mount_point],
        "virtualised": processors.virtualised(kernel),
        "mitigations": processors.mitigations(kernel),
        "notes": _notes(kernel),
    }


def _host_id(kernel: Kernel) -> str:
    """Hash of the machine id, which identifies a host without revealing the id."""
    identity = kernel.read("/etc/machine-id") or f"hostname {socket.gethostname()}"
    return hashlib.sha256(f"tierbench {identity}".encode()).hexdigest()[:16]


def _fields(value: Any, *names: str) -> dict[str, Any]:
    result = {name: getattr(value, name) for name in names}
    return {n: list(each) if isinstance(each, tuple) else each for n, each in result.items()}


def _mount(tier: Tier) -> dict[str, Any]:
    facts = tier.facts
    return {
        "tier": tier.name,
        "point": facts.mount_point,
        "device": facts.device,
        "filesystem": facts.filesystem,
        "options": list(facts.mount_options),
        "dax": facts.dax,
    }


def _notes(kernel: Kernel) -> list[str]:
    notes = []
    table = kernel.path("/sys/firmware/dmi/tables/DMI")
    if not table.exists():
        notes.append("the firmware has no SMBIOS table: no inventory of DRAM modules")
    elif not os.access(table, os.R_OK):
        notes.append("only root may read the SMBIOS table: no inventory of DRAM modules")
    if processors.prefetchers(kernel) == processors.UNREADABLE:
        notes.append(
            "the state of the hardware prefetchers is unreadable: that needs root, the module msr "
            "(modprobe msr) and bare metal"
        )
    if processors.governor(kernel) is None:
        notes.append("no cpufreq driver: clock frequencies are not visible")
    return notes
