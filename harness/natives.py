"""The native programs: where they are, and what is missing where they are not.

They are compiled when the package is installed and lie in ``harness/_native``. A machine
without the headers that one of them needs still gets the harness, without that program.
``HARNESS_NATIVE`` names a directory to look in first: a build of one's own.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import harness
from harness.engine import Credentials
from harness.errors import UsageError
from harness.tiers.verify import may_enter

#: Debian's packages with what a back end of loadgen is compiled with, by its name.
BACKEND_PACKAGES = {"postgres": "libpq-dev", "innodb": "libmariadb-dev"}
_LOADGEN_PACKAGES = "libjansson-dev zlib1g-dev"


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
    return [name for name in BACKEND_PACKAGES if find_native(_module(name))]


def missing_packages() -> list[str]:
    """Debian's packages without which a part of the native client was not built here."""
    missing = [] if find_native("loadgen") else _LOADGEN_PACKAGES.split()
    lacking = (name for name in BACKEND_PACKAGES if not find_native(_module(name)))
    return missing + [BACKEND_PACKAGES[name] for name in lacking]


def loadgen_program(backend: str) -> Path:
    """The native client; UsageError where it or its back end was not built."""
    program = find_native("loadgen")
    missing = [] if program else _LOADGEN_PACKAGES.split()
    if not find_native(_module(backend)) and backend in BACKEND_PACKAGES:
        missing.append(BACKEND_PACKAGES[backend])
    if program and not missing and find_native(_module(backend)):
        return program
    what = f"its back end {backend!r}" if program else "loadgen"
    raise UsageError(
        f"drive the load with the native client (back end {backend})",
        f"{what} was not built when the harness was installed",
        f"install its headers (Debian: sudo apt install {' '.join(missing) or 'gcc make'}), "
        "then install the harness again: make setup, or pip install",
    )


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
