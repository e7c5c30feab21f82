"""What a host can be set up as, and the playbook of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from harness.errors import UsageError, nearest

Action = Literal["plan", "apply", "verify", "restore"]


@dataclass(frozen=True)
class Mode:
    """``restored_by``: the playbook and variables that put things back; None: nothing to put."""

    name: str
    help: str
    playbook: str
    restored_by: str | None = "teardown.yml"
    restored_with: Mapping[str, Any] = field(default_factory=dict)


_MODES = (
    Mode("appdirect", "persistent memory as file systems with DAX (fsdax)", "setup-appdirect.yml"),
    Mode("sector", "persistent memory as a disk whose sectors do not tear", "setup-sector.yml"),
    Mode("devdax", "persistent memory as character devices", "setup-devdax.yml"),
    Mode("memory-mode", "Optane as main memory behind DRAM", "setup-memory-mode.yml"),
    Mode("system-ram", "persistent or CXL memory as a NUMA node", "setup-system-ram.yml"),
    Mode("emulated", "DRAM that the kernel shows as persistent memory", "setup-emulated.yml"),
    Mode(
        "tune",
        "clocks, huge pages, NUMA balancing held still",
        "tune-host.yml",
        "tune-host.yml",
        {"tune_host_restore": True},
    ),
    Mode("engines", "pinned engines and tools", "install-engines.yml", None),
)
#: By name, in the order they are told.
MODES: Mapping[str, Mode] = {mode.name: mode for mode in _MODES}


def find_mode(name: str) -> Mode:
    """UsageError with the nearest name for one that is not there."""
    if name in MODES:
        return MODES[name]
    raise UsageError(
        f"mode {name!r}",
        f"no such mode{nearest(name, list(MODES))}",
        f"known are {', '.join(MODES)}",
    )


def asked_of(mode: Mode, action: Action) -> tuple[str, dict[str, Any]]:
    """The playbook and the variables of an action; UsageError where there is none."""
    if action != "restore":
        verify = {"provisioning_verify_only": True} if action == "verify" else {}
        return mode.playbook, verify
    if mode.restored_by is None:
        raise UsageError(
            f"restore {mode.name}",
            "what it installs stays in directories of its own",
            "remove the engines prefix (harness doctor names it) to be without it",
        )
    return mode.restored_by, dict(mode.restored_with)
