"""Our sources in the test machine, and the probes run there."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from vm_cache import REPOSITORY
from vm_image import image
from vm_machine import Vm, running_machine

_CHUNK = 1 << 20
#: What of the harness runs inside the machine: standard library only.
_SOURCES = (
    *("__init__.py", "errors.py", "jsonfile.py", "paths.py", "sequences.py", "units.py"),
    *("experiment/__init__.py", "experiment/placement.py", "supervise", "tiers", "host"),
)


@contextlib.contextmanager
def fresh_machine() -> Iterator[Vm]:
    """A machine with blank disks and our sources."""
    with running_machine(image()) as machine:
        copy_sources(machine)
        yield machine


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


def checksum(machine: Vm, path: str) -> str:
    """Of a file in the machine."""
    return machine.run(f"sha256sum {path}").split()[0]


def media(machine: Vm) -> list[str]:
    """A checksum of all that is on each NVDIMM, its labels included.

    Read on the machine's host, whose processor is not emulated. What is zero is skipped, its
    place is not: where the holes of a file begin and end is its file system's affair.
    """
    machine.run("sync")
    return [_checksum_of_contents(machine.nvdimm(number)) for number in (0, 1)]


def _checksum_of_contents(sparse: Path) -> str:
    digest = hashlib.sha256()
    with sparse.open("rb") as file:
        end = 0
        with contextlib.suppress(OSError):  # ENXIO: nothing behind it but a hole
            while True:
                begin = os.lseek(file.fileno(), end, os.SEEK_DATA) // _CHUNK * _CHUNK
                end = begin + _CHUNK
                chunk = os.pread(file.fileno(), _CHUNK, begin)
                if chunk.count(0) < len(chunk):
                    digest.update(f"{begin}\0".encode() + chunk)
    return digest.hexdigest()
