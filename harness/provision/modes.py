"""Modes that a host can be set up in, and their playbooks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from harness.errors import UsageError, nearest
from harness.store.spec import JsonObject

Action = Literal["plan", "apply", "verify", "restore"]


@dataclass(frozen=True)
class Mode:
    """``restored_by``, ``restored_with``: playbook and variables of restore; None: no restore."""

    name: str
    help: str
    playbook: str
    restored_by: str | None = "teardown.yml"
    restored_with: JsonObject = field(default_factory=dict)


_MODES = (
    Mode("appdirect", "persistent memory as file systems with DAX (fsdax)", "setup-appdirect.yml"),
    Mode("sector", "persistent memory as a disk with atomic sectors", "setup-sector.yml"),
    Mode("devdax", "persistent memory as character devices", "setup-devdax.yml"),
    Mode("memory-mode", "Optane as main memory with DRAM as cache", "setup-memory-mode.yml"),
    Mode("system-ram", "persistent or CXL memory as a NUMA node", "setup-system-ram.yml"),
    Mode("emulated", "DRAM that emulates persistent memory", "setup-emulated.yml"),
    Mode(
        "ramdisk",
        "a disk in memory, for models of disks",
        "setup-ramdisk.yml",
        "setup-ramdisk.yml",
        {"ramdisk_restore": True},
    ),
    Mode(
        "tune",
        "fixed clocks, huge pages and NUMA balancing",
        "tune-host.yml",
        "tune-host.yml",
        {"tune_host_restore": True},
    ),
    Mode("engines", "pinned engines and tools", "install-engines.yml", None),
)
#: By name, in the order they are listed.
MODES: Mapping[str, Mode] = {mode.name: mode for mode in _MODES}


def find_mode(name: str) -> Mode:
    """Return a mode; UsageError with the nearest name where there is none."""
    if name in MODES:
        return MODES[name]
    raise UsageError(
        f"mode {name!r}",
        f"no such mode{nearest(name, list(MODES))}",
        f"modes: {', '.join(MODES)}",
    )


def playbook_for(mode: Mode, action: Action) -> tuple[str, dict[str, Any]]:
    """Return the playbook and variables of an action; UsageError where there is none."""
    if action != "restore":
        verify = {"provisioning_verify_only": True} if action == "verify" else {}
        return mode.playbook, verify
    if mode.restored_by is None:
        raise UsageError(
            f"restore {mode.name}",
            "installed engines are not removed",
            "remove the engines prefix (see harness doctor)",
        )
    return mode.restored_by, dict(mode.restored_with)
