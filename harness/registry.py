"""Engines, workloads and monitors by name: no list to edit.

An engine is a folder with an ``engine.py`` in the package ``engines``, or in a folder of
``$HARNESS_ENGINE_PATH`` (colon separated); a workload is a folder of ``harness.workloads``, or in a
folder of ``$HARNESS_WORKLOAD_PATH``, with a ``workload.py`` and a ``params.py``, which imports no
client; a monitor is a file of ``harness.monitors``, or of a folder of ``$HARNESS_MONITOR_PATH``.
Names that begin with ``_`` are shared parts, not entries.
"""

from __future__ import annotations

import importlib
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
from harness.paths import extension_folders
from harness.store.spec import RunSpec
from harness.warnings import RunWarning, warn
from harness.workload import Workload
from harness.workloads.parameters import Parameters

Entry = TypeVar("Entry")


class _Entries:
    """Entries of one kind: ``attribute`` of each ``file`` in a folder of the package, or of each
    module where there is no ``file``; with ``variable``, of folders that it names, too.
    """

    def __init__(self, package: ModuleType, attribute: str, file: str = "", variable: str = ""):
        self._package, self._folders = package, tuple(package.__path__)
        self._attribute, self._file, self._variable = attribute, file, variable

    def extend(self) -> None:
        """Have the package find modules in the variable's folders too, after its own."""
        folders = extension_folders(self._variable) if self._variable else []
        self._package.__path__[:] = [*self._folders, *map(str, folders)]

    def places(self, file: str = "", name: str | None = None) -> Iterator[Path]:
        """Folders with the file, or modules, or those of a name: the package's own first; a name
        is taken once.
        """
        seen: set[str] = set()
        for root in map(Path, self._package.__path__):
            if name is None:
                paths = sorted(root.iterdir()) if root.is_dir() else []
            else:
                paths = [root / name] if name == Path(name).name else []
            for path in paths:
                if not path.name.startswith("_") and path.name not in seen:
                    seen.add(path.name)
                    if (
                        (path / (file or self._file)).exists()
                        if self._file
                        else path.suffix == ".py"
                    ):
                        yield path

    def load(self, folder: str | None = None) -> list[Any]:
        """Entries that can be imported, or that of a folder; a warning names each other one."""
        self.extend()
        module = f".{Path(self._file).stem}" if self._file else ""
        entries: list[Any] = []
        for place in self.places(name=folder):
            try:
                imported = importlib.import_module(f"{self._package.__name__}.{place.stem}{module}")
                entries.append(getattr(imported, self._attribute))
            except Exception as error:  # a broken entry must not take the others with it
                context = f"{type(error).__name__}: {error}"
                warn(RunWarning("entry-unreadable", f"{place} is left out", context))
        return entries


_ENGINES = _Entries(engine_folders, "ENGINE", "engine.py", "HARNESS_ENGINE_PATH")
_WORKLOADS = _Entries(harness.workloads, "WORKLOAD", "workload.py", "HARNESS_WORKLOAD_PATH")
_PARAMETERS = _Entries(harness.workloads, "PARAMS", "params.py", "HARNESS_WORKLOAD_PATH")
_MONITORS = _Entries(harness.monitors, "MONITOR", variable="HARNESS_MONITOR_PATH")
_OBSERVERS = _Entries(harness.observers, "OBSERVERS")


def engines(folder: str | None = None) -> dict[str, EngineFactory]:
    """Engines that can be imported, by name, or that of a folder."""
    return {engine.name: engine for engine in _ENGINES.load(folder)}


def engine(name: str, workload: str = "") -> EngineFactory:
    """The engine of that name; UsageError names the nearest, and those of the workload.

    Others are imported only where there is none: their clients take long to import.
    """
    return engines(name).get(name) or named("engine", name, engines_of(workload))


def engines_of(workload: str) -> dict[str, EngineFactory]:
    """The engines that bring what the workload needs; all engines where none says so."""
    entries = engines()
    suitable = {name: entry for name, entry in entries.items() if workload in entry.workloads}
    return suitable or entries


def engine_files(name: str) -> dict[str, Path]:
    """The files of that name in the engines' folders, by engine: nothing is imported."""
    _ENGINES.extend()
    return {folder.name: folder / name for folder in _ENGINES.places(name)}


def workloads(folder: str | None = None) -> dict[str, Workload[Any]]:
    """Workloads that can be imported, by name, or that of a folder."""
    return {workload.name: workload for workload in _WORKLOADS.load(folder)}


def workload(name: str) -> Workload[Any]:
    """The workload of that name; UsageError names the known ones and the nearest."""
    return workloads(name).get(name) or named("workload", name, workloads())


def monitors() -> dict[str, type[Monitor]]:
    """Monitors that can be imported, by name."""
    return {monitor.name: monitor for monitor in _MONITORS.load()}


def observers() -> dict[str, Observer]:
    """Observers of the programs in ``harness.observers``, by name."""
    return {observer.name: observer for program in _OBSERVERS.load() for observer in program}


def all_parameters(folder: str | None = None) -> dict[str, type[Parameters]]:
    """Parameters of every workload by its name, or those of a folder; no workload is imported."""
    return {parameters.workload: parameters for parameters in _PARAMETERS.load(folder)}


def parameters(workload_name: str) -> type[Parameters]:
    """The parameters of a workload; UsageError names the known workloads and the nearest."""
    of_folder = all_parameters(workload_name)
    return of_folder.get(workload_name) or named("workload", workload_name, all_parameters())


def parameters_of(spec: RunSpec) -> Parameters:
    """The parsed parameters of a run."""
    return parameters(spec.workload).from_mapping(spec.params)


def engine_names() -> list[str]:
    """Names of the engines' folders, for help texts: nothing is imported."""
    with suppress(UsageError):  # a wrong path is reported where an engine is used
        _ENGINES.extend()
    return sorted(folder.name for folder in _ENGINES.places())


def named(kind: str, name: str, entries: Mapping[str, Entry]) -> Entry:
    """The entry of that name; UsageError names the known ones and the nearest."""
    if name in entries:
        return entries[name]
    raise unknown(f"{kind} {name!r}", f"no such {kind}", name, sorted(entries))
