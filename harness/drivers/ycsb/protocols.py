"""What an engine must be able to do to be driven by the official YCSB client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from harness.drivers.loadgen.protocols import CallsNatively
from harness.store.spec import JsonObject


@dataclass(frozen=True)
class YcsbBinding:
    """An engine's class for the official YCSB client.

    ``project``: its sources, a Maven module (see harness/drivers/ycsb/maven). ``database``:
    the class that the client loads. ``built_with``: Maven's properties of the build.
    ``classpath`` and ``libraries``: folders of Java classes and of shared libraries in the
    engine's installation.
    """

    project: Path
    database: str
    built_with: Mapping[str, str] = field(default_factory=dict)
    classpath: Sequence[Path] = ()
    libraries: Sequence[Path] = ()


@runtime_checkable
class DrivenByYcsb(CallsNatively, Protocol):
    """Engines with a binding of the official YCSB client."""

    def ycsb_binding(self) -> YcsbBinding:
        """The binding; UsageError where it does not work with this installation of the engine."""

    def ycsb_properties(
        self, connection: Mapping[str, Any], params: JsonObject
    ) -> Mapping[str, str]:
        """Properties by which the binding finds these data (see ``native_connection``).

        ``params``: the workload's. UsageError where they, or the connection, require what the
        binding cannot do. They contain a password: they go into a file of the client's user.
        """

    def ycsb_counters(
        self, reported: Mapping[str, Any]
    ) -> tuple[Mapping[str, float], Mapping[str, str]]:
        """Counters (units in their names) and text properties of ``reported``, which the binding
        reported of an engine inside the client. Both empty for other engines.
        """
