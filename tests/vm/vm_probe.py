"""Our sources in the test machine, and the probe run there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from vm_image import REPOSITORY
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
