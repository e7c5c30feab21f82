"""What the native client is to do, and how several processes share it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from harness.store.documents import set_members
from harness.store.spec import JsonObject


@dataclass(frozen=True)
class Mode:
    """An open loop where there is a rate, else a closed loop.

    ``first_start``: of the interval between two starts, when the first one is due.
    ``processes``: those that share the starts.
    """

    rate_per_s: float | None = None
    think_time: bool | None = None
    first_start: float | None = None
    processes: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {"kind": "closed" if self.rate_per_s is None else "open", **set_members(self)}


@dataclass(frozen=True)
class LoadgenSpec:
    """The document that ``loadgen`` reads (loadgen/spec.c has limits and defaults of its keys)."""

    backend: str
    connection: JsonObject
    workload: str
    params: JsonObject
    threads: int
    task: Literal["run", "load", "verify"] = "run"
    statements: Mapping[str, str | list[str]] | None = None
    connections: int = 1
    terminals: int | None = None
    first_terminal: int | None = None
    all_terminals: int | None = None
    mode: Mode | None = None
    #: Of a run, one of both.
    duration_ns: int | None = None
    operations: int | None = None
    ramp_up_ns: int = 0
    #: The same where it is not set.
    drain_ns: int = 5_000_000_000
    seed: int = 0
    stall_timeout_ns: int | None = None
    series_interval_ns: int | None = None
    intervals_per_histogram: int | None = None
    start_at_realtime_ns: int | None = None
    journal: str | None = None
    shared: str | None = None

    def to_json(self) -> dict[str, Any]:
        document = set_members(self)
        work = {"name": document.pop("workload"), "params": document.pop("params")}
        return {"schema": 1, **document, "workload": work}


def split(spec: LoadgenSpec, processes: int) -> list[LoadgenSpec]:
    """Return one spec for each of several processes that together offer the load of ``spec``.

    Connections, terminals, operations and rate are spread evenly. The starts of an open loop are
    one schedule: processes that share a file (one host) have one queue, others take every
    ``processes``-th start. Each has the spec's threads, and a journal of its own (see
    :func:`journals`). Each process has a connection and an operation at least.
    """
    terminals = spec.terminals or spec.connections
    paths = journals(Path(spec.journal), processes) if spec.journal else None
    first, specs = 0, []
    for index in range(processes):
        mine = _share(spec.connections, processes, index)
        own_terminals = _share(terminals, processes, index)
        mode = spec.mode
        if mode and mode.rate_per_s is not None:
            rate = mode.rate_per_s / processes
            mode = Mode(rate, first_start=index / processes, processes=processes)
        operations = spec.operations
        specs.append(
            replace(
                spec,
                connections=mine,
                threads=min(spec.threads, mine),
                terminals=own_terminals,
                first_terminal=first,
                all_terminals=terminals,
                operations=operations and _share(operations, processes, index),
                mode=mode,
                journal=str(paths[index]) if paths else None,
            )
        )
        first += own_terminals
    return specs


def journals(journal: Path, processes: int) -> list[Path]:
    """Return the journals that the specs of :func:`split` name."""
    if processes == 1:
        return [journal]
    return [journal.with_name(f"{journal.name}.{index}") for index in range(processes)]


def _share(of: int, processes: int, index: int) -> int:
    return of // processes + (index < of % processes)
