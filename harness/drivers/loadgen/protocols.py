"""What an engine must be able to do to be driven by the native client."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from harness.progress import Progress
from harness.store.spec import JsonObject


@runtime_checkable
class RunsNatively(Protocol):
    """Engines that the client has a back end for."""

    def native_backend(self) -> str:
        """Name of the client's module for this engine ("postgres", "innodb")."""

    def native_connection(self) -> Mapping[str, Any]:
        """Place and user of the started engine's data: ``connection`` of the client's spec.

        It contains a password: it goes to the client's stdin and nowhere else.
        """


@dataclass(frozen=True)
class Tunnel:
    """How a client on another host reaches a server's private socket.

    ``local``: the socket here. ``remote``: its path there, made by ssh. ``connection``: as
    ``native_connection``, through that path.
    """

    local: Path
    remote: str
    connection: Mapping[str, Any]


@runtime_checkable
class TunnelsNatively(RunsNatively, Protocol):
    """Engines whose server clients on other hosts reach through a tunnel to its socket."""

    def tunnel(self, token: str) -> Tunnel:
        """``token``: five digits, unique among the tunnels of the client's host."""


@runtime_checkable
class CallsNatively(RunsNatively, Protocol):
    """Engines that bring their own texts of a workload's operations for the native client."""

    def native_calls(self, workload: str, params: JsonObject) -> Mapping[str, str | Sequence[str]]:
        """``statements`` of the client's spec, by operation; a list has one text a field.

        They name their values (``:key``, ``:field0`` …). UsageError where ``params`` require
        what the engine cannot do.
        """


#: Fills empty tables through a connection, and returns the rows it stored by table.
Fill = Callable[[Mapping[str, Any]], Mapping[str, int]]


@runtime_checkable
class LoadsNatively(RunsNatively, Protocol):
    """Engines whose bulk path the native client fills."""

    def native_load(
        self,
        workload: str,
        fill: Fill,
        row_counts: Mapping[str, int],
        progress: Progress,
        params: JsonObject | None = None,
    ) -> None:
        """Create the schema from ``sql/<workload>/``, fill it; index, procedures, analyse.

        ``fill`` is called once, while the empty tables have no keys, or only those they are
        clustered by. ``row_counts``: those known beforehand; a difference is RunFailed.
        ``params``: the workload's, where the schema depends on them. All data are durable at
        the end.
        """
