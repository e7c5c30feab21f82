"""Engines, workloads and monitors by name: no list to edit.

An engine is a folder with an ``engine.py`` in the package ``engines``, or in a folder of
``$HARNESS_ENGINE_PATH`` (colon separated); a workload is a folder of ``harness.workloads``, or in a
folder of ``$HARNESS_WORKLOAD_PATH``, with a ``workload.py`` and a ``params.py``, which imports no
client; a monitor is a file of ``harness.monitors``, or of a folder of ``$HARNESS_MONITOR_PATH``.
Names that begin with ``_`` are shared parts, not entries.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import engines as engine_folders
import harness.monitors
import harness.observers
import harness.workloads
from harness.engine import EngineFactory
from harness.errors import UsageError, unknown
from harness.monitors import Monitor
from harness.observers import Observer
from harness.store.spec import RunSpec
from harness.warnings import RunWarning, warn
from harness.workload import Workload
from harness.workloads.parameters import Parameters

Entry = TypeVar("Entry")

_ENGINE_PATH, _MONITOR_PATH = "HARNESS_ENGINE_PATH", "HARNESS_MONITOR_PATH"
_WORKLOAD_PATH = "HARNESS_WORKLOAD_PATH"
_OWN = {
    _ENGINE_PATH: tuple(engine_folders.__path__),
    _WORKLOAD_PATH: tuple(harness.workloads.__path__),
    _MONITOR_PATH: tuple(harness.monitors.__path__),
}


def engines(folder: str | None = None) -> dict[str, EngineFactory]:
    """Every engine that can be imported, by name, or that of a folder; a warning names each that
    cannot.
    """
    _extend(engine_folders, _ENGINE_PATH)
    folders = _folders(engine_folders, "engine.py", folder)
    return {one.name: one for one in _load(engine_folders, folders, ".engine", "ENGINE")}


def engine(name: str, workload: str = "") -> EngineFactory:
    """The engine of that name; UsageError names the nearest, and those of the workload.

    Others are imported only where there is none: their clients take long to import.
    """
    return engines(name).get(name) or named("engine", name, engines_of(workload))


def engines_of(workload: str) -> dict[str, EngineFactory]:
    """The engines that bring what the workload needs; all engines where none says so."""
    known = engines()
    own = {name: one for name, one in known.items() if workload in one.workloads}
    return own or known


def engine_files(name: str) -> dict[str, Path]:
    """The files of that name in the engines' folders, by engine: nothing is imported."""
    _extend(engine_folders, _ENGINE_PATH)
    return {folder.name: folder / name for folder in _folders(engine_folders, name)}


def workloads(folder: str | None = None) -> dict[str, Workload[Any]]:
    """Every workload that can be imported, by name, or that of a folder."""
    _extend(harness.workloads, _WORKLOAD_PATH)
    folders = _folders(harness.workloads, "workload.py", folder)
    found = _load(harness.workloads, folders, ".workload", "WORKLOAD")
    return {one.name: one for one in found}


def workload(name: str) -> Workload[Any]:
    """The workload of that name; UsageError names the known ones and the nearest."""
    return workloads(name).get(name) or named("workload", name, workloads())


def monitors() -> dict[str, type[Monitor]]:
    """Every monitor that can be imported, by name; a warning names each that cannot."""
    _extend(harness.monitors, _MONITOR_PATH)
    found = _load(harness.monitors, _files(harness.monitors), "", "MONITOR")
    return {one.name: one for one in found}


def observers() -> dict[str, Observer]:
    """Every observer of the programs in ``harness.observers``, by name."""
    programs = _load(harness.observers, _files(harness.observers), "", "OBSERVERS")
    return {one.name: one for offered in programs for one in offered}


def all_parameters() -> dict[str, type[Parameters]]:
    """The parameters of every workload, by its name; no workload is imported."""
    _extend(harness.workloads, _WORKLOAD_PATH)
    folders = _folders(harness.workloads, "params.py")
    found = _load(harness.workloads, folders, ".params", "PARAMS")
    return {one.workload: one for one in found}


def parameters(workload_name: str) -> type[Parameters]:
    """The parameters of a workload; UsageError names the known workloads and the nearest."""
    return named("workload", workload_name, all_parameters())


def parameters_of(spec: RunSpec) -> Parameters:
    """The parsed parameters of a run."""
    return spec.parameters or parameters(spec.workload).from_mapping(spec.params)


def engine_names() -> list[str]:
    """Names of the engines' folders, for help texts: nothing is imported."""
    with suppress(UsageError):  # a wrong path is reported where an engine is used
        _extend(engine_folders, _ENGINE_PATH)
    return sorted(folder.name for folder in _folders(engine_folders, "engine.py"))


def named(kind: str, name: str, known: Mapping[str, Entry]) -> Entry:
    """The entry of that name; UsageError names the known ones and the nearest."""
    if name in known:
        return known[name]
    raise unknown(f"{kind} {name!r}", f"no such {kind}", name, sorted(known))


def _extend(package: ModuleType, variable: str) -> None:
    """Let ``package`` find modules in the variable's folders too, after its own."""
    folders = os.environ.get(variable, "")
    found = list(_OWN[variable])
    for folder in filter(None, folders.split(":")):
        if not Path(folder).is_dir():
            raise UsageError(
                f"{variable}={folders}", f"{folder} is not a folder", "correct the path"
            )
        found.append(str(Path(folder).resolve()))
    package.__path__[:] = found


def _load(package: ModuleType, places: Iterator[Path], module: str, attribute: str) -> list[Any]:
    entries: list[Any] = []
    for place in places:
        try:
            imported = importlib.import_module(f"{package.__name__}.{place.stem}{module}")
            entry = getattr(imported, attribute)
        except Exception as error:  # a broken entry must not take the others with it
            context = f"{type(error).__name__}: {error}"
            warn(RunWarning("entry-unreadable", f"{place} is left out", context))
            continue
        entries.append(entry)
    return entries


def _folders(package: ModuleType, file: str, name: str | None = None) -> Iterator[Path]:
    """Folders of entries, or the one of that name."""
    return (
        path for path in _places(package) if name in (None, path.name) and (path / file).exists()
    )


def _files(package: ModuleType) -> Iterator[Path]:
    """Modules that are entries."""
    return (path for path in _places(package) if path.suffix == ".py")


def _places(package: ModuleType) -> Iterator[Path]:
    """What lies in the package's folders, its own first; a name is taken once."""
    seen: set[str] = set()
    for root in package.__path__:
        for path in sorted(Path(root).iterdir()) if Path(root).is_dir() else ():
            if not path.name.startswith("_") and path.name not in seen:
                seen.add(path.name)
                yield path
