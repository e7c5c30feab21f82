"""The native programs: where they are, and what is missing where they are not.

They are compiled when the package is installed and lie in ``harness/_native``. A machine
without the headers that one of them needs still gets the harness, without that program;
``loadgen.json`` and ``microbench.json`` next to them list the packages that each part is
built with.
``HARNESS_NATIVE`` names a directory to look in first: a build of one's own.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import harness
from harness import jsonfile
from harness.engine import Credentials
from harness.errors import UsageError
from harness.supervise.user_files import copy_file, make_directory
from harness.tiers.verify import may_enter, may_read

#: What the harness and loadgen expect of each other. To be raised with any change that one
#: built before it would misunderstand (CMake reads it here).
LOADGEN_INTERFACE = 7
#: Likewise of microbench.
MICROBENCH_INTERFACE = 12


def native_folders() -> list[Path]:
    """Folders in which native programs are looked for, in this order."""
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
        _check_interface(program, LOADGEN_INTERFACE, "drive the load with the native client")
        return program
    packages = _packages()
    missing = [
        p for part in ("loadgen", backend) if not _built(part) for p in packages.get(part, ())
    ]
    what = f"its back end {backend!r}" if program else "loadgen"
    problem = f"drive the load with the native client (back end {backend})"
    raise _not_built(problem, what, missing or ["gcc", "make"])


def microbench_program() -> Path:
    """The microbenchmark; UsageError where it was not built, or for another harness."""
    problem = "measure a device itself"
    program = find_native("microbench")
    if program is None:
        packages = _packages("microbench").get("microbench", [])
        raise _not_built(problem, "microbench", ["gcc", *packages])
    _check_interface(program, MICROBENCH_INTERFACE, problem)
    return program


def index_library(name: str) -> Path:
    """One of our indexes as a library; UsageError where there is none of this name."""
    library = find_native(f"index_{name}.so")
    if library is None:
        raise UsageError(
            f"measure the index {name} as a library",
            "there is no such library",
            "choose level_hash, fast_fair or woart as their papers have them, level_hash "
            "optimized, or fast_fair unaware, on x86-64",
        )
    return library


def microbench_interface() -> int | None:
    """Return the interface version of the microbenchmark that was built here; None without one."""
    program = find_native("microbench")
    return _manifest(program.parent, program.name).get("interface") if program else None


def microbench_for(user: Credentials | None, scratch: Path) -> Path:
    """The microbenchmark where ``user`` can execute it: a copy in ``scratch`` if need be."""
    return _where_open(microbench_program(), user=user, scratch=scratch)


def _not_built(problem: str, what: str, packages: Sequence[str]) -> UsageError:
    return UsageError(
        problem,
        f"{what} was not built when the harness was installed",
        f"install what it is built with (Debian: sudo apt install {' '.join(packages)}), "
        "then the harness again (make setup)",
    )


def _check_interface(program: Path, expected: int, problem: str) -> None:
    built = _manifest(program.parent, program.name).get("interface")
    if built != expected:
        raise UsageError(
            problem,
            f"{program} was built for another harness (interface {built}, this one has {expected})",
            "install the harness again (make setup)",
        )


def _packages(program: str = "loadgen") -> dict[str, list[str]]:
    """Debian's packages by part: the program itself, and each back end of loadgen."""
    for folder in native_folders():
        if manifest := _manifest(folder, program):
            packages: dict[str, list[str]] = manifest.get("packages", {})
            return packages
    return {}


def _manifest(folder: Path, program: str) -> dict[str, Any]:
    path = folder / f"{program}.json"
    document: dict[str, Any] = {}
    if path.is_file():
        document = jsonfile.read(path)
    return document


def _built(part: str) -> bool:
    return find_native(part if part == "loadgen" else _module(part)) is not None


def loadgen_for(backend: str, user: Credentials | None, scratch: Path) -> Path:
    """The native client where ``user`` can execute it: a copy in ``scratch`` if need be.

    An installation below a closed home directory (/root) cannot be entered by the
    unprivileged user that clients run as.
    """
    module = find_native(_module(backend))
    assert module is not None
    return _where_open(loadgen_program(backend), module, user=user, scratch=scratch)


def _where_open(program: Path, *modules: Path, user: Credentials | None, scratch: Path) -> Path:
    """The program where ``user`` may execute it: copied with its modules if need be."""
    if user is None or (
        open_to(program, user) and all(readable_to(module, user) for module in modules)
    ):
        return program
    folder = scratch / "native"
    with suppress(FileExistsError):
        make_directory(folder, user, 0o755)
    for path in (program, *modules):
        with suppress(FileExistsError):  # copied for an earlier client of this run
            copy_file(path, folder / path.name, user, 0o755)
    return folder / program.name


def _module(backend: str) -> str:
    return f"loadgen_{backend}.so"


def open_to(path: Path, user: Credentials) -> bool:
    """Return whether ``user`` may enter all directories on the way to our file, and execute it."""
    resolved = path.resolve()
    return all(may_enter(place, user) for place in (resolved, *resolved.parents))


def readable_to(path: Path, user: Credentials) -> bool:
    """Return whether ``user`` may enter all directories on the way to our file, and read it."""
    resolved = path.resolve()
    return may_read(resolved, user) and all(may_enter(place, user) for place in resolved.parents)
