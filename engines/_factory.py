"""The factory of an engine: what it is and can do, without an installation."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engines._installation import FoundInstallation
from harness.engine import Engine, EngineContext, EngineKind, EngineVersion
from harness.errors import UsageError
from harness.experiment.placement import Part
from harness.install import refuse_noexec


def workloads_in(sql_folder: Path) -> tuple[str, ...]:
    """Those that an engine brings SQL for."""
    return tuple(folder.name for folder in sql_folder.iterdir())


@dataclass
class Factory:
    """``ENGINE`` of an engine's folder (see EngineFactory).

    ``workloads``: those that it brings SQL or calls for. ``placeable``: parts of an engine that
    the harness starts; ``not_placeable``: why others cannot be placed. ``installation``:
    UsageError if there is none. ``path_separators``: characters that its settings cannot have in a
    path.
    ``external`` and ``external_version``: of an engine with the option ``dsn``, which names an
    external server; UsageError if the server does not answer.
    """

    name: str
    title: str
    kinds: tuple[EngineKind, ...]
    options: Mapping[str, str]
    workloads: Collection[str]
    placeable: frozenset[Part]
    make: Callable[[EngineContext], Engine]
    installation: Callable[[Mapping[str, Any], Path], FoundInstallation]
    not_placeable: Mapping[Part, str] = field(default_factory=dict)
    path_separators: str = ""
    external: Callable[[EngineContext], Engine] | None = None
    external_version: Callable[[Mapping[str, Any]], EngineVersion] | None = None

    def supported_parts(self, options: Mapping[str, Any]) -> frozenset[Part]:
        """An external server cannot be placed."""
        return frozenset() if "dsn" in options else self.placeable

    def available(self, options: Mapping[str, Any], engines_prefix: Path) -> EngineVersion:
        """The version of the installation or of the external server."""
        if self.external_version is not None and "dsn" in options:
            return self.external_version(options)
        try:
            return self.installation(options, engines_prefix).engine_version(self.name)
        except UsageError:
            if (prefix := options.get("prefix")) is not None:
                refuse_noexec(Path(str(prefix)), self.title)
            elif any(engines_prefix.glob(f"{self.name}-*")):
                refuse_noexec(engines_prefix, self.title)
            raise

    def create(self, context: EngineContext) -> Engine:
        if self.external is not None and "dsn" in context.options:
            return self.external(context)
        return self.make(context)
