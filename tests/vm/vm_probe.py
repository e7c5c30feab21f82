"""Our sources in the test machine, and the probes run there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vm_cache import REPOSITORY
from vm_machine import Vm

#: What of the harness runs inside the machine: standard library only.
_SOURCES = ("__init__.py", "errors.py", "units.py", "placement.py", "tiers", "host")


def copy_sources(machine: Vm) -> None:
    """Bring harness and guest scripts to /opt/harness."""
    sources = [REPOSITORY / "harness" / name for name in _SOURCES]
    machine.copy([*sources, *Path(__file__).parent.glob("guest_*")], "/opt/harness")


def probe(machine: Vm, **asked: Any) -> dict[str, Any]:
    """Run the probe in the machine (see guest_probe.py)."""
    text = machine.run(f"python3 /opt/harness/tests/vm/guest_probe.py '{json.dumps(asked)}'")
    answer: dict[str, Any] = json.loads(text)
    return answer


def state(machine: Vm) -> dict[str, Any]:
    """What playbooks change, as the machine's own tools tell it (see guest_state.py)."""
    found: dict[str, Any] = json.loads(machine.run("python3 /opt/harness/tests/vm/guest_state.py"))
    return found


def modes(found: Mapping[str, Any]) -> dict[str, str]:
    """Each namespace's mode, of a state."""
    return {one["dev"]: one["mode"] for one in found["namespaces"]}


def checksum(machine: Vm, device: str, size_bytes: int = 1 << 20) -> str:
    """Of the beginning of a device or file."""
    return machine.run(f"head -c {size_bytes} {device} | sha256sum").split()[0]
