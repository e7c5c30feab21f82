"""Engines and workloads by name: whatever folders there are, and no list to edit.

An engine is a folder with an ``engine.py`` in the package ``engines``, or in
a folder of ``$HARNESS_ENGINE_PATH`` (colon separated); a workload is a folder of
``harness.workloads``. Names that begin with ``_`` are shared parts, not entries.
"""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import engines as engine_folders
import harness.workloads
from harness.engine import EngineFactory
from harness.errors import UsageError, nearest
from harness.store.spec import NATIVE
from harness.workload import HasDrivers, Workload

Entry = TypeVar("Entry")


_OWN_ENGINES = tuple(engine_folders.__path__)


class BrokenEntry(UserWarning):
    """A folder that should hold an engine or a workload and cannot be imported."""


def engines() -> dict[str, EngineFactory]:
    """Every engine that can be imported, by name; a warning names each that cannot."""
    _look_in(os.environ.get("HARNESS_ENGINE_PATH", ""))
    return _load(engine_folders, "engine.py", "engine", "ENGINE")


def engine(name: str) -> EngineFactory:
    """The engine of that name; UsageError names the known ones and the nearest."""
    return _named("engine", name, engines())


def workloads() -> dict[str, Workload]:
    """Every workload that can be imported, by name."""
    return _load(harness.workloads, "__init__.py", None, "WORKLOAD")


def workload(name: str) -> Workload:
    """The workload of that name; UsageError names the known ones and the nearest."""
    return _named("workload", name, workloads())


def normalise(workload_name: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """``params`` of a workload with its defaults filled in and every value checked."""
    return workload(workload_name).normalise(params)


def drivers(workload_name: str) -> Mapping[str, str]:
    """What can offer the load of a workload, in a line each; the first unless one is named."""
    entry = workload(workload_name)
    return entry.drivers if isinstance(entry, HasDrivers) else {NATIVE: "the harness itself"}


def default_driver(workload_name: str) -> str:
    """The driver of a workload where none is named."""
    return next(iter(drivers(workload_name)))


def engine_names() -> list[str]:
    """What engines there should be, by their folders: nothing is imported, for help texts."""
    with suppress(UsageError):  # a wrong path is told where engines are wanted
        _look_in(os.environ.get("HARNESS_ENGINE_PATH", ""))
    return sorted(folder.name for folder in _folders(engine_folders, "engine.py"))


def workload_names() -> list[str]:
    """What workloads there should be, likewise."""
    return sorted(folder.name for folder in _folders(harness.workloads, "__init__.py"))


def _named(kind: str, name: str, known: Mapping[str, Entry]) -> Entry:
    if name in known:
        return known[name]
    names = sorted(known)
    raise UsageError(
        f"{kind} {name!r}",
        f"no such {kind}{nearest(name, names)}",
        f"known: {', '.join(names) or 'none'}",
    )


def _look_in(folders: str) -> None:
    """Let ``engines`` find modules in these folders too, after its own."""
    found = list(_OWN_ENGINES)
    for folder in filter(None, folders.split(":")):
        if not Path(folder).is_dir():
            raise UsageError(
                f"HARNESS_ENGINE_PATH={folders}", f"{folder} is not a folder", "correct the path"
            )
        found.append(str(Path(folder).resolve()))
    engine_folders.__path__[:] = found


def _load(package: ModuleType, file: str, module: str | None, attribute: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for folder in _folders(package, file):
        name = ".".join(part for part in (package.__name__, folder.name, module) if part)
        try:
            entry = getattr(importlib.import_module(name), attribute)
        except Exception as error:  # a broken folder must not take the others with it
            warnings.warn(
                f"{folder} is left out: {type(error).__name__}: {error}", BrokenEntry, stacklevel=3
            )
            continue
        found[entry.name] = entry
    return found


def _folders(package: ModuleType, file: str) -> Iterator[Path]:
    """Folders of entries, the package's own first; a name is taken once."""
    seen: set[str] = set()
    for root in package.__path__:
        for folder in sorted(Path(root).iterdir()) if Path(root).is_dir() else ():
            if folder.name.startswith("_") or folder.name in seen or not (folder / file).exists():
                continue
            seen.add(folder.name)
            yield folder
