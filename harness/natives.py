"""The native programs: where they are, and what is missing where they are not.

They are compiled when the package is installed and lie in ``harness/_native``. A machine
without the headers that one of them needs still gets the harness, without that program;
``loadgen.json`` beside them tells the packages that each part of the client is built with.
``HARNESS_NATIVE`` names a directory to look in first: a build of one's own.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import harness
from harness.engine import Credentials
from harness.errors import UsageError
from harness.tiers.verify import may_enter

#: What the harness and loadgen expect of each other. To be raised with any change that one
#: built before it would misunderstand (CMake reads it here).
LOADGEN_INTERFACE = 5
#: Likewise of microbench.
MICROBENCH_INTERFACE = 2


def native_folders() -> list[Path]:
    """Where native programs are looked for, in this order."""
    given = os.environ.get("HARNESS_NATIVE")
    installed = [Path(place) / "_native" for place in harness.__path__]
    return [*([Path(given).absolute()] if given else []), *installed]


def find_native(name: str) -> Path | None:
    """A program or module by its file name; None where it was not built."""
    return next((path for folder in native_folders() if (path := folder / name).is_file()), None)


def loadgen_backends() -> list[str]:
    """The engines' back ends of the native client that were built here."""
    if find_native("loadgen") is None:
        return []
    return [name for name in sorted(_packages()) if find_native(_module(name))]


def missing_packages() -> list[str]:
    """Debian's packages without which a part of the native client was not built here."""
    lacking = (packages for part, packages in _packages().items() if not _built(part))
    return [package for packages in lacking for package in packages]


def loadgen_program(backend: str) -> Path:
    """The native client; UsageError where it or its back end was not built."""
    program = find_native("loadgen")
    if program and find_native(_module(backend)):
        _check_interface(program)
        return program
    known = _packages()
    missing = [p for part in ("loadgen", backend) if not _built(part) for p in known.get(part, ())]
    what = f"its back end {backend!r}" if program else "loadgen"
    raise UsageError(
        f"drive the load with the native client (back end {backend})",
        f"{what} was not built when the harness was installed",
        f"install what it is built with (Debian: sudo apt install "
        f"{' '.join(missing) or 'gcc make'}), then the harness again (make setup)",
    )


def _check_interface(program: Path) -> None:
    built = _manifest(program.parent).get("interface")
    if built != LOADGEN_INTERFACE:
        raise UsageError(
            "drive the load with the native client",
            f"{program} was built for another harness (interface {built}, "
            f"this one has {LOADGEN_INTERFACE})",
            "install the harness again (make setup)",
        )


def _packages() -> dict[str, list[str]]:
    """Debian's packages by part: ``loadgen`` itself, and each back end."""
    for folder in native_folders():
        if found := _manifest(folder):
            packages: dict[str, list[str]] = found.get("packages", {})
            return packages
    return {}


def _manifest(folder: Path) -> dict[str, Any]:
    path = folder / "loadgen.json"
    document: dict[str, Any] = {}
    if path.is_file():
        document = json.loads(path.read_text(encoding="utf-8"))
    return document


def _built(part: str) -> bool:
    return find_native(part if part == "loadgen" else _module(part)) is not None


def loadgen_for(backend: str, user: Credentials | None, scratch: Path) -> Path:
    """The native client where ``user`` can execute it: a copy in ``scratch`` if need be.

    An installation below a closed home directory (/root) cannot be entered by the
    unprivileged user that clients run as.
    """
    program = loadgen_program(backend)
    module = find_native(_module(backend))
    assert module is not None
    if user is None or all(_open_to(path, user) for path in (program, module)):
        return program
    folder = scratch / "native"
    folder.mkdir(mode=0o755, exist_ok=True)
    folder.chmod(0o755)
    for path in (program, module):
        if not (folder / path.name).exists():
            shutil.copy(path, folder)
            (folder / path.name).chmod(0o755)
    return folder / program.name


def _module(backend: str) -> str:
    return f"loadgen_{backend}.so"


def _open_to(path: Path, user: Credentials) -> bool:
    resolved = path.resolve()
    return all(may_enter(place, user) for place in (resolved, *resolved.parents))
